# SPDX-License-Identifier: MIT
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))

from cluster import Cluster  # noqa: E402

PROGRAMS = ("sbatch", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged")


def pytest_collection_modifyitems(items):
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    for item in items if missing else []:
        item.add_marker(pytest.mark.skip(reason=f"{', '.join(missing)} not found; 'make test-slurm' installs Slurm"))


@pytest.fixture(name="cluster", scope="session")
def make_cluster():
    made = Cluster()
    try:
        made.wait_ready()
        yield made
    finally:
        made.close()


@pytest.fixture(name="lab")
def make_lab(cluster):
    made = cluster.lab()
    yield made
    made.end()
