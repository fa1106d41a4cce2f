#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures gpuq report and gpuq top with 100,000 jobs in the journal.

    bench/views.py BUILD [--jobs N] [--json]

Compares the report with `gpuq status` of the same journal, and measures the screen of top after one job has changed.
"""
import argparse
import json
import pathlib
import random
import subprocess
import tempfile
import time

from sealed_lines import sealed_lines


def best(rounds, *command):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def moment(ms):
    seconds = ms // 1000
    return f"2026-11-{1 + seconds // 86400:02}T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms % 1000:03}Z"


def write_journal(path, jobs, build, gpus=8):
    """Eight busy GPUs over a day and more; every fiftieth job failed."""
    chance = random.Random(1)
    free = [0] * gpus
    with sealed_lines(path, build) as file:
        file.write(f'{{"event":"journal","version":2,"queue":"0123456789abcdef0123456789abcdef","generation":1,"time":"{moment(0)}"}}\n')
        for n in range(1, jobs + 1):
            gpu = min(range(gpus), key=free.__getitem__)
            start = free[gpu] + chance.randrange(2, 2000)
            free[gpu] = start + chance.randrange(100, 12000)
            end = '"failed","exit_code":1' if n % 50 == 0 else '"completed","exit_code":0'
            file.write(f'{{"event":"add","id":{n},"time":"{moment(0)}","command":"python train.py --seed {n}","cwd":"/home/alice"}}\n'
                       f'{{"event":"start","id":{n},"attempt":1,"time":"{moment(start)}","gpus":[{gpu}],"pid":1,"keeper":"k",'
                       f'"log":"/home/alice/logs/{n}.log"}}\n'
                       f'{{"event":"end","id":{n},"attempt":1,"time":"{moment(free[gpu])}","status":{end},'
                       f'"duration":{(free[gpu] - start) / 1000}}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    gpuq, top = options.build / "gpuq", options.build / "bench" / "top"
    with tempfile.TemporaryDirectory() as directory:
        journal, page = pathlib.Path(directory) / "jobs.jsonl", pathlib.Path(directory) / "report.html"
        write_journal(journal, options.jobs, options.build)
        report = best(3, gpuq, "report", "--jobs-file", journal, "-o", page)
        status = best(3, gpuq, "status", "--jobs-file", journal)
        size = page.stat().st_size
    screen = json.loads(subprocess.run([top, str(options.jobs)], check=True, stdout=subprocess.PIPE, text=True).stdout)
    figures = {"jobs": options.jobs, "report_s": report, "report_bytes": size, "report_of_status": report / status, "top": screen}
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{f'report of {options.jobs:,} jobs':28} {report:8.2f} s   {report / status:.1f} times gpuq status; {size / 1e6:.2f} MB")
    print(f"{'top, one job changed, p90':28} {screen['by_state_ms']:8.1f} ms  by time {screen['by_time_ms']:.1f}, by name"
          f" {screen['by_name_ms']:.1f}, filtered {screen['filtered_ms']:.1f}")


if __name__ == "__main__":
    main()
