# SPDX-License-Identifier: MIT
"""Queues of other users: limits on the cost of reading them, and on what they can display."""
import fcntl
import json
import os
import pathlib
import signal
import socket
import urllib.parse
import urllib.request

import pytest
import sealing
from users import LIMIT, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users
TIME = "2026-11-15T21:42:19.599Z"
HOST = socket.gethostname()
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
GPU = '{"known":0,"health":0,"vendor":1,"index":0,"mig":-1,"total":0}'


class Queue:
    """A queue of `user` that everybody can read, written without gpuq."""

    def __init__(self, machine, user):
        self.directory = machine.project(user)
        self.user = user
        self.folder = self.directory / "jobs.jsonl.d"
        self.folder.mkdir()
        self.give(self.folder, 0o755)

    def give(self, path, mode=0o644):
        os.chown(path, self.user.uid, self.user.gid)
        path.chmod(mode)

    def write(self, name, data):
        path = self.directory / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        self.give(path)
        return path

    def journal(self, *events):
        self.write("jobs.jsonl", sealing.journal(*events))

    def lines(self, lines):
        """Many lines quickly: the lines of a journal of the original gpu_dispatch have no seals."""
        self.write("jobs.jsonl", '{"command":"x","status":"pending"}\n' + "".join(f"{line}\n" for line in lines))

    def schedule(self, pid=1, holders="", claims="", words="", gpus=GPU, nodes=""):
        parts = f'"gpus":[{gpus}],"claims":[{claims}],"holders":[{holders}],"reservation":{{"id":0,"gpus":[]}}{nodes}'
        settings = '{"min_free_mem_mb":-1,"jobs_per_gpu":1}'
        self.write("jobs.jsonl.d/schedule", f'{{"version":1,"pid":{pid},"host":"{HOST}","pause":{json.dumps(words)},'
                   f'"note":{json.dumps(words)},"scheduler":{{"settings":{settings},{parts}}}}}')


@pytest.fixture(name="queue")
def make_queue(machine, other):
    return Queue(machine, other)


def add(number):
    return {"event": "add", "id": number, "time": TIME, "command": "x"}


def read(user, queue, *words, seconds=5):
    """Reads with a limit of processor time."""
    return user.run("prlimit", f"--cpu={seconds}", "gpuq", *words, "--jobs-file", queue.directory / "jobs.jsonl", cwd="/")


def test_counters_do_not_keep_a_reader_busy(owner, queue):
    queue.journal(add(1), add(2))
    body = f"gpuq-counters-2 {sealing.QUEUE} {BOOT} {HOST} 1 1 1 1 1 10 {2 ** 64 - 1} 1 0".encode()
    queue.write("jobs.jsonl.d/append.lock", body + b" %08x\n" % sealing.crc32c(body))
    result = read(owner, queue, "status")
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "2 jobs: 2 unknown")


def test_why_prints_no_control_sequences(owner, queue):
    queue.journal(add(1))
    line = f"pid {os.getpid()} host {HOST} min_free_mem_mb -1 jobs_per_gpu 1 poll_interval_ms 1000 machine x gpus 0\n"
    path = queue.write("jobs.jsonl.d/runner.lock", line)
    claim = json.dumps({"id": 7, "user": 1, "pid": 1, "bytes": 10, "alone": True, "declared": True, "gpus": [0], "queue": "\x1b[2Jq"})
    queue.schedule(pid=os.getpid(), claims=claim, words="\x1b]0;forged\x07 \u202e")
    with open(path, "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        result = read(owner, queue, "why", "1")
    assert result.returncode == 0 and "forged" in result.stdout and "queue \ufffd[2Jq" in result.stdout
    assert not any(letter in result.stdout for letter in "\x1b\x07\u202e")


def test_holders_of_a_schedule_are_limited(owner, queue):
    queue.journal(add(1))
    queue.schedule(holders=",".join(f'{{"id":{number}}}' for number in range(10, 400_000)))
    assert read(owner, queue, "status").stdout.endswith("1 job: 1 pending\n")


def test_claims_of_a_schedule_are_not_compared_with_all_gpus(owner, queue):
    queue.journal(add(1))
    claim = json.dumps({"id": 7, "user": 1, "pid": 1, "bytes": 10, "alone": False, "declared": True, "gpus": list(range(110)), "queue": "q"})
    queue.schedule(gpus=",".join([GPU] * 4096), claims=",".join([claim] * 25_000))
    assert read(owner, queue, "status").stdout.endswith("1 job: 1 pending\n")


def test_many_running_jobs_are_not_compared_with_each_other(owner, queue):
    queue.lines(f'{{"event":"add","id":{number},"time":"{TIME}","command":"x"}}\n'
                f'{{"event":"start","id":{number},"time":"{TIME}","attempt":1,"gpus":[0]}}' for number in range(2, 150_000))
    queue.schedule()
    assert read(owner, queue, "status").returncode == 0
    assert read(owner, queue, "why", "1").returncode == 0


def serves(user, queue, seconds=5):
    """Whether gpuq web, with a limit of processor time, has read the queue."""
    process = user.start("prlimit", f"--cpu={seconds}", "gpuq", "web", "--listen", "127.0.0.1:0", "--jobs-file", queue.directory / "jobs.jsonl", cwd="/")
    try:
        address = urllib.parse.urlsplit(process.stdout.readline().strip())
        if not address.port:
            return False
        request = urllib.request.Request(f"http://127.0.0.1:{address.port}/metrics", headers={"Authorization": "Bearer " + address.fragment.removeprefix("token=")})
        with urllib.request.urlopen(request, timeout=LIMIT) as response:
            return response.status == 200
    except OSError:
        return False
    finally:
        process.kill()
        process.wait()


def test_gpus_of_many_nodes_are_counted_in_little_time(owner, queue):
    gpus = list(range(100))
    queue.lines(f'{{"event":"pilot","pilot":"p{n}","time":"{TIME}","slurm_job":{n},"node":"n{n}","epoch":1}}\n'
                f'{{"event":"add","id":{n},"time":"{TIME}","command":"x"}}\n'
                f'{{"event":"start","id":{n},"time":"{TIME}","attempt":1,"gpus":{gpus},"pilot":"p{n}","epoch":1}}\n'
                f'{{"event":"end","id":{n},"time":"{TIME}","attempt":1,"status":"completed","exit_code":0}}' for n in range(2, 3000))
    assert serves(owner, queue)


def test_pending_jobs_are_not_compared_with_all_pairs_of_gpus(owner, queue):
    gpu = '{"known":7291,"health":0,"vendor":1,"index":0,"mig":-1,"total":17179869184,"free":17179869184}'
    queue.schedule(gpus=",".join([gpu] * 4096))
    queue.lines(f'{{"event":"add","id":{number},"time":"{TIME}","command":"x","cwd":"/tmp","num_gpus":{250 - number % 100},"mem_mb":{number}}}' for number in range(2, 4000))
    for words in (("status",), ("why", "7"), ("info", "7")):
        result = owner.run("prlimit", "--cpu=5", "gpuq", *words, "--jobs-file", queue.directory / "jobs.jsonl", cwd="/")
        assert result.returncode == 0, (words, result.returncode, result.stderr)


def test_pending_jobs_are_not_compared_with_all_different_needs(owner, queue):
    gpu = '{"known":7291,"health":0,"vendor":1,"index":0,"mig":-1,"total":17179869184,"free":17179869184}'
    queue.schedule(gpus=",".join([gpu] * 8))
    queue.lines(f'{{"event":"add","id":{number},"time":"{TIME}","command":"x","cwd":"/tmp","cpus":{number}}}' for number in range(2, 60_000))
    for words in (("status",), ("why", "7"), ("info", "7")):
        result = owner.run("prlimit", "--cpu=5", "gpuq", *words, "--jobs-file", queue.directory / "jobs.jsonl", cwd="/")
        assert result.returncode == 0, (words, result.returncode, result.stderr)


def test_nodes_are_not_compared_with_all_running_jobs(owner, queue):
    queue.lines([f'{{"event":"coordinator","time":"{TIME}","epoch":1,"host":"{HOST}"}}',
                 f'{{"event":"pilot","pilot":"p","time":"{TIME}","slurm_job":1,"node":"busy","epoch":1}}',
                 *(f'{{"event":"add","id":{n},"time":"{TIME}","command":"x"}}\n'
                   f'{{"event":"start","id":{n},"time":"{TIME}","attempt":1,"gpus":[0],"pilot":"p","epoch":1}}' for n in range(2, 80_000))])
    path = queue.write("jobs.jsonl.d/runner.lock", f"pid {os.getpid()} host {HOST} min_free_mem_mb -1 jobs_per_gpu 1 poll_interval_ms 1000 machine x gpus 0\n")
    nodes = ",".join(f'{{"name":"n{n}","usable":false,"cpus":1,"host_bytes":1}}' for n in range(4096))
    queue.schedule(pid=os.getpid(), gpus=",".join([GPU] * 4096), nodes=f',"nodes":[{nodes}],"gpu_nodes":{list(range(1, 4097))}')
    with open(path, "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        assert serves(owner, queue)


def test_many_retries_are_read_in_linear_time(owner, queue):
    queue.lines([f'{{"event":"add","id":2,"time":"{TIME}","command":"x"}}'] + [
        f'{{"event":"start","id":2,"time":"{TIME}","attempt":{number},"gpus":[0]}}\n'
        f'{{"event":"end","id":2,"time":"{TIME}","attempt":{number},"status":"failed"}}\n'
        f'{{"event":"retry","id":2,"time":"{TIME}"}}' for number in range(1, 100_000)])
    assert read(owner, queue, "status").stdout.endswith("2 jobs: 2 pending\n")


def test_dependencies_are_limited(owner, queue):
    after = ",".join(["1"] * 1_000_000)
    queue.lines(f'{{"event":"add","id":{number},"time":"{TIME}","command":"x","after":[{after}]}}' for number in range(2, 14))
    result = read(owner, queue, "status")
    assert result.returncode == 1 and "its jobs have too many dependencies" in result.stderr


def test_dependencies_of_the_own_queue_are_not_limited(machine, owner):
    queue = Queue(machine, owner)
    after = ",".join(["1"] * 1_000_000)
    queue.lines(f'{{"event":"add","id":{number},"time":"{TIME}","command":"x","after":[{after}]}}' for number in range(2, 14))
    assert read(owner, queue, "status").stdout.endswith("13 jobs: 13 pending\n")


def test_report_with_many_gpus(owner, queue):
    queue.lines(f'{{"event":"add","id":{number},"time":"{TIME}","command":"x"}}\n'
                f'{{"event":"start","id":{number},"time":"{TIME}","attempt":1,"gpus":[{",".join(str(100 * number + k) for k in range(100))}]}}\n'
                f'{{"event":"end","id":{number},"time":"{TIME}","attempt":1,"status":"failed"}}' for number in range(2, 3000))
    result = read(owner, queue, "report", "-o", "-")
    assert result.returncode == 0 and len(result.stdout) < 10_000_000


def test_report_with_samples_of_many_gpus(owner, queue):
    queue.journal(add(1))
    gpus = ",".join(f'{{"gpu":{number},"util":5}}' for number in range(300_000))
    queue.write("jobs.jsonl.d/samples.jsonl", f'{{"time":1794930000000,"gpus":[{gpus}]}}\n')
    assert read(owner, queue, "report", "-o", "-").returncode == 0


@pytest.mark.parametrize("words", [("complete", "--", "cancel", ""), ("pause",), ("cancel", "--all"), ("cancel", "name"), ("retry", "--failed")])
def test_huge_journal_of_others_is_refused_before_it_is_read(owner, queue, words):
    queue.write("jobs.jsonl", b'{"command":"x","status":"pending"}\n' * 5_000_000)
    result = owner.run("prlimit", "--cpu=1", "gpuq", *words, cwd=queue.directory)
    if words[0] == "complete":
        assert (result.returncode, result.stdout) == (0, ""), result
    else:
        assert result.returncode == 2 and "it belongs to another user" in result.stderr, result


def test_cost_of_a_launch_of_another_user_is_limited(owner, queue):
    """The limit still applies while the report is written to a full pipe."""
    run = f'{{"event":"run","version":1,"time":"{TIME}"}}\n'
    failed = "".join(f'{{"event":"failed","file":"{number}","gpu":0,"processing_seconds":1,"error":"{"x" * 100}","time":"{TIME}"}}\n' for number in range(5000))
    queue.write("launch.jsonl", run + failed)
    for user, limited in ((owner, True), (queue.user, False)):
        process = user.start("gpuq", "report", "--launch", queue.directory, "-o", "-", cwd="/")
        process.stdout.read(1)
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        caught, = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
        assert bool(caught & 1 << signal.SIGXCPU - 1) == limited, status
        process.communicate(timeout=LIMIT)
        assert process.returncode == 0


@pytest.mark.parametrize("link", ["folder", "file"])
def test_report_of_a_launch_follows_no_link_of_others(machine, owner, other, link):
    output = owner.home / f"output-{link}"
    output.mkdir(mode=0o700)
    record = output / "launch.jsonl"
    record.write_text(f'{{"event":"run","time":"{TIME}","version":1,"input":"/in"}}\n'
                      f'{{"event":"done","file":"secret.wav","size":1,"mtime":1,"output":"secret","fingerprint":"{"0" * 32}","time":"{TIME}"}}\n')
    for path in (output, record):
        os.chown(path, owner.uid, owner.gid)
    place = machine.project(other)
    if link == "folder":
        other.sh(f"ln -s {output} shown", place)
    else:
        other.sh(f"mkdir shown; ln -s {record} shown/launch.jsonl", place)
    result = owner.gpuq("report", "--launch", place / "shown", "-o", "-", cwd="/")
    assert result.returncode != 0 and "secret" not in result.stdout and "a symbolic link of another user leads to it" in result.stderr
    assert "secret" in owner.gpuq("report", "--launch", output, "-o", "-", cwd="/").stdout


def test_journal_of_others_in_the_place_of_a_removed_queue_is_not_listed(machine, owner, other):
    place = machine.directory(0o1777)
    owner.sh("mkdir queue; cd queue; gpuq add --no-start true", place)
    assert "1 job" in owner.gpuq("status", "--all", cwd="/").stdout
    owner.sh("rm -r queue", place)
    queue = Queue(machine, other)
    queue.journal(add(1), add(2))
    queue.directory.rename(place / "queue")
    assert owner.gpuq("queues", cwd="/").stdout == ""
    assert "x" not in owner.gpuq("status", "--all", cwd="/").stdout
    assert "queue/jobs.jsonl" in owner.gpuq("queues", cwd="/", env={"GPUQ_TRUST": "1"}).stdout
