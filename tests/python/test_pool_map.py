# SPDX-License-Identifier: MIT
"""Pool.map(): order, laziness, errors, early ends, progress."""
from __future__ import annotations

import gc
import io
import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import NoWorkers, Pool, PoolClosed, TaskTimedOut
from gpu_dispatch._progress import Bar, line, progress_of
from poolworkers import Actor, BrokenSetup
from waiting import DEADLINE_SECONDS, eventually, says


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(Actor, "sim:2", queue_size=64) as pool:
        yield pool


def echoes(count: int) -> list[tuple[str, int]]:
    return [("echo", n) for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 3000])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("form", [list, tuple, iter])
def test_every_result_comes_once(pool: Pool, count: int, ordered: bool, form: Any) -> None:
    results = list(pool.map(form(echoes(count)), ordered=ordered))
    assert (results if ordered else sorted(results)) == list(range(count))


def test_ranges_and_strings(pool: Pool) -> None:
    errors = list(pool.map(range(3), errors="return"))
    assert [type(error) for error in errors] == [TypeError] * 3
    assert [type(error) for error in pool.map("abc", errors="return")] == [ValueError] * 3


@pytest.mark.parametrize("buffersize", [1, 2, 7])
@pytest.mark.parametrize("form", [list, iter])
def test_small_buffers(pool: Pool, buffersize: int, form: Any) -> None:
    results = list(pool.map(form(echoes(100)), buffersize=buffersize))
    assert results == list(range(100))


def test_unordered_results_come_as_they_end(tmp_path: Path, pool: Pool) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    results = pool.map([("block", str(path)), *echoes(20)], ordered=False)
    first = [next(results) for _ in range(20)]
    assert sorted(first) == list(range(20))
    path.write_text("late")
    assert list(results) == ["late"]


def test_nothing_is_pulled_before_the_first_result_is_wanted(pool: Pool) -> None:
    pulled: list[int] = []

    def items() -> Iterator[Any]:
        for n in range(10):
            pulled.append(n)
            yield "echo", n

    results = pool.map(items())
    gc.collect()
    assert pulled == []
    assert next(results) == 0
    assert list(results) == list(range(1, 10))


@pytest.mark.parametrize("ordered", [True, False])
def test_at_most_buffersize_items_are_ahead(pool: Pool, ordered: bool) -> None:
    pulled = 0

    def items() -> Iterator[Any]:
        nonlocal pulled
        for n in range(1000):
            pulled += 1
            yield "echo", n

    taken = 0
    for _ in pool.map(items(), buffersize=10, ordered=ordered):
        taken += 1
        assert pulled - taken <= 10
    assert taken == 1000


def test_a_result_does_not_wait_for_an_iterable_that_blocks(pool: Pool) -> None:
    go_on = threading.Event()

    def items() -> Iterator[Any]:
        yield "echo", 1
        yield "echo", 2
        assert go_on.wait(DEADLINE_SECONDS)
        yield "echo", 3

    results = pool.map(items())
    assert [next(results), next(results)] == [1, 2]
    go_on.set()
    assert list(results) == [3]


def test_an_exception_of_the_iterable_comes_after_the_results_before_it(pool: Pool) -> None:
    def items() -> Iterator[Any]:
        yield from echoes(50)
        raise LookupError("no more")

    seen = []
    with pytest.raises(LookupError, match="no more"):
        for result in pool.map(items()):
            seen.append(result)
    assert seen == list(range(50))


def test_items_must_be_iterable(pool: Pool) -> None:
    with pytest.raises(TypeError):
        list(pool.map(5))  # type: ignore[arg-type]


def test_the_first_error_ends_the_iteration(pool: Pool) -> None:
    results = pool.map([("echo", 0), ("fail", "x"), ("echo", 2)])
    assert next(results) == 0
    with pytest.raises(KeyError):
        next(results)
    assert list(results) == []
    assert pool.submit(("echo", 1)).result() == 1


def test_errors_can_be_returned(pool: Pool) -> None:
    items = [("echo", 0), ("fail", "x"), ("echo", threading.Lock()), ("echo", 3)]
    results = list(pool.map(items, errors="return"))
    assert results[0] == 0 and results[3] == 3
    assert isinstance(results[1], KeyError) and isinstance(results[2], TypeError)


def test_stop_iteration_of_a_task_does_not_end_the_results_silently(pool: Pool) -> None:
    with pytest.raises(RuntimeError):
        list(pool.map([("fail_stop_iteration", None), ("echo", 1)]))


def test_wrong_arguments_are_reported_at_once(pool: Pool) -> None:
    with pytest.raises(ValueError, match="errors"):
        pool.map([], errors="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="buffersize"):
        pool.map([], buffersize=0)


def test_timeout_of_the_whole_map(pool: Pool) -> None:
    results = pool.map([("echo", 1), ("forever", None)], timeout=3.0)
    assert next(results) == 1
    with pytest.raises(TimeoutError) as caught:
        next(results)
    assert not isinstance(caught.value, TaskTimedOut)
    assert list(results) == []


def test_timeout_while_the_iterable_blocks(pool: Pool) -> None:
    go_on = threading.Event()

    def items() -> Iterator[Any]:
        go_on.wait(DEADLINE_SECONDS)
        yield "echo", 1

    with pytest.raises(TimeoutError):
        next(pool.map(items(), timeout=0.05))
    go_on.set()


def test_time_limit_of_each_task(pool: Pool) -> None:
    items = [("forever", None), ("echo", 1)]
    results = list(pool.map(items, task_timeout=2.0, errors="return"))
    assert isinstance(results[0], TaskTimedOut) and results[1] == 1


@pytest.mark.parametrize("form", [list, iter])
def test_closing_the_iterator_cancels_what_is_left(form: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with Pool(Actor, "sim:1") as pool:
        items = [("echo", 1), ("until_cancelled", str(marker)), *echoes(30)]
        results = pool.map(form(items))
        assert next(results) == 1
        eventually(lambda: says(marker, "begun"))
        results.close()  # type: ignore[attr-defined]
        assert pool.submit(("echo", 5)).result(DEADLINE_SECONDS) == 5
        eventually(lambda: says(marker, "cancelled"))

        def waiting_tasks_are_cancelled() -> bool:
            stats = pool.stats()
            # The running task may have returned before it was interrupted.
            return bool(
                stats["completed"] in (2, 3)
                and stats["cancelled"] == stats["submitted"] - stats["completed"]
            )

        eventually(waiting_tasks_are_cancelled)
        assert list(results) == []


def test_two_maps_and_futures_at_the_same_time(pool: Pool) -> None:
    first, second = pool.map(echoes(500)), pool.map(iter(echoes(500)))
    futures = [pool.submit(("echo", n)) for n in range(100)]
    assert list(zip(first, second)) == [(n, n) for n in range(500)]
    assert [future.result() for future in futures] == list(range(100))


def test_maps_in_threads(pool: Pool) -> None:
    wrong: list[Any] = []

    def loop() -> None:
        for form in (list, iter) * 3:
            results = list(pool.map(form(echoes(300))))  # type: ignore[operator]
            if results != list(range(300)):
                wrong.append(results)

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()
    assert not wrong


@pytest.mark.parametrize("form", [list, iter])
def test_a_pool_without_workers_ends_an_iterator_after_its_results(form: Any) -> None:
    with Pool(BrokenSetup, "sim:1", queue_size=8) as pool:
        results = pool.map(form(range(1000)), errors="return")
        first = next(results)
        assert isinstance(first, NoWorkers) and isinstance(first.__cause__, RuntimeError)
        with pytest.raises(NoWorkers):
            for result in results:
                assert isinstance(result, NoWorkers)


def test_shutdown_ends_an_iterator() -> None:
    pool = Pool(Actor, "sim:1")
    results = pool.map(iter(echoes(100_000)))
    assert next(results) == 0
    pool.shutdown(cancel_futures=True)
    with pytest.raises(PoolClosed):
        list(results)


def test_memory_stays_bounded(pool: Pool) -> None:
    def items() -> Iterator[Any]:
        for _ in range(3000):
            yield "echo", os.urandom(100_000)

    def peak_kib() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in zip(range(300), pool.map(items())):
        pass
    before = peak_kib()
    assert sum(len(result) for result in pool.map(items())) == 300_000_000
    assert peak_kib() - before < 60_000


# ---- progress ---------------------------------------------------------------------------------


def test_plain_lines(pool: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(list(pool.map(echoes(10), progress=True))) == 10
    shown = capsys.readouterr().err
    assert shown.startswith("gpu_dispatch: 10 of 10 done, ")
    assert shown.count("\n") == 1


def test_plain_lines_without_a_total(pool: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    items = iter([*echoes(3), ("fail", "x")])
    list(pool.map(items, progress=True, errors="return"))
    assert capsys.readouterr().err.startswith("gpu_dispatch: 4 done, 1 failed, ")


def test_progress_line() -> None:
    text = "gpu_dispatch: 120 of 1000 done, 2 failed, 2.0/s, 0:07:20 left"
    assert line(120, 2, 1000, 60.0) == text
    assert line(0, 0, None, 0.0) == "gpu_dispatch: 0 done, 0.0/s"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    progress = progress_of([1, 2, 3], True)
    assert isinstance(progress, Bar)
    progress.start()
    progress.advance(True)
    progress.advance(False)
    progress.stop()
    assert "2/3" in terminal.getvalue() and "1 failed" in terminal.getvalue()
