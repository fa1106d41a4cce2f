#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the job queue with xargs and Python's json, in one run.

    bench/job_queue.py GPUQ [--jobs N] [--json]

Prints jobs per second of `gpuq run` with two at a time, journal, logs and keepers included,
and of `xargs -P2`, GNU parallel, nq and task-spooler if they are installed; the time from
a job's end to its successor's start; how long enqueuing and `status` take, and how much
memory the runner uses per queued job.
"""
import argparse
import array
import fcntl
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from sealed_lines import sealed_lines


def timed_and_used(*command, **options):
    """Seconds of wall clock and of processor time; other work on the machine disturbs the latter less."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    taken = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def timed(*command, **options):
    return timed_and_used(*command, **options)[0]


def used(*command, **options):
    return timed_and_used(*command, **options)[1]


class Folders:
    """
    New folders in which files are created at the usual speed; all are removed at the very end.

    ext4 without a journal does not reuse an inode for 60 to 300 seconds after it was freed: recently_deleted() in
    fs/ext4/ialloc.c. To create a file it scans all such inodes of the block group, which takes 0.1
    to 1.7 ms instead of 0.02 after thousands were removed, by an earlier run of this benchmark or
    by other processes. gpuq creates a log for each job and xargs does not, so the benchmark would
    measure this instead of the queue.
    """

    def __init__(self):
        self.top = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # keepers outlive their runner
        self.spread()

    def spread(self):
        """Makes ext4 put each folder below into another block group, as `chattr +T` does."""
        get_flags, set_flags, topdir = 0x80086601, 0x40086602, 0x00020000
        fd = os.open(self.top.name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            flags = array.array("l", [0])
            fcntl.ioctl(fd, get_flags, flags)
            flags[0] |= topdir
            fcntl.ioctl(fd, set_flags, flags)
        except OSError:
            pass  # another file system
        finally:
            os.close(fd)

    def new(self):
        """A folder with a random name: ext4 chooses the block group by its hash, and the next run must get other groups."""
        return pathlib.Path(tempfile.mkdtemp(dir=self.top.name))

    def remove(self):
        self.top.cleanup()


def new_file_us(directory, files=200):
    """Median time in microseconds to create an empty file, as for each job's log."""
    taken = []
    for n in range(files):
        start = time.perf_counter()
        os.close(os.open(directory / f"new-{n}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6


def jobs_per_second(gpuq, jobs, folders, rounds=5):
    """Median rates of gpuq and xargs over alternating rounds; median ratios of wall clock and of processor time."""
    ours, xargs, creating = [], [], []
    for _ in range(rounds):
        path = folders.new()
        creating.append(new_file_us(path))
        (path / "commands.txt").write_text("".join(f"true {n}\n" for n in range(jobs)))
        ours.append(timed_and_used(gpuq, "run", "--quiet", "--gpus", "sim:2", "--jobs-per-gpu", "1", cwd=path))
        latency = successor_latency(path / "jobs.jsonl")
        xargs.append(timed_and_used("xargs", "-P2", "-I{}", "sh", "-c", "true {}", input=lines(jobs), cwd=path))
    rates = [jobs / statistics.median(clock for clock, _ in side) for side in (ours, xargs)]
    quotients = [statistics.median(theirs[n] / own[n] for own, theirs in zip(ours, xargs)) for n in range(2)]
    return rates, quotients, latency, max(creating)


def successor_latency(journal):
    """Median milliseconds from each end to the next start on the same GPU. The journal has millisecond precision."""
    gpu_of, ended, waits = {}, {}, []
    for line in journal.open():
        event = json.loads(line)
        if event["event"] not in ("start", "end"):
            continue
        moment = float(event["time"][17:23]) * 1000 + int(event["time"][14:16]) * 60000
        if event["event"] == "start":
            gpu = gpu_of[event["id"]] = event["gpus"][0]
            if gpu in ended:
                waits.append(moment - ended[gpu])
        else:
            ended[gpu_of[event["id"]]] = moment
    return sorted(waits)[len(waits) // 2] if waits else None


def lines(jobs):
    return "".join(f"{n}\n" for n in range(jobs)).encode()


def parallel(jobs, directory):
    """GNU parallel, with its own job log."""
    return timed("parallel", "-j2", "--joblog", directory / "log", "true", "{}", input=lines(jobs))


def nq(jobs, directory):
    """Two queues, because each runs one job at a time."""
    queues = [{**os.environ, "NQDIR": f"{directory}/{n}"} for n in range(2)]
    start = time.perf_counter()
    adding = [subprocess.Popen(["xargs", "-I{}", "nq", "-q", "true", "{}"], env=queue, stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL) for queue in queues]
    for process in adding:
        process.stdin.write(lines(jobs // 2))
        process.stdin.close()
    for process, queue in zip(adding, queues):
        process.wait()
        subprocess.run(["nq", "-w"], env=queue, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def tsp(jobs, directory):
    """task-spooler, with two slots."""
    queue = {**os.environ, "TS_SOCKET": f"{directory}/socket", "TMPDIR": directory, "TS_MAXFINISHED": "10"}
    subprocess.run(["tsp", "-S", "2"], env=queue, check=True)
    start = time.perf_counter()
    subprocess.run(["xargs", "-I{}", "tsp", "true", "{}"], env=queue, input=lines(jobs), check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["tsp", "-w"], env=queue, check=True, stdout=subprocess.DEVNULL)
    taken = time.perf_counter() - start
    subprocess.run(["tsp", "-K"], env=queue, check=True)
    return taken


# The goals: gpuq's jobs per second as multiples of each alternative's.
OTHERS = {"GNU parallel --joblog": ("parallel", parallel, 3.5), "nq": ("nq", nq, 2.5), "task-spooler": ("tsp", tsp, 1.8)}


def others_per_second(jobs, folders):
    return {name: jobs / measure(jobs, folders.new()) for name, (program, measure, _) in OTHERS.items()
            if shutil.which(program)}


def finished_journal(path, jobs, build):
    with sealed_lines(path, build) as file:
        file.write('{"event":"journal","version":2,"queue":"0123456789abcdef0123456789abcdef","generation":1,"time":"2026-11-15T22:12:54.350Z"}\n')
        for n in range(1, jobs + 1):
            file.write(f'{{"event":"add","id":{n},"time":"2026-11-15T22:12:54.350Z","command":"python train.py --seed {n}",'
                       '"cwd":"/home/alice/project","env":"068a0f66e157f7ed3346164a355d50d7"}\n'
                       f'{{"event":"start","id":{n},"attempt":1,"time":"2026-11-15T22:12:54.380Z","gpus":[1],"pid":31268,'
                       f'"keeper":"k3be80c27795d","log":"/home/alice/project/logs/job_20261115_221254_{n}.log"}}\n'
                       f'{{"event":"end","id":{n},"attempt":1,"time":"2026-11-15T22:12:55.380Z","status":"completed",'
                       '"exit_code":0,"duration":1.012}\n')


def status_beside_python(gpuq, folders, jobs=100_000, rounds=5):
    """Processor time of both, the minimum of alternating rounds."""
    program = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
    path = folders.new() / "jobs.jsonl"
    finished_journal(path, jobs, pathlib.Path(gpuq).parent)
    pairs = [(used(gpuq, "status", "--jobs-file", path), used(sys.executable, "-c", program, path)) for _ in range(rounds)]
    return min(ours for ours, _ in pairs), min(python for _, python in pairs)


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024


def runner_memory(gpuq, directory):
    """Memory of a runner that has read the queue, which is certain once it has run a job without a GPU."""
    runner = subprocess.Popen([gpuq, "run", "--keep", "--quiet", "--gpus", "sim:1"], cwd=directory, stdout=subprocess.DEVNULL)
    job = subprocess.run([gpuq, "add", "--no-start", "--num-gpus", "0", "true"], cwd=directory, check=True,
                         capture_output=True, text=True).stdout.strip()
    subprocess.run([gpuq, "wait", job], cwd=directory, check=True)
    taken = resident(runner.pid)
    runner.terminate()
    runner.wait()
    return taken


def enqueue(gpuq, jobs, folders):
    """Seconds to add all jobs, one more job, and one job to an empty queue; the runner's bytes per job beyond its command."""
    os.environ["GPUQ_JOBS_FILE"] = "./jobs.jsonl"
    directory = folders.new()
    first = min(timed(gpuq, "add", "--no-start", "true", cwd=directory) for _ in range(5))
    empty = runner_memory(gpuq, directory)
    directory = folders.new()
    commands = [f"python train.py --seed {n}\n" for n in range(jobs)]
    text = "".join(commands).encode()
    # More memory than the GPU has, so the jobs stay in the queue.
    many = timed(gpuq, "add", "--no-start", "--mem", "900G", "-", input=text, cwd=directory)
    one = min(timed(gpuq, "add", "--no-start", "--mem", "900G", "true", cwd=directory) for _ in range(5))
    full = runner_memory(gpuq, directory)
    return many, one, first, (full - empty - len(text)) / jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuq")
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--enqueue", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    gpuq = str(pathlib.Path(options.gpuq).resolve())
    folders = Folders()
    (ours, xargs), (quotient, quotient_cpu), latency, creating = jobs_per_second(gpuq, options.jobs, folders)
    others = others_per_second(min(options.jobs, 500), folders)
    status, python = status_beside_python(gpuq, folders)
    many, one, first, memory = enqueue(gpuq, options.enqueue, folders)
    folders.remove()
    figures = {"jobs_per_s": ours, "xargs_per_s": xargs, "of_xargs": quotient, "of_xargs_cpu": quotient_cpu, "others_per_s": others,
               "new_file_us": creating, "end_to_start_p50_ms": latency, "status_100k_s": status, "status_of_python": status / python,
               "enqueued": options.enqueue, "enqueue_s": many, "bytes_per_job": memory,
               "add_ms": first * 1000, "add_to_full_queue_ms": one * 1000}
    if options.json:
        print(json.dumps(figures))
        return

    def say(what, figure, rest):
        print(f"{what:26} {figure:>14}   {rest}")
    say("true, two at a time", f"{ours:.0f} jobs/s", f"{quotient:.2f} of xargs -P2, {xargs:.0f} (goal: 0.85); by processor time {quotient_cpu:.2f}")
    say("a new file there", f"{creating:.0f} µs", "gpuq makes a log for each job, xargs makes none")
    for name, rate in others.items():
        say(name, f"{rate:.0f} jobs/s", f"gpuq has {ours / rate:.1f} times that (goal: {OTHERS[name][2]})")
    say("end to successor, p50", f"{latency:.1f} ms", "(goal: below 2)")
    say("status of 100,000 jobs", f"{status * 1000:.0f} ms CPU", f"{status / python:.3f} of Python's json (goal: 0.1, 100 ms)")
    say(f"enqueue {options.enqueue:,}", f"{many:.2f} s", "(goal: a million in 5)")
    say("runner, per queued job", f"{memory:.0f} bytes", "beyond its command (goal: below 300)")
    say("add to an empty queue", f"{first * 1000:.1f} ms", f"to the queue above {one * 1000:.1f} ms")


if __name__ == "__main__":
    main()
