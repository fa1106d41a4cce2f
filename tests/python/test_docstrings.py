# SPDX-License-Identifier: MIT
"""The examples in docstrings: programs behind `::`, and doctests."""
from __future__ import annotations

import doctest
import importlib
import inspect
import pathlib
import pkgutil
import re

import pytest
from scripts import check, python

import gpu_dispatch
from gpu_dispatch import Dispatcher, Pool
from gpu_dispatch.ui import RichDispatcher

IMPORTS = "from gpu_dispatch import BaseWorker, Dispatcher, Pool\nfrom gpu_dispatch.ui import RichDispatcher\n"


def example(thing: object) -> str:
    """The program in a docstring: the indented block after `::`."""
    found = re.search(r"::\n\n((?:    .*\n|\n)+)", inspect.getdoc(thing) or "")
    assert found is not None
    return inspect.cleandoc(found.group(1)) + "\n"


def promised(program: str) -> str:
    """The expected output, from the comments after each print()."""
    return "".join(f"{text}\n" for text in re.findall(r"print\(.*\)  # (.*)", program))


@pytest.mark.parametrize("thing", [Pool, Dispatcher])
def test_example_programs_print_the_documented_output(
    thing: object, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUQ_GPUS", "sim:2")
    program = example(thing)
    assert promised(program)
    (tmp_path / "program.py").write_text(IMPORTS + program)
    check(python("program.py", directory=tmp_path), promised(program))


def test_the_dispatcher_with_a_panel(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("rich")
    worker = example(Dispatcher).partition("results = ")[0].replace(", factor", "").replace("self.factor = factor", "pass")
    program = IMPORTS + worker.replace("self.factor", "2") + "\nitems = range(3)\nWorker = Scaler\n"
    (tmp_path / "program.py").write_text(program + example(RichDispatcher))
    done = python("program.py", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Completed 3 tasks\n")


def test_doctests() -> None:
    attempted = 0
    for info in pkgutil.walk_packages(gpu_dispatch.__path__, "gpu_dispatch."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            assert error.name in ("torch", "rich"), info.name
            continue
        result = doctest.testmod(module)
        assert result.failed == 0, info.name
        attempted += result.attempted
    assert attempted > 0
