# SPDX-License-Identifier: MIT
"""Pool: waiting for futures, and cancelling them."""
from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import Pool, TaskTimedOut
from poolworkers import Actor
from waiting import DEADLINE_SECONDS, eventually, fifo, release, says


# ---- waiting --------------------------------------------------------------------------------


def test_task_that_waits_for_room_is_submitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that follows may call the condition of a wait again after it was true."""
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


def test_result_with_a_timeout(one: Pool, tmp_path: Path) -> None:
    path = fifo(tmp_path)
    future = one.submit(("block", path))
    begin = time.monotonic()
    with pytest.raises(concurrent.futures.TimeoutError) as caught:
        future.result(timeout=0.05)
    assert time.monotonic() - begin >= 0.05
    assert not isinstance(caught.value, TaskTimedOut)
    with pytest.raises(concurrent.futures.TimeoutError):
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


# ---- cancellation ---------------------------------------------------------------------------


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
