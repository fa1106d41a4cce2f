# SPDX-License-Identifier: MIT
"""Fixtures. Finds the package in the build tree when pytest is run by hand; `make test` sets the path itself."""
from __future__ import annotations

import importlib.util
import os
import pathlib
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gpu_dispatch import Pool

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.setdefault("GD_BUILD", str(SOURCE / "build")))

if importlib.util.find_spec("gpu_dispatch") is None:
    sys.path.insert(0, str(BUILD / "python"))
    os.environ["PYTHONPATH"] = str(BUILD / "python")  # for programs that the tests run

# Shells start programs in the background with SIGINT ignored, and their children inherit it. Restore
# it, because Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """A shared pool for tests that do not change it."""
    from gpu_dispatch import Pool
    from poolworkers import Actor

    with Pool(Actor, "sim:2") as pool:
        yield pool


@pytest.fixture
def one() -> Iterator[Pool]:
    """A pool with one worker, whose tasks may be left running."""
    from gpu_dispatch import Pool
    from poolworkers import Actor

    pool = Pool(Actor, "sim:1", queue_size=16)
    yield pool
    pool._shutdown(True, 2)
