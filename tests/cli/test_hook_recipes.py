# SPDX-License-Identifier: MIT
"""The recipes of examples/hooks, run by gpuq, against servers on this machine."""
import base64
import email
import email.policy
import grp
import http.server
import json
import os
import pathlib
import pwd
import re
import runpy
import shutil
import socketserver
import subprocess
import sys
import threading

import pytest

from lab import LIMIT

RECIPES = pathlib.Path(os.environ["GD_SOURCE"]) / "examples/hooks"
RECIPE_NAMES = ["mail", "ntfy", "slack", "wandb"]


class Web(http.server.ThreadingHTTPServer):
    """Records the requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), WebRequest)
        self.requests = []
        self.code, self.answer = 200, {"data": {"upsertBucket": {"bucket": {"name": "x"}}}}
        self.url = f"http://127.0.0.1:{self.server_port}"


class WebRequest(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers.get("Authorization"), body))
        self.send_response(self.server.code)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.answer).encode())

    def log_message(self, *words):
        pass


class Mail(socketserver.ThreadingTCPServer):
    """A minimal SMTP server."""
    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), MailSession)
        self.mails = []


class MailSession(socketserver.StreamRequestHandler):
    def say(self, words):
        self.wfile.write(words.encode() + b"\r\n")

    def handle(self):
        self.say("220 test")
        receivers = []
        for line in self.rfile:
            verb = line.strip().upper()
            if verb == b"QUIT":
                self.say("221 bye")
                return
            if verb.startswith(b"RCPT TO:"):
                receivers.append(line[8:].strip().decode())
            if verb == b"DATA":
                self.say("354 go on")
                data = b""
                while (text := self.rfile.readline()) not in (b".\r\n", b""):
                    data += text[1:] if text.startswith(b".") else text
                self.server.mails.append((receivers, email.message_from_bytes(data, policy=email.policy.default)))
            self.say("250 ok")


def serve(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def web():
    yield from serve(Web())


@pytest.fixture
def mail():
    yield from serve(Mail())


def set_up(lab, **variables):
    for name in list(lab.environment):
        if name.lower().endswith("_proxy") or name.startswith(("WANDB_", "NTFY_", "SMTP_", "MAIL_", "SLACK_")):
            del lab.environment[name]
    lab.environment |= variables


def run_job(lab, recipe, *words, code=0):
    """Runs a job with this hook; returns the exit code of the hook."""
    lab.add("--on-finish", f"{sys.executable} {RECIPES / recipe}.py", *words)
    lab.gpuq("run", code=code)
    return [event["exit_code"] for event in lab.events() if event["event"] == "hook" and "status" in event][-1]


def run_idle(lab, recipe):
    """The hook as for a running job with an idle GPU."""
    job = lab.job(1) | {"status": "running", "idle_gpus": [1, 3], "idle_since": "2026-11-15T21:42:20.000Z", "exit_code": None, "reason": None}
    subprocess.run([sys.executable, RECIPES / f"{recipe}.py"], input=json.dumps(job), text=True, check=True, timeout=LIMIT,
                   env=lab.environment | {"GPUQ_HOOK_EVENT": "idle"}, cwd=lab.directory)


def test_ntfy(lab, web):
    set_up(lab, NTFY_URL=web.url, NTFY_TOPIC="jobs", NTFY_TOKEN="tk_1")
    assert run_job(lab, "ntfy", "--name", "größe \"x\"", "exit 3", code=1) == 0
    assert web.requests == [("/", "Bearer tk_1", {"topic": "jobs", "title": "job 1 (größe \"x\")", "message": "failed, exit 3\nexit 3",
                                                   "priority": 4})]
    run_idle(lab, "ntfy")
    assert web.requests[1][2]["message"].startswith("GPU 1, 3 has been idle since 2026-11-15T21:42:20.000Z")
    web.code = 500
    assert run_job(lab, "ntfy", "true") == 1


def test_slack(lab, web):
    set_up(lab, SLACK_WEBHOOK_URL=web.url + "/services/T/B/x")
    assert run_job(lab, "slack", "true # <a&b>") == 0
    path, _, body = web.requests[0]
    assert path == "/services/T/B/x" and list(body) == ["text"]
    assert body["text"].startswith(":white_check_mark: job 1 completed after 0 s\n")
    assert body["text"].endswith("`true # &lt;a&amp;b&gt;`")
    run_idle(lab, "slack")
    assert "GPU 1, 3 has been idle since" in web.requests[1][2]["text"]
    web.code = 404
    assert run_job(lab, "slack", "true") == 1


def test_mail(lab, mail):
    set_up(lab, SMTP_HOST="127.0.0.1", SMTP_PORT=str(mail.server_address[1]), MAIL_TO="me@example.org", MAIL_FROM="gpuq@example.org")
    assert run_job(lab, "mail", "--name", "evaluation", "echo the last words; exit 4", code=1) == 0
    receivers, message = mail.mails[0]
    assert receivers == ["<me@example.org>"] and message["To"] == "me@example.org" and message["From"] == "gpuq@example.org"
    assert message["Subject"] == "job 1 failed: evaluation"
    text = message.get_content()
    assert "exit_code: 4" in text and "the last words" in text
    run_idle(lab, "mail")
    assert mail.mails[1][1]["Subject"] == "job 1 has an idle GPU: evaluation"
    assert "idle_gpus: [1, 3]" in mail.mails[1][1].get_content()


def test_mail_sends_no_file_that_a_link_leads_to(tmp_path):
    log_tail = runpy.run_path(str(RECIPES / "mail.py"))["log_tail"]
    (tmp_path / "log").write_text("said\n")
    assert log_tail(str(tmp_path / "log")) == "said\n"
    (tmp_path / "link").symlink_to("log")
    os.mkfifo(tmp_path / "pipe")
    assert "cannot be read" in log_tail(str(tmp_path / "link"))
    assert log_tail(str(tmp_path / "pipe")) == "(the log is not a regular file of this user)"


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
def test_mail_sends_no_file_of_a_folder_that_others_can_change(tmp_path, mode):
    """Another user may have renamed a private file of this user to the name of the log."""
    log_tail = runpy.run_path(str(RECIPES / "mail.py"))["log_tail"]
    (tmp_path / "log").write_text("said\n")
    tmp_path.chmod(mode)
    private = grp.getgrgid(tmp_path.stat().st_gid)
    if mode == 0o775 and private.gr_name == pwd.getpwuid(os.geteuid()).pw_name and not private.gr_mem:
        assert log_tail(str(tmp_path / "log")) == "said\n"
        os.geteuid() == 0 or pytest.skip("changes the group of a folder: run it as root")
        os.chown(tmp_path, -1, 1)
    assert log_tail(str(tmp_path / "log")) == "(other users can change the folder of the log)"


def test_mail_sends_no_file_of_a_folder_with_an_access_list(tmp_path):
    log_tail = runpy.run_path(str(RECIPES / "mail.py"))["log_tail"]
    (tmp_path / "log").write_text("said\n")
    if not shutil.which("setfacl") or subprocess.run(["setfacl", "-m", "u:1:rwx", tmp_path], check=False).returncode:
        pytest.skip("needs setfacl, and a file system with access lists")
    assert log_tail(str(tmp_path / "log")) == "(other users can change the folder of the log)"


def test_wandb(lab, web):
    set_up(lab, WANDB_BASE_URL=web.url + "/", WANDB_API_KEY="k" * 40, WANDB_PROJECT="night", WANDB_ENTITY="team")
    assert run_job(lab, "wandb", "--tag", "a,b", "exit 5", code=1) == 0
    path, authorization, body = web.requests[0]
    assert path == "/graphql" and base64.b64decode(authorization.split()[1]).decode() == "api:" + "k" * 40
    sent = body["variables"]
    # Each variable that the query declares is sent, and no other.
    declared = set(re.findall(r"\$(\w+): \[?(?:String|JSONString)", body["query"]))
    assert "upsertBucket(input:" in body["query"] and declared == set(sent)
    assert (sent["project"], sent["entity"], sent["displayName"], sent["state"], sent["tags"]) == ("night", "team", "job 1", "failed", ["a", "b"])
    assert json.loads(sent["config"])["command"] == {"value": "exit 5"}
    assert json.loads(sent["summaryMetrics"])["exit_code"] == 5
    # Another hook of the same attempt updates the same run.
    run_idle(lab, "wandb")
    again = web.requests[1][2]["variables"]
    assert (again["name"], again["state"]) == (sent["name"], "running")
    web.answer = {"errors": [{"message": "permission denied"}]}
    assert run_job(lab, "wandb", "true") == 1


@pytest.mark.parametrize("recipe", RECIPE_NAMES)
def test_recipe_without_its_settings_says_which_it_needs(lab, recipe):
    set_up(lab)
    result = subprocess.run([RECIPES / f"{recipe}.py"], input="{}", text=True, capture_output=True, check=False, timeout=LIMIT, env=lab.environment)
    assert result.returncode == 1 and result.stderr.startswith(f"{recipe}.py: set ")


def test_every_recipe_is_tested():
    assert sorted(path.stem for path in RECIPES.glob("*.py")) == RECIPE_NAMES
