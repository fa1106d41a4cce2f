# SPDX-License-Identifier: MIT
"""The cluster that these tests run on: several of them, and nothing left behind."""
import json
import os
import pwd
import signal
import subprocess
import sys

import processes
from cluster import HERE, LIMIT, Cluster

# Brings up a cluster with a job that escapes its session, prints its resources, and waits to be killed.
PROGRAM = """
import json, sys, time
sys.path[:0] = sys.argv[1:]
from cluster import Cluster
cluster = Cluster()
cluster.wait_ready()
lab = cluster.lab()
lab.sbatch("--wrap", "setsid sleep 1000 & setsid setsid sleep 1000 & touch begun; wait")
lab.until((lab.directory / "begun").exists, "the batch job")
print(json.dumps([cluster.process.pid, str(cluster.place), cluster.user.pw_name, cluster.environment["SLURM_CONF"]]), flush=True)
time.sleep(1000)
"""


def test_two_clusters_side_by_side(lab):
    other = Cluster()
    try:
        other.wait_ready()
        their = other.lab()
        numbers = [one.sbatch("--wrap", "echo $CUDA_VISIBLE_DEVICES") for one in (lab, their)]
        for one, number in zip((lab, their), numbers):
            assert one.exit_code(number) == 0
            assert one.output(number) == "0,1\n"
    finally:
        other.close()
    assert other.processes() == [] and not other.place.exists()


def test_nothing_is_left_of_a_cluster_whose_test_was_killed():
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, HERE, HERE.parent / "cli"], stdout=subprocess.PIPE, text=True)
    above, place, user, conf = json.loads(process.stdout.readline())
    assert len(processes.with_variable("SLURM_CONF", conf)) >= 5
    process.send_signal(signal.SIGKILL)
    process.wait(LIMIT)
    processes.until(lambda: not processes.alive(above), LIMIT, lambda: "the end of the process above the cluster")
    assert processes.with_variable("SLURM_CONF", conf) == []
    assert not os.path.exists(place)
    if os.geteuid() == 0:
        assert user not in [entry.pw_name for entry in pwd.getpwall()]
