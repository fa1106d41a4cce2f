# SPDX-License-Identifier: MIT
"""Makes one call of one command fail, with the library of inject.c."""

import os
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))

from lab import Lab  # noqa: E402

INJECT = pathlib.Path(os.environ["GD_BUILD"]) / "tests/faults/libinject.so"
LIMIT = 120  # seconds; a run takes a tenth of one


class Injection:
    """A queue in which one call of one command fails."""

    def __init__(self, directory: pathlib.Path, call: str, number: int, at: int, failing: int = 1, **more: str) -> None:
        directory.mkdir()
        self.lab = Lab(directory, gpus="sim:1")
        self.counter = directory.parent / f"{directory.name}.counter"
        self.counter.write_bytes(struct.pack("qq", at, failing))
        self.environment = {
            "LD_PRELOAD": str(INJECT),
            "INJECT_CALL": call,
            "INJECT_ERRNO": str(number),
            "INJECT_COUNTER": str(self.counter),
            **more,
        }

    def calls_left(self) -> int:
        """0 or negative if the call failed; otherwise how many more calls were needed to reach it."""
        passing, failing = struct.unpack("qq", self.counter.read_bytes())
        return passing + failing if failing > 0 else 0

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [os.environ["GPUQ"], *words],
            cwd=self.lab.directory,
            env={**self.lab.environment, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert result.returncode in (0, 1, 2, 125), result
        if result.returncode not in (0, 1):
            assert result.stderr.startswith("gpuq"), result
        return result
