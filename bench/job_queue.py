#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The job queue beside xargs and Python's json, in one run.

    bench/job_queue.py GPUQ [--jobs N] [--json]

Prints jobs per second of `gpuq run` with two at a time, journal, logs and keepers included,
and of `xargs -P2`; the time from a job's end to its successor's start; how long
enqueuing and `status` take. Other queues are measured too where they are installed.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


def timed(*command, **options):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    return time.perf_counter() - start


def used(*command, **options):
    """Processor time in user mode: what other work on the machine disturbs least."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def jobs_per_second(gpuq, jobs, rounds=3):
    """The best of some rounds of each, in turn."""
    ours, xargs = [], []
    # Removed at the very end: ext4 is slow to make files for seconds after others were removed.
    directory = tempfile.TemporaryDirectory()
    for turn in range(rounds):
        path = pathlib.Path(directory.name) / str(turn)
        path.mkdir()
        (path / "commands.txt").write_text("".join(f"true {n}\n" for n in range(jobs)))
        ours.append(timed(gpuq, "run", "--quiet", "--gpus", "sim:2", "--jobs-per-gpu", "1", cwd=path))
        latency = successor_latency(path / "jobs.jsonl")
        numbers = "".join(f"{n}\n" for n in range(jobs)).encode()
        xargs.append(timed("xargs", "-P2", "-I{}", "sh", "-c", "true {}", input=numbers))
    return jobs / min(ours), jobs / min(xargs), latency, directory


def successor_latency(journal):
    """Milliseconds from each end to the next start on the same GPU: the median. Times there have milliseconds."""
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


def parallel(jobs):
    if not shutil.which("parallel"):
        return None
    numbers = "".join(f"{n}\n" for n in range(jobs)).encode()
    with tempfile.TemporaryDirectory() as directory:
        return jobs / timed("parallel", "-j2", "--joblog", f"{directory}/log", "true", "{}", input=numbers)


def finished_journal(path, jobs):
    with path.open("w") as file:
        file.write('{"event":"journal","version":1,"time":"2026-11-15T22:12:54.350Z"}\n')
        for n in range(1, jobs + 1):
            file.write(f'{{"event":"add","id":{n},"time":"2026-11-15T22:12:54.350Z","command":"python train.py --seed {n}",'
                       '"cwd":"/home/alice/project","env":"068a0f66e157f7ed3346164a355d50d7"}\n'
                       f'{{"event":"start","id":{n},"attempt":1,"time":"2026-11-15T22:12:54.380Z","gpus":[1],"pid":31268,'
                       f'"keeper":"k3be80c27795d","log":"/home/alice/project/logs/job_20261115_221254_{n}.log"}}\n'
                       f'{{"event":"end","id":{n},"attempt":1,"time":"2026-11-15T22:12:55.380Z","status":"completed",'
                       '"exit_code":0,"duration":1.012}\n')


def status_beside_python(gpuq, jobs=100_000, rounds=3):
    program = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "jobs.jsonl"
        finished_journal(path, jobs)
        ours = min(used(gpuq, "status", "--jobs-file", path) for _ in range(rounds))
        python = min(used(sys.executable, "-c", program, path) for _ in range(rounds))
    return ours, python


def enqueue(gpuq, jobs):
    with tempfile.TemporaryDirectory() as directory:
        lines = "".join(f"python train.py --seed {n}\n" for n in range(jobs)).encode()
        many = timed(gpuq, "add", "--no-start", "-", input=lines, cwd=directory)
        one = min(timed(gpuq, "add", "--no-start", "true", cwd=directory) for _ in range(5))
    with tempfile.TemporaryDirectory() as directory:
        first = min(timed(gpuq, "add", "--no-start", "true", cwd=directory) for _ in range(5))
    return many, one, first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuq")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--enqueue", type=int, default=200_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    gpuq = str(pathlib.Path(options.gpuq).resolve())
    ours, xargs, latency, directory = jobs_per_second(gpuq, options.jobs)
    other = parallel(min(options.jobs, 500))
    status, python = status_beside_python(gpuq)
    many, one, first = enqueue(gpuq, options.enqueue)
    figures = {"jobs_per_s": ours, "xargs_per_s": xargs, "of_xargs": ours / xargs, "parallel_per_s": other,
               "end_to_start_p50_ms": latency, "status_100k_s": status, "status_of_python": status / python,
               "enqueued": options.enqueue, "enqueue_s": many, "add_ms": first * 1000, "add_to_full_queue_ms": one * 1000}
    directory.cleanup()
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{'true, two at a time':28} {ours:8.0f} jobs/s   {ours / xargs:.2f} of xargs -P2 ({xargs:.0f})")
    if other:
        print(f"{'GNU parallel --joblog':28} {other:8.0f} jobs/s   gpuq has {ours / other:.1f} times that")
    print(f"{'end to successor, p50':28} {latency:8.1f} ms")
    print(f"{'status of 100,000 jobs':28} {status * 1000:8.0f} ms CPU   {status / python:.2f} of Python's json")
    print(f"{f'enqueue {options.enqueue:,}':28} {many:8.2f} s")
    print(f"{'add, and to such a queue':28} {first * 1000:8.1f} ms  {one * 1000:.1f} ms")


if __name__ == "__main__":
    main()
