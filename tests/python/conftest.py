# SPDX-License-Identifier: MIT
"""Finds the package in the build tree when pytest is typed by hand; `make test` says it itself."""
from __future__ import annotations

import importlib.util
import os
import pathlib
import signal
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.setdefault("GD_BUILD", str(SOURCE / "build")))

if importlib.util.find_spec("gpu_dispatch") is None:
    sys.path.insert(0, str(BUILD / "python"))
    os.environ["PYTHONPATH"] = str(BUILD / "python")  # for programs that the tests run

# Shells start programs in the background with SIGINT ignored, and their children inherit it. Ctrl-C is
# tested nevertheless.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
