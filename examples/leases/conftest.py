# SPDX-License-Identifier: MIT
"""A fixture for pytest: tests that use `gpu` wait for a GPU once per session; all others run without waiting."""
import pytest

from gpu_lease import lease


@pytest.fixture(scope="session")
def gpu():
    with lease("--mem", "4G", "--name", "pytest") as number:
        yield number
