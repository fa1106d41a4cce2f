# SPDX-License-Identifier: MIT
"""Every command that users run while `gpuq run --slurm` runs, on a real Slurm."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import processes
import pytest
from web_lab import Page

LIMIT = 240
BUILD = pathlib.Path(os.environ["GD_BUILD"])
SLURM = ("--slurm", "--partition=gpu --gres=gpu:1 --time=10")
WAITING = "echo $GPUQ_JOB_ID:$GPUQ_ATTEMPT >> ran; until [ -e go ]; do sleep 0.05; done; echo $GPUQ_JOB_ID >> done"


class Queue:
    """A coordinator with one pilot, and job 1 on it, which waits for `go`; job 2 waits for the GPU."""

    def __init__(self, lab):
        self.lab = lab
        lab.commands(WAITING, "echo second")
        with open(lab.directory / "run.out", "w", encoding="utf-8") as out:
            self.boss = subprocess.Popen(["gpuq", "run", "--commands-file", "commands.txt", "--keep", *SLURM], cwd=lab.directory,
                                         env=lab.cluster.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                         **lab.cluster.identity())

    def gpuq(self, *words, code=0):
        return self.lab.gpuq(*words, code=code)

    def until(self, condition, what):
        return self.lab.until(condition, f"{what}: {(self.lab.directory / 'run.out').read_text(encoding='utf-8')}")

    def finish(self):
        self.lab.touch("go")
        self.until(lambda: not set(self.lab.states()) & {"pending", "running"}, "the end of the jobs")
        self.boss.send_signal(signal.SIGINT)
        assert self.boss.wait(LIMIT) == 130, (self.lab.directory / "run.out").read_text(encoding="utf-8")

    @property
    def journal(self):
        return self.lab.journal

    def start(self, *words, env=None, text=True):
        """Starts gpuq, for the class Page."""
        return subprocess.Popen(["gpuq", *words], cwd=self.lab.directory, env={**self.lab.cluster.environment, **(env or {})}, text=text,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **self.lab.cluster.identity())

    def as_user(self, *words):
        """The arguments to run a program as the user where `user=` is not available."""
        if not self.lab.cluster.identity():
            return list(words)
        user = self.lab.cluster.user
        return ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", *words]


@pytest.fixture(name="queue")
def make_queue(lab):
    made = Queue(lab)
    made.until(lab.ran, "job 1")
    yield made
    lab.touch("go")
    if made.boss.poll() is None:
        made.boss.kill()
        made.boss.wait()
    lab.slurm("scancel", "-u", lab.cluster.user.pw_name, code=None)
    processes.until(lambda: not lab.slurm("squeue", "-h", "-o", "%i"), LIMIT, lambda: "an idle node")


def test_add_and_wait(queue):
    number = queue.gpuq("add", "--mem", "12G", "--timeout", "5m", "--", "sh", "-c", "exit 7").strip()
    assert number == "3"
    queue.lab.touch("go")
    queue.gpuq("wait", "3", code=7)
    queue.finish()


def test_status_and_why(queue):
    text = queue.gpuq("status")
    assert "GPU 0 on node → Running" in text and "[ ] 2 echo second" in text
    first, second = json.loads(queue.gpuq("status", "--json"))
    assert (first["host"], first["gpu_ids"], first["pid"]) == ("node", [0], None) and second["position"] == 1
    queue.until(lambda: "node GPU 0: in use by job 1" in queue.gpuq("why", "2"), "the reason")
    assert "all 1 pilots are in use (--max-nodes)" in queue.gpuq("why", "2")
    large = queue.gpuq("add", "--num-gpus", "64", "true").strip()
    queue.until(lambda: "no pilot can run 1 job: a job needs 64 GPUs" in queue.gpuq("why", large), "the reason of the large one")
    assert "all 1 pilots are in use (--max-nodes)" in queue.gpuq("why", "2")
    queue.gpuq("cancel", large)
    late = queue.gpuq("add", "--timeout", "30m", "true").strip()
    queue.until(lambda: "the remaining time of its node is too short for the job" in queue.gpuq("why", late), "the reason of the long one")
    queue.gpuq("cancel", late)
    queue.finish()


def test_logs_are_followed_from_the_login_node(queue):
    queue.gpuq("add", "for i in 1 2 3; do echo line $i; sleep 0.1; done; until [ -e end ]; do sleep 0.05; done; echo last")
    queue.lab.touch("go")
    queue.until(lambda: queue.lab.states()[2] == "running", "job 3")
    with subprocess.Popen(["gpuq", "logs", "-f", "3"], cwd=queue.lab.directory, env=queue.lab.cluster.environment, stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, **queue.lab.cluster.identity()) as follower:
        lines = [follower.stdout.readline() for _ in range(3)]
        assert lines == ["line 1\n", "line 2\n", "line 3\n"]
        queue.lab.touch("end")
        assert follower.stdout.read() == "last\n" and follower.wait(LIMIT) == 0
    assert queue.gpuq("logs", "2") == "second\n"
    queue.finish()


def test_logs_are_followed_from_before_the_start(queue):
    ids = [queue.gpuq("add", "echo line of $GPUQ_JOB_ID").strip() for _ in range(6)]
    followers = [subprocess.Popen(["gpuq", "logs", "-f", number], cwd=queue.lab.directory, env=queue.lab.cluster.environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **queue.lab.cluster.identity()) for number in ids]
    for follower in followers:
        assert "has not started; waiting" in follower.stderr.readline()
    queue.lab.touch("go")
    for number, follower in zip(ids, followers):
        out, words = follower.communicate(timeout=LIMIT)
        assert (out, words, follower.returncode) == (f"line of {number}\n", "", 0)
    queue.finish()


def test_hold_and_release(queue):
    queue.gpuq("hold", "2")
    queue.gpuq("add", "true")
    queue.lab.touch("go")
    queue.gpuq("wait", "1", "3")
    assert queue.lab.states() == ["completed", "held", "completed"]
    queue.gpuq("release", "2")
    queue.gpuq("wait", "2")
    queue.finish()
    assert queue.lab.states() == ["completed"] * 3


def test_cancel_ends_what_waits_and_what_runs(queue):
    queue.gpuq("cancel", "2")
    queue.gpuq("cancel", "1")
    queue.gpuq("wait", "1", code=143)
    assert queue.lab.states() == ["cancelled", "cancelled"] and not (queue.lab.directory / "done").exists()
    queue.finish()


def test_queues_and_info(queue):
    assert f"PID {queue.boss.pid}" in queue.gpuq("queues")
    text = queue.gpuq("info", "1")
    assert "host           node" in text and "_slurm_" in text
    queue.finish()


def test_nothing_starts_on_the_login_node_by_itself(queue):
    queue.finish()
    result = subprocess.run(["gpuq", "add", "true"], cwd=queue.lab.directory, env={**queue.lab.cluster.environment, "GPUQ_GPUS": "sim:1"},
                            capture_output=True, text=True, timeout=LIMIT, check=False, **queue.lab.cluster.identity())
    assert "was last run on a cluster" in result.stderr and "gpuq run --slurm" in result.stderr, result
    number = str(len(queue.lab.states()))
    text = queue.gpuq("why", number)
    assert "no runner is active; the queue was last run on a cluster: use 'gpuq run --slurm' again\n" in text and "never" not in text
    waiting = subprocess.run(["gpuq", "wait", "--timeout", "1", number], cwd=queue.lab.directory, env=queue.lab.cluster.environment, capture_output=True,
                             stdin=subprocess.DEVNULL, text=True, check=False, **queue.lab.cluster.identity())
    assert "start one with 'gpuq run --slurm'" in waiting.stderr, waiting
    assert queue.lab.states()[-1] == "pending"
    # An explicit run on this host works.
    queue.lab.gpuq("run", "--gpus", "sim:1")
    assert queue.lab.states()[-1] == "completed"


def test_retry_runs_on_a_node_again(queue):
    queue.gpuq("add", "[ -e again ] || { touch again; exit 1; }")
    queue.lab.touch("go")
    queue.gpuq("wait", "3", code=1)
    queue.gpuq("retry", "3")
    queue.gpuq("wait", "3")
    queue.finish()
    assert queue.lab.states() == ["completed"] * 3


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
@pytest.mark.parametrize("all_queues", [False, True])
def test_top_shows_the_node(queue, all_queues):
    tmux = ["tmux", "-S", str(queue.lab.cluster.place / "tmux"), "-f", "/dev/null"]
    top = queue.as_user("gpuq", "top", *(["--all"] if all_queues else ["--jobs-file", str(queue.lab.journal)]))
    subprocess.run([*tmux, "new-session", "-d", "-x", "120", "-y", "24", *top], check=True, timeout=LIMIT,
                   env={**queue.lab.cluster.environment, "TMUX": "", "LC_ALL": "C.UTF-8"})

    def screen():
        return subprocess.run([*tmux, "capture-pane", "-p"], check=True, timeout=LIMIT, capture_output=True, text=True).stdout
    try:
        queue.until(lambda: "node:0" in screen() and "echo second" in screen(), "the GPU of the node")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, timeout=LIMIT)
    queue.finish()


def test_page_shows_the_node(queue):
    page = Page(queue)
    try:
        gpus = page.stream().until("state", lambda state: any(gpu["task_id"] == 1 for gpu in state["gpus"]))["gpus"]
        assert [(gpu["id"], gpu["name"].split()[0]) for gpu in gpus] == [(0, "node:0")]
    finally:
        page.process.terminate()
        page.process.wait(LIMIT)
    queue.finish()


def test_page_of_all_queues_shows_nodes_after_the_gpus_of_this_machine(queue):
    rows = [f"card\nuuid=GPU-0000000{number}-0000-0000-0000-000000000000\nname=Local\npci=0:{number + 1}:0\nmemory={80 << 30} {80 << 30} 0 0\nmode=0\n"
            for number in range(2)]
    (queue.lab.directory / "nvml").write_text("".join(rows), encoding="ascii")
    page = Page(queue, "--all", env={"GPUQ_NVML_LIBRARY": f"{BUILD}/tests/gpu/libnvidia-ml.so.1", "FAKE_NVML": f"{queue.lab.directory}/nvml"})
    try:
        stream = page.stream()
        gpus = stream.until("state", lambda state: len(state["gpus"]) == 3 and state["gpus"][2]["task_id"])["gpus"]
        assert [(gpu["id"], gpu["name"].split()[0], bool(gpu["task_id"])) for gpu in gpus] == [(0, "Local", False), (1, "Local", False), (2, "node:0", True)]
        queue.finish()
        # Without its coordinator, the queue has no nodes.
        stream.until("state", lambda state: [gpu["name"].split()[0] for gpu in state["gpus"]] == ["Local", "Local"])
    finally:
        page.process.terminate()
        page.process.wait(LIMIT)
