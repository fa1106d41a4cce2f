#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares a queue on eight nodes of eight GPUs, one `gpuq run`, and srun steps, in one run. Root only.

    GD_BUILD=BUILD bench/slurm.py [--jobs N] [--rounds N] [--json]

Nodes, network and Slurm are those of the tests (tests/slurm/datacenter.py): all on this machine,
which they share with the jobs.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(SOURCE / "tests/slurm"), str(SOURCE / "tests/cli")]

import datacenter  # noqa: E402
import processes  # noqa: E402
import traces  # noqa: E402

LIMIT = 600
STEPS = 128  # srun steps
WATCHED_S = 20
GOALS = {"ratio to one machine": ("at least", 0.7), "ratio to srun steps": ("at least", 15), "successor, ratio to one machine": ("at most", 3),
         "CPU of an idle coordinator, %": ("at most", 2)}


class Bench:
    def __init__(self, center):
        self.center, self.count = center, 0

    def queue(self, *commands):
        """A directory with these commands."""
        self.count += 1
        directory = self.center.directory(f"queue{self.count}")
        (self.center.real / f"queue{self.count}/commands.txt").write_text("".join(command + "\n" for command in commands), encoding="utf-8")
        return directory

    def add(self, directory, *words):
        self.center.login.run("gpuq", "add", "--no-start", "--jobs-file", directory / "jobs.jsonl", *words, cwd=directory)

    def add_numbered(self, directory, count, *words):
        table = self.center.real / directory.name / "n.csv"
        table.write_text("n\n" + "".join(f"{n}\n" for n in range(count)), encoding="ascii")
        self.add(directory, "--param-file", directory / "n.csv", "--", *words)

    def start_coordinator(self, directory, gpus=datacenter.GPUS, nodes=datacenter.NODES):
        words = ["gpuq-slurm", "coordinator", "--jobs-file", directory / "jobs.jsonl", "--towards", self.center.nodes[0].address, "--slurm",
                 f"--gres=gpu:{gpus} --time=60", "--max-nodes", nodes]
        return subprocess.Popen(self.center.login.words(*self.center.as_user(), *words, cwd=directory), env=self.center.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def events(self, directory):
        return traces.read_journal(self.center.real / directory.name / "jobs.jsonl")

    def on_nodes(self, directory):
        """Seconds from the first start of a job to the last end: time that pilots wait in Slurm's
        queue is not included."""
        process = self.start_coordinator(directory)
        assert process.wait(LIMIT) == 0, directory
        return span(self.events(directory))

    def on_one_machine(self, directory):
        self.center.login.run("gpuq", "run", "--quiet", "--jobs-file", directory / "jobs.jsonl", "--gpus", f"sim:{datacenter.NODES * datacenter.GPUS}",
                              "--jobs-per-gpu", "1", cwd=directory, limit=LIMIT)
        return span(self.events(directory))

    def traced(self, name):
        path = self.center.local / "trace" / name
        path.mkdir()
        path.chmod(0o1777)
        return path


def moment(row):
    text = row["time"]
    return int(text[11:13]) * 3600 + int(text[14:16]) * 60 + float(text[17:23])


def span(rows):
    times = [moment(row) for row in rows if row["event"] in ("start", "end")]
    return max(times) - min(times)


def throughput(bench, jobs, rounds):
    local, nodes = [], []
    for _ in range(rounds):
        for side, run in ((local, bench.on_one_machine), (nodes, bench.on_nodes)):
            directory = bench.queue()
            bench.add_numbered(directory, jobs, "true", "{n}")
            side.append(jobs / run(directory))
    ratio = statistics.median(own / other for own, other in zip(nodes, local))
    return statistics.median(local), statistics.median(nodes), ratio


def srun_steps(bench):
    """Steps per second in one allocation of all nodes, 16 at a time."""
    center = bench.center
    directory = bench.queue()
    script = (f"seq {STEPS} | xargs -P16 -I@ true; date +%s.%N > begin; seq {STEPS} | xargs -P16 -I@ srun -N1 -n1 --gres=gpu:1 --exact true; "
              "date +%s.%N > end.new; mv end.new end")
    center.login.run("sbatch", f"--nodes={datacenter.NODES}", f"--gres=gpu:{datacenter.GPUS}", "--output=out", "--wrap", script, cwd=directory)
    real = center.real / directory.name
    processes.until((real / "end").exists, LIMIT, lambda: "steps of srun")
    seconds = float((real / "end").read_text()) - float((real / "begin").read_text())
    processes.until(lambda: not center.squeue(), LIMIT, lambda: "idle nodes")
    return STEPS / seconds


def gaps(directory):
    """Median milliseconds from the last instruction of a job to the first of the next one on the same GPU."""
    found, last = [], {}
    for trace in traces.read_traces(directory):
        for gpu in trace.gpus:
            if (trace.node, gpu) in last:
                found.append((trace.begin - last[trace.node, gpu]) / 1e6)
            last[trace.node, gpu] = trace.last
    return statistics.median(found)


def successor(bench, jobs=384, ms=1500):
    """Jobs of different length, so that few end at the same time."""
    medians = []
    for name, run in (("one", bench.on_one_machine), ("nodes", bench.on_nodes)):
        directory, place = bench.queue(), bench.traced(name)
        table = bench.center.real / directory.name / "n.csv"
        table.write_text("ms\n" + "".join(f"{ms + 7 * (n * 37 % 128)}\n" for n in range(jobs)), encoding="ascii")
        bench.add(directory, "--param-file", directory / "n.csv", "--", "trace_job", place, "{ms}", "0")
        run(directory)
        medians.append(gaps(place))
    return medians


def idle_cpu(bench, jobs):
    """Percent of a core, with 64 pilots whose jobs keep running and this many waiting jobs."""
    directory = bench.queue()
    bench.add_numbered(directory, jobs, "sleep", "1{n}00")
    process = bench.start_coordinator(directory, gpus=1, nodes=64)
    journal = bench.center.real / directory.name / "jobs.jsonl"
    processes.until(lambda: journal.read_bytes().count(b'"event":"start"') == 64, LIMIT, lambda: f"64 pilots: {bench.center.squeue()}")
    # Do not measure the work of the start.
    time.sleep(5)
    before, begin = cpu_s(process.pid), time.monotonic()
    time.sleep(WATCHED_S)
    percent = 100 * (cpu_s(process.pid) - before) / (time.monotonic() - begin)
    process.kill()
    process.wait()
    bench.center.login.run("scancel", "--user", bench.center.user.pw_name)
    return percent


def cpu_s(pid):
    """User and system time of a process, without the commands that it ran."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reason = None if os.environ.get(datacenter.ENTERED) else datacenter.missing()
    if reason:
        print(f"bench/slurm.py: {reason}")
        return 2
    datacenter.enter()
    center = datacenter.Datacenter(fuse=False, programs=["tests/slurm/trace_job"])
    try:
        center.up()
        bench = Bench(center)
        local, nodes, ratio = throughput(bench, options.jobs, options.rounds)
        steps = srun_steps(bench)
        one, many = successor(bench)
        percent = idle_cpu(bench, options.waiting)
    finally:
        center.down()
    figures = {"jobs/s on one machine": local, "jobs/s on eight nodes": nodes, "ratio to one machine": ratio, "srun steps/s": steps, "ratio to srun steps": nodes / steps,
               "successor on one machine, p50 ms": one, "successor on eight nodes, p50 ms": many, "successor, ratio to one machine": many / one,
               "CPU of an idle coordinator, %": percent}
    if options.json:
        print(json.dumps(figures))
        return 0
    for name, value in figures.items():
        goal = GOALS.get(name)
        print(f"{name:36} {value:10.2f}{f'   goal: {goal[0]} {goal[1]}' if goal else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
