# SPDX-License-Identifier: MIT
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from lab import Lab  # noqa: E402
from launch_lab import Launch  # noqa: E402


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    made.end()


@pytest.fixture(name="launch")
def make_launch(tmp_path):
    made = Launch(tmp_path)
    yield made
    made.end()
