# SPDX-License-Identifier: MIT
"""Programs whose directory another user replaces while they run."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from scripts import RUN, WORKER, check, guarded

REPLACE = """
import os
if __name__ == "__main__":
    os.rename({place!r}, {place!r} + ".old")
    os.rename({place!r} + ".new", {place!r})
"""


class Project:
    """A directory with a script, and another one, whose code leaves a mark, to replace it."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.group = directory / "group"
        self.group.mkdir()
        self.group.chmod(0o2775)
        self.mark = directory / "planted"
        self.home = self.group / "project"
        self.home.mkdir()
        self.new = self.group / "project.new"
        self.new.mkdir()
        self.replace = REPLACE.format(place=str(self.home))

    def plant(self, name: str, code: str = "") -> None:
        (self.new / name).write_text(f"open({str(self.mark)!r}, 'w').close()\n{code}")

    def run(self, *command: str, cwd: pathlib.Path | None = None, trust: bool = False) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, *(command or [str(self.home / "program.py")])]
        env = {name: value for name, value in os.environ.items() if trust or name != "GPUQ_TRUST"}
        return subprocess.run(words, cwd=cwd or "/", env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(name="project")
def make_project(tmp_path: pathlib.Path) -> Project:
    return Project(tmp_path)


def refused(done: subprocess.CompletedProcess[str], project: Project) -> None:
    assert not project.mark.exists(), "what was planted was executed"
    words = f"'{project.home}' is not the same directory as when the program was started"
    assert done.returncode == 1 and words in done.stderr, done


def test_workers_do_not_run_the_script_of_a_directory_that_another_user_may_have_put_there(project: Project) -> None:
    program = WORKER + project.replace + guarded(RUN)
    (project.home / "program.py").write_text(program)
    project.plant("program.py", program)
    refused(project.run(), project)


def test_replacement_workers_do_not_run_the_script_of_such_a_directory(project: Project) -> None:
    run = """
from gpu_dispatch import Pool
with Pool(Twice, gpus="sim:1", max_tasks_per_worker=1) as pool:
    print(pool.submit(4).result())
    exec(REPLACE)
    print(list(pool.map(range(3))))
"""
    program = WORKER + f"REPLACE = {project.replace!r}\n" + guarded(run)
    (project.home / "program.py").write_text(program)
    project.plant("program.py", program)
    done = project.run()
    refused(done, project)
    assert done.stdout == "8\n"


def test_workers_import_no_module_from_such_a_directory(project: Project, tmp_path: pathlib.Path) -> None:
    """The script itself is elsewhere. Workers import types before they run it, and so does the program before the directory is replaced."""
    script = tmp_path / "program.py"
    script.write_text(f"import subprocess, sys, types\nsys.path.insert(0, {str(project.home)!r})\n" + WORKER + project.replace + guarded(RUN))
    for name in ("types.py", "__future__.py", "gpu_dispatch.py", "subprocess.py", "os.py"):
        project.plant(name)
    refused(project.run(str(script)), project)


def test_a_module_of_dash_m_in_such_a_directory_is_refused(project: Project) -> None:
    program = WORKER + project.replace + guarded(RUN)
    (project.home / "program.py").write_text(program)
    project.plant("program.py", program)
    refused(project.run("-m", "program", cwd=project.home), project)


def test_a_link_to_a_script_in_such_a_directory_is_refused(project: Project, tmp_path: pathlib.Path) -> None:
    program = WORKER + project.replace + guarded(RUN)
    (project.home / "real.py").write_text(program)
    (tmp_path / "program.py").symlink_to(project.home / "real.py")
    project.plant("real.py", program)
    refused(project.run(str(tmp_path / "program.py")), project)


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a file: run it as root")
def test_a_script_that_another_user_has_put_into_the_same_directory_is_refused(project: Project) -> None:
    replace = project.replace.replace("project", "project/program.py")
    (project.home / "program.py").write_text(WORKER + replace + guarded(RUN))
    planted = project.home / "program.py.new"
    planted.write_text(f"open({str(project.mark)!r}, 'w').close()\n" + WORKER + guarded(RUN))
    os.chown(planted, 4321, -1)
    done = project.run()
    assert not project.mark.exists() and "belongs to another user" in done.stderr and done.returncode == 1, done


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a file: run it as root")
def test_the_refusal_of_a_script_imports_no_module_from_its_directory(project: Project) -> None:
    replace = project.replace.replace("project", "project/program.py")
    for name in ("multiprocessing", "concurrent"):
        replace += f"    os.rename({str(project.new / name)!r} + '.py', {str(project.home / name)!r} + '.py')\n"
        project.plant(f"{name}.py")
    (project.home / "program.py").write_text(WORKER + replace + guarded(RUN))
    planted = project.home / "program.py.new"
    planted.write_text(f"open({str(project.mark)!r}, 'w').close()\n" + WORKER + guarded(RUN))
    os.chown(planted, 4321, -1)
    done = project.run()
    assert not project.mark.exists() and "belongs to another user" in done.stderr and done.returncode == 1, done


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a file: run it as root")
def test_a_script_that_belonged_to_another_user_from_the_start_is_accepted(project: Project) -> None:
    script = project.home / "program.py"
    script.write_text(WORKER + guarded(RUN))
    os.chown(script, 4321, -1)
    check(project.run())


def test_the_check_can_be_switched_off(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUQ_TRUST", "1")
    (project.home / "program.py").write_text(WORKER + project.replace + guarded(RUN))
    (project.new / "program.py").write_text(WORKER.replace("data * 2", "data * 3"))
    if os.geteuid() == 0:
        os.chown(project.new / "program.py", 4321, -1)
    check(project.run(trust=True), "[(0, 3), (1, 6), (2, 9)]\n")


def test_a_script_that_is_saved_while_it_runs_is_accepted(project: Project) -> None:
    """Editors write a new file and rename it. As with multiprocessing, new workers run the new version."""
    replace = project.replace.replace("project", "project/program.py")
    (project.home / "program.py").write_text(WORKER + replace + guarded(RUN))
    (project.home / "program.py.new").write_text(WORKER.replace("data * 2", "data * 3"))
    check(project.run(), "[(0, 3), (1, 6), (2, 9)]\n")


def test_a_directory_that_only_this_user_can_replace_is_accepted(project: Project) -> None:
    project.group.chmod(0o755)
    (project.home / "program.py").write_text(WORKER + project.replace + guarded(RUN))
    (project.new / "program.py").write_text(WORKER.replace("data * 2", "data * 3"))
    check(project.run(), "[(0, 3), (1, 6), (2, 9)]\n")
