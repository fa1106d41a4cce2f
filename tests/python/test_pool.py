# SPDX-License-Identifier: MIT
"""Pool: futures, their exceptions, cancellation and the end of the pool."""
from __future__ import annotations

import concurrent.futures
import logging
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import (
    BaseWorker,
    GPUNotFound,
    NoWorkers,
    Pool,
    PoolClosed,
    RemoteTraceback,
    TaskError,
    TaskTimedOut,
    WorkerDied,
)
from poolworkers import Actor, Batcher, BrokenSetup, ExitingSetup, Grenade, OddError, OddOSError
from waiting import DEADLINE_SECONDS, alive, eventually, says


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """A pool for tests that leave it as it was."""
    with Pool(Actor, "sim:2") as pool:
        yield pool


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Pool]:
    """A pool with one worker, whose tasks may be left running."""
    pool = Pool(Actor, "sim:1", queue_size=16)
    yield pool
    pool._shutdown(True, 2)


def fifo(tmp_path: Path, name: str = "fifo") -> str:
    path = tmp_path / name
    os.mkfifo(path)
    return str(path)


def release(path: str, text: str = "go") -> None:
    """Ends a task that blocks."""
    with open(path, "w") as file:
        file.write(text)


# ---- results and exceptions -----------------------------------------------------------------


def test_task_that_waits_for_room_is_submitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition of a wait may be called again after it was true: by a thread that follows."""
    with Pool(Actor, "sim:2", queue_size=3) as pool:
        wait = pool._core.leader.wait_progress

        def wait_and_look_again(done: Callable[[], bool], timeout: float | None = None) -> bool:
            true = wait(done, timeout)
            done()
            return true

        monkeypatch.setattr(pool._core.leader, "wait_progress", wait_and_look_again)
        futures = [pool.submit(("echo", number)) for number in range(300)]
        assert [future.result() for future in futures] == list(range(300))
        monkeypatch.undo()
    assert pool.stats()["submitted"] == 300


def test_a_future_has_the_result(pool: Pool) -> None:
    future = pool.submit(("echo", {"a": [1, 2.5, None]}))
    assert isinstance(future, concurrent.futures.Future)
    assert future.result() == {"a": [1, 2.5, None]}
    assert future.done() and not future.running() and not future.cancelled()
    assert future.exception() is None


def test_results_can_be_asked_for_in_any_order_and_again(pool: Pool) -> None:
    futures = [pool.submit(("echo", n)) for n in range(200)]
    assert [future.result() for future in reversed(futures)] == list(reversed(range(200)))
    assert [future.result() for future in futures] == list(range(200))


def test_setup_gets_its_arguments_and_the_gpu_is_bound() -> None:
    with Pool(Actor, "sim:2", setup={"greeting": "hi"}, base_seed=100, workers_per_gpu=2) as pool:
        assert pool.wait_ready(DEADLINE_SECONDS) == 4
        about = [pool.submit(("about", None)).result() for _ in range(8)]
    assert {entry["greeting"] for entry in about} == {"hi"}
    assert {entry["gpu"] for entry in about} <= {0, 1}
    assert {entry["seed"] for entry in about} <= {100, 101, 102, 103}


def test_unbound_gpus_need_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,7")
    with Pool(Actor, [17], bind_gpu=False) as pool:
        about = pool.submit(("about", None)).result()
    assert about["gpu"] == 17
    assert about["visible"] == "6,7"


def test_an_exception_arrives_as_itself_with_the_remote_traceback_as_cause(pool: Pool) -> None:
    future = pool.submit(("fail", "word"))
    with pytest.raises(KeyError) as caught:
        future.result()
    assert caught.value.args == ("word",)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    text = "".join(traceback.format_exception(caught.value))
    assert "poolworkers.py" in text and 'raise KeyError(text)' in text
    assert future.exception() is caught.value


def test_an_exception_that_cannot_be_pickled_is_described(pool: Pool) -> None:
    error = pool.submit(("fail_unpicklable", None)).exception()
    assert isinstance(error, TaskError)
    assert "no pickle" in str(error)
    assert "fail_unpicklable" in str(error.__cause__)


def test_an_exception_that_cannot_be_unpickled_is_described(pool: Pool) -> None:
    error = pool.submit(("fail_half", None)).exception()
    assert isinstance(error, TaskError)
    assert "HalfPicklable" in str(error)
    assert "fail_half" in str(error.__cause__)


def test_an_exception_with_a_constructor_of_its_own_arrives_as_itself(pool: Pool) -> None:
    error = pool.submit(("fail_odd", None)).exception()
    assert isinstance(error, OddError)
    assert (str(error), error.args, error.second) == ("first and second", ("first and second",), "second")
    assert "fail_odd" in str(error.__cause__)
    missing = pool.submit(("fail_odd_os", "m.pt")).exception()
    assert isinstance(missing, OddOSError)
    assert (missing.errno, missing.strerror, missing.filename) == (2, "no model", "m.pt")


@pytest.mark.parametrize("verb, word", [("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt")])
def test_what_would_end_the_parent_is_the_task_s_error(pool: Pool, verb: str, word: str) -> None:
    pid = pool.submit(("pid", None)).result()
    error = pool.submit((verb, 3)).exception()
    assert isinstance(error, TaskError)
    assert word in str(error)
    assert alive(pid)


def test_an_item_that_cannot_be_pickled_is_the_future_s_error(pool: Pool) -> None:
    future = pool.submit(("echo", threading.Lock()))
    assert isinstance(future.exception(), TypeError)
    with pytest.raises(TypeError, match="pickle"):
        future.result()


def test_an_item_that_cannot_be_unpickled_is_that_task_s_error(pool: Pool) -> None:
    error = pool.submit(("echo", Grenade())).exception(DEADLINE_SECONDS)
    assert isinstance(error, ValueError) and error.args == ("bad pickle",)
    assert pool.submit(("echo", 1)).result() == 1


def test_a_result_that_cannot_be_pickled_is_that_task_s_error(pool: Pool) -> None:
    error = pool.submit(("lock", None)).exception(DEADLINE_SECONDS)
    assert isinstance(error, TypeError) and "pickle" in str(error)


def test_a_result_that_cannot_be_unpickled_is_that_task_s_error(pool: Pool) -> None:
    error = pool.submit(("parent_grenade", os.getpid())).exception(DEADLINE_SECONDS)
    assert isinstance(error, TaskError)
    assert isinstance(error.__cause__, ValueError)


def test_a_dead_worker_costs_only_its_task(one: Pool) -> None:
    pid = one.submit(("pid", None)).result()
    future = one.submit(("die", int(signal.SIGKILL)))
    after = one.submit(("pid", None))
    with pytest.raises(WorkerDied) as caught:
        future.result()
    assert caught.value.signal == signal.SIGKILL
    assert "SIGKILL" in caught.value.reason or "signal 9" in caught.value.reason
    assert after.result() not in (pid, None)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.signal, copy.reason) == (caught.value.signal, caught.value.reason)


def test_a_retry_saves_the_task_of_a_dead_worker(tmp_path: Path) -> None:
    with Pool(Actor, "sim:1", retries=1) as pool:
        assert pool.submit(("die_once", str(tmp_path / "died"))).result() == "survived"
        assert pool.stats()["retries"] == 1


def test_a_task_out_of_time_keeps_the_worker(pool: Pool) -> None:
    with Pool(Actor, "sim:1", task_timeout=60) as pool:
        pid = pool.submit(("pid", None)).result()
        future = pool.submit(("forever", None), timeout=0.05)
        with pytest.raises(TaskTimedOut, match="0.05 s"):
            future.result()
        assert isinstance(future.exception(), TimeoutError)
        assert pool.submit(("pid", None)).result() == pid


def test_a_worker_that_ignores_its_time_limit_is_replaced(tmp_path: Path) -> None:
    with Pool(Actor, "sim:1", grace=0.1) as pool:
        pid = pool.submit(("pid", None)).result()
        with pytest.raises(TaskTimedOut):
            pool.submit(("stubborn", str(tmp_path / "state")), timeout=0.05).result()
        assert pool.submit(("pid", None)).result() != pid


# ---- waiting ----------------------------------------------------------------------------------


def test_result_with_a_timeout(one: Pool, tmp_path: Path) -> None:
    path = fifo(tmp_path)
    future = one.submit(("block", path))
    begin = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        future.result(timeout=0.05)
    assert time.monotonic() - begin >= 0.05
    assert not isinstance(caught.value, TaskTimedOut)
    with pytest.raises(TimeoutError):
        future.exception(timeout=0)
    assert not future.done()
    release(path)
    assert future.result(DEADLINE_SECONDS) == "go"


def test_running_is_true_while_the_worker_has_the_task(one: Pool, tmp_path: Path) -> None:
    path = fifo(tmp_path)
    first, second = one.submit(("block", path)), one.submit(("echo", 1))
    eventually(first.running)
    assert not second.running()
    release(path)
    assert first.result() == "go"
    assert not first.running()


def test_wait_and_as_completed(pool: Pool) -> None:
    futures = [pool.submit(("echo", n)) for n in range(50)]
    done, not_done = concurrent.futures.wait(futures, DEADLINE_SECONDS)
    assert done == set(futures) and not not_done
    futures = [pool.submit(("echo", n)) for n in range(50)]
    seen = [f.result() for f in concurrent.futures.as_completed(futures, DEADLINE_SECONDS)]
    assert sorted(seen) == list(range(50))


def test_wait_for_the_first_exception(one: Pool, tmp_path: Path) -> None:
    path = fifo(tmp_path)
    failing, blocked = one.submit(("fail", "x")), one.submit(("block", path))
    done, not_done = concurrent.futures.wait(
        [failing, blocked], DEADLINE_SECONDS, concurrent.futures.FIRST_EXCEPTION
    )
    assert done == {failing} and not_done == {blocked}
    release(path)


def test_wait_sees_a_cancelled_future(one: Pool, tmp_path: Path) -> None:
    future = one.submit(("forever", None))
    threading.Timer(0.02, future.cancel).start()
    done, _ = concurrent.futures.wait([future], DEADLINE_SECONDS)
    assert done == {future} and future.cancelled()


def test_callbacks_fire_though_nobody_waits(pool: Pool) -> None:
    seen: list[Any] = []
    fired = threading.Event()
    future = pool.submit(("echo", 5))
    future.add_done_callback(lambda f: seen.append(f.result()))
    future.add_done_callback(lambda f: fired.set())
    assert fired.wait(DEADLINE_SECONDS)
    assert seen == [5]
    future.add_done_callback(lambda f: seen.append("late"))
    assert seen == [5, "late"]


def test_callbacks_never_run_on_a_thread_that_waits_for_something_else(one: Pool) -> None:
    """A thread may hold a lock that a callback needs while it waits for a result."""
    lock = threading.Lock()
    threads: list[threading.Thread] = []

    def callback(future: concurrent.futures.Future[Any]) -> None:
        with lock:
            threads.append(threading.current_thread())

    with lock:
        for n in range(20):
            one.submit(("echo", n)).add_done_callback(callback)
        assert one.submit(("echo", "last")).result(DEADLINE_SECONDS) == "last"
    eventually(lambda: len(threads) == 20)
    assert threading.current_thread() not in threads


def test_an_exception_in_a_callback_is_logged(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    fired = threading.Event()
    future = pool.submit(("echo", 5))
    future.add_done_callback(lambda f: 1 / 0)
    future.add_done_callback(lambda f: fired.set())
    assert fired.wait(DEADLINE_SECONDS)
    eventually(lambda: "ZeroDivisionError" in caplog.text)
    assert pool.submit(("echo", 1)).result() == 1


def test_a_callback_may_submit_and_wait(pool: Pool) -> None:
    seen: list[Any] = []
    fired = threading.Event()

    def callback(future: concurrent.futures.Future[Any]) -> None:
        seen.append(pool.submit(("echo", future.result() + 1)).result(DEADLINE_SECONDS))
        fired.set()

    pool.submit(("echo", 1)).add_done_callback(callback)
    assert fired.wait(DEADLINE_SECONDS)
    assert seen == [2]


def test_submit_waits_for_room(tmp_path: Path) -> None:
    path = fifo(tmp_path)
    with Pool(Actor, "sim:1", queue_size=1) as pool:
        pool.wait_ready(DEADLINE_SECONDS)
        futures = [pool.submit(("block", path))]
        done = threading.Event()

        def fill() -> None:
            futures.extend(pool.submit(("echo", n)) for n in range(3000))
            done.set()

        thread = threading.Thread(target=fill)
        thread.start()
        assert not done.wait(0.1)
        release(path)
        assert done.wait(DEADLINE_SECONDS)
        thread.join()
        assert [f.result() for f in futures[1:]] == list(range(3000))


def test_threads_share_a_pool(pool: Pool) -> None:
    failures: list[str] = []

    def loop(number: int) -> None:
        for n in range(200):
            if pool.submit(("echo", (number, n))).result(DEADLINE_SECONDS) != (number, n):
                failures.append("wrong result")

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()
    assert not failures


# ---- cancellation -----------------------------------------------------------------------------


def test_a_waiting_task_is_cancelled(one: Pool, tmp_path: Path) -> None:
    path = fifo(tmp_path)
    marker = tmp_path / "marker"
    first = one.submit(("block", path))
    second = one.submit(("until_cancelled", str(marker)))
    seen: list[Any] = []
    second.add_done_callback(seen.append)
    assert second.cancel() and second.cancelled() and second.done()
    assert seen == [second]
    assert second.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        second.result()
    with pytest.raises(concurrent.futures.CancelledError):
        second.exception()
    release(path)
    assert first.result() == "go"
    assert one.submit(("echo", 1)).result() == 1
    assert not marker.exists()


def test_a_running_task_is_asked_to_stop_and_the_worker_survives(one: Pool, tmp_path: Path) -> None:
    pid = one.submit(("pid", None)).result()
    marker = tmp_path / "marker"
    future = one.submit(("until_cancelled", str(marker)))
    eventually(lambda: says(marker, "begun"))
    assert future.cancel() and future.cancelled()
    assert one.submit(("pid", None)).result(DEADLINE_SECONDS) == pid
    assert says(marker, "cancelled")


def test_a_delivered_result_cannot_be_cancelled(pool: Pool) -> None:
    future = pool.submit(("echo", 1))
    assert future.result() == 1
    assert not future.cancel() and not future.cancelled()
    failed = pool.submit(("fail", "x"))
    failed.exception()
    assert not failed.cancel()


def test_cancel_by_another_thread_wakes_the_one_that_waits(one: Pool) -> None:
    future = one.submit(("forever", None))
    threading.Timer(0.05, future.cancel).start()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(DEADLINE_SECONDS)


# ---- shutdown ---------------------------------------------------------------------------------


def test_leaving_the_block_finishes_what_was_submitted() -> None:
    with Pool(Actor, "sim:2") as pool:
        futures = [pool.submit(("echo", n)) for n in range(100)]
    assert all(future.done() for future in futures)
    assert [future.result() for future in futures] == list(range(100))
    assert pool.stats()["completed"] == 100


def test_nothing_can_be_used_after_shutdown() -> None:
    pool = Pool(Actor, "sim:1")
    pool.shutdown()
    pool.shutdown()
    uses: list[Callable[[], object]] = [
        lambda: pool.submit(1),
        lambda: pool.map([1]),
        lambda: pool.amap([1]),
        pool.wait_ready,
        pool.fileno,
        pool.poll,
    ]
    for use in uses:
        with pytest.raises(RuntimeError):
            use()
    assert pool.stats()["submitted"] == 0


def test_shutdown_can_cancel_what_has_not_begun(tmp_path: Path) -> None:
    path = fifo(tmp_path)
    pool = Pool(Actor, "sim:1")
    first = pool.submit(("block", path))
    rest = [pool.submit(("echo", n)) for n in range(20)]
    eventually(first.running)
    threading.Timer(0.05, release, (path,)).start()
    pool.shutdown(cancel_futures=True)
    assert first.result() == "go"
    assert all(future.cancelled() for future in rest)


def test_shutdown_without_waiting(tmp_path: Path) -> None:
    path = fifo(tmp_path)
    pool = Pool(Actor, "sim:1")
    pid = pool.submit(("pid", None)).result()
    first, second = pool.submit(("block", path)), pool.submit(("echo", 2))
    pool.shutdown(wait=False)
    with pytest.raises(PoolClosed):
        pool.submit(("echo", 3))
    release(path)
    assert first.result(DEADLINE_SECONDS) == "go" and second.result(DEADLINE_SECONDS) == 2
    eventually(lambda: not alive(pid))
    pool.shutdown()


def test_shutdown_waits_for_callbacks() -> None:
    seen: list[Any] = []
    with Pool(Actor, "sim:1") as pool:
        for n in range(20):
            pool.submit(("echo", n)).add_done_callback(lambda f: seen.append(f.result()))
    assert sorted(seen) == list(range(20))


def test_shutdown_from_a_callback() -> None:
    pool = Pool(Actor, "sim:1")
    ended = threading.Event()

    def callback(future: concurrent.futures.Future[Any]) -> None:
        pool.shutdown()
        ended.set()

    pool.submit(("echo", 1)).add_done_callback(callback)
    assert ended.wait(DEADLINE_SECONDS)
    pool.shutdown()


def test_shutdown_wakes_a_thread_that_waits(tmp_path: Path) -> None:
    pool = Pool(Actor, "sim:1")
    future = pool.submit(("forever", None))
    seen: list[type[BaseException]] = []

    def wait() -> None:
        try:
            future.result()
        except BaseException as error:
            seen.append(type(error))

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(future.running)
    pool._shutdown(True, 2)
    thread.join(DEADLINE_SECONDS)
    assert seen == [concurrent.futures.CancelledError]


def test_an_exception_in_the_block_cancels_what_has_not_begun(tmp_path: Path) -> None:
    path = fifo(tmp_path)
    with pytest.raises(ZeroDivisionError):
        with Pool(Actor, "sim:1") as pool:
            first = pool.submit(("block", path))
            rest = [pool.submit(("echo", n)) for n in range(10)]
            eventually(first.running)
            threading.Timer(0.05, release, (path,)).start()
            1 / 0
    assert first.result() == "go"
    assert all(future.cancelled() for future in rest)


def test_ctrl_c_in_the_block_cancels_what_runs() -> None:
    with pytest.raises(KeyboardInterrupt):
        with Pool(Actor, "sim:1") as pool:
            future = pool.submit(("forever", None))
            eventually(future.running)
            raise KeyboardInterrupt
    assert future.cancelled()


def test_ctrl_c_ends_result_and_nothing_else(one: Pool) -> None:
    future = one.submit(("forever", None))
    eventually(future.running)
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        future.result(DEADLINE_SECONDS)
    assert not future.done()
    future.cancel()
    assert one.submit(("echo", 1)).result(DEADLINE_SECONDS) == 1


def test_ctrl_c_during_shutdown_goes_one_step_further() -> None:
    pool = Pool(Actor, "sim:1")
    running, waiting = pool.submit(("forever", None)), pool.submit(("echo", 1))
    eventually(running.running)

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        eventually(waiting.cancelled)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.05, press).start()
    with pytest.raises(KeyboardInterrupt):
        pool.shutdown()
    assert waiting.cancelled() and running.cancelled()
    with pytest.raises(PoolClosed):
        pool.submit(1)


def test_a_forgotten_pool_ends_by_itself() -> None:
    pool = Pool(Actor, "sim:1")
    pid = pool.submit(("pid", None)).result()
    future = pool.submit(("echo", 7))
    with pytest.warns(ResourceWarning, match="unclosed pool"):
        del pool
    assert future.result(DEADLINE_SECONDS) == 7
    eventually(lambda: not alive(pid))


# ---- workers ----------------------------------------------------------------------------------


def test_wait_ready_and_stats(pool: Pool) -> None:
    assert pool.wait_ready(DEADLINE_SECONDS) == 2
    stats = pool.stats()
    assert stats["workers_alive"] == 2
    assert [worker["gpu"] for worker in stats["per_worker"]] == [0, 1]


def test_wait_ready_out_of_time() -> None:
    with Pool(Actor, "sim:1") as pool:
        with pytest.raises(TimeoutError):
            pool.wait_ready(0.000001)


def test_a_failed_setup_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with Pool(BrokenSetup, "sim:2") as pool:
        with pytest.raises(NoWorkers, match="setup") as caught:
            pool.wait_ready(DEADLINE_SECONDS)
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert caught.value.__cause__.args == ("no model",)
        with pytest.raises(RuntimeError):
            pool.submit(1).result(DEADLINE_SECONDS)
    assert "no model" in caplog.text


def test_tasks_that_wait_for_a_broken_setup_fail() -> None:
    with Pool(BrokenSetup, "sim:1") as pool:
        futures = [pool.submit(n) for n in range(5)]
        for future in futures:
            error = future.exception(DEADLINE_SECONDS)
            assert isinstance(error, NoWorkers)
            assert isinstance(error.__cause__, RuntimeError)


def test_a_worker_is_replaced_after_so_many_tasks() -> None:
    with Pool(Actor, "sim:1", max_tasks_per_worker=3) as pool:
        pids = [pool.submit(("pid", None)).result() for _ in range(9)]
    assert len(set(pids)) == 3


def test_batches() -> None:
    with Pool(Batcher, "sim:1", max_batch=8) as pool:
        results = list(pool.map(range(500)))
        assert [value for value, _ in results] == [2 * n for n in range(500)]
        assert max(size for _, size in results) <= 8
        assert pool.submit(4).result()[0] == 8
        errors = list(pool.map([1, "bad", 3], errors="return"))
        assert errors[0][0] == 2 and errors[2][0] == 6
        assert isinstance(errors[1], ValueError) and errors[1].args == ("bad",)
        assert isinstance(pool.submit("crash").exception(), ValueError)
        assert pool.submit("short").exception() is not None
        assert pool.submit(5).result()[0] == 10


def test_max_batch_needs_process_batch() -> None:
    with pytest.raises(TypeError, match="process_batch"):
        Pool(Actor, "sim:1", max_batch=4)


def test_log_records_reach_the_parent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gpu_dispatch.worker")
    with Pool(Actor, "sim:1") as pool:
        text = "long " * 1_000_000
        for item in (("log_info", "short"), ("log_info", text), ("log_exception", "reason")):
            pool.submit(item).result()
        pool.submit(("log_in_thread", "from a thread")).result()
    short, long, failed, threaded, last = caplog.records
    assert short.getMessage() == "a short record" and short.levelno == logging.INFO
    assert short.__dict__["color"] == "green" and short.__dict__["gpu"] == 0
    assert short.process != os.getpid() and short.filename == "poolworkers.py"
    assert long.getMessage() == f"a {text} record"
    assert failed.exc_text is not None and "ValueError: reason" in failed.exc_text
    assert threaded.getMessage() == "from a thread" and last.getMessage() == "main thread"


def test_log_records_of_threads_come_before_the_end_of_their_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Pool(Actor, "sim:1") as pool:
        for number, text in enumerate(("succeed", "fail")):
            pool.submit(("log_in_thread_only", text)).exception()
            assert [record.getMessage() for record in caplog.records][number:] == [text]


def test_a_callback_that_exits_does_not_end_the_pool_s_thread(
    pool: Pool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    called: list[str] = []

    def leave(_: object) -> None:
        called.append("first")
        sys.exit(3)

    for _ in range(2):
        future = pool.submit(("block", str(fifo)))
        future.add_done_callback(leave)
        future.add_done_callback(lambda _: called.append("second"))
        fifo.write_text("go on")
        eventually(lambda: called == ["first", "second"])
        called.clear()
    assert "SystemExit: 3" in caplog.text


def test_log_records_below_the_level_are_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "gpu_dispatch.worker")
    with Pool(Actor, "sim:1") as pool:
        pool.submit(("log_info", "x")).result()
    assert not caplog.records


@pytest.mark.parametrize("zero_copy", [False, True])
def test_arrays(zero_copy: bool) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(1_000_000, dtype="float32").reshape(1000, 1000)
    with Pool(Actor, "sim:1", zero_copy=zero_copy) as pool:
        result = pool.submit(("echo", array)).result()
        results = list(pool.map([("echo", array[n]) for n in range(100)]))
    assert (result == array).all()
    assert all((results[n] == array[n]).all() for n in range(100))
    assert result.flags.writeable is not zero_copy


# ---- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"task_timeout": 0},
        {"task_timeout": float("nan")},
        {"task_timeout": 1e12},
        {"grace": float("inf")},
        {"setup_timeout": 1e300},
        {"cleanup_timeout": -1},
        {"workers_per_gpu": 0},
        {"queue_size": 0},
        {"max_tasks_per_worker": 0},
        {"gpus": []},
    ],
)
def test_wrong_options(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"^{name} "):
        Pool(Actor, **(dict[str, Any](gpus="sim:1") | options))


def test_gpus_that_are_no_list() -> None:
    with pytest.raises(TypeError, match="^gpus must be a string or a list of numbers, not 0$"):
        Pool(Actor, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [1e12, float("inf")])
def test_long_times_to_wait(pool: Pool, timeout: float) -> None:
    with pytest.raises(ValueError, match="^timeout must be"):
        pool.submit(("echo", 1), timeout=timeout)
    assert pool.submit(("echo", 1)).result(timeout) == 1
    assert list(pool.map([("echo", 1)], timeout=timeout)) == [1]
    assert pool.wait_ready(timeout) == 2
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(pool.submit(("echo", 1)).result(timeout)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 4


def test_a_setup_that_exits_is_named() -> None:
    with Pool(ExitingSetup, "sim:1") as pool:
        with pytest.raises(NoWorkers) as caught:
            pool.wait_ready()
    assert str(caught.value.__cause__) == "setup() raised SystemExit(3)"


def test_wrong_classes_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError):
        Pool(int, "sim:1")  # type: ignore[arg-type]

    class Abstract(BaseWorker):
        pass

    with pytest.raises(TypeError):
        Pool(Abstract, "sim:1")
    monkeypatch.setenv("GPUQ_GPUS", "sim:2")
    with pytest.raises(GPUNotFound):
        Pool(Actor, [5])


# ---- signals ----------------------------------------------------------------------------------


def test_no_result_is_lost_by_exceptions_of_signal_handlers(pool: Pool) -> None:
    """A program may go on after Ctrl-C, wherever it came."""

    class Stop(BaseException):
        pass

    armed = False

    def stop(number: int, frame: Any) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Stop

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    try:
        for _ in range(20):
            futures = [pool.submit(("echo", n)) for n in range(300)]
            while not all(future.done() for future in futures):
                try:
                    armed = True
                    for future in futures:
                        future.result(DEADLINE_SECONDS)
                    armed = False
                except Stop:
                    pass
            assert [future.result() for future in futures] == list(range(300))
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
