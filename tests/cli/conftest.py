# SPDX-License-Identifier: MIT
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from lab import Lab  # noqa: E402
from launch_lab import Launch  # noqa: E402
from map_lab import Map  # noqa: E402

# nohup and shells that start background programs ignore signals that the tests send; children would inherit that.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


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


@pytest.fixture(name="map")
def make_map(tmp_path):
    made = Map(tmp_path)
    yield made
    made.end()
