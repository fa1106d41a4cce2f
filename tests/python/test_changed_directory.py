# SPDX-License-Identifier: MIT
"""Programs that change to a directory in which another user has planted files, before they start workers."""
from __future__ import annotations

import grp
import os
import pathlib
import pwd
import shutil
import struct
import subprocess
import sys

import pytest
from scripts import RUN, WORKER, check, guarded, script

import gpu_dispatch
from gpu_dispatch import _trust

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="compiles a library")


class Place:
    """The directory in which a program is started, and the one to which it changes."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.home = directory / "home"
        self.shared = directory / "shared"
        self.home.mkdir()
        self.shared.mkdir()
        self.environment = {name: value for name, value in os.environ.items() if name != "GPUQ_TRUST"}
        self.change = f"import os\nif __name__ == '__main__':\n    os.chdir({str(self.shared)!r})\n"
        self._planted = directory / "planted"

    def plant_program(self, name: str) -> None:
        program = self.shared / name
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\ntouch '{self._planted}'\n")
        program.chmod(0o755)

    def plant_libraries(self, *names: str) -> None:
        """Libraries for the loader: the first thing that each does is to leave a trace and to end the process."""
        code = PLANTED % self._planted
        library = self.shared / names[0]
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"]
        subprocess.run(command, input=code, text=True, check=True, timeout=60)
        for name in names[1:]:
            shutil.copy(library, self.shared / name)

    def plant_script(self, name: str) -> None:
        path = self.shared / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(self._planted)!r}, 'w').close()\n")

    def run(self, *parts: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        return self.execute(python, script(self.home, *parts))

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert not self._planted.exists(), "what was planted was executed"
        return done


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    return Place(tmp_path)


PLANTED = """
#include <stdlib.h>
__attribute__((constructor)) static void run(void)
{
	unsetenv("LD_LIBRARY_PATH");
	unsetenv("LD_PRELOAD");
	_Exit(system("touch %s") + 7);
}
"""


def make_environment(directory: pathlib.Path) -> None:
    """A virtual environment without packages, as quickly as possible."""
    real = os.path.realpath(sys.executable)
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to(real)
    (directory / "pyvenv.cfg").write_text(f"home = {os.path.dirname(real)}\n")


@pytest.mark.parametrize("early", [False, True])
def test_workers_run_the_python_that_a_relative_entry_of_the_path_found(place: Place, early: bool) -> None:
    """early: the program changes to the directory before it imports the package."""
    make_environment(place.home / "venv")
    place.plant_program("venv/bin/python")
    place.environment["PYTHONPATH"] = os.path.dirname(gpu_dispatch.__path__[0])
    place.environment["PATH"] = f"venv/bin:{os.environ['PATH']}"
    what = f"""
import sys
assert sys.prefix == {str(place.home / "venv")!r}, sys.prefix
assert sys.version_info < (3, 11) or os.path.isabs(sys.executable) == (__name__ != "__main__"), sys.executable
"""
    first, second = (place.change, WORKER) if early else (WORKER, place.change)
    check(place.run(first, second, what, guarded(RUN), python="python"))


def test_workers_run_the_python_that_a_relative_path_found_without_a_virtual_environment(place: Place) -> None:
    real = os.path.realpath(sys.executable)
    (place.home / "bin").symlink_to(os.path.dirname(real))
    name = os.path.basename(real)
    place.plant_program(f"bin/{name}")
    place.environment["PYTHONPATH"] = os.path.dirname(gpu_dispatch.__path__[0])
    place.environment["PATH"] = f"bin:{os.environ['PATH']}"
    check(place.run(WORKER, place.change, guarded(RUN), python=name))


SHOW_VARIABLE = """
class Shown(BaseWorker):
    def setup(self, gpu_id, seed):
        pass
    def process(self, name):
        import os
        return os.environ.get(name)
"""
SHOW = "Dispatcher(Shown, [0]).run([{name!r}], on_success, on_error=lambda *args: print(args))\nprint(results[0])\n"


def show(place: Place, name: str, value: str, early: bool = False) -> str:
    """The value of the variable in a worker."""
    place.environment[name] = value
    first, second = (place.change, WORKER) if early else (WORKER, place.change)
    done = place.run(first, second, SHOW_VARIABLE, guarded(SHOW.format(name=name)))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_compiler
@pytest.mark.parametrize("entry", ["", "."])
@pytest.mark.parametrize("early", [False, True])
def test_workers_load_no_library_from_the_directory_to_which_the_program_changes(place: Place, entry: str, early: bool) -> None:
    """early: the program changes to the directory before it imports the package."""
    place.shared.chmod(0o1777)
    place.plant_libraries("libc.so.6", "libm.so.6", f"libpython3.{sys.version_info[1]}.so.1.0")
    shown = show(place, "LD_LIBRARY_PATH", f"{entry}:/nonexistent/lib64", early)
    assert shown == ("" if early else f"{place.home}:") + "/nonexistent/lib64"


@needs_compiler
def test_the_gpu_probe_loads_no_library_from_the_directory_to_which_the_program_changes(place: Place) -> None:
    place.plant_libraries("library.so")
    place.environment["LD_PRELOAD"] = "./library.so"
    what = "import gpu_dispatch._engine\ngpu_dispatch._engine.gpu_survey()\n"
    check(place.run(WORKER, place.change, guarded(what)), "")


def test_relative_paths_of_the_environment_keep_their_meaning_in_workers(place: Place) -> None:
    (place.home / "lib").mkdir()
    name = "LD_LIBRARY_PATH"
    assert show(place, name, "lib:$ORIGIN/lib;/nonexistent") == f"{place.home}/lib:$ORIGIN/lib:/nonexistent"
    assert show(place, "PYTHONPYCACHEPREFIX", "cache/python") == f"{place.home}/cache/python"
    assert show(place, "PYTHONUSERBASE", "base") == f"{place.home}/base"
    assert show(place, "LD_PRELOAD", "libdl.so.2 lib/missing.so") == f"libdl.so.2:{place.home}/lib/missing.so"


@pytest.mark.parametrize("mode", [0o1777, 0o757])
def test_relative_paths_that_others_may_have_chosen_do_not_reach_workers(place: Place, mode: int) -> None:
    place.shared.chmod(mode)
    assert show(place, "PYTHONPYCACHEPREFIX", "cache/python", early=True) == "None"
    assert show(place, "LD_LIBRARY_PATH", "/nonexistent", early=True) == "/nonexistent"


def test_relative_paths_below_a_directory_that_others_can_write_do_not_reach_workers(place: Place) -> None:
    above = place.home.parent
    (place.home / "src" / "lib").mkdir(parents=True)
    above.chmod(0o777)
    assert show(place, "LD_LIBRARY_PATH", "src/lib:/nonexistent") == "/nonexistent"
    above.chmod(0o1777)
    assert show(place, "LD_LIBRARY_PATH", "src/lib:/nonexistent") == f"{place.home}/src/lib:/nonexistent"
    above.chmod(0o777)
    place.environment["GPUQ_TRUST"] = "1"
    assert show(place, "LD_LIBRARY_PATH", "src/lib:/nonexistent") == f"{place.home}/src/lib:/nonexistent"


def test_a_place_is_own_only_if_its_group_is_private(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current group is not private after newgrp."""
    monkeypatch.delenv("GPUQ_TRUST", raising=False)
    place = tmp_path / "data"
    place.mkdir()
    place.chmod(0o2775)
    user = pwd.getpwuid(os.geteuid()).pw_name
    groups: list[tuple[str, list[str], bool]] = [("lab", [], False), (user, [], True), (user, [user], True), (user, [user, "eve"], False)]
    for name, members, own in groups:
        group = grp.struct_group((name, "x", os.getegid(), members))
        monkeypatch.setattr(grp, "getgrgid", lambda gid, group=group: group)
        assert _trust.is_own(str(place)) == own, (name, members)
        assert _trust.is_own(str(place / "missing" / "lib")) == own, (name, members)


def test_a_place_with_an_access_list_is_own_unless_the_list_permits_writing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUQ_TRUST", raising=False)
    user = pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((user, "x", gid, [])))
    entries = [(1, 7, 0xFFFFFFFF), (2, 7, 4321), (4, 5, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 5, 0xFFFFFFFF)]
    try:
        os.setxattr(tmp_path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries))
    except OSError:
        pytest.skip("this file system has no access lists")
    assert not _trust.is_own(str(tmp_path))
    tmp_path.chmod(0o755)  # changes the mask of the list
    assert _trust.is_own(str(tmp_path))


def test_a_place_behind_a_link_is_own_if_no_other_user_can_replace_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUQ_TRUST", raising=False)
    for name, mode in (("safe", 0o755), ("open", 0o777)):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name).chmod(mode)
        (tmp_path / f"to_{name}").symlink_to(tmp_path / name / "lib")
    assert _trust.is_own(str(tmp_path / "to_safe"))
    assert not _trust.is_own(str(tmp_path / "to_open"))


TOOL = """
import runpy, sys
sys.argv = sys.argv[2:]
{path}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
TOOLS = {
    "memray": ("../tools/tool.py", "sys.path[0] = str(pathlib.Path(sys.argv[0]).resolve().parent)"),
    "debugpy": ("-mtool", "sys.path.insert(0, os.path.dirname(sys.argv[0]))"),
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("folder", ["", "folder"])
def test_workers_run_the_script_to_which_a_tool_gives_a_relative_name(place: Place, tool: str, folder: str) -> None:
    """The program changes to the directory before it imports the package."""
    (place.home / folder).mkdir(exist_ok=True)
    name = os.path.join(folder, os.path.basename(script(place.home / folder, place.change, WORKER, guarded(RUN))))
    place.plant_script(name)
    option, path = TOOLS[tool]
    file = place.home / (option if option.endswith(".py") else "tool.py")
    (place.home.parent / "tools").mkdir()
    file.write_text("import os, pathlib\n" + TOOL.format(path=path))
    check(place.execute(sys.executable, option, "run", name))


def test_a_script_whose_place_is_not_known_is_refused(place: Place) -> None:
    name = os.path.basename(script(place.home, place.change, WORKER, guarded(RUN)))
    place.plant_script(name)
    (place.shared.parent / "tool.py").write_text(TOOL.format(path=""))
    done = place.execute(sys.executable, "../tool.py", "run", name)
    assert done.returncode == 1
    words = "only its relative path is known, 'program.py', and the current directory may have changed; start the program with an absolute path"
    assert done.stderr.splitlines()[-1].endswith(words), done.stderr
    (place.home / "tool.py").write_text(TOOL.format(path=""))
    check(place.execute(sys.executable, "../tool.py", "run", str(place.home / name)))


@pytest.mark.parametrize("path", ["", "sys.path[0] = str(pathlib.Path(sys.path[0]).parent / 'other')"])
@pytest.mark.parametrize("folder", ["", "folder"])
def test_a_script_is_refused_if_the_module_path_has_another_one_with_its_name(place: Place, path: str, folder: str) -> None:
    """A tool executes the script by its relative name, and does not add the script's directory to the module path."""
    (place.home / folder).mkdir(exist_ok=True)
    name = os.path.join(folder, os.path.basename(script(place.home / folder, WORKER, guarded(RUN))))
    for directory in ("tools", "other"):
        other = place.home.parent / directory / name
        other.parent.mkdir(parents=True)
        other.write_text(WORKER.replace("data * 2", "data * 3") + guarded(RUN))
    (place.home.parent / "tools" / "tool.py").write_text("import pathlib\n" + TOOL.format(path=path))
    place.environment["PWD"] = str(place.home if path else place.home.parent)
    done = place.execute(sys.executable, "../tools/tool.py", "run", name)
    assert done.returncode == 1 and done.stdout == "", done
    assert f"only its relative path is known, {name!r}" in done.stderr.splitlines()[-1], done.stderr
    other = place.home / name
    for directory in ("tools", "other"):
        (place.home.parent / directory / name).unlink()
        (place.home.parent / directory / name).symlink_to(other)
    check(place.execute(sys.executable, "../tools/tool.py", "run", name))
