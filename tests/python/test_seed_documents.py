# SPDX-License-Identifier: MIT
"""The examples in the documents of the original library, run as they are.

The documents are not part of this repository: GPUQ_SEEDS_DIR names their directory. Names that
an example leaves to its reader (`dataset`, `result`) are supplied here.
"""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

SEEDS = os.environ.get("GPUQ_SEEDS_DIR")
pytestmark = pytest.mark.skipif(not SEEDS, reason="GPUQ_SEEDS_DIR is not set")

PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(number: str) -> list[str]:
    assert SEEDS
    (path,) = pathlib.Path(SEEDS).glob(f"{number}_*.txt")
    return PYTHON_BLOCK.findall(path.read_text(encoding="utf-8"))


def block(number: str, words: str) -> str:
    """The first example that contains these words."""
    return next(text for text in blocks(number) if words in text)


def run(directory: pathlib.Path, *code: str) -> str:
    program = directory / "example.py"
    program.write_text("\n".join(textwrap.dedent(part) for part in code), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=directory, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quick_start_without_a_guard(tmp_path: pathlib.Path) -> None:
    before = "dataset = [1, 2, 3]\nresult = 'the result'"
    assert run(tmp_path, before, block("000", "dispatcher.run(")) == "All workers drained!\n"


def test_quick_start_processes_each_item(tmp_path: pathlib.Path) -> None:
    before = "dataset = range(50)\nresult = 'the result'\n"
    example = block("000", "dispatcher.run(")
    changed = example.replace("    # Handle result\n    pass", "    print(task_id, result, worker_id in (0, 1, 2, 3))")
    assert changed != example
    lines = run(tmp_path, before, changed).splitlines()
    assert sorted(lines[:-1]) == sorted(f"{number} the result True" for number in range(50))
    assert lines[-1] == "All workers drained!"


def test_the_complete_example(tmp_path: pathlib.Path) -> None:
    lines = run(tmp_path, block("001", 'if __name__ == "__main__":')).splitlines()
    for gpu in range(4):
        assert f"[GPU {gpu}] Initializing with config: ./configs/yolo_v8.yaml" in lines
        assert f"[GPU {gpu}] Shutting down." in lines
    progress = [line for line in lines if line.startswith("Progress: ")]
    assert len(progress) == 10
    assert any(re.match(r"Progress: 900 on GPU \d -> Features from /data/img_0900.jpg via GPU \d$", line) for line in progress)


def test_the_dataclasses_are_those_of_the_document() -> None:
    import dataclasses

    from gpu_dispatch import protocol

    described: dict[str, object] = {}
    exec(block("001", "class TaskSuccess"), described)
    for name in protocol.__all__:
        theirs, ours = described[name], getattr(protocol, name)
        assert [f.name for f in dataclasses.fields(theirs)] == [f.name for f in dataclasses.fields(ours)]


def test_signatures_are_those_of_the_document() -> None:
    import inspect

    import gpu_dispatch

    described: dict[str, object] = {"Any": object, "BaseWorker": gpu_dispatch.BaseWorker, "callable": object}
    code = block("001", "class Dispatcher:").replace(": callable", "")
    exec("from __future__ import annotations\n" + code, described)
    for method in ("__init__", "run"):
        theirs = inspect.signature(getattr(described["Dispatcher"], method)).parameters
        ours = inspect.signature(getattr(gpu_dispatch.Dispatcher, method)).parameters
        for name, parameter in theirs.items():
            assert (ours[name].default, ours[name].kind) == (parameter.default, parameter.kind)
        # Fields unknown to the documents come later.
        assert [name for name in ours if name in theirs] == list(theirs)
