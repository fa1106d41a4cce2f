# SPDX-License-Identifier: MIT
"""gpuq slurm check on hosts of their own (datacenter.py): locks between the login node and nodes, and between two nodes."""
import json
import pathlib
import subprocess
import sys

import datacenter
import pytest

HERE = pathlib.Path(__file__).parent
LIMIT = 240
MISSING = datacenter.missing()
SLURM = ("--slurm", "--gres=gpu:1 --time=10")

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def check(nodes, *words):
    """name → finding."""
    result = subprocess.run([sys.executable, HERE / "check_on_nodes.py", str(nodes), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=LIMIT, check=False)
    assert result.returncode == 0, result
    return {one["name"]: one for one in json.loads(result.stdout)["findings"]}


def test_two_nodes_see_the_locks_of_each_other():
    found = check(2, *SLURM, "--max-nodes", "2")
    assert found["locks"]["level"] == "ok" and found["node to node"]["level"] == "ok", found
    assert found["node to node"]["words"] in ("locks are seen between g1 and g2", "locks are seen between g2 and g1")


def test_locks_that_only_one_of_two_nodes_has():
    found = check(2, "--no-locks-on-the-second", *SLURM, "--max-nodes", "2")["node to node"]
    assert found["level"] == "problem" and "does not see a lock of node" in found["words"] and "local_lock" in found["advice"], found


def test_single_node_is_reported():
    found = check(1, *SLURM, "--max-nodes", "2")["node to node"]
    assert found["level"] == "note" and "only one node was available" in found["words"] and "run the check again" in found["advice"], found


def test_nodes_of_the_user_are_not_replaced():
    found = check(2, "--slurm", "--gres=gpu:1 --time=10 --exclude=g2", "--max-nodes", "2")
    assert "ran on node g1" in found["start"]["words"] and "name nodes" in found["node to node"]["words"], found


def test_locks_that_no_other_host_sees():
    """Each node has its own locks on a real file system. Two nodes are then not compared, and never with one pilot at a time."""
    found = check(1, "--no-locks", *SLURM, "--max-nodes", "2")
    assert found["locks"]["level"] == "problem" and "do not work between hosts" in found["locks"]["words"] and "node to node" not in found, found
    assert "node to node" not in check(1, *SLURM)
