# SPDX-License-Identifier: MIT
"""Views of a queue of another user, whose runner only that user can see: they do not claim that there is none."""
import json
import pathlib
import urllib.parse
import urllib.request

import pytest

from users import BUILD, LIMIT, WAIT_FOR, until, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users
WORDS = "only the owner of the queue can see whether a runner is active"


@pytest.fixture(name="queue", params=["locks", "folder"])
def make_queue(machine, owner, request):
    """A queue with a running and a pending job, of which everybody may read the journal, and the folder or not."""
    place = machine.project(owner)
    for command in (f"touch began; {WAIT_FOR.format('go')}", "true"):
        assert owner.gpuq("add", "--no-start", "--num-gpus", "2", command, cwd=place).returncode == 0
    runner = owner.start("gpuq", "run", "--no-panel", cwd=place)
    until((place / "began").exists, "the job")
    owner.sh("chmod a+r jobs.jsonl; chmod " + ("755" if request.param == "locks" else "700") + " jobs.jsonl.d", place)
    yield place
    (place / "go").touch()
    assert runner.wait(timeout=LIMIT) == 0


def test_status_why_and_wait_report_that_the_runner_cannot_be_seen(other, queue):
    why = other.gpuq("why", "2", cwd=queue)
    assert WORDS in why.stdout and "no runner" not in why.stdout, why
    status = other.gpuq("status", cwd=queue)
    assert "only the owner of the queue can see why" in status.stdout and "no runner" not in status.stdout, status
    # Nor do they know that the keeper of the running job is gone.
    wait = other.gpuq("wait", "1", "--trust", "--timeout", "10ms", cwd=queue)
    assert (wait.returncode, wait.stderr) == (124, "gpuq: giving up after 10ms: not all jobs have ended\n"), wait


def test_doctor_reports_that_the_runner_cannot_be_seen(other, queue):
    result = other.gpuq("doctor", "--json", "--trust", cwd=queue)
    found, = [f for f in json.loads(result.stdout)["findings"] if (f["section"], f["name"]) == ("Queue", "runner")]
    assert (found["level"], found["words"]) == ("note", WORDS), found


def test_queues_reports_that_the_runner_cannot_be_seen(machine, owner, other, queue):
    """A queue of another user is listed only with GPUQ_TRUST, in the place of a queue that was removed."""
    place = machine.directory(0o1777)
    other.sh("mkdir queue; cd queue; gpuq add --no-start true; cd ..; rm -r queue", place)
    other.sh(f"ln -s {queue} queue", place)
    listed = other.gpuq("queues", cwd="/", env={"GPUQ_TRUST": "1"}).stdout
    assert "hidden" in listed and "none" not in listed, listed
    found = json.loads(other.gpuq("queues", "--json", cwd="/", env={"GPUQ_TRUST": "1"}).stdout)
    assert {(one["has_runner"], one["runner_pid"]) for one in found} == {(None, None)}, found


@pytest.mark.skipif(not (pathlib.Path(BUILD) / "gpuq-web").exists(), reason="built without libmicrohttpd")
def test_web_page_shows_that_the_runner_cannot_be_seen(other, queue):
    process = other.start("gpuq", "web", "--listen", "127.0.0.1:0", "--jobs-file", queue / "jobs.jsonl", cwd="/")
    address = urllib.parse.urlsplit(process.stdout.readline().strip())

    def ask(path):
        token = {"Authorization": "Bearer " + address.fragment.removeprefix("token=")}
        return urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{address.port}{path}", headers=token), timeout=LIMIT)
    with ask("/metrics") as response:
        assert b"\ngpuq_runner_up " not in response.read()
    with ask("/api/stream") as response:
        data = next(line for line in response if line.startswith(b"data:") and b'"runner"' in line)
    state = json.loads(data.removeprefix(b"data:"))
    assert (state["runner"], state["runner_hidden"]) == (0, True), state
    process.kill()
    process.wait()
