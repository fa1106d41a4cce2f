# SPDX-License-Identifier: MIT
"""Default paths for running pytest by hand; `make test` sets them itself."""
import os
import pathlib

SOURCE = pathlib.Path(__file__).resolve().parent.parent

os.environ.setdefault("GD_SOURCE", str(SOURCE))
os.environ.setdefault("GD_BUILD", str(SOURCE / "build"))
os.environ.setdefault("GPUQ", str(pathlib.Path(os.environ["GD_BUILD"]) / "gpuq"))
