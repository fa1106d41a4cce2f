# SPDX-License-Identifier: MIT
"""Items in their own directory, and gpuq map for them."""
import json
import os
import pathlib
import subprocess
import sys

import processes

GPUQ = os.environ["GPUQ"]
LIMIT = 240  # seconds, timeout for operations that take milliseconds

# A worker that takes its actions from the items and records them. An item is a number, or a string of words.
WORKER = r"""
import json, os, signal, sys, time
def say(**what): print(json.dumps(what), flush=True)
def note(what): open("notes", "a").write(what + "\n")
def once(name):
    try: os.close(os.open(name, os.O_CREAT | os.O_EXCL)); return True
    except FileExistsError: return False
setup = json.loads(sys.stdin.readline())
settings = setup["settings"]
note("setup " + str(os.getpid()))
if settings.get("broken"): say(type="error", error="no model"); sys.exit(1)
say(type="ready")
most = int(settings.get("memory", 1000000))
for line in sys.stdin:
    message = json.loads(line)
    items, key = message["items"], message["id"]
    words = [str(item) for item in items]
    note("items " + " ".join(word[:20] for word in words))
    if len(items) > most: say(id=key, ok=False, error="CUDA out of memory. Tried to allocate"); continue
    if "kill" in words: os.kill(os.getpid(), 9)
    if "kill-once" in words and once("once"): os.kill(os.getpid(), 9)
    if "exit" in words: print("no such tensor", file=sys.stderr); sys.exit(3)
    while "wait" in words and not os.path.exists("go"): time.sleep(0.005)
    while "hang" in words: time.sleep(1)
    if "fail" in words: say(id=key, ok=False, error="cannot do that"); continue
    if "short" in words: say(id=key, ok=True, results=[]); continue
    if "twice" in words: say(id=key, ok=True, results=items)
    if "other" in words: say(id=key + 1000, ok=True, results=items)
    if "noise" in words: print("loading…")
    errors = ["not this one" if word == "bad" or word == "bad-once" and once("bad") else None for word in words]
    results = [item * 2 if type(item) is int else item for item in items]
    say(id=key, ok=True, results=results, **({"errors": errors} if any(errors) else {}))
"""

COMMAND = ("--worker-command", f"{sys.executable} worker.py")


class Map:
    """A file with items, and gpuq map for it."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.environment = {**os.environ, "GPUQ_GPUS": "sim:2", "MAP_LAB": str(directory), "PYTHONUNBUFFERED": "1",
                            "TERM": "xterm-256color", "XDG_STATE_HOME": os.path.join(directory, "state")}
        self.environment.pop("NO_COLOR", None)
        self.input = self.directory / "in.jsonl"
        self.output = self.directory / "out.jsonl"
        (self.directory / "worker.py").write_text(WORKER)
        self.started = []

    def put(self, *items):
        self.input.write_text("".join(json.dumps(item) + "\n" for item in items))

    @staticmethod
    def words(*words, files=True, command=COMMAND):
        files = ("--input", "in.jsonl", "--output", "out.jsonl") if files else ()
        return [GPUQ, "map", *files, *map(str, words), *command]

    def start(self, *words, files=True, stdin=subprocess.DEVNULL, command=COMMAND, **options):
        process = subprocess.Popen(self.words(*words, files=files, command=command), cwd=self.directory,
                                   env={**self.environment, **options.pop("env", {})}, stdin=stdin,
                                   stdout=options.pop("stdout", subprocess.PIPE), stderr=options.pop("stderr", subprocess.PIPE),
                                   text=True, errors="surrogateescape", **options)
        self.started.append(process)
        return process

    def run(self, *words, code=0, given=None, **options):
        process = self.start(*words, stdin=subprocess.DEVNULL if given is None else subprocess.PIPE, **options)
        out, err = process.communicate(given, timeout=LIMIT)
        assert process.returncode == code, (words, process.returncode, out, err)
        return out, err

    def summary(self, *words, code=0, **options):
        """The output of --json, and standard error."""
        _, err = self.run("--json", "summary.json", *words, code=code, **options)
        return json.loads((self.directory / "summary.json").read_text()), err

    def lines(self, path=None):
        return [json.loads(line) for line in (path or self.output).read_text().splitlines()]

    def results(self):
        """The results by number; fails if a number occurs twice."""
        lines = self.lines()
        results = {line["n"]: line.get("result") for line in lines if "error" not in line}
        assert len({line["n"] for line in lines}) == len(lines)
        return results

    def errors(self, path=None):
        return {line["n"]: line["error"] for line in self.lines(path) if "error" in line}

    def notes(self, word):
        path = self.directory / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(word + " ")]

    def until(self, condition, what="the event"):
        return processes.until(condition, LIMIT, lambda: what)

    def go(self):
        (self.directory / "go").touch()

    def end(self):
        self.go()
        processes.end_started(self.started)
