#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a queue on eight nodes with random faults, chosen by a seed. Root only.

    chaos.py SEED [--seconds N] [--jobs N] [--lease S] [--silence S] [--faults KIND,…|none]
    [--interval S] [--mutant NAME] [--keep DIRECTORY]

Exits with 0 if every job completed once, no attempt was begun twice, no job ran twice at the same
time, and each job has the right end. Checked against the traces that the jobs write themselves. The
environment is that of the tests: GD_BUILD.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))

import datacenter  # noqa: E402
import faults  # noqa: E402
import node_queue  # noqa: E402
import traces  # noqa: E402

FRESH_NS = 200_000_000  # maximum age of the trace of a running process


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--seconds", type=float, default=40, help="how long to inject faults")
    parser.add_argument("--interval", type=float, default=1.2, help="average seconds between two faults")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--lease", type=float, default=4)
    parser.add_argument("--silence", type=float, default=1.5)
    parser.add_argument("--limit", type=float, default=240, help="time limit for the remaining work after the faults, in seconds")
    parser.add_argument("--faults", default="all")
    parser.add_argument("--mutant", help="run gpuq-slurm-mutant with this defect, which should be found")
    parser.add_argument("--keep", help="where to copy journal, traces and logs if something is wrong")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


def draw_jobs(options, rng):
    """Some outlast any pilot that was cut off; some have children that left their session."""
    jobs = []
    longest = 2 * (options.silence + options.lease)
    for number in range(options.jobs):
        seconds = rng.choices([rng.uniform(0.02, 1), rng.uniform(1, 5), longest + rng.uniform(0.5, 4)], [5, 3, 2])[0]
        if options.faults == "none":
            jobs.append(node_queue.TracedJob(rng.randrange(20, 500), manner="meet" if number < 64 else "plain"))
            continue
        jobs.append(node_queue.TracedJob(int(seconds * 1000), code=rng.choices([0, 3], [9, 1])[0], manner=rng.choice(["plain", "plain", "polite", "stubborn"]),
                                         child=rng.random() < 0.3))
    return jobs


def busy_nodes(center):
    now = time.monotonic_ns()
    return {trace.node for trace in traces.read_traces(center.local / "trace") if trace.how == "r" and now - trace.last < FRESH_NS}


def make_faults(made, center, queue, options, rng):
    begin = time.monotonic()
    following = 0
    while (now := time.monotonic() - begin) < options.seconds:
        made.heal_due(now)
        if "coordinator" not in made.broken and not queue.is_alive():
            if queue.has_all_ends():
                break
            made.log.append(f"{now:6.2f} the coordinator exited with {queue.coordinator.returncode}")
            queue.start()
        if now >= following and busy_nodes(center):
            made.inject(now)
            following = time.monotonic() - begin + rng.expovariate(1 / options.interval)
        time.sleep(0.02)
    made.heal_all()


def run(options, center):
    rng = random.Random(options.seed)
    queue = node_queue.NodeQueue(center, options.lease, options.silence, "gpuq-slurm-mutant" if options.mutant else "gpuq-slurm",
                                 {"GPUQ_SLURM_MUTANT": options.mutant or "none"})
    queue.add(draw_jobs(options, rng))
    begin = time.monotonic()
    queue.start()
    kinds = faults.ALL if options.faults == "all" else options.faults.split(",")
    made, wrong = faults.Faults(center, queue, rng, kinds, lambda: busy_nodes(center)), []
    try:
        if options.faults != "none":
            make_faults(made, center, queue, options, rng)
        queue.finish(options.limit)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        wrong.append(str(error))
    wrong += queue.violations()
    found = traces.read_traces(center.local / "trace")
    attempts = len({(trace.job, trace.attempt) for trace in found})
    gpus = len({(trace.node, gpu) for trace in found for gpu in trace.gpus})
    if options.verbose or wrong:
        print("\n".join(made.log))
    print(f"seed {options.seed}: {options.jobs} jobs, {attempts} attempts on {gpus} GPUs, {sum(made.done.values())} faults, "
          f"{made.effective} effective, {queue.coordinators} coordinators, {time.monotonic() - begin:.0f} s: {len(wrong)} wrong")
    if options.verbose:
        print(made.done)
    for words in wrong[:20]:
        print(f"wrong: {words}")
    if wrong and options.keep:
        queue.keep(options.keep)
    return 1 if wrong else 0


def main():
    options = parse()
    datacenter.enter()
    center = datacenter.Datacenter(root=options.seed % 4 == 3, programs=["tests/slurm/trace_job", "tests/slurm/slow_sync.so", "tests/slurm/gpuq-slurm-mutant"])
    try:
        center.up()
        return run(options, center)
    finally:
        center.down()


if __name__ == "__main__":
    sys.exit(main())
