# SPDX-License-Identifier: MIT
"""A pilot without Slurm: what it executes, what it reports, and which coordinators it trusts."""
import json
import os
import secrets
import signal
import struct
import subprocess
import time

import coordinator as protocol
import processes
import pytest
from pilot_process import BUILD, LIMIT, Pilot


@pytest.fixture(name="place")
def make_place(tmp_path):
    tmp_path.chmod(0o700)
    made = []

    class Place:
        directory = tmp_path

        def coordinator(self, **options):
            made.append(protocol.Coordinator(tmp_path, **options))
            return made[-1]

        def pilot(self, **options):
            made.append(Pilot(tmp_path, **options))
            return made[-1]

        def meet(self, **options):
            """A coordinator, a pilot, and the connection between them."""
            self.boss = self.coordinator(**options)
            self.agent = self.pilot()
            self.line = self.boss.accept()
            self.hello = self.line.welcome()
            return self.boss, self.agent, self.line

        def read(self, name):
            path = tmp_path / name
            return path.read_text(encoding="utf-8") if path.exists() else ""

    yield Place()
    for one in made:
        one.kill() if isinstance(one, Pilot) else one.close()


def until(condition, what):
    return processes.until(condition, LIMIT, lambda: what)


@pytest.mark.parametrize("links", [{}, {"NO_LINKS": "1"}])
def test_log_has_the_name_in_the_journal_on_a_network_file_system(place, links):
    boss = place.coordinator()
    place.pilot(LD_PRELOAD=str(BUILD / "tests/slurm/no_rename_flags.so"), **links)
    line = boss.accept()
    line.welcome()
    for job in (1, 2):
        line.grant(job, 1, f"echo {job}")
        line.end()
        assert place.read(f"logs/{boss.log(job, 1, 4711)}") == f"{job}\n"
    assert len(list((place.directory / "logs").glob("*.log"))) == 2


def test_energy_of_a_job_that_has_its_gpus_to_itself(place):
    """100 W and 50 W. The third job shares its GPU with the fourth."""
    rows = [f"card\nuuid=GPU-0000000{n}-0000-0000-0000-000000000000\nname=Card\npci=0:{n + 1}:0\nmemory={80 << 30} {80 << 30} 0 0\nmode=0\n"
            f"energy=5000000 {watts}000\n" for n, watts in enumerate((100, 50, 70))]
    (place.directory / "nvml").write_text("".join(rows), encoding="ascii")
    boss = place.coordinator()
    place.pilot(gpus="0,1,2", GPUQ_NVML_LIBRARY=str(BUILD / "tests/gpu/libnvidia-ml.so.1"), FAKE_NVML=str(place.directory / "nvml"))
    line = boss.accept()
    line.welcome()
    # On a loaded machine a short job gets too few samples: retry with a longer one.
    for first, seconds in ((1, 10), (11, 30), (21, 60)):
        for job, gpus in ((first, (0, 1)), (first + 1, (2,)), (first + 2, (2,))):
            line.grant(job, 1, f"sleep {seconds}", gpus)
        ends = {frame["id"][0] - first: frame for frame in (line.end() for _ in range(3))}
        if ends[0]["energy_j"]:
            break
    assert ends[0]["energy_j"] == pytest.approx(150 * ends[0]["duration_ms"] / 1000, rel=0.25)
    assert not ends[1]["energy_j"] and not ends[2]["energy_j"]
    (told,) = [row for row in map(json.loads, boss.outbox(line.hello["pilot"])[1:]) if row["id"] == first]
    assert told["energy_j"] == ends[0]["energy_j"]


def test_pilot_greets_with_what_it_has(place):
    place.meet()
    hello = place.hello
    assert (hello["slurm_job"], hello["node"], hello["session"], hello["attempts"]) == (4711, "node7", 1, [])
    assert [gpu["index"] for gpu in hello["gpus"]] == [0, 1] and hello["gpus"][0]["total"] > 0 and hello["gpus"][0]["healthy"]
    # The outbox exists before the hello.
    assert json.loads(place.boss.outbox(hello["pilot"])[0])["slurm_job"] == 4711


def test_job_runs_as_on_one_machine(place):
    boss, agent, line = place.meet()
    line.grant(7, 3, "echo out; env > environment; pwd > where; exit 5", gpus=(1,), environment={"SLURM_JOB_NAME": "login", "PMIX_RANK": "1"})
    begun = line.wait_for(protocol.BEGUN)
    assert begun["id"] == (7, 3) and begun["pid"] > 0
    end = line.end()
    assert (end["id"], end["outcome"], end["exit_code"], end["signal"]) == ((7, 3), "failed", 5, 0) and end["duration_ms"] >= 0
    variables = dict(row.partition("=")[::2] for row in place.read("environment").splitlines() if "=" in row)
    assert (variables["OF_THE_QUEUE"], variables["GPUQ_NODE"], variables["GPUQ_JOB_ID"], variables["GPUQ_ATTEMPT"]) == ("yes", "node7", "7", "3")
    assert variables["GPUQ_GPU"] == "1"
    assert [name for name in variables if name.startswith(("SLURM", "PMI"))] == []
    assert place.read("where").strip() == str(place.directory)
    assert place.read(f"logs/{boss.log(7, 3, 4711)}") == "out\n"
    # In the outbox before it was sent.
    assert json.loads(boss.outbox(place.hello["pilot"])[1])["exit_code"] == 5
    assert agent.process.poll() is None


def test_log_that_exists_is_not_written_to_nor_replaced_by_another_name(place):
    boss, _, line = place.meet()
    (place.directory / "logs").mkdir(exist_ok=True)
    taken = place.directory / "logs" / boss.log(7, 3, 4711)
    taken.write_text("of somebody else\n", encoding="ascii")
    line.grant(7, 3, "echo out; touch ran")
    assert "log" in line.wait_for(protocol.REJECT)["words"]
    assert taken.read_text(encoding="ascii") == "of somebody else\n"
    assert list((place.directory / "logs").iterdir()) == [taken] and not (place.directory / "ran").exists()
    # The next attempt has another name.
    line.grant(7, 4, "echo out")
    assert line.end()["outcome"] == "completed"
    assert place.read(f"logs/{boss.log(7, 4, 4711)}") == "out\n"


def test_end_is_sent_again_until_it_is_acknowledged(place):
    boss, _, line = place.meet()
    line.grant(1, 1, "true")
    assert line.wait_for(protocol.END)["outcome"] == "completed"
    line.close()
    line = boss.accept()
    hello = line.welcome()
    assert hello["session"] == 2 and hello["attempts"] == [(1, 1, 2)]
    assert line.end()["id"] == (1, 1)
    # One line, no matter how many times it was sent.
    assert len(boss.outbox(hello["pilot"])) == 2


def test_attempt_is_begun_once(place):
    _, _, line = place.meet()
    line.grant(1, 2, "echo $GPUQ_ATTEMPT >> ran")
    line.end()
    line.grant(1, 2, "echo $GPUQ_ATTEMPT >> ran")
    assert line.wait_for(protocol.REJECT)["rejection"] == 1
    line.grant(1, 1, "echo $GPUQ_ATTEMPT >> ran")
    line.wait_for(protocol.REJECT)
    line.grant(1, 3, "echo $GPUQ_ATTEMPT >> ran")
    line.end()
    assert place.read("ran") == "2\n3\n"


def hold(place, line):
    """A job with a child that left its session; their PIDs."""
    line.grant(1, 1, "setsid sh -c 'echo $$ > left; sleep 1000' & echo $$ > main; wait")
    return [place.agent.outer(int(until(lambda n=name: place.read(n).endswith("\n") and place.read(n), name))) for name in ("main", "left")]


def test_cancelled_job_ends_with_its_tree(place):
    _, _, line = place.meet()
    pids = hold(place, line)
    line.cancel(1, 1)
    assert line.end()["outcome"] == "cancelled"
    assert not any(processes.alive(pid) for pid in pids)


def test_timeout_is_a_failure(place):
    _, _, line = place.meet()
    line.grant(1, 1, "sleep 1000", timeout_ms=200)
    end = line.end()
    assert (end["outcome"], end["reason"]) == ("failed", "timeout")


def test_job_that_cannot_be_started_is_rejected_and_the_next_runs(place):
    _, _, line = place.meet()
    (place.directory / "file").write_text("", encoding="ascii")
    line.grant(1, 1, "true", log_dir="file/logs")
    assert "log" in line.wait_for(protocol.REJECT)["words"]
    line.grant(2, 1, "true", gpus=(5,))
    assert "GPU" in line.wait_for(protocol.REJECT)["words"]
    line.grant(3, 1, "true")
    assert line.end()["outcome"] == "completed"


@pytest.mark.parametrize("folders", [1, 8])
def test_reason_of_an_end_contains_its_advice(place, folders):
    """If a path is too long, its middle is omitted."""
    _, _, line = place.meet()
    directory = place.directory / "/".join(["é" * 100] * folders)
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    line.grant(1, 1, "true", cwd=str(directory), cwd_own=1)
    reason = line.end()["reason"]
    assert reason.startswith(f"cannot enter directory '{place.directory}/é") and reason.endswith("(chmod go-w) and retry it")
    assert (str(directory) in reason) == (folders == 1) and ("é…é" in reason) == (folders == 8)


def test_many_jobs_side_by_side(place):
    _, _, line = place.meet()
    for job in range(1, 41):
        line.grant(job, 1, f"echo {job} >> ran", gpus=(job % 2,))
    assert sorted(line.end()["id"][0] for _ in range(40)) == list(range(1, 41))
    assert sorted(int(row) for row in place.read("ran").split()) == list(range(1, 41))


# ---- The end of the pilot ----

def test_sigterm_interrupts_its_jobs(place):
    boss, agent, line = place.meet()
    line.grant(1, 1, "trap 'exit 0' TERM; echo 1 > ran; while :; do sleep 0.05; done")
    until(lambda: place.read("ran"), "the job")
    agent.process.send_signal(signal.SIGTERM)
    line.wait_for(protocol.ENDING)
    end = line.end()
    assert end["outcome"] == "interrupted"
    line.wait_for(protocol.BYE)
    assert agent.wait() == 0
    assert json.loads(boss.outbox(place.hello["pilot"])[-1])["outcome"] == "interrupted"


def test_released_pilot_leaves_when_it_is_idle(place):
    _, agent, line = place.meet()
    line.grant(1, 1, "echo 1 > ran; until [ -e go ]; do sleep 0.02; done")
    until(lambda: place.read("ran"), "the job")
    line.send(protocol.RELEASE)
    (place.directory / "go").touch()
    assert line.end()["outcome"] == "completed"
    line.wait_for(protocol.BYE)
    assert agent.wait() == 0
    assert [path for path in place.directory.iterdir() if path.name.startswith("gpuq-pilot-")] == []


def test_removes_its_own_folder_and_not_another_with_its_name(place):
    _, agent, line = place.meet()
    folder, = place.directory.glob("gpuq-pilot-*")
    folder.rename(place.directory / "moved")
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "model").touch()
    line.send(protocol.RELEASE)
    line.wait_for(protocol.BYE)
    assert agent.wait() == 0
    assert (folder / "checkpoints" / "model").exists()
    assert list((place.directory / "moved").iterdir()) == []


def test_folder_is_not_where_others_can_rename_it(place):
    shared = place.directory / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    boss = place.coordinator()
    agent = place.pilot(TMPDIR=str(shared))
    line = boss.accept()
    line.welcome()
    line.grant(1, 1, "echo 1 > ran")
    assert line.end()["outcome"] == "completed"
    assert list(shared.iterdir()) == []
    line.send(protocol.RELEASE)
    line.wait_for(protocol.BYE)
    assert agent.wait() == 0


def test_lease_that_is_not_renewed_ends_all_processes(place):
    _, agent, line = place.meet(lease_ms=2000)
    pids = hold(place, line) + agent.tree()
    until(lambda: not any(processes.alive(pid) for pid in pids[:-1]), "the end of the lease")
    assert agent.wait() != 0
    assert "lease has ended" in agent.text()


def test_stopped_guard_dies_with_all_jobs_at_the_end_of_the_lease(place):
    _, agent, line = place.meet(lease_ms=3000)
    pids = hold(place, line) + agent.tree()
    os.kill(agent.guard(), signal.SIGSTOP)
    until(lambda: not any(processes.alive(pid) for pid in pids[:2]), "the end of the jobs")
    assert agent.wait() != 0


def test_stopped_agent_does_not_outlive_the_lease(place):
    _, agent, line = place.meet(lease_ms=3000)
    pids = hold(place, line)
    os.kill(processes.children(agent.guard())[0], signal.SIGSTOP)
    until(lambda: not any(processes.alive(pid) for pid in pids), "the end of the jobs")
    assert agent.wait() != 0
    assert "lease has ended" in agent.text()


@pytest.mark.parametrize("which", ["guard", "agent"])
def test_killed_guard_or_agent_takes_all_jobs_along(place, which):
    _, agent, line = place.meet()
    pids = hold(place, line)
    os.kill(agent.guard() if which == "guard" else processes.children(agent.guard())[0], signal.SIGKILL)
    until(lambda: not any(processes.alive(pid) for pid in pids), "the end of the jobs")
    assert agent.wait() != 0
    assert ("guard of this pilot was killed" in agent.text()) == (which == "guard")
    assert "lease has ended" not in agent.text()


def test_renewed_lease_lasts(place):
    """Beyond the first lease: without the renewals the pilot would be dead."""
    _, agent, line = place.meet(lease_ms=2000)
    line.grant(1, 1, "echo 1 > ran; until [ -e go ]; do sleep 0.02; done")
    begun = time.monotonic()
    while time.monotonic() < begun + 5:
        frame = line.wait_for(protocol.HEARTBEAT)
        line.send(protocol.RENEW, struct.pack("<Qq", frame["number"], 2000))
    (place.directory / "go").touch()
    assert line.end()["outcome"] == "completed"
    assert agent.process.poll() is None


def test_killed_keeper_costs_its_job_alone(place):
    _, agent, line = place.meet()
    main, left = hold(place, line)
    line.grant(2, 1, "until [ -e go ]; do sleep 0.02; done", gpus=(1,))
    line.wait_for(protocol.BEGUN)
    os.kill(processes.parent(main), signal.SIGKILL)
    end = line.end()
    assert (end["id"], end["outcome"], end["reason"]) == ((1, 1), "failed", "keeper lost")
    assert not processes.alive(main) and not processes.alive(left)
    (place.directory / "go").touch()
    assert line.end()["outcome"] == "completed"


# ---- Trust ----

def test_fake_coordinator_gets_nothing_executed(place):
    boss = place.coordinator()
    fake = place.coordinator(secret=secrets.token_bytes(32))
    agent = place.pilot()
    with pytest.raises(protocol.Refused):
        fake.accept()
    until(lambda: "does not know the secret" in agent.text(), "the pilot's message")
    # The real one is found as soon as the address is right.
    boss.listen()
    line = boss.accept()
    line.welcome()
    line.grant(1, 1, "echo 1 > ran")
    assert line.end()["outcome"] == "completed"


def test_replayed_or_changed_grant_is_not_executed(place):
    boss, _, line = place.meet()
    data = struct.pack("<IQQ", protocol.GRANT, boss.epoch, line.session) + struct.pack("<QI", 1, 1) + struct.pack("<Ii", 1, 0)
    data += boss.order("echo $GPUQ_JOB_ID >> ran")
    line.send_bytes(data)
    line.end()
    line.send_bytes(data.replace(struct.pack("<QI", 1, 1), struct.pack("<QI", 2, 1)), counter=line.sent)
    with pytest.raises(OSError):
        line.wait_for(protocol.END)
    line = boss.accept()
    line.welcome()
    # A grant of an epoch before the one of the coordinator is dropped.
    line.send_bytes(struct.pack("<IQQ", protocol.GRANT, boss.epoch - 1, line.session) + struct.pack("<QI", 3, 1) + struct.pack("<Ii", 1, 0)
                    + boss.order("echo $GPUQ_JOB_ID >> ran"))
    line.grant(4, 1, "echo $GPUQ_JOB_ID >> ran")
    assert line.end()["id"] == (4, 1)
    assert place.read("ran") == "1\n4\n"


def test_oversized_frame_ends_the_connection_and_the_pilot_comes_back(place):
    boss, _, line = place.meet()
    line.connection.sendall(struct.pack("<IQ", 0x7fffffff, line.sent + 1))
    with pytest.raises(OSError):
        line.wait_for(protocol.END)
    assert boss.accept().welcome()["session"] == 2


@pytest.mark.parametrize("what", ["readable", "damaged"])
def test_secret_that_others_can_read_is_refused(place, what):
    boss = place.coordinator()
    path = boss.queue_dir / "slurm.secret"
    if what == "damaged":
        path.write_text("x", encoding="ascii")
    else:
        path.chmod(0o644)
    agent = place.pilot()
    assert agent.wait() == 1
    assert "slurm.secret" in agent.text()


@pytest.mark.parametrize("missing", ["slurm.secret", "."])
def test_secret_that_becomes_visible_later_is_found(place, missing):
    boss = place.coordinator()
    path = (boss.queue_dir / missing).resolve()
    hidden = boss.queue_dir.parent / "hidden"
    path.rename(hidden)
    agent = place.pilot()
    until(lambda: "retrying" in agent.text(), "its message")
    hidden.rename(path)
    assert boss.accept().welcome()["session"] == 1


def test_pilot_that_waits_for_the_secret_can_be_ended(place):
    (place.coordinator().queue_dir / "slurm.secret").unlink()
    agent = place.pilot()
    until(lambda: "retrying" in agent.text(), "its message")
    os.kill(agent.process.pid, signal.SIGTERM)
    agent.wait()
    assert "slurm.secret" in agent.text()


def test_pilot_waits_while_the_address_is_that_of_another_version(place):
    boss = place.coordinator()
    address = boss.queue_dir / "slurm.address"
    address.write_text("127.0.0.1 4711\n", encoding="ascii")  # without a challenge
    agent = place.pilot()
    until(lambda: "cannot connect to the coordinator: it has another version of gpuq" in agent.text(), "its message")
    boss.close()
    boss.listen()
    assert boss.accept().welcome()["session"] == 1


def test_pilot_tries_again_while_nobody_listens(place):
    boss = place.coordinator()
    boss.close()
    agent = place.pilot()
    until(lambda: "connect" in agent.text(), "its message")
    boss.listen()
    assert boss.accept().welcome()["session"] >= 1


def test_outside_of_slurm_it_says_so(place):
    result = subprocess.run([BUILD / "gpuq-slurm", "pilot", "--jobs-file", place.directory / "jobs.jsonl"], capture_output=True, text=True,
                            env={"PATH": os.environ["PATH"]}, timeout=LIMIT, check=False)
    assert result.returncode == 2 and "SLURM_JOB_ID" in result.stderr
