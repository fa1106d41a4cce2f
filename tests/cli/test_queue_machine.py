# SPDX-License-Identifier: MIT
"""Effects of the machine on a queue: the clock jumps, the disk is read-only, output is not read."""
import hashlib
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess

import pytest

from lab import GPUQ, LIMIT, Lab

CLOCK = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libclock.so"
YEARS = 10 * 365 * 86400


@pytest.mark.parametrize("jump", [YEARS, -YEARS])
def test_clock_that_jumps_ends_no_job_early_or_late(lab, jump):
    clock = lab.directory / "clock"
    clock.write_bytes(struct.pack("q", 0))
    env = {"LD_PRELOAD": str(CLOCK), "CLOCK_FILE": str(clock), "ASAN_OPTIONS": "verify_asan_link_order=0"}
    lab.add("--timeout", "1h", "echo 1 >> ran; until [ -e go ]; do sleep 0.01; done")
    lab.add("--timeout", "1s", "echo 2 >> ran; sleep 60")
    runner = lab.start("run", env=env)
    lab.until(lambda: len(lab.ran()) == 2)
    with clock.open("r+b") as file:
        file.write(struct.pack("q", jump))
    third = lab.add("echo 3 >> ran", env=env)
    lab.until(lambda: lab.job(2)["status"] == "failed", "the time limit")
    lab.until(lambda: lab.job(third)["status"] == "completed")
    assert lab.job(1)["status"] == "running"
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 1
    jobs = lab.jobs()
    assert (jobs[1]["status"], jobs[2]["reason"]) == ("completed", "timeout")
    # Measured by a clock that does not jump, whatever the recorded times are.
    assert all(0 <= job["duration"] < LIMIT for job in jobs.values())
    assert (jobs[1]["end_time"] > jobs[1]["start_time"]) == (jump > 0)
    assert "1" in lab.gpuq("status", env=env)


def read_only(lab, *words):
    """`gpuq` with a queue directory that is mounted read-only or not writable."""
    if os.geteuid() != 0:
        lab.directory.chmod(0o555)
        for path in lab.directory.rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        return lab.result(*words)
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && cd "$1" && shift && exec "$@"'
    return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", lab.directory,
                           GPUQ, *words], env=lab.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT, check=False)


def can_mount(lab):
    return os.geteuid() != 0 or (shutil.which("unshare") and "Read-only" in read_only(lab, "add", "--no-start", "x").stderr)


def test_read_only_directory_can_be_read_and_other_commands_fail_with_a_message(lab):
    lab.add("exit 3")
    lab.gpuq("run", code=1)
    lab.add("echo 1 >> ran")
    if not can_mount(lab):
        pytest.skip("root, and not allowed to mount")
    before = lab.journal.read_bytes()
    try:
        status = read_only(lab, "status")
        assert (status.returncode, status.stderr) == (0, "")
        assert "Failed (exit 3)" in status.stdout
        assert read_only(lab, "wait", "1").returncode == 3
        assert read_only(lab, "logs", "1").returncode == 0
        for words in (["add", "--no-start", "true"], ["run"], ["cancel", "2"], ["prune"]):
            result = read_only(lab, *words)
            assert result.returncode == 1, result
            assert result.stderr.startswith("gpuq: ") and "jobs.jsonl" in result.stderr, result
            assert "Read-only file system" in result.stderr or "Permission denied" in result.stderr, result
    finally:
        for path in [lab.directory, *lab.directory.rglob("*")] if os.geteuid() != 0 else []:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert lab.journal.read_bytes() == before
    assert lab.ran() == []


def test_job_that_writes_100_mb_has_all_of_it_in_its_log(lab):
    """Two jobs at once write to both outputs, which nothing reads; the journal and the runner stay small."""
    size = 50_000_000
    program = f"yes $GPUQ_JOB_ID-abcdefghijklmnopqrstuvwxyz | head -c {size}"
    lab.commands(f"{program}; {program} >&2", f"{program}; {program} >&2; exit 3")
    lab.gpuq("run", "--jobs-per-gpu", "1", code=1)
    for number, job in lab.jobs().items():
        line = f"{number}-abcdefghijklmnopqrstuvwxyz\n".encode()
        part = (line * (size // len(line) + 1))[:size]
        expected = hashlib.sha256(part + part).hexdigest()
        with open(job["log_file"], "rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == expected
        os.unlink(job["log_file"])
    assert lab.journal.stat().st_size < 10_000


def test_logs_shows_more_files_than_may_be_open_at_once(lab):
    count = 100
    lab.commands(*(f"echo {n}" for n in range(1, count + 1)))
    lab.gpuq("run", "--quiet", "--jobs-per-gpu", "4")
    out = lab.gpuq("logs", f"1-{count}", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    assert out == "".join(f"{n}: {n}\n" for n in range(1, count + 1))


def test_wait_goes_on_for_a_lost_job_that_will_be_retried(lab):
    lab.add("--retries", "1", "echo 1 >> ran; [ $GPUQ_ATTEMPT = 2 ] || sleep 60")
    runner = lab.start("run")
    lab.until(lab.ran)
    keeper, = (event["pid"] for event in lab.events() if event["event"] == "keeper" and event["keeper"] in {
        start["keeper"] for start in lab.events() if start["event"] == "start"})
    runner.kill()
    runner.wait()
    os.kill(keeper, 9)
    lab.until(lambda: lab.job(1)["status"] == "failed", "the keeper to be gone")
    waiting = lab.start("wait", 1, stderr=subprocess.PIPE)
    assert b"no runner is active" in waiting.stderr.readline()
    lab.gpuq("run")
    assert waiting.wait(timeout=LIMIT) == 0


def test_dependents_cancelled_in_any_order_leave_the_others(lab):
    """In the list of dependents, the first, last and middle are removed by a live runner."""
    count = 30
    lab.add("until [ -e go ]; do sleep 0.01; done")
    for n in range(2, count + 2):
        lab.add("--after", "1", f"echo {n} >> ran")
    runner = lab.start("run")
    lab.until(lambda: lab.job(1)["status"] == "running")
    gone = [2, 31, 16, 15, 17, 30, 3]
    for n in gone:
        lab.gpuq("cancel", n)
    (lab.directory / "go").touch()
    assert runner.wait(timeout=LIMIT) == 1
    assert sorted(map(int, lab.ran())) == [n for n in range(2, count + 2) if n not in gone]


@pytest.mark.parametrize("signals", [signal.SIG_DFL, signal.SIG_IGN], ids=["SIGPIPE", "ignored"])
def test_reader_that_is_gone_ends_nothing(lab, signals):
    """`gpuq run | head -1`: the jobs continue, and the output is dropped."""
    lab.commands(*(f"echo {number} >> ran" for number in range(20)), "exit 3")
    reading, writing = os.pipe()
    os.close(reading)
    # Not restored by Python: a shell leaves it at its default.
    runner = lab.start("run", stdout=writing, restore_signals=False,
                       preexec_fn=lambda: signal.signal(signal.SIGPIPE, signals))
    os.close(writing)
    assert runner.wait(LIMIT) == 1
    assert sorted(lab.ran(), key=int) == [str(number) for number in range(20)]


def test_reader_that_does_not_read_holds_nothing_up(lab):
    """Far more lines than fit in a pipe; all of them arrive once they are read."""
    count = 600
    text = "x" * 60
    lab.commands(*(f"true {n} {text}" for n in range(1, count + 1)))
    runner = lab.start("run", "--jobs-per-gpu", "4")
    lab.until(lambda: lab.journal.exists() and sum(event["event"] == "end" for event in lab.events()) == count, "all ends")
    assert runner.poll() is None
    out, _ = runner.communicate(timeout=LIMIT)
    assert runner.returncode == 0
    assert out.decode().count("Completed") == count


def test_reader_that_does_not_read_keeps_no_runner_from_exiting(lab):
    """SIGTERM with more output than fits in the pipe: the runner exits, and the next one can do the rest."""
    text = "x" * 60
    lab.commands(*(f"true {n} {text}" for n in range(600)), "until [ -e go ]; do sleep 0.02; done")
    runner = lab.start("run", "--jobs-per-gpu", "4")
    lab.until(lambda: lab.journal.exists() and sum(event["event"] == "end" for event in lab.events()) == 600, "all ends")
    runner.send_signal(signal.SIGTERM)
    assert runner.wait(LIMIT) == 130
    (lab.directory / "go").touch()
    assert lab.result("run").returncode == 0


def test_reader_that_does_not_read_does_not_block_the_next_runner(lab):
    """A finished process that only waits for its reader is no longer the runner; a signal ends it."""
    text = "x" * 60
    lab.commands(*(f"true {n} {text}" for n in range(600)))
    runner = lab.start("run", "--jobs-per-gpu", "4")
    lab.until(lambda: lab.journal.exists() and sum(event["event"] == "end" for event in lab.events()) == 600, "all ends")
    lab.add("echo more >> ran")
    second = lab.start("run", stdout=subprocess.DEVNULL)
    assert second.wait(LIMIT) == 0
    assert lab.ran() == ["more"]
    runner.send_signal(signal.SIGINT)
    runner.wait(LIMIT)


def test_second_nursery_keeps_no_keeper_of_the_first_alive(lab):
    """It is forked by a runner that holds the sockets of other keepers; when the runner dies, an
    idle keeper must notice."""
    lab.add("true")
    runner = lab.start("run", "--keep", "--jobs-per-gpu", "1")
    first, = lab.until(lambda: lab.journal.exists() and lab.job(1)["status"] == "completed" and lab.keepers())
    nursery = int(pathlib.Path(f"/proc/{first}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert pathlib.Path(f"/proc/{nursery}/comm").read_text() == "gpuq-nursery\n"
    os.kill(nursery, 9)
    for number in (2, 3):
        lab.add(f"echo {number} >> ran; until [ -e go-{number} ]; do sleep 0.01; done")
        lab.until(lambda: len(lab.ran()) == number - 1)
    second, = set(lab.keepers()) - {first}
    (lab.directory / "go-2").touch()
    lab.gpuq("wait", 2)
    runner.kill()
    runner.wait()
    lab.until(lambda: lab.keepers() == [second], "the first keeper to leave")
    (lab.directory / "go-3").touch()
    lab.until(lambda: not lab.keepers())
    assert lab.job(3)["status"] == "completed"


def remove_queue(lab):
    lab.journal.unlink()
    shutil.rmtree(str(lab.journal) + ".d")


@pytest.mark.parametrize("remove", [lambda lab: shutil.rmtree(lab.directory), remove_queue], ids=["directory", "queue"])
def test_queue_that_is_removed_ends_an_idle_runner_and_its_helpers(tmp_path, remove):
    (tmp_path / "queue").mkdir()
    lab = Lab(tmp_path / "queue")
    try:
        lab.commands("true")
        runner = lab.start("run", "--keep")
        lab.until(lambda: lab.journal.exists() and any(event["event"] == "end" for event in lab.events()), "the job")
        assert len(lab.processes()) >= 3  # runner, nursery, syncer, keeper
        remove(lab)
        _, words = runner.communicate(timeout=LIMIT)
        assert runner.returncode == 2 and b"its folder was removed" in words
        lab.until(lambda: not lab.processes(), "nursery, syncer and keeper to leave")
        assert not lab.journal.exists()
    finally:
        lab.end()


def test_queue_that_is_removed_under_a_running_job_is_not_made_again(lab):
    lab.add("echo a >> ran; until [ -e go ]; do sleep 0.02; done")
    runner = lab.start("run")
    lab.until(lab.ran, "the job")
    remove_queue(lab)
    assert runner.wait(LIMIT) == 2
    (lab.directory / "go").touch()
    lab.until(lambda: not lab.processes(), "the keeper to leave")
    assert not lab.journal.exists()


def test_queue_that_is_removed_with_its_folder_leaves_no_process(tmp_path):
    (tmp_path / "queue").mkdir()
    lab = Lab(tmp_path / "queue")
    try:
        for _ in range(2):
            lab.add("echo a >> ran; read x < hold")
        os.mkfifo(lab.directory / "hold")
        runner = lab.start("run")
        lab.until(lambda: lab.ran() == ["a", "a"])
        with open(lab.directory / "hold", "w", encoding="ascii"):
            shutil.rmtree(lab.directory)
        _, words = runner.communicate(timeout=LIMIT)
        assert runner.returncode == 2 and b"its folder was removed" in words
        lab.until(lambda: not lab.processes(), "its keepers to leave")
    finally:
        lab.end()
