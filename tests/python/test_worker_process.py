# SPDX-License-Identifier: MIT
"""Programs as users write them: scripts, modules, no guard, and how their workers see them."""
from __future__ import annotations

import os
import pathlib
import textwrap

import pytest
from scripts import RUN, WORKER, check, guarded, python, script

def test_a_script_with_a_guard(tmp_path: pathlib.Path) -> None:
    check(python(script(tmp_path, WORKER, guarded(RUN)), directory=tmp_path))


def test_the_extension_itself_in_a_script_without_a_guard(tmp_path: pathlib.Path) -> None:
    run = """
    from gpu_dispatch import _engine, _spawn
    settings = _spawn.worker_settings(Twice(), {})
    pool = _engine.Pool(argv=_spawn.worker_argv(), settings=settings, gpus=[0], bind=False, on_success=on_success)
    pool.submit(4)
    while pool.outstanding():
        pool.poll()
    pool.close()
    print(results)
    """
    check(python(script(tmp_path, WORKER, run), directory=tmp_path), "{0: 8}\n")


def test_a_script_from_another_directory_with_a_module_beside_it(tmp_path: pathlib.Path) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    place.mkdir()
    elsewhere.mkdir()
    (place / "beside.py").write_text("FACTOR = 2\n")
    code = WORKER.replace("return data * 2", "import beside; return data * beside.FACTOR")
    script(place, code, guarded(RUN))
    check(python("../place/program.py", directory=elsewhere))


def test_a_script_behind_a_link_and_two_dots_is_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "far/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/below")
    script(tmp_path / "far", WORKER, guarded(RUN))
    script(tmp_path, "raise LookupError('another script')\n")
    check(python("link/../program.py", directory=tmp_path))


def test_a_module_with_dash_m(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "factor.py").write_text("FACTOR = 2\n")
    code = WORKER.replace("results = {}", "from .factor import FACTOR\nresults = {}").replace("data * 2", "data * FACTOR")
    script(package, code, guarded(RUN))
    check(python("-m", "package.program", directory=tmp_path))


def test_options_of_the_interpreter_reach_the_workers(tmp_path: pathlib.Path) -> None:
    code = WORKER.replace("return data * 2", "import sys; return (sys.flags.optimize, sys.flags.utf8_mode, sys.argv[1:])")
    done = python("-O", "-X", "utf8", script(tmp_path, code, guarded(RUN)), "--flag", directory=tmp_path)
    value = (1, 1, ["--flag"])
    check(done, f"{[(number, value) for number in range(3)]}\n")


def test_objects_of_the_script_travel_both_ways(tmp_path: pathlib.Path) -> None:
    code = WORKER + textwrap.dedent(
        """
        import dataclasses

        @dataclasses.dataclass
        class Point:
            x: int

        class Double(Twice):
            def process(self, data):
                return Point(data.x * 2)
        """
    )
    run = """
    Dispatcher(Double, [0]).run([Point(4)], on_success, on_error=lambda *args: print(args))
    print(results[0], type(results[0]) is Point)
    """
    for last in (guarded(textwrap.dedent(run)), run):
        check(python(script(tmp_path, code, last), directory=tmp_path), "Point(x=8) True\n")


def test_a_script_that_fails_again_in_its_workers(tmp_path: pathlib.Path) -> None:
    first = "import os\nif __name__ != '__main__':\n    raise LookupError('only once')\n"
    run = """
    try:
        Dispatcher(Twice, [0]).run([1], on_success, on_setup_fail=lambda gpu, error: print(gpu, error.splitlines()[-1]))
    except RuntimeError as error:
        print(error)
    """
    done = python(script(tmp_path, first, WORKER, guarded(textwrap.dedent(run))), directory=tmp_path)
    check(done, "0 LookupError: only once\nAll workers failed during setup\n")


def test_a_script_that_exits_again_in_its_workers(tmp_path: pathlib.Path) -> None:
    """sys.exit() at the end of a script is common; names defined before it are available."""
    first = WORKER + "\nimport sys\nif __name__ == '__main__':\n" + textwrap.indent(RUN.strip(), "    ") + "\nsys.exit(0)\n"
    check(python(script(tmp_path, first), directory=tmp_path))


def has_cloudpickle() -> bool:
    import importlib.util

    return importlib.util.find_spec("cloudpickle") is not None


@pytest.mark.skipif(has_cloudpickle(), reason="cloudpickle is installed")
@pytest.mark.parametrize("how", [["-c", WORKER + RUN], ["-"]])
def test_a_class_of_the_session_needs_cloudpickle(how: list[str], tmp_path: pathlib.Path) -> None:
    done = python(*how, directory=tmp_path, code=WORKER + RUN)
    assert done.returncode == 1
    assert "RuntimeError: the class Twice exists only in this program's memory" in done.stderr
    assert "gpu_dispatch[notebook]" in done.stderr


def test_a_class_of_a_module_works_in_any_session(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text(WORKER)
    check(python("-c", "from mine import *\n" + RUN, directory=tmp_path))
    check(python("-", directory=tmp_path, code="from mine import *\n" + RUN))


@pytest.mark.parametrize("then", ["", "from gpu_dispatch import Dispatcher\n"])
def test_workers_import_nothing_from_a_directory_to_which_the_session_has_changed(tmp_path: pathlib.Path, then: str) -> None:
    """Another user may have planted modules there. then: modules of the package are imported afterwards."""
    home, shared = tmp_path / "home", tmp_path / "shared"
    for directory in (home, shared / "gpu_dispatch"):
        directory.mkdir(parents=True)
    (home / "mine.py").write_text(WORKER.replace(", Dispatcher", "" if then else ", Dispatcher"))
    for name in ("gpu_dispatch/__init__.py", "mine.py", "types.py", "__future__.py"):
        (shared / name).write_text(f"open({str(tmp_path / 'planted')!r}, 'w').close()\n")
    # What the session itself imports after the change comes from there: import these two before.
    code = f"from mine import *\nimport os, types, __future__\nos.chdir({str(shared)!r})\n" + then + RUN
    check(python("-", directory=home, code=code))
    assert not (tmp_path / "planted").exists()


def test_workers_use_the_package_that_the_session_has_imported(tmp_path: pathlib.Path) -> None:
    """Another user may have planted one later, where the session was when it imported the package."""
    (tmp_path / "mine.py").write_text(WORKER)
    plant = """
import os
os.mkdir("gpu_dispatch")
with open("gpu_dispatch/__init__.py", "w") as file:
    file.write("open('planted', 'w').close()")
"""
    check(python("-", directory=tmp_path, code="from mine import *\n" + plant + RUN))
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("enter", ["os.chdir(project)", "sys.path.insert(0, 'project')"])
@pytest.mark.parametrize("leave", ["", "os.chdir('/')"])
@pytest.mark.parametrize("how", ["session", "script"])
def test_workers_import_the_modules_that_the_program_has_found(tmp_path: pathlib.Path, how: str, enter: str, leave: str) -> None:
    """mine is in a directory of the path or, for a session, in the current one; parts has no __init__.py."""
    (tmp_path / "project" / "parts").mkdir(parents=True)
    (tmp_path / "project" / "parts" / "factor.py").write_text("FACTOR = 2\n")
    (tmp_path / "project" / "mine.py").write_text(WORKER.replace("data * 2", "data * __import__('parts.factor').factor.FACTOR"))
    code = f"import os, sys, gpu_dispatch\nproject = {str(tmp_path / 'project')!r}\nsys.path.insert(0, '')\n{enter}\nfrom mine import *\n{leave}\n"
    if how == "session":
        check(python("-", directory=tmp_path, code=code + RUN))
    else:
        check(python(script(tmp_path, code, guarded(RUN)), directory=tmp_path))


def test_workers_of_a_session_search_no_folder_of_the_standard_library_that_the_session_does_not_search(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text(WORKER.replace("return data * 2", "import os, sys; return [p for p in sys.path if os.path.basename(p) == 'importlib']"))
    run = "Dispatcher(Twice, [0]).run([1], on_success)\nprint(results[0])\n"
    check(python("-", directory=tmp_path, code="import importlib.util\nfrom mine import *\n" + run), "[]\n")


def test_starting_workers_does_not_execute_a_module_that_is_loaded_lazily(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text(WORKER)
    (tmp_path / "broken.py").write_text("raise ImportError('broken was executed')\n")
    lazy = """\
import importlib.util, sys
spec = importlib.util.find_spec("broken")
spec.loader = importlib.util.LazyLoader(spec.loader)
sys.modules["broken"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["broken"])
"""
    check(python("-", directory=tmp_path, code="from mine import *\n" + lazy + RUN))


def test_relative_entries_of_pythonpath_keep_their_meaning_in_workers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have planted a sitecustomize.py where the program is when it starts workers."""
    home, shared = tmp_path / "home", tmp_path / "shared"
    for directory in (home / "src", shared / "src"):
        directory.mkdir(parents=True)
    (home / "src" / "factor.py").write_text("FACTOR = 2\n")
    for planted in (shared / "sitecustomize.py", shared / "src" / "sitecustomize.py"):
        planted.write_text(f"open({str(tmp_path / 'planted')!r}, 'w').close()\n")
    inherited = os.environ.get("PYTHONPATH", str(tmp_path))  # not set for an installed package
    monkeypatch.setenv("PYTHONPATH", f"src::{inherited}")
    code = WORKER.replace("return data * 2", "import factor, os; return os.environ['PYTHONPATH'], data * factor.FACTOR")
    run = f"import os\nos.chdir({str(shared)!r})\nDispatcher(Twice, [0]).run([1], on_success)\nprint(results[0])\n"
    done = python(script(home, code, guarded(run)), directory=home)
    assert not (tmp_path / "planted").exists()
    check(done, f"{(f'{home}/src:{home}:{inherited}', 2)}\n")


def test_relative_entries_of_pythonpath_that_the_program_does_not_search_do_not_reach_workers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has changed to the directory before it imports the package."""
    home, shared = tmp_path / "home", tmp_path / "shared"
    for directory in (home, shared / "src"):
        directory.mkdir(parents=True)
    (shared / "src" / "sitecustomize.py").write_text(f"open({str(tmp_path / 'planted')!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", f"src:{os.environ.get('PYTHONPATH', tmp_path)}")
    first = f"import os\nif __name__ == '__main__':\n    os.chdir({str(shared)!r})\n"
    check(python(script(home, first, WORKER, guarded(RUN)), directory=home))
    assert not (tmp_path / "planted").exists()


def test_a_lambda_as_an_argument_of_setup_is_refused(tmp_path: pathlib.Path) -> None:
    run = "Dispatcher(Twice, [0]).run([1], on_success, on_exit=lambda: print('exit'), f=lambda: 1)"
    done = python(script(tmp_path, WORKER, guarded(run)), directory=tmp_path)
    assert done.returncode == 1 and "lambda" in done.stderr and done.stdout == "exit\n"


def test_exit_handlers_of_the_script_do_not_run_in_workers(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text("from atexit import register\nregister(print, 'end of mine')\n")
    first = "import atexit, mine\natexit.register(print, 'end of the script')\n"
    code = WORKER.replace("        pass\n", "        mine.register(print, 'end of a worker')\n")
    run = "Dispatcher(Twice, [0]).run([1], on_success)\n"
    expected = "end of a worker\nend of the script\nend of mine\n"
    for last in (guarded(run), run):
        check(python(script(tmp_path, first, code, last), directory=tmp_path), expected)


def test_what_is_registered_with_atexit_runs_in_workers(tmp_path: pathlib.Path) -> None:
    code = WORKER.replace("        pass\n", "        import atexit\n        atexit.register(print, 'left')\n")
    run = "Dispatcher(Twice, [0]).run([1], on_success)\n"
    check(python(script(tmp_path, code, guarded(run)), directory=tmp_path), "left\n")


def test_what_workers_print_is_not_lost_when_they_are_killed(tmp_path: pathlib.Path) -> None:
    code = WORKER.replace("return data * 2", "print('before'); import os; os.kill(os.getpid(), 9)")
    run = "Dispatcher(Twice, [0]).run([1], on_success, on_error=lambda *args: None)\n"
    check(python(script(tmp_path, code, guarded(run)), directory=tmp_path), "before\n")


def test_the_import_is_light(tmp_path: pathlib.Path) -> None:
    code = "import sys, gpu_dispatch; gpu_dispatch.Dispatcher; print({'rich', 'numpy', 'asyncio'} & set(sys.modules))"
    check(python("-c", code, directory=tmp_path), "set()\n")


def test_a_worker_started_by_hand_says_so(tmp_path: pathlib.Path) -> None:
    done = python("-c", "from gpu_dispatch._worker import main; main()", directory=tmp_path)
    assert done.returncode == 2 and "started by a dispatcher" in done.stderr


def test_no_process_is_left(tmp_path: pathlib.Path) -> None:
    run = """
    import os
    pids = []
    Dispatcher(Twice, [0, 1]).run([1, 2], lambda *args: None, on_setup_fail=None)
    print(len([entry for entry in os.listdir("/proc") if entry.isdigit() and is_ours(entry)]))
    """
    helper = """
    def is_ours(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return int(file.read().rpartition(")")[2].split()[1]) == os.getpid()
        except OSError:
            return False
    """
    code = WORKER + textwrap.dedent(helper)
    check(python(script(tmp_path, code, guarded(textwrap.dedent(run))), directory=tmp_path), "0\n")


