# SPDX-License-Identifier: MIT
"""A folder of files in its own directory, and gpuq launch for it."""
import json
import os
import pathlib
import subprocess
import sys
import wave

import processes

GPUQ = os.environ["GPUQ"]
LIMIT = 240  # seconds, timeout for operations that take milliseconds

# A persistent worker that takes its actions from the file names and records what it does.
WORKER = r"""
import base64, json, os, sys, time
def path(task, key): return os.fsdecode(base64.b64decode(task[key + "_b64"])) if key + "_b64" in task else task[key]
def say(**what): print(json.dumps(what), flush=True)
def note(what): open("notes", "a", errors="replace").write(what + "\n")
setup = json.loads(sys.stdin.readline())
note("setup " + str(os.getpid()))
if setup["settings"].get("broken"): say(type="error", error="no model called " + setup["settings"]["model_size"]); sys.exit(1)
say(type="ready")
for line in sys.stdin:
    task = json.loads(line)
    name = os.path.basename(path(task, "file"))
    note("begin " + name)
    if "kill" in name: os.kill(os.getpid(), 9)
    if "once" in name and not os.path.exists("once"): open("once", "w"); os.kill(os.getpid(), 9)
    while "wait" in name and not os.path.exists("go"): time.sleep(0.005)
    if "fail" in name: say(id=task["id"], ok=False, error="cannot do " + name); continue
    open(os.path.join(path(task, "output_dir"), "result.txt"), "w").write("done")
    note("end " + name)
    say(id=task["id"], ok=True, duration=2.5)
"""

PROGRAM = ("--worker-command", f"{sys.executable} worker.py")
COPY = ("--", "cp", "--", "{file}", "{output}/")


class Launch:
    """A folder with files, and gpuq launch for it."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.environment = {**os.environ, "GPUQ_GPUS": "sim:2", "LAUNCH_LAB": str(directory), "PYTHONUNBUFFERED": "1",
                            "TERM": "xterm-256color", "XDG_STATE_HOME": os.path.join(directory, "state")}
        self.environment.pop("NO_COLOR", None)
        self.program = GPUQ
        self.input = self.directory / "in"
        self.output = self.directory / "out"
        self.input.mkdir()
        (self.directory / "worker.py").write_text(WORKER)
        self.started = []

    def put(self, *names, size=10):
        for name in names:
            path = os.path.join(os.fsencode(self.input), os.fsencode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"x" * size)

    def put_wave(self, name, seconds):
        with wave.open(str(self.input / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(b"\0\0" * int(8000 * seconds))

    def words(self, *words):
        return [self.program, "launch", "--input-dir", "in", "--output-dir", "out", *map(str, words)]

    def start(self, *words, **options):
        process = subprocess.Popen(self.words(*words), cwd=self.directory, env={**self.environment, **options.pop("env", {})},
                                   stdin=subprocess.DEVNULL, stdout=options.pop("stdout", subprocess.PIPE),
                                   stderr=options.pop("stderr", subprocess.PIPE), text=True, errors="surrogateescape", **options)
        self.started.append(process)
        return process

    def run(self, *words, code=0, **options):
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=LIMIT)
        if code is not None:
            assert process.returncode == code, (words, process.returncode, out, err)
        return out, err

    def summary(self, *words, code=0, **options):
        """The output of --json, and standard error."""
        _, err = self.run("--json", "summary.json", *words, code=code, **options)
        return json.loads((self.directory / "summary.json").read_text()), err

    def notes(self, word):
        path = self.directory / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(word + " ")]

    def history(self):
        return [json.loads(line) for line in (self.output / "launch.jsonl").read_text().splitlines()]

    def until(self, condition, what="the event"):
        return processes.until(condition, LIMIT, lambda: what)

    def processes(self):
        """PIDs of all processes of any kind of this launch."""
        return processes.with_variable("LAUNCH_LAB", self.directory)

    def end(self):
        (self.directory / "go").touch()
        processes.end_started(self.started)

    def wait_for_workers(self, count=2):
        self.until(lambda: len(self.notes("begin")) >= count, "busy workers")
