#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs `gpuq launch --slurm` on eight nodes with random faults, chosen by a seed. Root only.

    launch_chaos.py SEED [--seconds N] [--files N] [--lease S] [--silence S] [--faults KIND,…|none]
    [--interval S] [--gpus N] [--verbose]

Exits with 0 if each file has one result, which is done, and was never processed twice at the same time. Checked
against the traces that the commands write themselves (trace_job.c): a file is a job there, and each time that a
worker begins it is an attempt. "coordinator" kills the launcher, and starts it again.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))

import chaos  # noqa: E402
import datacenter  # noqa: E402
import faults  # noqa: E402
import traces  # noqa: E402

# A launch has no guard, agent or journal of its own: the other faults are those of chaos.py.
KINDS = ["power", "unplug", "unplug-scancel", "cut-login", "slurmd", "stop-agent", "kill-agent", "kill-guard", "scancel", "coordinator"]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("--seconds", type=float, default=25, help="how long to inject faults")
    parser.add_argument("--interval", type=float, default=1.5, help="average seconds between two faults")
    parser.add_argument("--files", type=int, default=120)
    parser.add_argument("--gpus", type=int, default=2, help="GPUs per node")
    parser.add_argument("--lease", type=float, default=6)
    parser.add_argument("--silence", type=float, default=2)
    parser.add_argument("--limit", type=float, default=240, help="time limit for the remaining work after the faults, in seconds")
    parser.add_argument("--faults", default=",".join(KINDS))
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


class Launch:
    """The launcher on the login node. Faults know it as a queue."""

    def __init__(self, center, options, rng):
        self.center, self.lease_s, self.silence_s, self.gpus = center, options.lease, options.silence, options.gpus
        self.directory = center.directory("launch")
        self.real = center.real / "launch"
        self.starts = 0
        folder = self.real / "in"
        folder.mkdir()
        folder.chmod(0o755)
        longest = 2 * (options.silence + options.lease)
        for number in range(1, options.files + 1):
            seconds = rng.choices([rng.uniform(0.02, 1), rng.uniform(1, 4), longest + rng.uniform(0.5, 2)], [6, 3, 1])[0]
            manner = rng.choice(["plain", "polite", "stubborn"]) + (" child" if rng.random() < 0.3 else "")
            (folder / f"{number}.dat").write_text(f"{int(seconds * 1000)} 0 {manner}\n", encoding="ascii")

    def start(self):
        script = (f"GPUQ_JOB_ID=$GPUQ_STEM GPUQ_ATTEMPT=$(date +%N) exec {self.center.local}/bin/trace_job {self.center.local}/trace "
                  '$(cat "$GPUQ_FILE")')
        words = ["gpuq", "launch", "--input-dir", "in", "--output-dir", "out", "--pattern", "*.dat", "--slurm", f"--gres=gpu:{self.gpus} --time=30",
                 "--max-nodes", "8", "--slurm-lease", self.lease_s, "--slurm-silence", self.silence_s, "--", "sh", "-c", script]
        self.starts += 1
        with open(self.center.local / "log/launch", "ab") as log:
            self.process = subprocess.Popen(self.center.login.words(*self.center.as_user(), *words, cwd=self.directory), env=self.center.environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def is_alive(self):
        return self.process.poll() is None

    def has_all_ends(self):
        return not self.is_alive() and self.process.returncode == 0

    def kill(self):
        self.process.kill()
        self.process.wait()

    # Other members of a queue that the faults use.
    coordinator = property(lambda self: self.process)

    def finish(self, limit):
        """The launcher ends with 0 when all files are done; on a node that kills jobs it may lose all its workers."""
        until = time.monotonic() + limit
        while self.process.wait(max(1, until - time.monotonic())) != 0:
            self.start()

    def results(self):
        lines = (self.real / "out/launch.jsonl").read_text(encoding="utf-8").splitlines()
        return [row for row in map(json.loads, lines) if row["event"] != "run"]

    def violations(self, found):
        rows = self.results()
        counts = collections.Counter(row["file"] for row in rows)
        finished = {str(trace.job) for trace in found if trace.how == "e"}
        wrong = traces.overlaps(found)
        wrong += [f"{name} has {count} results" for name, count in counts.items() if count != 1]
        wrong += [f"{row['file']}: {row['error']}" for row in rows if row["event"] == "failed"]
        wrong += [f"{path.stem} was never finished" for path in (self.real / "in").iterdir() if path.stem not in finished or path.name not in counts]
        return wrong


def run(options, center):
    rng = random.Random(options.seed)
    launch = Launch(center, options, rng)
    begin = time.monotonic()
    launch.start()
    made, wrong = faults.Faults(center, launch, rng, options.faults.split(","), lambda: chaos.busy_nodes(center)), []
    try:
        if options.faults != "none":
            chaos.make_faults(made, center, launch, options, rng)
        launch.finish(options.limit)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        wrong.append(str(error))
    found = traces.read_traces(center.local / "trace")
    wrong += launch.violations(found)
    attempts = len({(trace.job, trace.attempt) for trace in found})
    nodes = {row.get("node") for row in launch.results()}
    if options.verbose or wrong:
        print("\n".join(made.log))
        print((center.local / "log/launch").read_text(encoding="utf-8"))
    print(f"seed {options.seed}: {options.files} files, {attempts} attempts on {len(nodes)} nodes, {sum(made.done.values())} faults, "
          f"{made.effective} effective, {launch.starts} launches, {time.monotonic() - begin:.0f} s: {len(wrong)} wrong")
    for words in wrong[:20]:
        print(f"wrong: {words}")
    return 1 if wrong else 0


def main():
    options = parse()
    datacenter.enter()
    center = datacenter.Datacenter(gpus=options.gpus, programs=["gpuq-launch", "gpuq-worker", "tests/slurm/trace_job"])
    try:
        center.up()
        return run(options, center)
    finally:
        center.down()


if __name__ == "__main__":
    sys.exit(main())
