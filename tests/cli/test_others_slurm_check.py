# SPDX-License-Identifier: MIT
"""The directory of `gpuq slurm check` on a machine with two users: the other user can neither read nor replace it. Slurm is
replaced by programs that run the job on this host."""
import json
import shutil

import pytest
from users import LIMIT, OPEN, STICKY, get_other, get_owner, make_machine, needs_users, until  # noqa: F401

pytestmark = needs_users

PROGRAMS = {
    "scontrol": """case "$*" in
*config*) echo 'SLURM_VERSION = 22.05.8'; echo 'ProctrackType = proctrack/cgroup' ;;
*) [ -e "$HOME/over" ] && state=COMPLETED || state=RUNNING; echo "JobId=1 JobState=$state Reason=None ExitCode=0:0" ;;
esac""",
    # The job begins when the file `go` exists; `seen` has the path of its script, which sbatch has read.
    "sbatch": """for script; do :; done
cp "$script" "$HOME/script"
echo "$script" > "$PLACE/seen.new" && mv "$PLACE/seen.new" "$PLACE/seen"
until [ -e "$PLACE/go" ]; do sleep 0.02; done
SLURM_JOB_ID=1 SLURMD_NODENAME=node1 setsid sh -c 'sh "$0"; touch "$HOME/over"' "$HOME/script" < /dev/null > /dev/null 2>&1 &
echo 1""",
    "squeue": "", "scancel": "", "sinfo": ""}


class Check:
    """The check of the owner, which waits in sbatch."""

    def __init__(self, machine, owner, directory):
        self.owner, self.directory, self.place = owner, directory, machine.directory(STICKY)
        programs = machine.directory(0o755)
        for name, text in PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
            (programs / name).chmod(0o755)
        (owner.home / "over").unlink(missing_ok=True)
        self.env = {"PATH": f"{programs}:{machine.place / 'bin'}:/usr/bin:/bin", "PLACE": str(self.place),
                    "GPUQ_NVML_LIBRARY": "/nowhere", "GPUQ_SYSFS_ROOT": "/nowhere"}

    def start(self, *words):
        self.process = self.owner.start("gpuq", "slurm", "check", "--json", "--jobs-file", self.directory / "jobs.jsonl", "--slurm-address", "127.0.0.1",
                                        *words, cwd=self.owner.home, env=self.env)

    def folder(self):
        """The directory that the check has created."""
        until((self.place / "seen").exists, "sbatch")
        return self.directory / (self.place / "seen").read_text(encoding="ascii").strip().split("/")[-2]

    def finish(self):
        """name → finding."""
        (self.place / "go").touch()
        out, err = self.process.communicate(timeout=LIMIT)
        assert out, err
        return {one["name"]: one for one in json.loads(out)["findings"]}


@pytest.fixture(name="program", autouse=True)
def find_program(machine):
    if not (machine.place / "bin/gpuq-slurm").exists():
        pytest.skip("gpuq-slurm was not built: nettle is missing")


def test_other_user_cannot_read_or_replace_the_directory(machine, owner, other):
    directory = machine.directory(STICKY)
    check = Check(machine, owner, directory)
    check.start()
    folder = check.folder()
    for attack in (f"ls '{folder}'", f"cat '{folder}/greeting'", f"cat '{folder}/script'", f"mv '{folder}' '{folder}.moved'", f"rmdir '{folder}'",
                   f"touch '{folder}/answer.new'"):
        result = other.run("sh", "-c", attack, cwd="/")
        assert result.returncode != 0 and ("denied" in result.stderr or "not permitted" in result.stderr), (attack, result)
    found = check.finish()
    assert found["shared"]["level"] == "ok" and found["TCP"]["level"] == "ok", found
    assert not [path for path in directory.iterdir() if path.name.startswith(".gpuq-check")]


def test_directory_that_the_other_user_can_change_is_refused(machine, owner):
    project = machine.project(owner)
    owner.sh(OPEN, project)
    check = Check(machine, owner, project)
    check.start()
    found = check.finish()
    assert found["directory"]["level"] == "problem" and "--trust" in found["directory"]["advice"] and "shared" not in found, found
    assert not list(project.iterdir()) and not (check.place / "seen").exists()


@pytest.mark.parametrize("mode, words", [("700", "Permission denied"), ("777", "Operation not permitted")])
def test_directory_that_the_other_user_has_put_in_its_place_is_not_used(machine, owner, other, mode, words):
    """With --trust: the node finds a directory of the other user, with links to a file of the owner."""
    project = machine.project(owner)
    owner.sh(OPEN, project)
    (owner.home / "mine").write_text("precious", encoding="ascii")
    shutil.chown(owner.home / "mine", owner.uid, owner.gid)
    check = Check(machine, owner, project)
    check.start("--trust")
    folder = check.folder()
    other.sh(f"mv '{folder}' '{folder}.moved'; mkdir '{folder}'; chmod {mode} '{folder}'; cd '{folder}'; "
             f"for name in answer.new answer node.lock seen.new; do ln -s '{owner.home}/mine' $name; done", project)
    found = check.finish()
    assert found["shared"]["level"] == "problem" and words in found["shared"]["words"], found
    assert (owner.home / "mine").read_text(encoding="ascii") == "precious"
    assert sorted(path.name for path in folder.iterdir()) == ["answer", "answer.new", "node.lock", "seen.new"]
    assert all(path.is_symlink() for path in folder.iterdir())
