# SPDX-License-Identifier: MIT
"""gpuq web: a real server and real connections."""
import errno
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import sealing
from lab import GPUQ
from map_lab import Map
from uninstalled import copy_uninstalled
from web_lab import LIMIT, Page, environment_of

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
WEB = pathlib.Path(GPUQ).parent / "gpuq-web"

pytestmark = pytest.mark.skipif(not WEB.exists(), reason="built without libmicrohttpd")

HANG_ABOUT = "until [ -e go ]; do sleep 0.02; done"


@pytest.fixture(name="page")
def open_page(lab):
    return Page(lab)


def run_one(lab, command):
    """Runs a job to its end; returns its id."""
    number = lab.add(command)
    lab.gpuq("run", code=None)
    return number


# ---- Access --------------------------------------------------------------------------


def test_the_address_has_the_token_and_every_other_is_refused(page):
    assert re.fullmatch(r"http://gpuq-[0-9a-f]{16}\.localhost:\d+/#token=[0-9a-f]{32}", page.address)
    for path in ("/api/stream", "/api/jobs/1", "/api/jobs/1/log", "/api/jobs/1/environment", "/metrics"):
        assert page.status(path, token=None) == 401, path
        assert page.status(path, token="0" * 32) == 401, path
        assert page.status(path, token=page.token[:-1]) == 401, path
        # Never in a cookie or in the address: those can leak.
        assert page.status(f"{path}?token={page.token}", token=None, headers={"Cookie": f"token={page.token}"}) == 401, path
    assert page.act(1, "cancel", token=None).status == 401
    assert page.lab.job(1)["status"] == "pending"
    assert page.status("/metrics") == 200
    assert page.json("/api/jobs/1")["id"] == 1


def test_two_servers_have_two_tokens(page):
    other = Page(page.lab)
    assert other.token != page.token
    assert page.status("/metrics", token=other.token) == 401


OWN_TOKEN = "my-own-token-that-is-long"


def test_given_token_on_a_port_opens_only_the_metrics_and_is_not_passed_on(lab):
    """A page that is still open sends its token to the next process on the port, so a permanent
    token must give little access."""
    lab.add("--hold", "true")
    page = Page(lab, env={"GPUQ_WEB_TOKEN": OWN_TOKEN})
    assert re.fullmatch(r"http://gpuq-[0-9a-f]{16}\.localhost:\d+/#token=[0-9a-f]{32}", page.address)
    assert page.status("/metrics") == 200
    assert page.status("/metrics", token=OWN_TOKEN) == 200
    for path in ("/api/stream", "/api/jobs/1", "/api/jobs/1/log", "/api/jobs/1/environment"):
        assert page.status(path, token=OWN_TOKEN) == 401, path
    assert page.act(1, "cancel", token=OWN_TOKEN).status == 401
    # Releasing starts a runner: it and its children must not know the token.
    assert page.act(1, "release").status == 200
    lab.until(lambda: lab.job(1)["status"] == "completed", "the job")
    assert OWN_TOKEN.encode() not in environment_of(lab.runner())


class LocalConnection(http.client.HTTPConnection):
    """HTTP through a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=LIMIT)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(LIMIT)
        self.sock.connect(self.path)

    def status(self, path, token):
        self.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = self.getresponse()
        response.read()
        return response.status


def test_unix_socket_serves_and_a_given_token_opens_everything(lab):
    lab.add("true")
    path = lab.directory / "web.socket"
    # A socket without a listener is replaced.
    old = socket.socket(socket.AF_UNIX)
    old.bind(str(path))
    old.close()
    process = lab.start("web", "--listen", "unix:web.socket", text=True, env={"GPUQ_WEB_TOKEN": OWN_TOKEN})
    assert process.stdout.readline() == "http://127.0.0.1:8765/\n"
    assert path.stat().st_mode & 0o777 == 0o600
    connection = LocalConnection(path)
    assert connection.status("/api/jobs/1", OWN_TOKEN) == 200
    assert connection.status("/api/jobs/1/environment", OWN_TOKEN) == 200
    assert connection.status("/api/jobs/1", "0" * 32) == 401
    result = lab.result("web", "--listen", "unix:web.socket")
    assert result.returncode == 1 and "in use" in result.stderr
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert f"ssh -o ExitOnForwardFailure=yes -L '[::1]:8765:{path}' -L 127.0.0.1:8765:{path} HOST" in process.stderr.read()
    assert not path.exists()


def test_unix_socket_without_a_given_token_has_a_new_one_at_each_start(lab):
    lab.add("true")
    process = lab.start("web", "--listen", f"unix:{lab.directory}/s", text=True)
    address = process.stdout.readline()
    assert re.fullmatch(r"http://gpuq-[0-9a-f]{16}\.localhost:8765/#token=[0-9a-f]{32}\n", address)
    assert LocalConnection(lab.directory / "s").status("/metrics", address.strip()[-32:]) == 200


def test_file_in_the_place_of_a_unix_socket_is_left_alone(lab):
    lab.add("true")
    (lab.directory / "notes").write_text("mine")
    for where in ("unix:notes", "unix:", "unix:missing/s", "unix:" + "x" * 120):
        result = lab.result("web", "--listen", where)
        assert result.returncode != 0 and where in result.stderr, where
    assert (lab.directory / "notes").read_text() == "mine"


@pytest.mark.parametrize("token", ["short", "has spaces in it, which is bad", "x" * 300])
def test_an_unsuitable_token_is_refused(lab, token):
    lab.add("true")
    result = lab.result("web", "--listen", "127.0.0.1:0", env={"GPUQ_WEB_TOKEN": token})
    assert result.returncode == 2 and "GPUQ_WEB_TOKEN" in result.stderr and token not in result.stderr


def test_open_read_allows_reading_but_neither_actions_nor_environments(lab):
    page = Page(lab, "--open-read")
    assert page.json("/api/jobs/1", token=None)["may_act"] is False
    assert page.status("/metrics", token=None) == 200
    stream = page.stream(token=None)
    assert stream.until("state")["may_act"] is False
    assert page.status("/api/jobs/1/environment", token=None) == 401
    for action in ("cancel", "hold", "urgent", "retry", "release"):
        assert page.act(1, action, token=None).status == 401, action
    assert lab.job(1)["status"] == "pending"
    assert page.status("/api/jobs/1/environment") == 200
    assert page.act(1, "hold").status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "localhost.evil.example", "127.0.0.1.nip.io", ""])
def test_a_foreign_host_is_refused_even_with_the_token(page, host):
    for path in ("/", "/page.js", "/api/jobs/1", "/metrics"):
        assert page.status(path, headers={"Host": host}) in (400, 421), path
    assert page.act(1, "cancel", headers={"Host": host}).status in (400, 421)
    assert page.lab.job(1)["status"] == "pending"


def test_names_of_this_machine_are_hosts(lab):
    page = Page(lab, "--host", "gpubox.lan", "--host", "other")
    for host in ("localhost", "localhost:9000", f"127.0.0.1:{page.port}", "[::1]:1", "gpubox.lan:8765", "other"):
        assert page.status("/api/jobs/1", headers={"Host": host}) == 200, host
    assert page.status("/api/jobs/1", headers={"Host": "gpubox"}) == 421


def test_page_has_a_host_name_of_its_own_at_each_start(lab):
    """If the name were always the same, a page left by an earlier process on the port could read the next token."""
    page = Page(lab)
    assert page.status("/") == 200
    for plain in (f"127.0.0.1:{page.port}", f"localhost:{page.port}", f"[::1]:{page.port}"):
        answer = page.ask("/", headers={"Host": plain})
        assert answer.status == 421 and b"gpuq web" in answer.content, plain
        assert page.status("/page.js", headers={"Host": plain}) == 421
        assert page.status("/metrics", headers={"Host": plain}) == 200
    for other in ("gpuq-.localhost", "gpuq-0123456789abcdeg.localhost", "evil.localhost", "gpuq-0123456789abcdef.localhost.evil"):
        assert page.status("/", headers={"Host": other}) == 421, other
    again = Page(lab)
    assert again.host.partition(":")[0] != page.host.partition(":")[0]
    assert Page(lab, "--host", "127.0.0.1").status("/", headers={"Host": "127.0.0.1"}) == 200
    assert Page(lab, "--open-read").status("/", headers={"Host": "localhost"}) == 200


def test_port_of_the_other_loopback_address_is_taken(page):
    """Browsers also connect to [::1] for names below localhost: no other process may listen there."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with socket.socket(socket.AF_INET6) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError) as failure:
            other.bind(("::1", page.port))
        assert failure.value.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
        assert other.connect_ex(("::1", page.port)) != 0


@pytest.mark.parametrize("headers", [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
])
def test_requests_of_other_sites_are_refused_even_with_the_token(page, headers):
    assert page.act(1, "cancel", headers=headers).status == 403
    assert page.status("/api/jobs/1", headers=headers) == 403
    assert page.status("/metrics", headers=headers) == 403
    assert page.lab.job(1)["status"] == "pending"


def test_our_own_page_may_ask_and_a_link_may_open_it(page):
    own = {"Origin": f"http://{page.host}", "Sec-Fetch-Site": "same-origin"}
    assert page.act(1, "hold", headers=own).status == 200
    assert page.status("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}) == 200


def test_the_page_has_no_foreign_host_and_no_inline_script(page):
    response = page.ask("/", token=None)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in response.headers and "Access-Control-Allow-Origin" not in response.headers
    html = response.content.decode()
    files = re.findall(r'(?:src|href)="([^"]+)"', html)
    scripts = [name for name in files if name.endswith(".js")]
    assert scripts and all(name.startswith("/") for name in files)
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", html)
    seen = set()
    while scripts:
        path = scripts.pop()
        if path in seen:
            continue
        seen.add(path)
        text = page.ask(path, token=None).content.decode()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|https?://(?!www\.w3\.org/)", text), path
        scripts += ["/" + name for name in re.findall(r'from "\./([^"]+)"', text)]
    assert len(seen) >= 6


# ---- Limits --------------------------------------------------------------------------


def test_what_is_too_large_or_unknown_is_refused(page):
    assert page.status("/api/nothing") == 404
    assert page.status("/../etc/passwd") == 404
    assert page.status("/page.js/../../../etc/passwd") == 404
    assert page.status("/api/jobs/99999") == 404
    assert page.status("/api/jobs/99999999999999999999999") == 404
    assert page.status("/api/jobs/1/nonsense") == 404
    assert page.act(1, "nonsense").status == 404
    assert page.ask("/api/jobs/1", method="DELETE").status == 405
    assert page.ask("/metrics", method="POST").status == 405
    assert page.status("/api/stream?states=nonsense") == 400
    assert page.status("/api/stream?limit=100000") == 400
    assert page.status("/" + "x" * 3000) in (404, 414)
    assert page.status("/metrics", headers={"X-Long": "x" * 60000}) in (413, 431)
    assert page.act(1, "hold", body=b"x" * 100).status == 200
    assert page.status("/metrics") == 200


@pytest.mark.parametrize("number", ["%2B1", "%201", "1%20", "-1", "1x", "0x1", "1.0", "1e0", "%D9%A1", "18446744073709551617", "9223372036854775808"])
def test_numbers_are_digits_and_nothing_else(page, number):
    assert page.status(f"/api/jobs/{number}") == 404
    assert page.act(number, "hold").status == 404
    assert page.status(f"/api/jobs/1/log?attempt={number}") == 400
    for name in ("offset", "limit", "minutes", "since", "job", "attempt"):
        assert page.status(f"/api/stream?{name}={number}") == 400, name
    assert page.lab.job(1)["status"] == "pending"


def test_a_large_body_is_not_taken(page):
    try:
        assert page.act(1, "hold", body=b"x" * 1000000).status >= 400
    except (ConnectionError, OSError):
        pass  # cut off
    assert page.lab.job(1)["status"] == "pending"
    assert page.status("/metrics") == 200


def test_a_connection_is_used_again(page):
    connection = page.connect()
    for _ in range(3):
        connection.request("GET", "/api/jobs/1", headers=page.headers())
        response = connection.getresponse()
        response.read()
        assert response.status == 200 and not response.will_close
        port = connection.sock.getsockname()[1]
    assert connection.sock.getsockname()[1] == port


def test_connections_without_the_token_do_not_lock_out_those_with_it(page):
    """Connections through the owner's `ssh -L` count as the owner's, whoever made them."""
    held = []
    for _ in range(200):
        held.append(socket.create_connection(("127.0.0.1", page.port), timeout=LIMIT))
        try:
            held[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        except ConnectionError:
            pass
    stream = page.stream()
    assert stream.until("state")["may_act"] is True
    held += [socket.create_connection(("127.0.0.1", page.port), timeout=LIMIT) for _ in range(200)]
    for _ in range(10):
        assert page.json("/api/jobs/1")["id"] == 1
    page.lab.gpuq("hold", "1")
    assert stream.until("state", lambda told: told["counts"]["held"] == 1)
    for connection in held:
        connection.close()


# ---- Live ----------------------------------------------------------------------------


def test_the_stream_sends_everything_and_then_changes(page):
    stream = page.stream()
    state = stream.until("state")
    assert state["counts"]["pending"] == 1 and state["jobs"] == 1
    assert [job["id"] for job in stream.until("rows")["rows"]] == [1]
    assert stream.until("state", lambda told: told["gpus"])["gpus"][0]["name"]
    number = page.lab.add("echo new")
    told = stream.until("rows")
    assert told["ids"] == [1, number]
    # Only new data.
    assert [job["command"] for job in told["rows"]] == ["echo new"]
    page.lab.gpuq("run")
    assert stream.until("state", lambda told: told["counts"]["completed"] == 2)
    told = stream.until("timeline", lambda told: len(told["bars"]) == 2)
    assert sum(good for good, _, _ in told["bins"]) == 2


def test_server_searches_filters_sorts_and_pages_the_rows(page):
    page.lab.gpuq("add", "--no-start", "-", input="".join(f"train seed_{n}_\n" for n in range(250)))
    page.lab.gpuq("hold", "5-7")

    def ids(query):
        stream = page.stream(query)
        told = stream.until("rows", lambda told: told["total"] != 1)
        stream.close()
        return told["total"], told["ids"]

    stream = page.stream()
    stream.until("state", lambda told: told["jobs"] == 251 and told["counts"]["held"] == 3)
    assert ids("limit=10")[0] == 251
    total, found = ids("search=train+seed_24&limit=500&order=id")
    assert total == 11 and found[0] == 26
    assert ids("states=held&limit=10&order=id") == (3, [5, 6, 7])
    assert ids("order=id&reverse=1&offset=100&limit=3") == (251, [151, 150, 149])
    assert ids("search=nothing+has+this")[1] == []


def test_a_page_that_does_not_read_delays_no_other(page):
    slow = [socket.create_connection(("127.0.0.1", page.port), timeout=LIMIT) for _ in range(3)]
    for connection in slow:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.sendall(f"GET /api/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\n\r\n".encode())
    quick = page.stream()
    for n in range(12):
        page.lab.gpuq("add", "--no-start", "-", input="".join(f"echo {n} {k} {'x' * 200}\n" for k in range(100)))
        quick.until("state", lambda told, n=n: told["jobs"] == 1 + 100 * (n + 1))
    for connection in slow:
        connection.close()


def test_pages_that_are_gone_make_room_for_others(page):
    streams = [page.stream() for _ in range(64)]
    assert {stream.status for stream in streams} == {200}
    assert page.stream().status == 503
    for stream in streams:
        stream.close()
    page.lab.until(lambda: page.stream().status == 200, "room for a stream")


def test_the_server_ends_while_pages_are_open(page):
    streams = [page.stream() for _ in range(3)]
    streams[0].until("rows")
    page.process.send_signal(signal.SIGTERM)
    assert page.process.wait(LIMIT) == 0


def test_a_pruned_journal_is_followed(page):
    run_one(page.lab, "true")
    stream = page.stream()
    stream.until("rows", lambda told: told["total"] == 2)
    page.lab.gpuq("prune")
    stream.until("rows", lambda told: told["total"] == 0)
    number = page.lab.add("true")
    assert stream.until("rows", lambda told: number in told["ids"])


# ---- A job ---------------------------------------------------------------------------


def test_details_of_a_job_have_attempts_actions_and_why(lab):
    first = lab.add("--name", "base", "--mem", "3G", "exit 3")
    lab.gpuq("run", code=1)
    waits = lab.add("--after", str(first), "true")
    page = Page(lab)
    job = page.json(f"/api/jobs/{first}")
    assert (job["name"], job["command"], job["state"], job["mem_mb"]) == ("base", "exit 3", "failed", 3072)
    assert job["attempts"][0]["exit_code"] == 3 and job["actions"] == ["retry"]
    assert f"waits for job {first}" in page.json(f"/api/jobs/{waits}")["why"]


def test_environment_shown_is_that_of_the_job(lab):
    number = lab.add("true", env={"SECRET_OF_THIS_JOB": "42 = x"})
    assert "SECRET_OF_THIS_JOB=42 = x" in Page(lab).json(f"/api/jobs/{number}/environment")


def test_actions_have_their_effect(lab):
    number = lab.add(HANG_ABOUT)
    page = Page(lab)
    assert page.act(number, "hold").status == 200
    assert lab.job(number)["status"] == "held"
    refused = page.act(number, "retry")
    assert refused.status == 409 and str(number) in json.loads(refused.content)["error"]
    assert page.act(number, "urgent").status == 200
    assert lab.job(number)["priority"] == 1000000000
    # The queue has no runner: releasing starts one, like the command.
    assert page.act(number, "release").status == 200
    lab.until(lambda: lab.job(number)["status"] == "running", "the runner")
    assert page.act(number, "cancel").status == 200
    lab.until(lambda: lab.job(number)["status"] == "cancelled", "the end")
    (lab.directory / "go").touch()
    assert page.act(number, "retry").status == 200
    lab.until(lambda: lab.job(number)["status"] == "completed", "the second attempt")
    assert page.act(999, "cancel").status == 404
    # A job that has already ended is not a server error.
    refused = page.act(number, "cancel")
    assert refused.status == 409 and "already ended (completed)" in json.loads(refused.content)["error"]
    other = lab.add("--hold", "true")
    assert page.act(other, "cancel").status == 200
    assert page.act(other, "cancel").status == 409


# ---- All queues ----------------------------------------------------------------------


def add_to(lab, name, *words):
    (lab.directory / name).mkdir(exist_ok=True)
    return int(lab.gpuq("add", "--no-start", "--jobs-file", lab.directory / name / "jobs.jsonl", *words))


def states_of(lab, name):
    words = ["--jobs-file", lab.directory / name / "jobs.jsonl"]
    return [job["status"] for job in json.loads(lab.gpuq("status", "--json", *words))]


def test_all_queues_are_served_and_each_action_reaches_its_own(lab):
    assert add_to(lab, "one", "echo first") == add_to(lab, "two", "echo second") == 1
    page = Page(lab, "--all", queue=False)
    stream = page.stream()
    state = stream.until("state")
    assert (state["journal"], state["queues"], state["unreadable_queues"], state["jobs"]) == (None, 2, 0, 2)
    rows = {row["command"]: row for row in stream.until("rows", lambda told: told["total"] == 2)["rows"]}
    first, second = rows["echo first"], rows["echo second"]
    assert first["queue"] == str(lab.directory / "one") and second["queue"] == str(lab.directory / "two")
    # The number in the queue is in the lower 32 bits. The page stores the id in a double.
    assert first["id"] % 2**32 == second["id"] % 2**32 == 1 and first["id"] != second["id"] and second["id"] < 2**53
    assert page.act(second["id"], "hold").status == 200
    assert (states_of(lab, "one"), states_of(lab, "two")) == (["pending"], ["held"])
    told = page.json(f"/api/jobs/{second['id']}")
    assert told["queue"] == second["queue"] and told["command"] == "echo second"
    assert any(entry.startswith("PATH=") for entry in page.json(f"/api/jobs/{second['id']}/environment"))
    # A number alone does not identify a job.
    assert page.status("/api/jobs/1") == 404 and page.act(1, "cancel").status == 404
    # Queues that come and go.
    add_to(lab, "three", "echo third")
    stream.until("state", lambda state: state["queues"] == 3 and state["jobs"] == 3)
    shutil.rmtree(lab.directory / "two")
    stream.until("state", lambda state: state["queues"] == 2 and state["jobs"] == 2)
    assert page.status(f"/api/jobs/{second['id']}") == 404


def test_all_queues_have_logs_and_metrics_of_their_own(lab):
    for name in ("one", "two"):
        add_to(lab, name, f"echo from {name}")
        lab.gpuq("run", "--jobs-file", lab.directory / name / "jobs.jsonl", code=None)
    page = Page(lab, "--all", queue=False)
    for row in page.stream().until("rows", lambda told: told["total"] == 2)["rows"]:
        assert page.ask(f"/api/jobs/{row['id']}/log").content.decode().endswith(f"from {pathlib.Path(row['queue']).name}\n")
    metrics = page.ask("/metrics").content.decode()
    assert 'gpuq_jobs{state="completed"} 2' in metrics
    for name in ("one", "two"):
        assert f'gpuq_job_run_seconds{{id="1",name="",queue="{lab.directory / name}"}} ' in metrics


def test_one_queue_has_no_queue_in_its_metrics_and_rows(page):
    assert page.stream().until("state")["queues"] is None
    assert page.json("/api/jobs/1")["queue"] is None
    assert "queue=" not in page.ask("/metrics").content.decode()


def test_all_queues_excludes_a_file(lab):
    result = lab.result("web", "--all", "--jobs-file", "x")
    assert result.returncode == 2 and "--all cannot be used with --jobs-file" in result.stderr


# ---- Logs ----------------------------------------------------------------------------


def test_a_log_is_followed(lab):
    number = lab.add("echo first; until [ -e go ]; do sleep 0.02; done; echo second")
    page = Page(lab)
    lab.start("run")
    stream = page.stream(f"job={number}")
    size = stream.until("log", lambda told: told["size"] > 0)["size"]
    response = page.ask(f"/api/jobs/{number}/log")
    assert (response.status, response.content) == (206, b"first\n")
    assert response.headers["Content-Range"] == "bytes 0-5/6"
    (lab.directory / "go").touch()
    assert stream.until("log", lambda told: told["size"] == 13)
    assert page.ask(f"/api/jobs/{number}/log", headers={"Range": f"bytes={size}-"}).content == b"second\n"
    assert page.status(f"/api/jobs/{number}/log", headers={"Range": "bytes=13-"}) == 416
    assert page.status(f"/api/jobs/{number}/log", headers={"Range": "bytes=1-2,4-5"}) == 400
    assert page.status(f"/api/jobs/{number}/log?attempt=2") == 404


def test_a_log_is_found_after_its_queue_was_renamed(lab):
    (lab.directory / "old").mkdir()
    env = {"GPUQ_JOBS_FILE": "old/jobs.jsonl"}
    lab.gpuq("add", "--no-start", "echo found", env=env)
    lab.gpuq("run", env=env)
    (lab.directory / "old").rename(lab.directory / "new")
    page = Page(lab, "--jobs-file", "new/jobs.jsonl", queue=False)
    assert page.ask("/api/jobs/1/log").content == b"found\n"


SLURM_LOG = "job_1_attempt_2_slurm_4711_0123456789abcdef.log"


@pytest.mark.parametrize("moved", [False, True])
def test_a_log_of_a_slurm_job_is_found_in_its_own_folder_and_after_its_queue_was_renamed(lab, moved):
    folder = lab.directory / ("logs" if moved else "elsewhere")
    folder.mkdir()
    (folder / SLURM_LOG).write_text("found\n")
    recorded = (lab.directory / "old/logs" if moved else folder) / SLURM_LOG
    lab.journal.write_bytes(sealing.journal({"event": "add", "id": 1, "command": "x"},
                                            {"event": "start", "id": 1, "attempt": 2, "gpus": [], "log": str(recorded)}))
    assert Page(lab).ask("/api/jobs/1/log").content == b"found\n"
    assert lab.gpuq("logs", "1") == "found\n"


def test_only_a_part_of_a_log_of_gigabytes_is_served(lab):
    number = run_one(lab, "echo begin")
    path = pathlib.Path(lab.job(number)["log_file"])
    with open(path, "r+b") as file:
        file.truncate(5 << 30)
        file.seek(5 << 30)
        file.write(b"the end\n")
    page = Page(lab)
    tail = page.ask(f"/api/jobs/{number}/log")
    assert len(tail.content) == 64 << 10 and tail.content.endswith(b"the end\n")
    assert len(page.ask(f"/api/jobs/{number}/log", headers={"Range": "bytes=0-"}).content) == 1 << 20
    assert page.ask(f"/api/jobs/{number}/log", headers={"Range": "bytes=0-5"}).content == b"begin\n"


def test_only_logs_are_served_whatever_the_journal_says(lab):
    secret = lab.directory / "secret"
    secret.write_text("key")
    (lab.directory / "logs").mkdir()
    (lab.directory / "logs/link.log").symlink_to(secret)
    paths = [secret, "/etc/passwd", "/proc/self/environ", lab.directory / "logs/link.log",
             lab.directory / "logs/../secret", "../../etc/passwd"]
    # Names that are like those of Slurm jobs, but not of this job.
    paths += [lab.directory / f"job_{name}.log" for name in (
        "1_attempt_1_slurm_1_0123456789abcdef", "8_attempt__slurm_1_0123456789abcdef", "9_attempt_1_slurm_1_0123456789abcde", "10_attempt_1_slurm_1")]
    for path in paths[6:]:
        path.write_text("key")
    lines = []
    for number, path in enumerate(paths, 1):
        lines.append({"event": "add", "id": number, "command": "x"})
        lines.append({"event": "start", "id": number, "attempt": 1, "gpus": [], "log": str(path)})
    lab.journal.write_bytes(sealing.journal(*lines))
    page = Page(lab)
    for number, path in enumerate(paths, 1):
        response = page.ask(f"/api/jobs/{number}/log")
        assert response.status == 403 and b"key" not in response.content, path


# ---- Metrics -------------------------------------------------------------------------


def metric_names(text):
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}


def all_metrics(lab):
    """The metrics of a queue on cards that report everything."""
    build = pathlib.Path(os.environ["GD_BUILD"])
    lab.environment.pop("GPUQ_GPUS")
    (lab.directory / "sys").mkdir()
    (lab.directory / "nvml").write_text("card\nuuid=GPU-00000000-0000-0000-0000-000000000000\nname=Card\npci=0:1:0\n"
                                        "memory=1000000 400000 600000 0\nmode=0\nutilization=40\ntemperature=50\npower=100000\n")
    lab.environment |= {"GPUQ_NVML_LIBRARY": str(build / "tests/gpu/libnvidia-ml.so.1"), "FAKE_NVML": str(lab.directory / "nvml"),
                        "GPUQ_SYSFS_ROOT": str(lab.directory / "sys")}
    lab.add("--num-gpus", "0", "exit 1")
    lab.gpuq("run", code=1)
    page = Page(lab)
    return lab.until(lambda: (text := page.ask("/metrics").content.decode()) and "gpuq_gpu_power_watts" in text and text, "the card")


def test_metrics_cover_gpus_queue_and_journal(lab):
    text = all_metrics(lab)
    assert 'gpuq_gpu_memory_used_bytes{gpu="0"} 600000' in text
    assert 'gpuq_jobs{state="failed"} 1' in text
    assert "gpuq_attempt_duration_seconds_count 1" in text
    assert f"gpuq_journal_size_bytes {lab.journal.stat().st_size}" in text


def test_gpus_are_those_of_the_runner_in_any_shell(lab):
    lab.add("--mem", "30G", "true")
    lab.start("run", "--keep", "--gpus", "1", env={"GPUQ_GPUS": "sim:2x24G"})
    lab.until(lambda: "GPU 1: 24.0 GiB in total, job needs 30.0 GiB" in lab.gpuq("why", 1), "the settings of the runner")
    for gpus in ("", "sim:4x8G"):
        lab.environment["GPUQ_GPUS"] = gpus
        page = Page(lab)
        text = lab.until(lambda: "gpuq_gpu_memory_size_bytes{" in (text := page.ask("/metrics").content.decode()) and text, "GPUs")
        sizes = [line for line in text.splitlines() if line.startswith("gpuq_gpu_memory_size_bytes{")]
        assert sizes == [f'gpuq_gpu_memory_size_bytes{{gpu="1"}} {24 << 30}']


@pytest.mark.heavy
def test_promtool_accepts_the_metrics(lab):
    result = subprocess.run(["promtool", "check", "metrics"], input=all_metrics(lab), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def dashboard_queries():
    board = json.loads((SOURCE / "docs/grafana-dashboard.json").read_text())
    return board, [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]


@pytest.mark.heavy
def test_queries_of_the_dashboard_are_promql(tmp_path):
    rules = [{"record": f"a:b:c{number}", "expr": query.replace("$__rate_interval", "5m")} for number, query in enumerate(dashboard_queries()[1])]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    result = subprocess.run(["promtool", "check", "rules", "--lint=none", "rules.json"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_memory_of_others_is_distinguished_from_that_of_jobs(lab):
    build = pathlib.Path(os.environ["GD_BUILD"])
    lab.environment.pop("GPUQ_GPUS")
    (lab.directory / "sys").mkdir()

    def write_card(more=""):
        draft = lab.directory / "draft"
        draft.write_text("card\nuuid=GPU-00000000-0000-0000-0000-000000000000\nname=Card\npci=0:1:0\n"
                         f"memory={80 << 30} {70 << 30} {10 << 30} 0\nmode=0\n{more}")
        draft.rename(lab.directory / "nvml")

    write_card()
    lab.environment |= {"GPUQ_NVML_LIBRARY": str(build / "tests/gpu/libnvidia-ml.so.1"), "FAKE_NVML": str(lab.directory / "nvml"),
                        "GPUQ_SYSFS_ROOT": str(lab.directory / "sys")}
    lab.add("--mem", "40G", "--name", "big", "--", "sleep 1000 & wait")
    lab.start("run")
    lab.until(lambda: lab.jobs()[1]["status"] == "running")
    child = lab.until(lambda: subprocess.run(["pgrep", "-P", str(lab.job(1)["pid"])], capture_output=True, text=True, check=False).stdout.split(), "the child")[0]
    write_card(f"compute={child} {9 << 30}\ncompute={os.getpid()} {1 << 30}\n")
    gpu = Page(lab).stream().until("state", lambda state: state["gpus"] and state["gpus"][0]["memory_foreign"])["gpus"][0]
    assert gpu["memory_foreign"] == 1 << 30
    assert gpu["memory_reserved"] == 40 << 30
    assert (gpu["task_id"], gpu["task_name"]) == (1, "big")


def ended_now():
    """Events of a job whose memory and energy are known."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return [{"event": "add", "id": 1, "time": now, "command": "true", "cwd": "/"},
            {"event": "start", "id": 1, "attempt": 1, "time": now, "gpus": [0], "pid": 1, "keeper": "k"},
            {"event": "end", "id": 1, "attempt": 1, "time": now, "status": "completed", "duration": 1, "exit_code": 0, "peak_mem_mb": 500, "energy_j": 70}]


@pytest.mark.heavy
def test_every_query_of_the_dashboard_has_an_answer_in_prometheus(lab, tmp_path, tmp_path_factory):
    """A real Prometheus scrapes a real page while a map runs, and a job on a card that another user also uses."""
    items = Map(tmp_path_factory.mktemp("map"))
    items.environment["XDG_STATE_HOME"] = lab.environment["XDG_STATE_HOME"]
    items.put(1, 2, "wait")
    items.start("--batch", "1")
    lab.journal.write_bytes(sealing.journal(*ended_now()))
    build = pathlib.Path(os.environ["GD_BUILD"])
    lab.environment.pop("GPUQ_GPUS")
    (lab.directory / "sys").mkdir()
    (lab.directory / "nvml").write_text("card\nuuid=GPU-00000000-0000-0000-0000-000000000000\nname=Card\npci=0:1:0\n"
                                        f"memory={80 << 30} {60 << 30} {20 << 30} 0\nmode=0\nutilization=40\ntemperature=50\npower=100000\n"
                                        f"energy=5000 100000\ncompute={os.getpid()} {1 << 30}\n")
    lab.environment |= {"GPUQ_NVML_LIBRARY": str(build / "tests/gpu/libnvidia-ml.so.1"), "FAKE_NVML": str(lab.directory / "nvml"),
                        "GPUQ_SYSFS_ROOT": str(lab.directory / "sys")}
    lab.add("--mem", "1G", "--", "true")
    lab.add("--mem", "1G", "--", "exec sleep 1000")
    lab.start("run")
    page = Page(lab)
    config = {"scrape_configs": [{"job_name": "gpuq", "scrape_interval": "1s", "authorization": {"credentials": page.token},
                                  "static_configs": [{"targets": [f"127.0.0.1:{page.port}"]}]}]}
    (tmp_path / "prometheus.json").write_text(json.dumps(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(["prometheus", "--config.file=prometheus.json", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"],
                              cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def answer(query):
            query = query.replace("$__rate_interval", "1m").replace("$job", ".+").replace("$gpu", ".+")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})) as told:
                    return json.load(told)["data"]["result"]
            except (ConnectionError, urllib.error.URLError):
                return []
        for query in dashboard_queries()[1]:
            lab.until(lambda query=query: answer(query), query)
    finally:
        server.terminate()
        server.wait()
        items.end()


def test_the_dashboard_queries_existing_metrics(lab):
    board, asked = dashboard_queries()
    asked += [variable["query"] if isinstance(variable["query"], str) else variable["query"]["query"]
              for variable in board["templating"]["list"] if variable["type"] == "query"]
    names = set(re.findall(r"\bgpuq_\w+", " ".join(asked)))
    known = metric_names(all_metrics(lab))
    # Some metrics exist only during activity: of launches, and of jobs with memory and energy.
    possible = set(re.findall(r'"(gpuq_\w+)"', (SOURCE / "src/view/web/metrics.c").read_text()))
    assert len(asked) >= 10 and names
    assert names <= known | possible, names - known - possible
    # All existing metrics are shown.
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert families - shown <= {"gpuq_build_info"}
    assert board["schemaVersion"] >= 37 and len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


# ---- The command ---------------------------------------------------------------------


def test_without_a_queue_the_page_is_empty_until_there_is_one(lab):
    stream = Page(lab, queue=False).stream()
    assert stream.until("state")["jobs"] == 0
    lab.add("--", "true")
    stream.until("state", lambda state: state["jobs"] == 1)


def test_bad_address_is_an_error_that_says_what_to_do(lab):
    lab.add("true")
    for where in ("nonsense", "127.0.0.1", "example.com:80", "127.0.0.1:99999", "::1:80"):
        result = lab.result("web", "--listen", where)
        assert result.returncode == 2 and where in result.stderr and "127.0.0.1:8765" in result.stderr, where
    assert lab.result("web", "one").returncode == 2
    page = Page(lab)
    result = lab.result("web", "--listen", f"127.0.0.1:{page.port}")
    assert result.returncode == 1 and "in use" in result.stderr and "127.0.0.1:0" in result.stderr


def test_other_loopback_addresses_are_refused(lab):
    """Browsers have no name for them that could change at each start, so a page that another user left there would get the token."""
    lab.add("true")
    result = lab.result("web", "--listen", "127.0.0.2:0")
    assert result.returncode == 2 and "127.0.0.2" in result.stderr and "use 127.0.0.1:0" in result.stderr


def test_ipv6_and_names_can_be_listened_on(lab):
    lab.add("true")
    process = lab.start("web", "--listen", "localhost:0", text=True)
    assert re.match(r"http://gpuq-[0-9a-f]{16}\.localhost:\d+/#token=", process.stdout.readline())
    if not socket.has_ipv6 or not pathlib.Path("/proc/net/if_inet6").exists():
        return
    process = lab.start("web", "--listen", "[::1]:0", text=True)
    port = int(re.match(r"http://gpuq-[0-9a-f]{16}\.localhost:(\d+)/", process.stdout.readline())[1])
    socket.create_connection(("::1", port), timeout=LIMIT).close()


def test_missing_web_program_exits_2_and_says_so(lab, tmp_path):
    alone = tmp_path / "bin"
    alone.mkdir()
    program = copy_uninstalled("gpuq", alone)
    result = subprocess.run([program, "web"], capture_output=True, text=True, timeout=LIMIT, env=lab.environment, check=False)
    assert result.returncode == 2 and "'gpuq-web' is not installed" in result.stderr and "libmicrohttpd" in result.stderr


def test_web_program_started_by_hand_names_the_command(lab):
    result = subprocess.run([WEB], capture_output=True, text=True, timeout=LIMIT, env=lab.environment, check=False)
    assert result.returncode == 2 and "gpuq web" in result.stderr


def test_help_of_web_is_the_help_of_the_command(lab):
    text = lab.gpuq("web", "--help")
    assert "gpuq web" in text and "--open-read" in text
    assert lab.gpuq("help", "web") == text
    assert "web" in lab.gpuq("--help")
