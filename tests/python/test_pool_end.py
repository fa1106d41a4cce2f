# SPDX-License-Identifier: MIT
"""Pool: shutdown, the end of a `with` block, and Ctrl-C."""
from __future__ import annotations

import concurrent.futures
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import Pool, PoolClosed, WorkerDied
from poolworkers import Actor
from waiting import DEADLINE_SECONDS, alive, eventually, fifo, release


# ---- shutdown -------------------------------------------------------------------------------


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


def test_threads_that_shut_down_at_the_same_time() -> None:
    """All return once the pool is shut down, and no thread finds a pool closed by another."""
    errors: list[BaseException] = []

    def shut_down(pool: Pool, barrier: threading.Barrier) -> None:
        barrier.wait()
        try:
            pool.shutdown()
        except BaseException as error:
            errors.append(error)

    for _ in range(20):
        pool = Pool(Actor, "sim:1")
        barrier = threading.Barrier(4)
        threads = [threading.Thread(target=shut_down, args=(pool, barrier)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)
    assert errors == []


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


def test_a_worker_that_dies_with_the_last_task_is_not_replaced(tmp_path: Path) -> None:
    path = fifo(tmp_path)
    pool = Pool(Actor, "sim:1")
    future = pool.submit(("die_at", path))
    eventually(future.running)
    pool.shutdown(wait=False)
    release(path)
    assert isinstance(future.exception(DEADLINE_SECONDS), WorkerDied)
    pool.shutdown()
    assert pool.stats()["restarts"] == 0


# ---- signals --------------------------------------------------------------------------------


def test_no_result_is_lost_by_exceptions_of_signal_handlers(pool: Pool) -> None:
    """A program may continue after Ctrl-C, whenever it arrived."""

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


def test_ctrl_c_ends_a_submit_that_waits_for_room_while_another_thread_polls(tmp_path: Path) -> None:
    path = fifo(tmp_path)
    with Pool(Actor, "sim:1", queue_size=1) as pool:
        futures = [pool.submit(("block", path))]
        waiter = threading.Thread(target=futures[0].result)
        waiter.start()
        eventually(pool._core.engine.polling)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            for number in range(100_000):
                futures.append(pool.submit(("echo", number)))
        release(path)
        waiter.join()
        assert [future.result() for future in futures[1:]] == list(range(len(futures) - 1))
