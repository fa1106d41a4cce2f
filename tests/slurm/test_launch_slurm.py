# SPDX-License-Identifier: MIT
"""gpuq launch --slurm on a real Slurm, as users run it."""
import contextlib
import json
import os
import signal
import socket
import subprocess

import fake_worker
import processes
import pytest

LIMIT = 240
SLURM = ("--slurm", "--partition=gpu --gres=gpu:1 --time=10", "--max-nodes", "2", "--slurm-silence", "5", "--slurm-lease", "60")
# A persistent program: writes begin and end of each file to `trace`, and waits for go-NAME if there is hold-NAME.
PROGRAM = """\
import json, os, sys, time
who = f"{os.environ['GPUQ_NODE']}:{os.environ['GPUQ_GPU']}:{os.environ['GPUQ_JOB_ID']}:{os.environ['GPUQ_ATTEMPT']}"
def trace(*words):
    with open("trace", "a") as out:
        out.write(" ".join(words) + "\\n")
for line in sys.stdin:
    task = json.loads(line)
    if task["type"] == "setup":
        trace("load", who)
        print(json.dumps({"type": "ready"}), flush=True)
        continue
    name = os.path.basename(task["file"])
    trace("begin", name, who)
    while os.path.exists("hold-" + name) and not os.path.exists("go-" + name):
        time.sleep(0.02)
    if os.path.exists("fail-" + name):
        print(json.dumps({"id": task["id"], "ok": False, "error": "broken"}), flush=True)
        continue
    trace("end", name, who)
    print(json.dumps({"id": task["id"], "ok": True}), flush=True)
"""


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")[:-1]
    except OSError:
        return []


class Launch:
    """`gpuq launch --slurm` and its output, in a lab."""

    def __init__(self, lab):
        self.lab, self.started = lab, []
        self.place("work.py").write_text(PROGRAM, encoding="utf-8")

    def place(self, name):
        return self.lab.directory / name

    def files(self, count):
        folder = self.place("in")
        folder.mkdir(exist_ok=True)
        for number in range(count):
            (folder / f"{number:02}.wav").write_text("x" * (number + 1), encoding="utf-8")

    def start(self, *words, slurm=SLURM):
        log = self.place(f"launch{len(self.started)}.out")
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen(["gpuq", "launch", "--input-dir", "in", "--output-dir", "out", *slurm, *words],
                                       cwd=self.lab.directory, env=self.lab.cluster.environment, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out, start_new_session=True, **self.lab.cluster.identity())
        process.log = log
        self.started.append(process)
        return process

    def wait(self, process, code=0):
        assert process.wait(LIMIT) == code, process.log.read_text(encoding="utf-8")
        return process.log.read_text(encoding="utf-8")

    def run(self, *words, code=0, slurm=SLURM):
        return self.wait(self.start(*words, slurm=slurm), code)

    def program(self, *words):
        return self.start("--worker-command", "python3 work.py", *words)

    def trace(self):
        path = self.place("trace")
        return [line.split() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def begun(self):
        return [line[1] for line in self.trace() if line[0] == "begin"]

    def results(self):
        rows = [json.loads(line) for line in (self.place("out/launch.jsonl")).read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if row["event"] != "run"]

    def until(self, condition, what):
        return self.lab.until(condition, f"{what}: {[one.log.read_text(encoding='utf-8') for one in self.started]} {self.trace()}")

    def until_begun(self, *names):
        self.until(lambda: set(names) <= set(self.begun()), f"{names} begun")

    @staticmethod
    def children(process):
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]

    def workers(self):
        """PIDs of the persistent programs."""
        return {pid for pid in self.lab.cluster.processes() if command_of(pid) == ["python3", "work.py"]}

    def squeue(self):
        return self.lab.slurm("squeue", "-h", "-o", "%i").split()

    def until_idle(self):
        processes.until(lambda: not self.squeue(), LIMIT, lambda: "an idle node")

    def fake(self, worker=0, **more):
        """A false worker, connected to the proxy of this worker."""
        return contextlib.closing(fake_worker.FakeWorker(self.place("out/launch.slurm"), worker, **more))

    def hold(self, *names):
        for name in names:
            self.lab.touch(f"hold-{name}")

    def go(self, *names):
        for name in names:
            self.lab.touch(f"go-{name}")

    def check_once(self):
        """Each file has at most one result."""
        names = [row["file"] for row in self.results()]
        assert len(names) == len(set(names)), names


@pytest.fixture(name="launch")
def make_launch(lab):
    made = Launch(lab)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.wait()
    lab.slurm("scancel", "-u", lab.cluster.user.pw_name, code=None)
    made.until_idle()


def test_command_per_file_runs_on_the_nodes(launch):
    launch.files(5)
    text = launch.run("--", "sh", "-c", "echo $GPUQ_NODE {gpu} > {output}/{stem}.txt; echo {name} >> ran")
    assert sorted(launch.place("ran").read_text(encoding="utf-8").split()) == [f"{number:02}.wav" for number in range(5)], text
    rows = launch.results()
    assert len(rows) == 5 and {row["event"] for row in rows} == {"done"} and {row["node"] for row in rows} == {"node"}
    assert "5 of 5 files done" in text and "node:" in text and "node node joined with 1 GPU" in text
    assert launch.place("out/00/00.txt").read_text(encoding="utf-8").startswith("node ")
    again = launch.run("--", "sh", "-c", "echo $GPUQ_NODE {gpu} > {output}/{stem}.txt; echo {name} >> ran")
    assert "5 files are already done" in again and len(launch.results()) == 5
    launch.until_idle()


def test_program_is_loaded_once_per_gpu_and_each_file_is_processed_once(launch):
    launch.files(8)
    launch.hold("07.wav", "06.wav")
    boss = launch.program("--json", "summary.json", "--set", "voice=a b")
    launch.until_begun("07.wav", "06.wav")  # the longest first, on two GPUs
    launch.go("07.wav", "06.wav")
    text = launch.wait(boss)
    assert sorted(launch.begun()) == [f"{number:02}.wav" for number in range(8)]
    loads = [line[1].rsplit(":", 2)[0] for line in launch.trace() if line[0] == "load"]
    assert sorted(loads) == ["node:0", "node:1"]
    summary = json.loads(launch.place("summary.json").read_text(encoding="utf-8"))
    assert [(row["node"], row["gpu"]) for row in summary["gpus"]] == [("node", 0), ("node", 1)]
    assert summary["files_done"] == 8 and sum(row["files"] for row in summary["gpus"]) == 8, text
    launch.check_once()
    launch.until_idle()


def test_scancel_of_a_pilot_gives_its_file_to_another_worker(launch):
    launch.files(6)
    launch.hold("05.wav", "04.wav")
    boss = launch.program()
    launch.until_begun("05.wav", "04.wav")
    launch.lab.slurm("scancel", launch.squeue()[0])
    launch.until(lambda: len(launch.begun()) >= 3, "the file on another worker")
    launch.go("05.wav", "04.wav")
    text = launch.wait(boss)
    assert "6 of 6 files done" in text
    launch.check_once()
    assert {row["event"] for row in launch.results()} == {"done"} and len(launch.results()) == 6


def test_file_that_loses_its_worker_repeatedly_is_named(launch):
    launch.files(1)
    launch.hold("00.wav")
    boss = launch.program()
    for times in range(1, 4):
        launch.until(lambda times=times: launch.begun() == ["00.wav"] * times, f"attempt {times}")
        assert "has lost its worker" not in boss.log.read_text(encoding="utf-8")
        launch.lab.slurm("scancel", *launch.squeue())
    launch.until(lambda: "warning: '00.wav' has lost its worker 3 times" in boss.log.read_text(encoding="utf-8"), "the warning")
    launch.go("00.wav")
    assert "1 of 1 files done" in launch.wait(boss)
    launch.check_once()


def test_worker_that_dies_fails_only_its_file(launch):
    launch.files(4)
    launch.hold("03.wav")
    boss = launch.program("--retries", "0")
    launch.until_begun("03.wav")
    job = next(line[2].split(":")[2] for line in launch.trace() if line[:2] == ["begin", "03.wav"])
    (victim,) = launch.workers() & set(processes.with_variable("GPUQ_JOB_ID", job))
    os.kill(victim, signal.SIGKILL)
    text = launch.wait(boss, code=1)
    assert "3 of 4 files done, 1 failed" in text and "failed: 03.wav" in text
    launch.check_once()


def test_failing_file_is_reported_with_its_message(launch):
    launch.files(3)
    launch.lab.touch("fail-01.wav")
    boss = launch.program("--retries", "1")
    text = launch.wait(boss, code=1)
    assert "failed: 01.wav: broken" in text
    (row,) = [row for row in launch.results() if row["event"] == "failed"]
    assert row["attempt"] == 2 and row["node"] == "node" and launch.begun().count("01.wav") == 2


def test_program_that_does_not_start_ends_the_run(launch):
    launch.files(2)
    boss = launch.start("--worker-command", "sh -c 'echo no model >&2; exit 3'")
    text = launch.wait(boss, code=1)
    assert "no worker is left" in text and "no model" in text
    launch.until_idle()


def test_killed_launcher_leaves_no_worker_beside_the_next_one(launch):
    launch.files(4)
    launch.hold("03.wav", "02.wav")
    boss = launch.program()
    launch.until_begun("03.wav", "02.wav")
    boss.kill()
    boss.wait()
    first = launch.workers()
    assert len(first) == 2
    again = launch.program()
    launch.until(lambda: len([line for line in launch.trace() if line[0] == "load"]) >= 3, "workers of the next launch")
    assert not first & launch.workers()
    launch.go("03.wav", "02.wav")
    text = launch.wait(again)
    assert "waiting until the workers of an earlier launch have ended" in text and "4 of 4 files done" in text
    ends = [line[1] for line in launch.trace() if line[0] == "end"]
    assert sorted(ends) == ["00.wav", "01.wav", "02.wav", "03.wav"]
    launch.check_once()


def test_launch_on_this_machine_waits_for_workers_of_a_killed_launch(launch):
    launch.files(2)
    launch.hold("01.wav", "00.wav")
    boss = launch.program()
    launch.until_begun("01.wav", "00.wav")
    boss.kill()
    boss.wait()
    first = launch.workers()
    assert len(first) == 2
    check = "; ".join(f"[ ! -d /proc/{pid} ] || echo {pid} >> alive" for pid in first)
    local = launch.start("--gpus", "sim:1", "--", "sh", "-c", check, slurm=())
    text = launch.wait(local)
    assert "2 of 2 files done" in text and not launch.place("alive").exists()
    launch.until_idle()


def test_ctrl_c_finishes_files_and_twice_cancels_them(launch):
    launch.files(5)
    launch.hold("04.wav", "03.wav")
    boss = launch.program()
    launch.until_begun("04.wav", "03.wav")
    boss.send_signal(signal.SIGINT)
    launch.until(lambda: "stopping after 2 running files" in boss.log.read_text(encoding="utf-8"), "the first stop")
    launch.go("04.wav")
    launch.until(lambda: ["end", "04.wav"] in [line[:2] for line in launch.trace()], "04.wav ends")
    boss.send_signal(signal.SIGINT)
    text = launch.wait(boss, code=130)
    assert "1 of 5 files done, 4 left" in text and len(launch.begun()) == 2
    launch.until_idle()


def test_refusal_by_slurm_is_reported_and_ends_the_launch(launch):
    launch.files(1)
    text = launch.run("--worker-command", "python3 work.py", code=2, slurm=("--slurm", "--partition=nowhere --gres=gpu:1"))
    assert "Slurm refuses the options of --slurm: invalid partition specified: nowhere" in text and "name a partition that 'sinfo' lists" in text
    assert "interrupted" not in text and "0 of 1 files done" in text


def test_dry_run_plans_for_the_gpus_of_the_nodes(launch):
    launch.files(3)
    text = launch.run("--dry-run", "--", "true", slurm=("--slurm", "--gres=gpu:1", "--max-nodes", "2"))
    assert text.count("of a node") == 2 and "Simulated" not in text and not launch.place("out").exists()


@pytest.mark.parametrize("words, said", [
    (("--slurm", "--time=1"), "does not say how many GPUs"),
    (("--slurm", "--gres=gpu:1", "--gpus", "0"), "--gpus cannot be used with --slurm"),
    (("--slurm", "--gres=gpu:1", "--watch"), "--watch cannot be used with --slurm"),
    (("--max-nodes", "2"), "need --slurm with the options for sbatch"),
])
def test_options_that_make_no_sense_are_refused(launch, words, said):
    launch.files(1)
    assert said in launch.run("--", "true", code=2, slurm=words)


def test_stranger_without_the_secret_gets_nothing(launch):
    launch.files(1)
    launch.hold("00.wav")
    boss = launch.program()
    launch.until_begun("00.wav")
    with pytest.raises(ConnectionError):
        launch.fake(secret=bytes(32))
    host, port = launch.place("out/launch.slurm/worker-0.address").read_text(encoding="utf-8").split()[:2]
    with socket.create_connection((host, int(port))) as stranger:
        stranger.settimeout(LIMIT)
        with contextlib.suppress(ConnectionError):
            stranger.sendall(bytes(4096))
            assert stranger.recv(4096) == b""
    launch.go("00.wav")
    assert "1 of 1 files done" in launch.wait(boss)


def is_closed(fake, *what, **more):
    """Whether the proxy closes the connection of a worker that sends this message."""
    with contextlib.suppress(ConnectionError):
        fake.say(*what, **more)
        fake.say(fake_worker.PING)
    return not fake.hear(fake_worker.PONG)


# The real worker counts its connections: it is accepted again after this many tries, two a second.
SESSION = 8


def test_file_stays_with_its_worker_when_the_connection_closes(launch):
    launch.files(3)
    launch.hold("02.wav", "01.wav")
    boss = launch.program()
    launch.until_begun("02.wav", "01.wav")
    with launch.fake() as fake:  # replaces the connection of the real worker, and closes it
        assert not is_closed(fake, fake_worker.HELLO, fake_worker.RUNNING, number=1, session=SESSION)
    with launch.fake() as late:
        assert is_closed(late, fake_worker.HELLO, session=1)  # the proxy has noticed the end of the other one
    launch.go("01.wav", "02.wav")
    assert "3 of 3 files done" in launch.wait(boss)
    assert sorted(launch.begun()) == ["00.wav", "01.wav", "02.wav"]
    launch.check_once()


def test_only_the_answer_of_the_attempt_for_its_file_counts(launch):
    launch.files(1)
    launch.hold("00.wav")
    boss = launch.program()
    launch.until_begun("00.wav")
    with launch.fake(job=2) as fake:
        assert is_closed(fake, fake_worker.HELLO, session=SESSION)  # another job
    with launch.fake() as fake:
        assert is_closed(fake, fake_worker.ANSWER, fake_worker.DONE, number=1)  # without a hello
    with launch.fake() as fake:
        assert is_closed(fake, fake_worker.HELLO, fake_worker.DONE, number=1, session=SESSION, attempt=0)  # an earlier attempt
    with launch.fake() as fake:
        assert is_closed(fake, 0) and is_closed(fake, 11)
    with launch.fake() as fake:
        assert not is_closed(fake, fake_worker.HELLO, fake_worker.RUNNING, number=1, session=SESSION)
        assert not is_closed(fake, fake_worker.ANSWER, fake_worker.DONE, number=2)
        assert not is_closed(fake, fake_worker.ANSWER, fake_worker.DONE, number=1, proxy=4711)
        assert is_closed(fake, fake_worker.ANSWER, fake_worker.RUNNING, number=1)  # no end of a file
    with launch.fake() as fake:
        assert is_closed(fake, fake_worker.HELLO, session=1)
    assert launch.results() == []
    launch.go("00.wav")
    assert "1 of 1 files done" in launch.wait(boss)
    assert launch.begun() == ["00.wav"] and [row["node"] for row in launch.results()] == ["node"]


def test_coordinator_that_is_killed_is_started_again(launch):
    launch.files(3)
    launch.hold("02.wav")
    boss = launch.program()
    launch.until_begun("02.wav")
    (pid,) = [pid for pid in launch.children(boss) if command_of(pid)[:1] == ["gpuq run"]]
    os.kill(pid, signal.SIGKILL)
    launch.until(lambda: "starting it again" in boss.log.read_text(encoding="utf-8"), "another coordinator")
    launch.go("02.wav")
    text = launch.wait(boss)
    assert "3 of 3 files done" in text
    launch.check_once()


def test_launch_ends_when_its_coordinator_ends_again_and_again(launch):
    launch.files(2)
    launch.hold("01.wav", "00.wav")
    boss = launch.program()
    launch.until_begun("01.wav", "00.wav")
    for kills in range(6):
        def coordinator():
            return [pid for pid in launch.children(boss) if command_of(pid)[:1] == ["gpuq run"]]
        launch.until(lambda kills=kills: coordinator() and boss.log.read_text(encoding="utf-8").count("starting it again") == kills, "a coordinator")
        os.kill(coordinator()[0], signal.SIGKILL)
    text = launch.wait(boss, code=1)
    assert "the coordinator has ended 6 times" in text and "0 of 2 files done, 2 left" in text and "interrupted" not in text
    launch.go("01.wav", "00.wav")
    assert "2 of 2 files done" in launch.wait(launch.program())
    launch.check_once()


def test_lost_connection_does_not_disturb_the_file(launch):
    launch.files(2)
    launch.hold("01.wav", "00.wav")
    boss = launch.program("--slurm-silence", "2")
    launch.until_begun("01.wav", "00.wav")
    proxies = [pid for pid in launch.lab.cluster.processes() if "launch-proxy" in command_of(pid)]
    assert len(proxies) == 2
    port = launch.place("out/launch.slurm/worker-0.address").read_text(encoding="utf-8").split()[1]
    for pid in proxies:
        os.kill(pid, signal.SIGSTOP)
    launch.until(lambda: "WAIT" in launch.lab.cluster.run("ss", "-Htan", f"( dport = :{port} or sport = :{port} )"), "the worker closes its connection")
    for pid in proxies:
        os.kill(pid, signal.SIGCONT)
    launch.go("01.wav", "00.wav")
    assert "2 of 2 files done" in launch.wait(boss)
    assert sorted(launch.begun()) == ["00.wav", "01.wav"]


def test_killed_proxy_costs_its_file_only(launch):
    launch.files(3)
    launch.hold("02.wav", "01.wav")
    boss = launch.program()
    launch.until_begun("02.wav", "01.wav")
    proxy = next(pid for pid in launch.lab.cluster.processes() if "launch-proxy" in command_of(pid))
    os.kill(proxy, signal.SIGKILL)
    launch.until(lambda: "00.wav" in launch.begun(), "the worker takes another file")  # after it has ended the first one
    launch.go("01.wav", "02.wav")
    text = launch.wait(boss, code=1)
    assert "2 of 3 files done, 1 failed" in text
    assert sorted(launch.begun()) == ["00.wav", "01.wav", "02.wav"]
    launch.wait(launch.program())
    assert launch.begun()[3:] in (["01.wav"], ["02.wav"])


def test_nothing_is_left_of_a_launcher_that_was_killed(launch):
    launch.files(2)
    launch.hold("01.wav", "00.wav")
    boss = launch.program("--slurm-lease", "10")
    launch.until_begun("01.wav", "00.wav")
    boss.kill()
    boss.wait()
    launch.until_idle()
    assert not launch.workers()
    launch.go("01.wav", "00.wav")
    assert "2 of 2 files done" in launch.wait(launch.program())


def test_pilots_of_a_killed_launch_that_wait_in_slurm_are_ended(launch):
    launch.files(1)
    blocker = launch.lab.slurm("sbatch", "--parsable", "--partition=gpu", "--gres=gpu:2", "--output=/dev/null", "--wrap", "sleep 1000").strip()
    boss = launch.program()
    launch.until(lambda: len(launch.squeue()) == 2, "a pilot that waits")
    (pilot,) = set(launch.squeue()) - {blocker}
    (coordinator,) = [pid for pid in launch.children(boss) if command_of(pid)[:1] == ["gpuq run"]]
    boss.kill()
    os.kill(coordinator, signal.SIGKILL)
    boss.wait()
    again = launch.program()
    launch.until(lambda: set(launch.squeue()) - {blocker, pilot}, "a pilot of the next launch")
    launch.lab.slurm("scancel", blocker)
    text = launch.wait(again)
    assert "1 of 1 files done" in text
    launch.until_idle()
    assert launch.begun() == ["00.wav"]
