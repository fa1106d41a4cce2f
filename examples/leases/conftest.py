# SPDX-License-Identifier: MIT
"""pytest: tests that use the fixture `gpu` wait for a GPU once per session; all others run at once."""
import pytest

from gpu_lease import lease


@pytest.fixture(scope="session")
def gpu():
    with lease("--mem", "4G", "--name", "pytest") as number:
        yield number
