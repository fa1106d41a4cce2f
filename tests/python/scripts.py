# SPDX-License-Identifier: MIT
"""Programs as users write them, run as separate processes."""
from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

WORKER = """
from gpu_dispatch import BaseWorker, Dispatcher

class Twice(BaseWorker):
    def setup(self, gpu_id, seed):
        pass
    def process(self, data):
        return data * 2

results = {}
def on_success(task_id, result, worker_id):
    results[task_id] = result
"""

RUN = """
Dispatcher(Twice, [0, 1]).run(iter([1, 2, 3]), on_success, on_error=lambda *args: print(args))
print(sorted(results.items()))
"""

EXPECTED = "[(0, 2), (1, 4), (2, 6)]\n"


def python(*args: str, directory: pathlib.Path, code: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], cwd=directory, input=code, capture_output=True, text=True, timeout=60, check=False
    )


def check(done: subprocess.CompletedProcess[str], expected: str = EXPECTED) -> None:
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


def script(directory: pathlib.Path, *parts: str) -> str:
    path = directory / "program.py"
    path.write_text("".join(textwrap.dedent(part) for part in parts))
    return str(path)


def guarded(code: str) -> str:
    return "\nif __name__ == '__main__':\n" + textwrap.indent(code.strip(), "    ") + "\n"
