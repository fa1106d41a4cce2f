# SPDX-License-Identifier: MIT
"""A real Slurm on this machine, with one node and fake GPUs, and queues of gpuq on it."""
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile

import processes

BUILD = pathlib.Path(os.environ["GD_BUILD"])
GPUQ = pathlib.Path(os.environ["GPUQ"])
HERE = pathlib.Path(__file__).parent
LIMIT = 240  # seconds, timeout for operations that take a few
GPUS = 2
RUN = "gpuq run --commands-file commands.txt"
# A job that runs until the file `go` exists.
COMMAND = "echo $GPUQ_JOB_ID:$GPUQ_ATTEMPT >> ran; until [ -e go ]; do sleep 0.05; done; echo $GPUQ_JOB_ID >> done"
# The same, and exits 0 on SIGTERM.
POLITE = "trap 'exit 0' TERM; " + COMMAND


class Cluster:
    """slurmctld, slurmd and munged in a temporary directory, as an ordinary user; see cluster_process.py."""

    def __init__(self):
        # Not below pytest's directory: the path of a socket must be short, and the user must be able to reach it.
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="gpuq-slurm-"))
        self.place.chmod(0o755)
        self.process = subprocess.Popen([sys.executable, HERE / "cluster_process.py", self.place, str(GPUS)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.count = 0

    def wait_ready(self):
        answer = json.loads(self.process.stdout.readline() or '{"error": "it ended"}')
        assert "conf" in answer, answer.get("error")
        self.user = pwd.getpwnam(answer["user"])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "CUDA_", "GPUQ_"))}
        self.environment = {**kept, "SLURM_CONF": answer["conf"], "USER": answer["user"], "HOME": str(self.place),
                            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}", "GPUQ_CLAIMS_DIR": str(self.place / "claims"),
                            # Hide the GPU driver, even if the machine has one.
                            "GPUQ_NVML_LIBRARY": str(self.place / "none"), "GPUQ_SYSFS_ROOT": str(self.place / "none")}
        (self.place / "bin").mkdir()
        helpers = ("gpuq-launch", "gpuq-probe", "gpuq-slurm", "gpuq-top", "gpuq-web", "gpuq-worker")
        for program in (GPUQ, *(BUILD / name for name in helpers), BUILD / "tests/slurm/ask_slurm"):
            if program.exists():
                shutil.copy(program, self.place / "bin" / program.name)

    def identity(self):
        mine = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        return mine if os.geteuid() == 0 else {}

    def owner(self):
        """Owner of files that tests create for the user: uid and gid, or None if the tests run as the user."""
        return (self.user.pw_uid, self.user.pw_gid) if os.geteuid() == 0 else None

    def run(self, *words, cwd=None, env=None, code=0):
        """The standard output of a command run as the user."""
        result = subprocess.run([str(word) for word in words], cwd=cwd or self.place, env={**self.environment, **(env or {})},
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False, **self.identity())
        assert code is None or result.returncode == code, (words, result)
        return result.stdout

    def processes(self):
        """PIDs of all processes of the user on this cluster, including the daemons."""
        return processes.with_variable("SLURM_CONF", self.environment["SLURM_CONF"])

    def lab(self):
        self.count += 1
        directory = self.place / f"lab{self.count}"
        directory.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(directory, self.user.pw_uid, self.user.pw_gid)
        return SlurmLab(self, directory)

    def close(self):
        self.process.stdin.close()
        self.process.wait(LIMIT)


class SlurmLab:
    """A queue in its own directory, and batch jobs that work on it."""

    def __init__(self, cluster, directory):
        self.cluster = cluster
        self.directory = directory
        self.journal = directory / "jobs.jsonl"
        self.batches = []

    # ---- Slurm ----

    def slurm(self, *words, code=0):
        return self.cluster.run(*words, cwd=self.directory, code=code)

    def sbatch(self, *words, gpus=GPUS):
        """Submits a batch job and returns its number. Its output is in out.NUMBER."""
        number = int(self.slurm("sbatch", "--parsable", "--open-mode=append", "--output=out.%j", f"--gres=gpu:{gpus}", *words))
        self.batches.append(number)
        return number

    def batch_state(self, number):
        """PENDING, RUNNING, COMPLETING…; None if slurmctld no longer knows it."""
        for word in self.slurm("scontrol", "show", "job", str(number), code=None).split():
            if word.startswith("JobState="):
                return word.partition("=")[2]
        return None

    def exit_code(self, number):
        """Waits for the end of a batch job, and returns the exit code of its script."""
        self.until(lambda: self.batch_state(number) in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED"), f"the end of {number}")
        words = self.slurm("scontrol", "show", "job", str(number)).split()
        (code,) = [word for word in words if word.startswith("ExitCode=")]
        return int(code.partition("=")[2].partition(":")[0])

    def until_gone(self, number):
        """Waits until the batch job has ended and Slurm has no processes of it left."""
        self.exit_code(number)
        self.until(lambda: not self.slurm("squeue", "-h", "-o", "%i"), "its processes to end")

    def begin_again(self, number):
        """Slurm delays a requeued batch job by two minutes; this starts it in two seconds.

        Not at once: in the second of the requeue, slurmd confuses the new credential with the revoked one."""
        self.until(lambda: self.batch_state(number) == "PENDING", f"the requeue of {number}")
        self.slurm("scontrol", "update", f"JobId={number}", "StartTime=now+2")

    def output(self, number):
        path = self.directory / f"out.{number}"
        return path.read_text() if path.exists() else ""

    # ---- gpuq ----

    def gpuq(self, *words, code=0, env=None):
        return self.cluster.run("gpuq", *words, cwd=self.directory, code=code, env=env)

    def commands(self, *lines):
        (self.directory / "commands.txt").write_text("".join(line + "\n" for line in lines))

    def jobs(self):
        return list(json.loads(self.gpuq("status", "--json"))) if self.journal.exists() else []

    def states(self):
        return [job["status"] for job in self.jobs()]

    def history(self, number):
        (job,) = [job for job in self.jobs() if job["id"] == number]
        return [attempt["status"] for attempt in job["history"]]

    def ran(self):
        """The lines that the jobs wrote with `echo … >> ran`, in order."""
        path = self.directory / "ran"
        return path.read_text().split() if path.exists() else []

    def check_interrupted(self, count=2):
        """Call it after the next run has started: a keeper may have been killed before it could write the end."""
        for number in range(1, count + 1):
            assert self.history(number)[0] == "interrupted", self.jobs()

    def finish(self, number, count=2):
        """The batch job completes every job once."""
        self.touch("go")
        assert self.exit_code(number) == 0, self.output(number)
        assert self.states() == ["completed"] * count
        for job in self.jobs():
            assert [attempt["status"] for attempt in job["history"]].count("completed") == 1
        assert sorted((self.directory / "done").read_text().split()) == [str(n) for n in range(1, count + 1)]

    def touch(self, name):
        (self.directory / name).touch()

    def until(self, condition, what):
        def describe():
            journal = self.journal.read_text(errors="replace")[-3000:] if self.journal.exists() else "no journal"
            return "\n".join([what, journal, *(self.output(number) for number in self.batches), self.slurm("squeue", code=None)])
        return processes.until(condition, LIMIT, describe)

    def processes(self):
        """PIDs of all processes of batch jobs in this directory."""
        return processes.with_variable("SLURM_SUBMIT_DIR", self.directory)

    def end(self):
        """Leaves the node idle for the next test."""
        if self.batches:
            self.slurm("scancel", *map(str, self.batches), code=None)
            self.until(lambda: not self.slurm("squeue", "-h", "-o", "%i"), "an idle node")
