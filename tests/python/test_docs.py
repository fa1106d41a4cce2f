# SPDX-License-Identifier: MIT
"""The programs in docs/python.md and docs/python-launch.md, as a reader would run them."""
from __future__ import annotations

import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

from gpu_dispatch import Pool, _programs
from gpu_dispatch.multigpu import LauncherOrchestrator
from multigpu_lab import LIMIT

SOURCE = pathlib.Path(os.environ.get("GD_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
DOCS = SOURCE / "docs"


def blocks(name: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)


def run(*command: object, cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "GPUQ_GPUS": "sim:2"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def check_output(tmp_path: pathlib.Path, text: str, expected: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(text)
    done = run(sys.executable, program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected, done.stderr


def test_programs_with_a_pool(tmp_path: pathlib.Path) -> None:
    worker, callbacks, program, batches, _ = blocks("python.md")  # a new block needs a test here
    numbers = {number: 10 * number for number in range(10)}
    check_output(tmp_path, worker + callbacks.replace("print(results)", "print(dict(sorted(results.items())))"), f"{numbers}\n")
    check_output(tmp_path, worker + program, "0\n10\n20\n70\nFAILED bad item\n")
    check_output(tmp_path, batches, "[1, 2, 3]\n")


@pytest.mark.parametrize("page", ["python.md", "worker-protocol.md"])
def test_serve_example_counts_words(tmp_path: pathlib.Path, page: str) -> None:
    (example,) = [block for block in blocks(page) if "serve(" in block]
    (tmp_path / "words.py").write_text(example)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one two three\n")
    done = run(
        _programs.find_gpuq(), "launch", "--input-dir", "texts", "--pattern", "*.txt",
        "--output-dir", "out", "--worker-command", f"{sys.executable} words.py", cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "a" / "count.txt").read_text() == "3\n"


def test_arguments_of_pool_and_map_are_all_named() -> None:
    text = (DOCS / "python.md").read_text()
    names = [*inspect.signature(Pool).parameters, *list(inspect.signature(Pool.map).parameters)[2:]]
    assert [name for name in names if f"`{name}=" not in text and f"`{name}`" not in text] == []


def test_arguments_of_the_launcher_exist() -> None:
    (example,) = blocks("python-launch.md")
    names = re.findall(r"(\w+)=", example.split("run(", 1)[1])
    inspect.signature(LauncherOrchestrator.run).bind(None, **dict.fromkeys(names))
