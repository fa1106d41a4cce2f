# SPDX-License-Identifier: MIT
"""The extension: polling, batches and messages."""
from __future__ import annotations

import pathlib
import select
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import workers
from engine_lab import Log, drain, open_pool, poll_until
from workers import Batches, Naughty, wait_until

from gpu_dispatch import NoWorkers, PoolClosed, _engine


@pytest.fixture
def log() -> Log:
    return Log()


# ---- Batches, messages ----------------------------------------------------------------------


def test_batches(log: Log) -> None:
    pool = open_pool(log, Batches, max_batch=8)
    pool.wait_ready(30_000)
    items = ["bad" if number == 5 else number for number in range(100)]
    assert pool.feed(iter(items))
    drain(pool)
    assert list(log.failures) == [5] and log.failures[5].message == "ValueError: bad"
    assert {key: value[0] for key, value in log.results.items()} == {
        number: number for number in range(100) if number != 5
    }
    assert max(value[1] for value in log.results.values()) > 1
    assert max(value[1] for value in log.results.values()) <= 8
    pool.close()


def test_a_batch_with_too_few_results_fails(log: Log) -> None:
    pool = open_pool(log, Batches, max_batch=8)
    pool.submit("wrong length")
    drain(pool)
    assert "returned 0 results for 1 items" in log.failures[0].message
    pool.close()


def test_an_unreadable_item_of_a_batch_fails_alone(log: Log) -> None:
    pool = open_pool(log, Batches, max_batch=8)
    pool.feed(iter([1, workers.Undecodable(), workers.Unpicklable(), 4]))
    drain(pool)
    assert set(log.failures) == {1, 2} and set(log.results) == {0, 3}
    pool.close()


def test_messages(log: Log) -> None:
    pool = open_pool(log, Naughty, gpus=[3])
    large = numpy.arange(3_000_000)
    pool.submit(("send", {"a": [1, 2]}))
    pool.submit(("send", large))
    pool.submit(("send_elsewhere",))
    drain(pool)
    assert log.messages[0] == ({"a": [1, 2]}, 3, 0)
    assert numpy.array_equal(log.messages[1][0], large)
    assert "main thread" in log.results[2]
    pool.close()


def test_threads_of_a_worker_run_while_it_waits(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("thread_runs",))
    drain(pool)
    wait_until((tmp_path / "thread-begins").exists)
    (tmp_path / "tick").touch()
    wait_until((tmp_path / "tock").exists)
    pool.close()


def test_a_task_knows_its_number_and_attempt(log: Log) -> None:
    pool = open_pool(log, Naughty)
    pool.submit(("echo", 1))
    pool.submit(("task",))
    drain(pool)
    assert log.results[1] == (1, 1)
    pool.close()
    assert _engine.task_id() == -1 and not _engine.cancelled()
    with pytest.raises(RuntimeError, match="not a worker"):
        _engine.send(1)


# ---- Polling --------------------------------------------------------------------------------


def test_poll_without_tasks_returns_at_once(log: Log) -> None:
    pool = open_pool(log)
    assert pool.poll() == 0
    assert pool.wait_ready(30_000) == 1
    assert pool.poll(0) == 0
    assert pool.poll(1, idle=True) == 0
    pool.close()


def test_interrupt_ends_a_wait(log: Log) -> None:
    pool = open_pool(log)
    pool.interrupt()
    assert pool.poll(-1, idle=True) == 0  # even one that came before
    polls: list[int] = []
    thread = threading.Thread(target=lambda: polls.append(pool.poll(-1, idle=True)))
    thread.start()
    while thread.is_alive():
        pool.interrupt()
        thread.join(0.01)
    assert polls == [0]
    pool.close()


def test_the_descriptor_becomes_readable(log: Log) -> None:
    pool = open_pool(log)
    pool.submit(1)
    while not log.results:
        assert select.select([pool.fileno()], [], [], 30)[0]
        pool.poll(0)
    pool.close()


def test_the_first_exception_of_a_batch_is_raised_and_all_events_are_seen(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []

    def on_success(key: int, value: Any, gpu: int) -> None:
        seen.append(key)
        raise LookupError(key)

    pool = open_pool(log, on_success=on_success)
    pool.feed(iter(range(200)))
    raised: list[LookupError] = []
    while pool.outstanding() > 0:
        try:
            pool.poll(30_000)
        except LookupError as error:
            raised.append(error)
    assert seen == list(range(200))
    printed = [int(line.split()[1]) for line in capsys.readouterr().err.splitlines() if line.startswith("LookupError: ")]
    assert sorted([error.args[0] for error in raised] + printed) == seen
    pool.close()


def test_a_callback_may_submit_cancel_and_ask_but_not_poll(log: Log) -> None:
    errors: list[str] = []

    def on_success(key: int, value: Any, gpu: int) -> None:
        log.results[key] = value
        if value < 10:
            pool.submit(value + 1)
        assert pool.stats()["completed"] > 0 and pool.worker_stats()
        forbidden_calls: list[Callable[[], object]] = [pool.poll, pool.close, pool.wait_ready]
        for forbidden in forbidden_calls:
            try:
                forbidden()
            except RuntimeError as error:
                errors.append(str(error))

    pool = open_pool(log, on_success=on_success)
    pool.submit(0)
    drain(pool)
    assert log.results == {number: number for number in range(11)}
    assert len(errors) == 33
    pool.close()


def test_a_stopped_pool(log: Log, tmp_path: pathlib.Path) -> None:
    pool = open_pool(log, Naughty, setup={"directory": str(tmp_path)})
    pool.submit(("wait_for", "go"))
    pool.submit(("echo", 1))
    poll_until(pool, (tmp_path / "go-waits").exists)
    pool.stop()
    with pytest.raises(PoolClosed):
        pool.submit(("echo", 1))
    poll_until(pool, lambda: 1 in log.cancelled)  # the worker may not get it after the first one
    (tmp_path / "go").touch()
    with pytest.raises(PoolClosed):
        while True:
            pool.poll(30_000)
    assert log.results == {0: "go"} and set(log.cancelled) == {1}
    pool.close()


def test_no_worker_left(log: Log) -> None:
    pool = open_pool(log, workers.NoSetup, setup={"bad": [0]})
    pool.submit(1)
    with pytest.raises(NoWorkers):
        while True:
            pool.poll(30_000)
    assert log.failures[0].kind == "no worker"
    assert "no model on 0" in log.setup_failures[0].payload[1]
    with pytest.raises(NoWorkers):
        pool.submit(1)
    assert pool.wait_ready(0) == 0
    pool.close()
