# SPDX-License-Identifier: MIT
"""The extension: stopping and closing a pool, in all circumstances."""
from __future__ import annotations

import gc
import os
import pathlib
import threading
from collections.abc import Callable

import pytest
import workers
from engine_lab import Log, drain, open_pool, poll_until
from workers import Naughty, wait_until

from gpu_dispatch import GPUNotFound, PoolClosed, _engine


@pytest.fixture
def log() -> Log:
    return Log()


def test_after_close(log: Log) -> None:
    pool = open_pool(log)
    pool.submit(1)
    drain(pool)
    stats = pool.close()
    assert stats["completed"] == 1 and pool.close() == stats == pool.stats()
    assert pool.closed and pool.worker_stats()[0]["state"] == "finished"
    calls: list[Callable[[], object]] = [
        pool.poll, pool.outstanding, pool.room, pool.fileno, lambda: pool.submit(1), lambda: pool.cancel(0),
    ]
    for call in calls:
        with pytest.raises(PoolClosed):
            call()
    pool.stop()
    pool.interrupt()


def test_close_cancels_what_is_left(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("hang",))
    pool.submit(("echo", 1))
    poll_until(pool, (tmp_path / "hangs").exists)
    assert pool.close()["cancelled"] == 2
    assert set(log.cancelled) == {0, 1}


def test_close_while_other_threads_wait_in_the_pool(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, queue_size=1, setup={"directory": str(tmp_path)})
    refused: list[BaseException] = []

    def submit() -> None:
        try:
            while True:
                pool.submit(("hang",))
        except PoolClosed as error:
            refused.append(error)

    def poll() -> None:
        try:
            while True:
                pool.poll(-1, idle=True)
        except PoolClosed as error:
            refused.append(error)

    threads = [threading.Thread(target=target) for target in (submit, submit, poll)]
    for thread in threads:
        thread.start()
    wait_until((tmp_path / "hangs").exists)
    pool.close()
    for thread in threads:
        thread.join()
    assert len(refused) == 3


def test_close_after_two_stops_lets_workers_clean_up_although_a_thread_waits_for_room(
    log: Log, tmp_path: pathlib.Path
) -> None:
    pool = open_pool(log, workers.MarkCleanup, queue_size=1, setup={"directory": str(tmp_path)})
    assert pool.wait_ready(30_000) == 1

    def submit() -> None:
        try:
            while True:
                pool.submit(1)
        except PoolClosed:
            pass

    thread = threading.Thread(target=submit)
    thread.start()
    wait_until(lambda: pool.room() == 0)
    pool.stop()
    pool.stop()
    pool.close()
    thread.join()
    assert [path.name for path in tmp_path.glob("cleaned-*")] == ["cleaned-0"]


def test_a_forgotten_pool_leaves_no_process(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("hang",))
    poll_until(pool, (tmp_path / "hangs").exists)
    pool.poll(0)
    pid = pool.worker_stats()[0]["pid"]
    assert pid > 0
    del pool
    gc.collect()
    assert not os.path.exists(f"/proc/{pid}")
    assert not log.cancelled  # no callback is left to be called


def test_a_forked_child_cannot_use_the_pool(log: Log) -> None:
    pool = open_pool(log)
    pool.submit(1)
    drain(pool)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            pool.submit(2)
        except RuntimeError as error:
            status = 0 if "forked" in str(error) else 2
        pool.stop()
        pool.interrupt()
        del pool
        gc.collect()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pool.submit(3)
    drain(pool)
    assert log.results == {0: 1, 1: 3}
    pool.close()


def test_wrong_options(log: Log) -> None:
    with pytest.raises(ValueError, match="queue_size"):
        open_pool(log, queue_size=-1)
    with pytest.raises(ValueError, match="GPU"):
        open_pool(log, gpus=[-1])
    with pytest.raises(TypeError, match="on_error"):
        open_pool(log, on_error=5)
    with pytest.raises(TypeError):
        _engine.Pool()  # type: ignore[call-arg]
    with pytest.raises(GPUNotFound):
        open_pool(log, gpus="7", bind=True)
