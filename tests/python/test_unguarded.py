# SPDX-License-Identifier: MIT
"""Scripts without `if __name__ == "__main__":`: workers run them up to their first Pool, and stay there."""
from __future__ import annotations

import pathlib
import textwrap

import pytest
from scripts import EXPECTED, RUN, WORKER, check, guarded, python, script


def test_a_script_without_a_guard(tmp_path: pathlib.Path) -> None:
    check(python(script(tmp_path, WORKER, RUN), directory=tmp_path))


def test_a_script_without_a_guard_and_with_a_handler_around_the_run(tmp_path: pathlib.Path) -> None:
    code = "try:\n" + textwrap.indent(RUN.strip(), "    ") + "\nexcept Exception as error:\n    print(error)\n"
    check(python(script(tmp_path, WORKER, code), directory=tmp_path))


AROUND = """
import contextlib, os, threading
log = open("log", "a")

@contextlib.contextmanager
def around():
    yield
    os.write(log.fileno(), b"with\\n")

def run():
    with around():
        try:
            Dispatcher(Twice, [0, 1]).run(iter([1, 2, 3]), on_success, on_error=lambda *args: print(args))
        except:
            os.write(log.fileno(), b"except\\n")
            raise
        finally:
            os.write(log.fileno(), b"finally\\n")

"""


@pytest.mark.parametrize(
    "start",
    [
        "run()\n",
        "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\n",
        "import concurrent.futures\n"
        "with concurrent.futures.ThreadPoolExecutor() as executor:\n    executor.submit(run).result()\n",
        "import asyncio\nasync def main():\n    run()\nasyncio.run(main())\n",
        "import asyncio\nasync def main():\n    await asyncio.to_thread(run)\nasyncio.run(main())\n",
    ],
    ids=["main", "thread", "executor", "coroutine", "to_thread"],
)
@pytest.mark.parametrize("guard", [False, True])
def test_code_after_the_run_is_not_executed_in_workers(start: str, guard: bool, tmp_path: pathlib.Path) -> None:
    last = start + "os.write(log.fileno(), b'end\\n')\nprint(sorted(results.items()))\n"
    check(python(script(tmp_path, WORKER, AROUND, guarded(last) if guard else last), directory=tmp_path))
    assert (tmp_path / "log").read_text() == "finally\nwith\nend\n"


def test_what_was_written_to_a_buffer_stays_there(tmp_path: pathlib.Path) -> None:
    run = "with open('table', 'a') as table:\n    table.write('head\\n')\n" + textwrap.indent(RUN.strip(), "    ")
    check(python(script(tmp_path, WORKER, run + "\n"), directory=tmp_path))
    assert (tmp_path / "table").read_text() == "head\n"


def test_temporary_directories_of_workers_are_removed(tmp_path: pathlib.Path) -> None:
    first = f"import tempfile\ntempfile.tempdir = {str(tmp_path / 'temporary')!r}\n"
    run = "with tempfile.TemporaryDirectory() as folder:\n" + textwrap.indent(RUN.strip(), "    ")
    (tmp_path / "temporary").mkdir()
    check(python(script(tmp_path, first, WORKER, run + "\n"), directory=tmp_path))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_workers_run_on_the_main_thread_with_what_the_script_set_there(tmp_path: pathlib.Path) -> None:
    """Signal handlers can be installed, and thread-local state is available in process()."""
    first = """
    import decimal, signal, threading
    signal.signal(signal.SIGUSR1, lambda *args: None)
    decimal.getcontext().prec = 5
    """
    look = "signal.signal(signal.SIGUSR2, lambda *args: None); " \
        "return threading.current_thread() is threading.main_thread(), str(decimal.Decimal(1) / 3)"
    run = "Dispatcher(Twice, [0]).run([1], on_success, on_error=lambda *args: print(args))\nprint(results)\n"
    code = WORKER.replace("return data * 2", look)
    for last in (guarded(run), run):
        check(python(script(tmp_path, first, code, last), directory=tmp_path), "{0: (True, '0.33333')}\n")


def test_a_pool_inside_of_an_event_loop_and_event_loops_in_its_workers(tmp_path: pathlib.Path) -> None:
    code = """
    import asyncio
    from gpu_dispatch import BaseWorker, Pool

    class Late(BaseWorker):
        def setup(self, gpu_id, seed):
            pass
        def process(self, data):
            async def twice():
                async def numbers():
                    for number in (data, data):
                        await asyncio.sleep(0)
                        yield number
                return sum([number async for number in numbers()])
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return asyncio.run(twice())

    async def main():
        async with Pool(Late, "sim:2") as pool:
            print(await asyncio.gather(*[pool.asubmit(number) for number in range(5)]))

    asyncio.run(main())
    """
    check(python(script(tmp_path, code), directory=tmp_path), "[0, 2, 4, 6, 8]\n")


def test_time_limits_apply_in_workers_of_such_a_script(tmp_path: pathlib.Path) -> None:
    code = WORKER.replace("return data * 2", "import threading; threading.Event().wait()")
    run = """
    try:
        Dispatcher(Twice, [0]).run([1], on_success, on_timeout=lambda *args: print(args), task_timeout=0.1)
    finally:
        print("end")
    """
    check(python(script(tmp_path, code, run), directory=tmp_path), "(0, 0.1, 0)\nend\n")


def test_a_failed_setup_is_reported(tmp_path: pathlib.Path) -> None:
    code = WORKER.replace("        pass\n", "        raise LookupError('no model')\n")
    run = """
    try:
        Dispatcher(Twice, [0]).run([1], on_success, on_setup_fail=lambda gpu, error: print(gpu, error))
    except RuntimeError as error:
        print(error)
    finally:
        print("end")
    """
    done = python(script(tmp_path, code, run), directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 Traceback (most recent call last):\n")
    assert done.stdout.endswith("LookupError: no model\n\nAll workers failed during setup\nend\n")
    assert "_main.py" not in done.stdout and "_worker.py" not in done.stdout


BELOW = """
class Item:
    pass
class Below(Twice):
    pass
"""


@pytest.mark.parametrize("second", ["Dispatcher(Below, [0]).run([1], on_success, on_setup_fail=show)",
                                    "Dispatcher(Twice, [0]).run([Item()], on_success, on_error=show)"])
def test_what_is_defined_below_the_first_run_is_missing_and_the_error_says_so(
    second: str, tmp_path: pathlib.Path
) -> None:
    show = "def show(*args):\n    print(args[1])\n"
    last = f"\ntry:\n    {second}\nexcept RuntimeError:\n    pass\n"
    done = python(script(tmp_path, WORKER, show, RUN, BELOW, last), directory=tmp_path)
    assert done.stdout.startswith(EXPECTED) and done.returncode == 0
    assert "Can't get attribute" in done.stdout
    assert "workers run the program only up to the line where it creates its first Pool" in done.stdout
    assert "__name__ ==" in done.stdout


def test_a_module_whose_import_makes_a_pool_in_a_script(tmp_path: pathlib.Path) -> None:
    """The lock of that module cannot be held forever: here, an exception ends the script in workers."""
    (tmp_path / "mine.py").write_text("from __main__ import *\n" + RUN)
    check(python(script(tmp_path, WORKER, "import mine\n"), directory=tmp_path))


def test_a_module_that_starts_workers_when_it_is_imported(tmp_path: pathlib.Path) -> None:
    run = "Dispatcher(Twice, [0]).run([1], on_success, on_setup_fail=lambda gpu, error: print(error))\n"
    (tmp_path / "mine.py").write_text(WORKER + run)
    done = python("-c", "import mine", directory=tmp_path)
    assert "put that part under" in done.stdout and "All workers failed during setup" in done.stderr
