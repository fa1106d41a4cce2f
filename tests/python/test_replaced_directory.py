# SPDX-License-Identifier: MIT
"""Programs whose directory another user replaces while they run."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import zipapp

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


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a link: run it as root")
@pytest.mark.parametrize("trust", [False, True])
def test_a_link_of_another_user_that_has_replaced_the_script_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, trust: bool
) -> None:
    """It leads to another file of this user, such as a copy of a text."""
    replace = project.replace.replace("project", "project/program.py")
    (project.home / "program.py").write_text(WORKER + replace + guarded(RUN))
    copy = project.group.parent / "copy.txt"
    copy.write_text(WORKER.replace("data * 2", "data * 3"))
    link = project.home / "program.py.new"
    link.symlink_to(copy)
    os.lchown(link, 4321, -1)
    monkeypatch.setenv("GPUQ_TRUST", "1")
    done = project.run(trust=trust)
    if trust:
        check(done, "[(0, 3), (1, 6), (2, 9)]\n")
    else:
        words = "is reached through a link of another user, and was a different file when the program was started"
        assert words in done.stderr and done.returncode == 1, done


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a link: run it as root")
def test_a_link_of_another_user_that_led_to_the_script_from_the_start_is_accepted(project: Project) -> None:
    (project.home / "real.py").write_text(WORKER + guarded(RUN))
    (project.home / "program.py").symlink_to("real.py")
    os.lchown(project.home / "program.py", 4321, -1)
    check(project.run())


@pytest.mark.parametrize("kind", ["program", "module"])
def test_an_archive_in_such_a_directory_is_refused(project: Project, kind: str) -> None:
    """The archive is the program itself or contains a module of the program."""
    start = project.replace + "from gpu_dispatch import Pool\n"
    start += "with Pool(work.Twice, gpus='sim:1') as pool:\n    print(list(pool.map(range(3))))\n"
    project.group.chmod(0o2777)  # its group may be the private group of this user
    sources = project.group / "sources"
    for folder, mark in ((project.home, ""), (project.new, f"open({str(project.mark)!r}, 'w').close()\n")):
        sources.mkdir(exist_ok=True)
        (sources / "work.py").write_text(mark + WORKER)
        (sources / "__main__.py").write_text("import work\n" + start)
        zipapp.create_archive(sources, folder / "app.pyz")
    program = project.home / "app.pyz"
    if kind == "module":
        program = project.group.parent / "program.py"
        code = f"import sys\nsys.path.append({str(project.home / 'app.pyz')!r})\nimport work\n"
        program.write_text(code + guarded(start))
    done = project.run(str(program))
    assert not project.mark.exists(), "what was planted was executed"
    words = f"'{project.home}/app.pyz' is not the same archive as when the program was started"
    assert done.returncode == 1 and words in done.stderr, done
    project.group.chmod(0o755)
    (project.group / "project.old").rename(project.new)
    check(project.run(str(program)), "[0, 2, 4]\n")


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
