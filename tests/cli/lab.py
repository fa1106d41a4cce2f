# SPDX-License-Identifier: MIT
"""A queue in its own directory, and the processes that work on it."""
import json
import os
import pathlib
import signal
import subprocess

import processes

GPUQ = os.environ["GPUQ"]
LIMIT = 240  # seconds, timeout for operations that take milliseconds


class Lab:
    """`gpuq` as a user types it, on simulated GPUs, in a temporary directory."""

    def __init__(self, directory, gpus="sim:2"):
        self.directory = pathlib.Path(directory)
        self.journal = self.directory / "jobs.jsonl"
        self.environment = {**os.environ, "GPUQ_GPUS": gpus, "TERM": "xterm-256color"}
        for name in ("SLURM_JOB_ID", "NO_COLOR"):
            self.environment.pop(name, None)
        self.environment["GPUQ_JOBS_FILE"] = "./jobs.jsonl"
        self.environment["XDG_CONFIG_HOME"] = str(self.directory / "no-config")
        self.environment["XDG_STATE_HOME"] = str(self.directory / "state")
        self.environment["GPUQ_CLAIMS_DIR"] = str(self.directory / "claims")
        self.started = []

    def start(self, *words, prefix=(), **options):
        process = subprocess.Popen([*map(str, prefix), GPUQ, *map(str, words)], cwd=self.directory,
                                   env={**self.environment, **options.pop("env", {})},
                                   stdin=options.pop("stdin", subprocess.DEVNULL),
                                   stdout=options.pop("stdout", subprocess.PIPE),
                                   stderr=options.pop("stderr", subprocess.PIPE), **options)
        self.started.append(process)
        return process

    def gpuq(self, *words, code=0, input=None, prefix=(), **options):
        """Returns standard output. The exit code must be `code`; None allows any."""
        result = self.result(*words, input=input, prefix=prefix, **options)
        if code is not None:
            assert result.returncode == code, (words, result.returncode, result.stdout, result.stderr)
        return result.stdout

    def result(self, *words, input=None, prefix=(), env=None, **options):
        return subprocess.run([*map(str, prefix), GPUQ, *map(str, words)], cwd=self.directory,
                              env={**self.environment, **(env or {})}, input=input,
                              stdin=subprocess.DEVNULL if input is None else None, capture_output=True,
                              text=not isinstance(input, bytes), errors="surrogateescape" if not isinstance(input, bytes) else None,
                              timeout=LIMIT * 2, check=False, **options)

    def add(self, *words, **options):
        """Adds a job without starting a runner; returns its id."""
        return int(self.gpuq("add", "--no-start", *words, **options))

    def commands(self, *lines, name="commands.txt"):
        (self.directory / name).write_text("".join(line + "\n" for line in lines))

    def jobs(self):
        return {job["id"]: job for job in json.loads(self.gpuq("status", "--json"))}

    def job(self, number):
        return json.loads(self.gpuq("status", "--json", number))[0]

    def events(self):
        """The complete lines that are JSON objects."""
        events = []
        for line in self.journal.read_bytes().split(b"\n")[:-1]:
            try:
                events.append(json.loads(line))
            except ValueError:
                pass
        return events

    def ran(self):
        """The lines that the jobs wrote with `echo … >> ran`, in order."""
        path = self.directory / "ran"
        return path.read_text().split() if path.exists() else []

    def until(self, condition, what="the event"):
        """Polls for a condition that no descriptor reports."""
        return processes.until(condition, LIMIT,
                               lambda: f"{what}\n{self.journal.read_text(errors='replace')[-3000:]}")

    def processes(self):
        """PIDs of all processes of any kind that work in this directory."""
        return processes.with_variable("GPUQ_CLAIMS_DIR", self.directory / "claims")

    def runner(self):
        """The PID in runner.lock, as its holder wrote it."""
        path = self.directory / "jobs.jsonl.d/runner.lock"
        text = path.read_text().split() if path.exists() else []
        return int(text[1]) if len(text) > 1 else 0

    def keepers(self):
        """PIDs of live keepers."""
        pids = [event["pid"] for event in self.events() if event["event"] == "keeper"]
        return [pid for pid in pids if processes.name_of(pid) == "gpuq-keeper"]

    def end(self):
        processes.end_started(self.started)
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
