# SPDX-License-Identifier: MIT
"""Programs that change to a directory in which another user has planted files, before they start workers."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from scripts import RUN, WORKER, check, guarded, script

import gpu_dispatch


class Place:
    """The directory in which a program is started, and the one to which it changes."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.home = directory / "home"
        self.shared = directory / "shared"
        self.home.mkdir()
        self.shared.mkdir()
        self.environment = dict(os.environ)
        self.change = f"import os\nif __name__ == '__main__':\n    os.chdir({str(self.shared)!r})\n"
        self._planted = directory / "planted"

    def plant_program(self, name: str) -> None:
        program = self.shared / name
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\ntouch '{self._planted}'\n")
        program.chmod(0o755)

    def run(self, *parts: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        command = [python, script(self.home, *parts)]
        done = subprocess.run(
            command, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert not self._planted.exists(), "what was planted was executed"
        return done


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    return Place(tmp_path)


def make_environment(directory: pathlib.Path) -> None:
    """A virtual environment without packages, as quickly as possible."""
    real = os.path.realpath(sys.executable)
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to(real)
    (directory / "pyvenv.cfg").write_text(f"home = {os.path.dirname(real)}\n")


@pytest.mark.parametrize("early", [False, True])
def test_workers_run_the_python_that_a_relative_entry_of_the_path_found(place: Place, early: bool) -> None:
    """early: the program changes to the directory before it imports the package."""
    make_environment(place.home / "venv")
    place.plant_program("venv/bin/python")
    place.environment["PYTHONPATH"] = os.path.dirname(gpu_dispatch.__path__[0])
    place.environment["PATH"] = f"venv/bin:{os.environ['PATH']}"
    what = f"""
import sys
assert sys.prefix == {str(place.home / "venv")!r}, sys.prefix
assert os.path.isabs(sys.executable) == (__name__ != "__main__"), sys.executable
"""
    first, second = (place.change, WORKER) if early else (WORKER, place.change)
    check(place.run(first, second, what, guarded(RUN), python="python"))


def test_a_relative_path_to_a_python_without_a_virtual_environment(place: Place) -> None:
    real = os.path.realpath(sys.executable)
    (place.home / "bin").symlink_to(os.path.dirname(real))
    name = os.path.basename(real)
    place.plant_program(f"bin/{name}")
    place.environment["PYTHONPATH"] = os.path.dirname(gpu_dispatch.__path__[0])
    place.environment["PATH"] = f"bin:{os.environ['PATH']}"
    check(place.run(WORKER, place.change, guarded(RUN), python=name))
