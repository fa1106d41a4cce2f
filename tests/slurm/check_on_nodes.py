#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs `gpuq slurm check` on a login node with some nodes, and prints its report as JSON. Root only.

    check_on_nodes.py NODES [--no-locks | --no-locks-on-the-second] [OPTION OF gpuq slurm check…]

--no-locks: a file system whose locks other hosts do not see; --no-locks-on-the-second: only the second job's node has
one. The environment is that of the tests: GD_BUILD.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))

import datacenter  # noqa: E402

# An sbatch that changes the script of the second job.
SBATCH = """#!/usr/bin/env python3
import os, pathlib, sys
script = pathlib.Path(sys.argv[-1])
if script.name == "second.script":
    script.write_text(script.read_text().replace("\\nexec", "\\nLD_PRELOAD={preload} exec"))
os.execv("/usr/bin/sbatch", sys.argv)
"""


def main():
    datacenter.enter()
    nodes, words = int(sys.argv[1]), sys.argv[2:]
    center = datacenter.Datacenter(nodes=nodes, gpus=1, locks="--no-locks" not in words, programs=["tests/slurm/libno_locks.so"])
    if "--no-locks-on-the-second" in words:
        (center.local / "bin/sbatch").write_text(SBATCH.format(preload=center.local / "bin/libno_locks.so"), encoding="ascii")
        (center.local / "bin/sbatch").chmod(0o755)
    try:
        center.up()
        directory = center.directory("queue")
        print(center.login.run("gpuq", "slurm", "check", "--json", *[word for word in words if not word.startswith("--no-locks")], cwd=directory, code=None))
        assert not list((center.real / "queue").iterdir()), "files are left"
    finally:
        center.down()


if __name__ == "__main__":
    main()
