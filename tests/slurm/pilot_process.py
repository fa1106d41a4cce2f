# SPDX-License-Identifier: MIT
"""A pilot without Slurm."""
import contextlib
import os
import pathlib
import signal
import subprocess

import processes

BUILD = pathlib.Path(os.environ["GD_BUILD"])
LIMIT = 120


class Pilot:
    def __init__(self, directory, gpus="sim:2", job=4711, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "GPUQ_", "PMI"))}
        self.log = directory / f"pilot.{job}.out"
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [BUILD / "gpuq-slurm", "pilot", "--jobs-file", directory / "jobs.jsonl", "--gpus", gpus], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd="/", start_new_session=True,
                env={**kept, "SLURM_JOB_ID": str(job), "SLURMD_NODENAME": "node7", "SLURM_STEP_ID": "0", "PMI_RANK": "3",
                     "TMPDIR": str(directory), **environment})

    def text(self):
        return self.log.read_text(encoding="utf-8")

    def tree(self):
        """PIDs: sweeper, guard, agent and its descendants."""
        return [self.process.pid, *processes.descendants(self.process.pid)]

    def outer(self, number):
        """The PID of the process with this number in the PID namespace of the agent, or in ours."""
        for pid in processes.descendants(self.process.pid):
            with contextlib.suppress(OSError):
                status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
                if int(next(row for row in status.splitlines() if row.startswith("NSpid:")).split()[-1]) == number:
                    return pid
        raise LookupError(number)

    def guard(self):
        return processes.children(self.process.pid)[0]

    def wait(self):
        return self.process.wait(LIMIT)

    def kill(self):
        """Kills all remaining processes."""
        for pid in self.tree():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(LIMIT)
