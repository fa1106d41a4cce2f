# SPDX-License-Identifier: MIT
"""gpuq web on a machine with a malicious other user."""
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import pytest
import sealing
from lab import GPUQ
from processes import until
from users import plant, get_other, get_owner, make_machine, needs_users  # noqa: F401
from web_lab import LIMIT, Page

pytestmark = [needs_users, pytest.mark.skipif(not (pathlib.Path(GPUQ).parent / "gpuq-web").exists(), reason="built without libmicrohttpd")]

SUBORDINATE = 165536  # the first subordinate id of the second account, by default

# Connections that never complete their request, as many as the server accepts.
SLOW = """
import select, socket, sys
held = []
for _ in range(300):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    try:
        connection.sendall(b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\nX-Slow: ")
    except OSError:
        pass
    held.append(connection)
print("done", flush=True)
while not select.select([sys.stdin], [], [], 1)[0]:
    for connection in held:
        try:
            connection.sendall(b"x")
        except OSError:
            pass
"""

MEASURE = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
try:
    connection.request("GET", "/metrics", headers={"Authorization": "Bearer " + sys.argv[2]})
    print(connection.getresponse().status, flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""

# Event streams without the token; prints how many were opened.
STREAMS = """
import socket, sys
held, opened = [], 0
for _ in range(100):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    try:
        connection.sendall(b"GET /api/stream HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
        opened += b" 200 " in connection.recv(64)
    except OSError:
        pass
    held.append(connection)
print(opened, flush=True)
sys.stdin.read()
"""


def test_slow_connections_of_another_user_do_not_lock_the_owner_out(lab, other):
    page = Page(lab)
    assert other.attack(SLOW, page.port) == "done"
    for _ in range(10):
        assert page.json("/api/jobs/1")["id"] == 1
    assert page.stream().until("state")["may_act"] is True


# Connections that are used again and again, without the token; prints how many were accepted.
KEPT = """
import select, socket, sys
def ask(connection):
    try:
        connection.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
        return b" 401 " in connection.recv(4096)
    except OSError:
        return False
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(32)]
print(sum(map(ask, held)), flush=True)
while not select.select([sys.stdin], [], [], 1)[0]:
    for connection in held:
        ask(connection)
"""


def test_user_with_subordinate_ids_does_not_lock_out_others(lab, other):
    """Each of these ids has a limit of its own. Monitoring has another account, and connects for each request."""
    token = "of-the-monitoring-account"
    page = Page(lab, env={"GPUQ_WEB_TOKEN": token})
    attackers = []
    try:
        for uid in range(SUBORDINATE, SUBORDINATE + 3):
            attackers.append(subprocess.Popen([sys.executable, "-c", KEPT, str(page.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                              text=True, cwd="/", user=uid, group=uid, extra_groups=[]))
            assert attackers[-1].stdout.readline() == "32\n"
        for _ in range(40):
            assert other.attack(MEASURE, page.port, token) == "200"
        assert page.json("/api/jobs/1")["id"] == 1
    finally:
        for process in attackers:
            process.communicate("\n", timeout=LIMIT)


def test_streams_of_another_user_do_not_lock_the_owner_out(lab, owner, other):
    page = Page(lab, "--open-read")
    assert other.attack(STREAMS, page.port) == "8"
    # The streams of a third user, who may read the page, do not either.
    assert owner.attack(STREAMS, page.port) == "8"
    streams = [page.stream() for _ in range(20)]
    assert {stream.status for stream in streams} == {200}
    assert streams[-1].until("state")["may_act"] is True


def planted(log):
    time = "2026-11-15T21:42:19.599Z"
    return sealing.journal({"event": "add", "id": 1, "time": time, "command": "planted"},
                           {"event": "start", "id": 1, "attempt": 1, "time": time, "gpus": [], "log": log},
                           {"event": "end", "id": 1, "attempt": 1, "time": time, "status": "completed", "exit_code": 0})


@pytest.mark.parametrize("name", ["id_rsa", "job_20261115_214219_1.log"])
def test_planted_journal_shows_no_file_of_the_owner(machine, owner, other, name):
    """Another user replaces the folder of logs with a link, and adds a journal that names a file there."""
    shared = machine.directory(0o2775)
    owner.sh(f"rm -rf secrets; mkdir secrets; echo secret > secrets/{name}", owner.home)
    assert owner.gpuq("add", "--trust", "--no-start", "echo mine", cwd=shared).returncode == 0
    assert owner.gpuq("run", "--trust", cwd=shared).returncode == 0
    server = owner.start("gpuq", "web", "--listen", "127.0.0.1:0", cwd=shared)
    address = urllib.parse.urlsplit(server.stdout.readline().strip())

    def ask(path):
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=LIMIT)
        connection.request("GET", path, headers={"Authorization": f"Bearer {address.fragment.removeprefix('token=')}"})
        response = connection.getresponse()
        return response.status, response.read()

    assert ask("/api/jobs/1/log")[1] == b"mine\n"
    (shared / "draft").write_bytes(planted(f"{shared}/logs/{name}"))
    os.chown(shared / "draft", other.uid, other.gid)
    other.sh(f"mv logs logs.old; ln -s '{owner.home}/secrets' logs; mv -f draft jobs.jsonl", shared)
    until(lambda: b"planted" in ask("/api/jobs/1")[1], LIMIT, lambda: "the planted journal")
    status, content = ask("/api/jobs/1/log")
    assert status == 403 and b"secret" not in content, (status, content)
    # The same without the link: the folder is the owner's, but the journal is not.
    other.sh("rm logs; mv logs.old logs", shared)
    (shared / f"logs/{name}").write_text("secret")
    assert ask("/api/jobs/1/log")[0] == 403


def test_open_read_shows_no_private_file_that_another_user_moved_to_the_name_of_a_log(machine, owner, other):
    project, shared = machine.project(owner), machine.directory(0o2775)
    owner.sh("mkdir -m 755 logs; echo SECRET > key; chmod 600 key", shared)
    for words in (("--log-dir", shared / "logs"), ()):
        assert owner.gpuq("add", "--no-start", *words, "echo said", cwd=project).returncode == 0
    assert owner.gpuq("run", cwd=project).returncode == 0
    log = pathlib.Path(json.loads(owner.gpuq("status", "--json", "1", cwd=project).stdout)[0]["log_file"])
    other.sh(f"mv logs old; mkdir -m 777 logs; mv key logs/{log.name}", shared)
    server = owner.start("gpuq", "web", "--open-read", "--listen", "127.0.0.1:0", cwd=project)
    port = urllib.parse.urlsplit(server.stdout.readline().strip()).port

    def ask(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        connection.request("GET", f"/api/jobs/{number}/log")
        response = connection.getresponse()
        return response.status, response.read()

    status, content = ask(1)
    assert status == 403 and b"SECRET" not in content, (status, content)
    assert ask(2)[1] == b"said\n"


@pytest.mark.parametrize("plan", ["ln -s '{home}/keys' jobs.jsonl.d/env", "mkdir jobs.jsonl.d/env; mv key jobs.jsonl.d/env"])
def test_environment_in_a_queue_of_another_user_is_never_a_file_of_the_reader(machine, owner, other, plan):
    """A link in the place of the folder of environments, or a file that was moved there."""
    shared = machine.directory(0o2775)
    owner.sh("rm -rf keys; mkdir -m 700 keys; echo PRIVATE > keys/key", owner.home)
    owner.sh("echo PRIVATE > key; chmod 600 key", shared)
    plant(other, shared / "jobs.jsonl", sealing.journal({"event": "add", "id": 1, "time": "2026-11-15T21:42:19.599Z", "command": "x", "env": "key"},
                                                        {"event": "add", "id": 2, "time": "2026-11-15T21:42:19.599Z", "command": "x", "env": "their"}).decode())
    other.sh(f"mkdir jobs.jsonl.d; {plan.format(home=owner.home)}; test -L jobs.jsonl.d/env || echo A=1 > jobs.jsonl.d/env/their", shared)
    server = owner.start("gpuq", "web", "--listen", "127.0.0.1:0", cwd=shared)
    address = urllib.parse.urlsplit(server.stdout.readline().strip())

    def ask(job):
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=LIMIT)
        connection.request("GET", f"/api/jobs/{job}/environment", headers={"Authorization": f"Bearer {address.fragment.removeprefix('token=')}"})
        return connection.getresponse().read()

    assert "error" in json.loads(ask(1)), ask(1)
    assert "ln" in plan or json.loads(ask(2)) == ["A=1\n"], ask(2)


def messages(server):
    """What the server has written to standard error so far."""
    os.set_blocking(server.stderr.fileno(), False)
    return os.read(server.stderr.fileno(), 65536).decode()


def start_with_runtime_dir(owner, project, runtime):
    """A server of `owner`; the address of its page, and the file that leads to it."""
    owner.gpuq("add", "--no-start", "true", cwd=project)
    server = owner.start("gpuq", "web", "--listen", "127.0.0.1:0", cwd=project, env={"XDG_RUNTIME_DIR": str(runtime)})
    address = server.stdout.readline().strip()
    words = messages(server)
    url = re.search(r"gpuq: to open the page on this machine: (file:///\S+)\n", words)
    assert url and urllib.parse.urlsplit(address).fragment.removeprefix("token=") not in url[1], words
    return server, address, pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(url[1]).path))


def test_page_is_opened_by_a_file_that_only_its_owner_can_read(machine, owner, other):
    """A terminal executes a browser with the link that is clicked, so all users see the link."""
    project, runtime = machine.project(owner), machine.project(owner) / "run dir"
    owner.sh("mkdir -m 755 'run dir'", runtime.parent)
    server, address, file = start_with_runtime_dir(owner, project, runtime)
    assert file.parent == runtime and re.fullmatch(r"gpuq-web-\d+\.html", file.name)
    assert file.stat().st_mode & 0o7777 == 0o600 and file.stat().st_uid == owner.uid
    assert f"url={address}\"" in file.read_text()
    assert other.run("cat", file, cwd="/").returncode != 0
    server.terminate()
    assert server.wait(LIMIT) == 0
    assert not file.exists()


def test_file_of_the_output_is_private(machine, owner, other):
    project = machine.project(owner)
    owner.gpuq("add", "--no-start", "true", cwd=project)
    server = owner.start("sh", "-c", "exec gpuq web --listen 127.0.0.1:0 > web.log", cwd=project)
    until(lambda: (project / "web.log").exists() and "token=" in (project / "web.log").read_text(), LIMIT, lambda: "the address")
    assert "standard output is a file; removed the permissions of other users" in messages(server)
    assert (project / "web.log").stat().st_mode & 0o7777 == 0o600
    assert other.run("cat", project / "web.log", cwd="/").returncode != 0


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_file_that_opens_the_page_is_not_in_a_directory_of_others(machine, owner, mode):
    file = start_with_runtime_dir(owner, machine.project(owner), machine.directory(mode))[2]
    assert owner.home in file.parents and file.stat().st_mode & 0o7777 == 0o600


def test_page_is_served_without_a_private_directory(machine, owner):
    project = machine.project(owner)
    owner.gpuq("add", "--no-start", "true", cwd=project)
    server = owner.start("gpuq", "web", "--listen", "127.0.0.1:0", cwd=project, env={"HOME": str(machine.directory(0o777))})
    assert re.fullmatch(r"http://\S+#token=[0-9a-f]{32}\n", server.stdout.readline())
    server.terminate()
    assert "file://" not in server.stderr.read() and server.wait(LIMIT) == 0


FETCH = """
import http.client, socket, sys
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
connection = Local("localhost")
try:
    connection.request("GET", "/metrics", headers={"Authorization": "Bearer " + sys.argv[2]})
    print(connection.getresponse().status, flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""


def test_socket_file_is_for_its_owner_alone(lab, machine, other):
    lab.add("true")
    path = machine.directory(0o755) / "web"
    process = lab.start("web", "--listen", f"unix:{path}", text=True)
    token = urllib.parse.urlsplit(process.stdout.readline().strip()).fragment.removeprefix("token=")
    assert other.attack(FETCH, path, token) == "PermissionError"
    # Even if the file was made readable for others.
    path.chmod(0o666)
    assert other.attack(FETCH, path, token) in ("ConnectionResetError", "RemoteDisconnected", "BrokenPipeError")
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o1777, 0o777])
def test_socket_is_not_made_where_others_could_replace_it(lab, machine, mode):
    lab.add("true")
    shared = machine.directory(mode)
    result = lab.result("web", "--listen", f"unix:{shared}/web")
    assert result.returncode == 2 and "can be written by everybody" in result.stderr, result.stderr
    assert not (shared / "web").exists()
