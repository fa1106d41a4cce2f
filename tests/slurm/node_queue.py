# SPDX-License-Identifier: MIT
"""A queue of traced jobs on the nodes of a data center."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import processes
import traces

LIMIT = 300
LEAVE_S = 60
SLOW_SYNC_MS = 30


class TracedJob:
    """The arguments of trace_job."""

    def __init__(self, ms, code=0, manner="plain", child=False):
        self.ms, self.code, self.manner, self.child = ms, code, manner, child


class NodeQueue:
    def __init__(self, center, lease_s, silence_s, program="gpuq-slurm", environment=None):
        self.center, self.lease_s, self.silence_s = center, lease_s, silence_s
        self.directory = center.directory("queue")
        self.real = center.real / "queue"
        self.journal = self.real / "jobs.jsonl"
        self.synced = center.local / "trace.synced"
        self.synced.touch(mode=0o666)
        self.synced.chmod(0o666)
        self.program = program
        self.extra = {**(environment or {}), "LD_PRELOAD": str(center.local / "bin/slow_sync.so"), "SLOW_SYNC_JOURNAL": str(self.directory / "jobs.jsonl"),
                      "SLOW_SYNC_FILE": str(self.synced), "SLOW_SYNC_MS": str(SLOW_SYNC_MS)}
        self.coordinator = None
        self.codes, self.added = {}, 0
        self.coordinators = 0

    def add(self, jobs):
        """Adds all jobs at once; ids count from 1."""
        table = self.real / "jobs.csv"
        table.write_text("ms,code,manner,child\n" + "".join(f"{job.ms},{job.code},{job.manner},{'child' if job.child else 'alone'}\n" for job in jobs),
                         encoding="ascii")
        self.center.login.run("gpuq", "add", "--no-start", "--jobs-file", self.directory / "jobs.jsonl", "--param-file", self.directory / "jobs.csv", "--",
                              "trace_job", self.center.local / "trace", "{ms}", "{code}", "{manner}", "{child}", cwd=self.directory)
        self.codes = {number: job.code for number, job in enumerate(jobs, 1)}
        self.added = self.journal.stat().st_size

    def words(self):
        return [self.program, "coordinator", "--jobs-file", self.directory / "jobs.jsonl", "--towards", self.center.nodes[0].address, "--lease", self.lease_s,
                "--silence", self.silence_s, "--slurm", f"--gres=gpu:{self.center.num_gpus} --time=30", "--max-nodes", len(self.center.nodes)]

    def start(self):
        self.coordinators += 1
        with open(self.center.local / "log/coordinator", "a", encoding="utf-8") as log:
            log.write(f"== coordinator {self.coordinators}\n")
            log.flush()
            words = self.center.login.words(*self.center.as_user(), *self.words(), cwd=self.directory)
            self.coordinator = subprocess.Popen(words, env={**self.center.environment, **self.extra}, stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=log)

    def kill(self):
        self.coordinator.kill()
        self.coordinator.wait()

    def unsynced(self):
        """The journal's size, the part of it that is synced, and the attempts whose `start` is not."""
        # Before the first sync: what `gpuq add` wrote and synced.
        synced = int(self.synced.read_text(encoding="ascii") or self.added)
        data = self.journal.read_bytes()
        rows = [json.loads(row) for row in data[synced:].split(b"\n")[:-1]]
        return len(data), synced, {(row["id"], row["attempt"]) for row in rows if row["event"] == "start"}

    def has_begun(self, attempts):
        """Whether a process of one of these attempts exists or existed."""
        prefixes = tuple(f"{job}.{attempt}." for job, attempt in attempts)
        return bool(prefixes) and any(name.startswith(prefixes) for name in os.listdir(self.center.local / "trace"))

    def stop_at_worst_moment(self, helpers, wait_s):
        """Stops the coordinator and its syncer while the `start` of an attempt is not synced but the attempt
        already runs, which must never happen. After wait_s, stops them at any moment."""
        deadline = time.monotonic() + wait_s
        while True:
            late = time.monotonic() >= deadline
            if late or self.has_begun(self.unsynced()[2]):
                for pid in (*helpers, self.coordinator.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                if late or self.has_begun(self.unsynced()[2]):
                    return
                for pid in (*helpers, self.coordinator.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            time.sleep(0.001)

    def lose_power(self, wait_s=0):
        """Cuts the power of the login node: unsynced parts of the journal are lost. Returns how many bytes."""
        helpers = processes.descendants(self.coordinator.pid)
        self.stop_at_worst_moment(helpers, wait_s)
        self.kill()
        for pid in helpers:  # the syncer would continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        processes.until(lambda: not any(processes.alive(pid) for pid in helpers), LIMIT, lambda: f"the end of {helpers}")
        self.center.login.boot_id()
        size, synced, _ = self.unsynced()
        os.truncate(self.journal, synced)
        return size - synced

    def is_alive(self):
        return self.coordinator is not None and self.coordinator.poll() is None

    def stop(self):
        self.coordinator.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.coordinator.send_signal(signal.SIGCONT)

    def counts(self):
        """Jobs by state."""
        words = self.center.login.run("gpuq", "status", "--json", "--jobs-file", self.directory / "jobs.jsonl", cwd=self.center.shared)
        found = {}
        for job in json.loads(words):
            state = "held" if job.get("held") else job["status"]
            found[state] = found.get(state, 0) + 1
        return found

    def held(self):
        found = set()
        for row in self.rows():
            if row["event"] == "hold":
                found.add(row["id"])
            elif row["event"] == "release":
                found.discard(row["id"])
        return found

    def release(self):
        """Releases jobs that were held because they were lost too often."""
        held = self.held()
        if held:
            self.center.login.run("gpuq", "release", "--jobs-file", self.directory / "jobs.jsonl", *sorted(held), code=None)

    def finish(self, limit_s=LIMIT):
        """Waits until every job has its end; starts another coordinator if one leaves jobs behind."""
        deadline = time.monotonic() + limit_s
        while True:
            if not self.is_alive():
                if self.coordinator is not None and self.has_all_ends():
                    return
                self.release()
                self.start()
            try:
                self.coordinator.wait(0.5)
            except subprocess.TimeoutExpired:
                if self.has_all_ends():
                    self.let_coordinator_leave()
                else:
                    self.release()
            assert time.monotonic() < deadline, f"not over after {limit_s} s: {self.counts()}\n{self.tail()}"

    def let_coordinator_leave(self):
        """If an end is already wrong, does not wait: the pilots of a broken coordinator may never leave."""
        if self.violations():
            self.kill()
            return
        try:
            self.coordinator.wait(LEAVE_S)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"the coordinator does not exit within {LEAVE_S} s after the last end:\n{self.tail()}") from error

    def rows(self):
        return traces.read_journal(self.journal)

    def has_all_ends(self):
        return {row["id"] for row in self.rows() if row["event"] == "end"} == set(self.codes)

    def violations(self):
        return traces.violations(self.center.local / "trace", self.journal, self.codes)

    def tail(self, size=6000):
        log = pathlib.Path(self.center.local / "log/coordinator")
        return log.read_text(encoding="utf-8", errors="replace")[-size:] if log.exists() else ""

    def keep(self, where):
        """Copies journal, traces and logs to a directory, for debugging."""
        os.makedirs(where, exist_ok=True)
        subprocess.run(["cp", "-r", self.real, self.center.local / "trace", self.center.local / "log", where], check=False)
