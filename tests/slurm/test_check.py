# SPDX-License-Identifier: MIT
"""gpuq slurm check on a real Slurm. Faults that cannot be created there are created only for its
job, by an sbatch that changes the script."""
import json
import os
import pathlib
import signal
import struct
import subprocess

import pytest
import sealing

LIMIT = 240
BUILD = pathlib.Path(os.environ["GD_BUILD"])
GPU = ("--slurm", "--gres=gpu:1 --time=10")


class Checker:
    def __init__(self, lab):
        self.lab = lab

    def program(self, name, text):
        place = self.lab.directory / "bin"
        place.mkdir(exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
        (place / name).chmod(0o755)
        return {"PATH": f"{place}:{self.lab.cluster.environment['PATH']}"}

    def broken_job(self, find, put):
        """An sbatch that replaces a part of the script of the job, the last argument."""
        return self.program("sbatch", f"""#!/usr/bin/env python3
import os, pathlib, re, sys
script = pathlib.Path(sys.argv[-1])
text, count = re.subn({find!r}, lambda m: {put!r}, script.read_text())
assert count == 1
script.write_text(text)
os.execv("/usr/bin/sbatch", sys.argv)
""")

    def check(self, *words, code=1, env=None):
        """name → finding."""
        text = self.lab.gpuq("slurm", "check", "--json", *words, code=code, env=env)
        left = [path.name for path in self.lab.directory.iterdir() if path.name.startswith(".gpuq-check")]
        assert not left and not self.lab.slurm("squeue", "-h", "-n", "gpuq-check", "-t", "PD,R")
        return {one["name"]: one for one in json.loads(text)["findings"]}

    def problem(self, name, *words, env=None):
        """The message and the advice of the only problem."""
        found = self.check(*words, env=env)
        assert [one["name"] for one in found.values() if one["level"] == "problem"] == [name], found
        return found[name]["words"] + " → " + found[name]["advice"]


@pytest.fixture(name="checker")
def make_checker(lab):
    return Checker(lab)


def test_cluster_of_the_tests_has_notes_only(checker):
    found = checker.check(*GPU, code=0)
    levels = {name: one["level"] for name, one in found.items()}
    assert levels == {"commands": "ok", "controller": "ok", "processes": "note", "address": "ok", "start": "ok", "TCP": "ok", "clock": "ok",
                      "shared": "ok", "locks": "note", "GPUs": "note", "time limit": "ok"}
    assert "proctrack/linuxproc" in found["processes"]["words"] and "proctrack/cgroup" in found["processes"]["advice"]
    assert "a pilot has 9m" in found["time limit"]["words"] or "a pilot has 10m" in found["time limit"]["words"]
    assert not checker.lab.journal.exists()


def test_report_as_text(checker):
    text = checker.lab.gpuq("slurm", "check", *GPU)
    assert "  ok       TCP             the node has connected to 127.0.0.1\n" in text and text.endswith("0 problems, 3 notes\n")


def test_settings_of_the_configuration_are_used(checker):
    (checker.lab.directory / "gpuq.yaml").write_text("slurm: --partition=nowhere\n", encoding="utf-8")
    assert "invalid partition" in checker.problem("sbatch")


def test_without_sbatch(checker):
    told = checker.problem("commands", env={"PATH": str(checker.lab.cluster.place / "bin")})
    assert "not found in PATH: sbatch" in told and "login node" in told


def test_controller_that_does_not_answer(checker):
    conf = checker.lab.cluster.environment["SLURM_CONF"]
    other = checker.lab.directory / "slurm.conf"
    text = pathlib.Path(conf).read_text(encoding="utf-8")
    other.write_text("\n".join("SlurmctldPort=1" if row.startswith("SlurmctldPort") else row for row in text.splitlines())
                     + "\nSlurmctldTimeout=10\nMessageTimeout=1\n", encoding="utf-8")
    told = checker.lab.gpuq("slurm", "check", code=1, env={"SLURM_CONF": str(other)})
    assert "problem  controller      does not answer: " in told and "slurmctld" in told


def test_with_cgroup_there_is_no_note(checker):
    env = checker.program("scontrol", "#!/bin/sh\n/usr/bin/scontrol \"$@\" | sed 's,proctrack/linuxproc,proctrack/cgroup,'\n")
    assert checker.check(*GPU, code=0, env=env)["processes"]["level"] == "ok"


def test_no_tcp_from_the_node(checker):
    # No process listens on port 1.
    told = checker.problem("TCP", *GPU, env=checker.broken_job(r" 127\.0\.0\.1 \d+\n", " 127.0.0.1 1\n"))
    assert "the node cannot connect to 127.0.0.1" in told and "Connection refused" in told and "--slurm-address" in told


def test_journal_is_not_on_a_shared_file_system(checker):
    told = checker.problem("shared", *GPU, env=checker.broken_job(r"node-check \S+", "node-check /nowhere"))
    assert "the node does not see" in told and "--jobs-file" in told


def test_node_that_reaches_neither_network_nor_files_is_a_problem(checker):
    told = checker.problem("network and files", *GPU, env=checker.broken_job(r"node-check \S+ \S+ \d+", "node-check /nowhere 127.0.0.1 1"))
    assert "neither connect to" in told


def test_locks_that_do_not_work_between_hosts(checker):
    env = checker.broken_job("\nexec", f"\nLD_PRELOAD={BUILD}/tests/slurm/libno_locks.so exec")
    told = checker.problem("locks", *GPU, env=env)
    assert "the node does not see a lock of this host" in told and "local_lock" in told


@pytest.mark.parametrize("seconds, word", [(3600, "ahead"), (-60, "behind")])
def test_clock_of_the_node_is_wrong(checker, seconds, word):
    (checker.lab.directory / "wrong").write_bytes(struct.pack("<q", seconds))
    preload = f"\nCLOCK_FILE={checker.lab.directory}/wrong LD_PRELOAD={BUILD}/tests/cli/libclock.so exec"
    told = checker.problem("clock", *GPU, env=checker.broken_job("\nexec", preload))
    assert word in told and "NTP" in told


def test_driver_and_grant_disagree(checker):
    (checker.lab.directory / "nvml").write_text("card\nuuid=GPU-00000000-0000-0000-0000-000000000000\nname=Card\npci=0:1:0\n"
                                                f"memory={80 << 30} {60 << 30} {20 << 30} 0\nmode=0\n", encoding="utf-8")
    env = checker.broken_job(
        "\nexec", f"\nGPUQ_NVML_LIBRARY={BUILD}/tests/gpu/libnvidia-ml.so.1 FAKE_NVML={checker.lab.directory}/nvml exec")
    told = checker.problem("GPUs", "--slurm", "--gres=gpu:2 --time=10", env=env)
    assert "Slurm has granted 2, but the driver shows 1 of them" in told and "gres.conf" in told


def test_gpuq_is_not_installed_on_the_node(checker):
    told = checker.problem("program", *GPU, env=checker.broken_job(r"\S+ node-check", "/nowhere/gpuq-slurm node-check"))
    assert "cannot be executed" in told


@pytest.mark.parametrize("options, known", [("--timeout=30m", "its --timeout"), ("", None)])
def test_time_limit_is_shorter_than_the_longest_job(checker, options, known):
    checker.lab.gpuq("add", "--no-start", "--jobs-file", "jobs.jsonl", *options.split(), "true")
    if known:
        told = checker.problem("longest job", *GPU)
        assert "job 1 takes up to 30m" in told and known in told and "--time" in told
    else:
        checker.check(*GPU, code=0)


def test_longest_job_is_known_from_similar_ones(checker):
    """The same command with another number took half an hour. With one sample, twice that is assumed."""
    text = checker.lab.directory / "jobs.jsonl"
    when = "2026-11-15T21:42:19.599Z"
    text.write_bytes(sealing.journal({"event": "add", "id": 1, "time": when, "command": "train --seed 1"},
                                     {"event": "start", "id": 1, "attempt": 1, "time": when, "pid": 1},
                                     {"event": "end", "id": 1, "attempt": 1, "time": "2026-11-15T22:12:19.599Z", "status": "completed", "exit_code": 0,
                                      "duration": 1800},
                                     {"event": "add", "id": 2, "time": when, "command": "train --seed 2"}))
    if checker.lab.cluster.owner():
        os.chown(text, *checker.lab.cluster.owner())
    text.chmod(0o600)
    told = checker.problem("longest job", *GPU)
    assert "job 2 takes up to 1h" in told and "as similar ones did" in told and "--time" in told


def test_partition_allows_less_time(checker):
    told = checker.problem("start", "--slurm", "--partition=short --time=10", "--wait", "2s")
    assert "PartitionTimeLimit" in told and "ask for less time" in told


def test_limit_of_the_account(checker):
    env = checker.program("sacctmgr", "#!/bin/sh\ncase \"$*\" in *MaxJobs,*) echo '4|8||'; echo '|||' ;; esac\n")
    told = checker.problem("account", *GPU, "--max-nodes", "5", env=env)
    assert "your account may have 4 jobs at a time, --max-nodes is 5" in told
    assert checker.check(*GPU, "--max-nodes", "4", code=0, env=env)["account"]["level"] == "ok"


@pytest.mark.parametrize("options, name", [("", "normal"), (" --qos=fast", "fast")])
def test_limit_of_the_qos(checker, options, name):
    """The default QOS, and the QOS in the options. sbatch does not know their limits, because this Slurm has no accounting."""
    env = checker.program("sacctmgr", f"""#!/bin/sh
case "$*" in
*qos*where*name={name}\\ *) echo '|3||' ;;
*DefaultQOS*) echo normal ;;
*) echo '|||' ;;
esac
""")
    told = checker.problem("account", "--slurm", "--gres=gpu:1 --time=10" + options, "--max-nodes", "5", env=env)
    assert f"your QOS {name} may have 3 jobs at a time, --max-nodes is 5" in told and "MaxSubmitJobs" in told


def test_pending_for_a_limit_says_so(checker):
    env = checker.program("scontrol", "#!/bin/sh\n/usr/bin/scontrol \"$@\" | sed 's,Reason=[A-Za-z]*,Reason=QOSMaxGRESPerUser,'\n")
    told = checker.problem("start", "--slurm", "--gres=gpu:1 --begin=now+1hour", "--wait", "2s", env=env)
    assert "QOSMaxGRESPerUser" in told and "limit of your account" in told


def test_interrupted_check_leaves_nothing(checker):
    process = subprocess.Popen(["gpuq", "slurm", "check", "--slurm", "--begin=now+1hour"], cwd=checker.lab.directory,
                               env=checker.lab.cluster.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               **checker.lab.cluster.identity())
    checker.lab.until(lambda: checker.lab.slurm("squeue", "-h", "-n", "gpuq-check", "-t", "PD"), "the job")
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 130
    assert not checker.lab.slurm("squeue", "-h", "-n", "gpuq-check", "-t", "PD,R")
    assert not list(checker.lab.directory.glob(".gpuq-check*"))


def test_directory_that_others_can_write_is_refused(checker):
    checker.lab.directory.chmod(0o777)
    try:
        told = checker.problem("directory", *GPU)
        assert "can be written by everybody" in told and "--trust" in told and "--jobs-file" in told
        assert checker.check(*GPU, "--trust", code=0)["shared"]["level"] == "ok"
    finally:
        checker.lab.directory.chmod(0o700)


def test_swapped_directory_is_not_written(checker):
    """With --trust others can replace the directory: here with one that others can enter, with a link to a file of the user."""
    checker.lab.directory.chmod(0o777)
    (checker.lab.directory / "mine").write_text("precious", encoding="utf-8")
    env = checker.program("sbatch", """#!/usr/bin/env python3
import os, pathlib, subprocess, sys
made = pathlib.Path(sys.argv[-1]).parent
code = subprocess.run(["/usr/bin/sbatch", "--hold", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
token = (made / "greeting").read_text()
made.rename(made.with_name("moved"))
made.mkdir()
made.chmod(0o755)
(made / "greeting").write_text(token)
for name in ("answer.new", "node.lock"):
    (made / name).symlink_to(made.with_name("mine"))
subprocess.run(["scontrol", "release", code.stdout.strip()], check=True)
print(code.stdout, end="")
""")
    try:
        found = json.loads(checker.lab.gpuq("slurm", "check", "--json", "--trust", *GPU, code=1, env=env))["findings"]
    finally:
        checker.lab.directory.chmod(0o700)
    assert "Operation not permitted" in [one["words"] for one in found if one["name"] == "shared"][0], found
    assert (checker.lab.directory / "mine").read_text(encoding="utf-8") == "precious"


def test_token_is_in_no_arguments(checker):
    """All users of a host can read the arguments of processes: of sbatch here, of node-check on the node."""
    env = checker.program("sbatch", """#!/usr/bin/env python3
import json, os, pathlib, sys
script = pathlib.Path(sys.argv[-1])
with open("seen", "w") as file:
    json.dump([(script.parent / "greeting").read_text(), script.stat().st_mode & 0o777, script.read_text(), sys.argv], file)
os.execv("/usr/bin/sbatch", sys.argv)
""")
    checker.check(*GPU, code=0, env=env)
    token, mode, script, words = json.loads((checker.lab.directory / "seen").read_text(encoding="utf-8"))
    commands = [row for row in script.splitlines() if row.startswith("exec ")]
    assert len(token) == 32 and mode == 0o600 and len(commands) == 1
    assert token in script and token not in commands[0] and token not in " ".join(words)


def test_strangers_who_connect_do_not_disturb(checker):
    """One connection sends nothing, another a byte now and then, the third a report without the token."""
    env = checker.program("sbatch", """#!/usr/bin/env python3
import os, pathlib, re, socket, sys, time
host, port = re.search(r" (\\S+) (\\d+)\\n$", pathlib.Path(sys.argv[-1]).read_text()).groups()
silent, slow, wrong = (socket.create_connection((host, int(port))) for _ in range(3))
wrong.sendall(b"token x\\nnode evil\\nfolder 0\\n")
wrong.close()
if os.fork() == 0:
    for fd in (0, 1, 2):
        os.close(fd)
    try:
        while True:
            slow.sendall(b"t")
            time.sleep(0.2)
    finally:
        os._exit(0)
os.execv("/usr/bin/sbatch", sys.argv)
""")
    found = checker.check(*GPU, code=0, env=env)
    assert found["TCP"]["level"] == "ok" and "evil" not in json.dumps(found)
