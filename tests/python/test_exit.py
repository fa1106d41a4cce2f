# SPDX-License-Identifier: MIT
"""Programs that end, fork or are killed in the middle of a run. Each is a separate process."""
from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import gpu_dispatch
from waiting import DEADLINE_SECONDS, alive, children, eventually

WORKER = """
import os, signal, sys, threading, time
from gpu_dispatch import BaseWorker, Pool

class Worker(BaseWorker):
    def setup(self, gpu_id, seed):
        pass
    def process(self, data):
        if data == "forever":
            while True:
                time.sleep(0.005)
        if data == "pid":
            return os.getpid()
        if isinstance(data, float):
            time.sleep(data)
        return data
"""


PACKAGES = os.path.dirname(os.path.dirname(gpu_dispatch.__file__))
ENVIRONMENT = {**os.environ, "PYTHONPATH": PACKAGES}


def start(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(path)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)


def script(tmp_path: Path, body: str, name: str = "program.py") -> Path:
    path = tmp_path / name
    path.write_text(WORKER + textwrap.dedent(body))
    return path


def run(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, *command],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS * 2,
        **options,
    )


def run_script(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    return run(str(script(tmp_path, body)))


def test_what_was_submitted_is_finished_at_exit(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        if __name__ == "__main__":
            pool = Pool(Worker, "sim:2")
            for n in range(20):
                pool.submit(n).add_done_callback(lambda f: print(f.result(), flush=True))
        """,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(int(line) for line in done.stdout.split()) == list(range(20))
    assert "Traceback" not in done.stderr


def test_exit_in_the_middle_of_a_map(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        def items():
            n = 0
            while True:
                yield n
                n += 1

        if __name__ == "__main__":
            pool = Pool(Worker, "sim:2")
            results = pool.map(items())
            print(next(results))
            sys.exit(3)
        """,
    )
    assert (done.returncode, done.stdout) == (3, "0\n"), done.stderr
    assert done.stderr == ""


def test_exit_by_an_exception_in_a_loop_over_results(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        if __name__ == "__main__":
            pool = Pool(Worker, "sim:1")
            for result in pool.map([1, "forever", 2]):
                raise ValueError("enough")
        """,
    )
    assert done.returncode == 1
    assert "ValueError: enough" in done.stderr


def test_exit_with_an_event_loop_in_the_middle(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import asyncio
        async def main(pool):
            asyncio.ensure_future(pool.asubmit("forever"))
            async for result in pool.amap(range(100)):
                print(result)
                raise SystemExit(4)
        if __name__ == "__main__":
            asyncio.run(main(Pool(Worker, "sim:2")))
        """,
    )
    assert (done.returncode, done.stdout) == (4, "0\n"), done.stderr


def test_ctrl_c_ends_a_program_that_waits_at_exit(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        if __name__ == "__main__":
            pool = Pool(Worker, "sim:1")
            print(pool.submit("pid").result(), flush=True)
            pool.submit("forever")
        """,
    )
    with start(path) as program:
        assert program.stdout is not None
        worker = int(program.stdout.readline())
        # From outside it is not visible that the program is ending: press Ctrl-C repeatedly.
        end = time.monotonic() + DEADLINE_SECONDS
        while program.poll() is None and time.monotonic() < end:
            program.send_signal(signal.SIGINT)
            try:
                program.wait(0.3)
            except subprocess.TimeoutExpired:
                pass
        assert program.poll() is not None
    eventually(lambda: not alive(worker))


def test_no_worker_outlives_a_killed_program(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        if __name__ == "__main__":
            pool = Pool(Worker, "sim:2")
            pool.wait_ready()
            futures = [pool.submit("forever") for _ in range(2)]
            while not all(future.running() for future in futures):
                time.sleep(0.001)
            print("ready", flush=True)
            futures[0].result()
        """,
    )
    with start(path) as program:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
        workers = children(program.pid)
        assert len(workers) >= 2
        program.kill()
        program.wait()
        eventually(lambda: not any(alive(worker) for worker in workers), 1.0)


def test_a_forked_child_cannot_use_the_pool_and_does_not_disturb_it(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        if __name__ == "__main__":
            with Pool(Worker, "sim:2") as pool:
                future = pool.submit("forever")
                done = pool.submit(1)
                assert done.result() == 1
                child = os.fork()
                if child == 0:
                    uses = (
                        lambda: pool.submit(1), lambda: pool.map([1]), lambda: future.result(),
                        pool.wait_ready, pool.shutdown, pool.fileno, pool.poll,
                    )
                    for use in uses:
                        try:
                            use()
                        except RuntimeError as error:
                            assert "parent" in str(error), error
                        else:
                            print("no error", use, flush=True)
                    assert done.result() == 1
                    del pool, future
                    sys.exit(7)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
                assert not future.done() and future.cancel()
                print(list(pool.map(range(5))))
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0, 1, 2, 3, 4]\n"


def test_multiprocessing_beside_the_pool(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import multiprocessing
        def double(n):
            return 2 * n
        if __name__ == "__main__":
            with Pool(Worker, "sim:2") as pool:
                futures = [pool.submit(n) for n in range(50)]
                for method in ("fork", "spawn"):
                    with multiprocessing.get_context(method).Pool(2) as other:
                        assert other.map(double, range(10)) == [2 * n for n in range(10)]
                assert [future.result() for future in futures] == list(range(50))
                print(sum(pool.map(range(100))))
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4950\n"


def test_a_pool_inside_a_multiprocessing_child(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import multiprocessing
        def child():
            with Pool(Worker, "sim:1") as pool:
                print(pool.submit(5).result(), flush=True)
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                process = multiprocessing.get_context(method).Process(target=child)
                process.start()
                process.join()
        """,
    )
    assert done.stdout == "5\n5\n", done.stderr


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        with Pool(Worker, "sim:2") as pool:
            print(list(pool.map(range(5))))
        """,
    )
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2, 3, 4]\n"), done.stderr


def test_daemon_threads_that_wait_at_exit(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        if __name__ == "__main__":
            pool = Pool(Worker, "sim:1")
            for _ in range(3):
                threading.Thread(target=pool.submit(0.05).result, daemon=True).start()
            print("end")
        """,
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_an_unguarded_class_from_standard_input_is_refused_clearly() -> None:
    if importlib.util.find_spec("cloudpickle") is not None:
        pytest.skip("cloudpickle is installed")
    code = WORKER + "\nPool(Worker, 'sim:1')\n"
    done = run("-", input=code)
    assert done.returncode == 1
    assert "gpu_dispatch[notebook]" in done.stderr


@pytest.mark.parametrize("how", ["-", "-c"])
def test_classes_from_standard_input_with_cloudpickle(how: str) -> None:
    pytest.importorskip("cloudpickle")
    code = WORKER + textwrap.dedent(
        """
        class Item:
            value = 3
        with Pool(Worker, "sim:1") as pool:
            print(pool.submit(Item()).result().value)
        """
    )
    done = run("-", input=code) if how == "-" else run("-c", code)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_a_module_run_with_dash_m(tmp_path: Path) -> None:
    script(tmp_path, "if __name__ == '__main__': print(Pool(Worker, 'sim:1').submit(5).result())")
    done = run("-m", "program", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr


def test_import_is_light() -> None:
    code = (
        "import sys, gpu_dispatch; gpu_dispatch.BaseWorker; "
        "print([m for m in ('rich', 'numpy', 'asyncio', 'logging') if m in sys.modules])"
    )
    done = run("-c", code)
    assert done.stdout == "[]\n", done.stderr
