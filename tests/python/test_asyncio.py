# SPDX-License-Identifier: MIT
"""The pool in an event loop."""
from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import NoWorkers, Pool, PoolClosed, TaskTimedOut, WorkerDied
from gpu_dispatch._core import Core, _live
from poolworkers import Actor, BrokenSetup
from waiting import DEADLINE_SECONDS, eventually, open_descriptors, says


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(Actor, "sim:2", queue_size=64) as pool:
        yield pool


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(main(), DEADLINE_SECONDS)

    asyncio.run(limited())


def echoes(count: int) -> list[tuple[str, int]]:
    return [("echo", n) for n in range(count)]


async def counted(count: int) -> AsyncIterator[tuple[str, int]]:
    for n in range(count):
        if n % 7 == 0:
            await asyncio.sleep(0)
        yield "echo", n


def test_asubmit_returns_the_result(pool: Pool) -> None:
    async def main() -> None:
        assert await pool.asubmit(("echo", 5)) == 5
        results = await asyncio.gather(*(pool.asubmit(item) for item in echoes(1000)))
        assert results == list(range(1000))

    run(main)


def test_asyncio_starts_no_thread() -> None:
    async def main() -> None:
        before = threading.active_count()
        with Pool(Actor, "sim:1") as pool:
            assert await pool.asubmit(("echo", 5)) == 5
            assert [n async for n in pool.amap(echoes(100))] == list(range(100))
            assert threading.active_count() == before

    run(main)


def test_exceptions_of_tasks(pool: Pool) -> None:
    async def main() -> None:
        with pytest.raises(KeyError) as caught:
            await pool.asubmit(("fail", "x"))
        assert "poolworkers.py" in str(caught.value.__cause__)
        with pytest.raises(WorkerDied):
            await pool.asubmit(("die", 9))
        with pytest.raises(TaskTimedOut):
            await pool.asubmit(("forever", None), timeout=0.05)
        with pytest.raises(TypeError, match="pickle"):
            await pool.asubmit(("echo", threading.Lock()))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await pool.asubmit(("fail_stop_iteration", None))

    run(main)


def test_cancelling_the_coroutine_cancels_the_task(tmp_path: Path) -> None:
    marker = tmp_path / "marker"

    async def main() -> None:
        with Pool(Actor, "sim:1") as pool:
            task = asyncio.ensure_future(pool.asubmit(("until_cancelled", str(marker))))
            await asyncio.get_running_loop().run_in_executor(
                None, eventually, lambda: says(marker, "begun")
            )
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await pool.asubmit(("echo", 1)) == 1
            assert says(marker, "cancelled")

    run(main)


def test_a_task_that_waits_for_room_can_be_cancelled() -> None:
    async def main() -> None:
        with Pool(Actor, "sim:1", queue_size=1) as pool:
            tasks = [asyncio.ensure_future(pool.asubmit(item)) for item in echoes(2000)]
            await asyncio.sleep(0)
            tasks[-1].cancel()
            assert await asyncio.gather(*tasks[:-1]) == list(range(1999))
            with pytest.raises(asyncio.CancelledError):
                await tasks[-1]

    run(main)


def test_cancelling_many_tasks_that_wait_for_room_is_quick() -> None:
    """If each cancellation scanned all tasks, this would take minutes."""

    async def main() -> None:
        with Pool(Actor, "sim:1", queue_size=1) as pool:
            tasks = [asyncio.ensure_future(pool.asubmit(item)) for item in echoes(50_000)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(end, asyncio.CancelledError) for end in ends) > 49_000

    run(main)


class FullEngine:
    """An engine that is full."""

    def submit(self, *args: Any) -> int:
        raise BlockingIOError


class Waiter:
    """A task that waits for space."""

    _id = -1


def test_threads_submit_and_cancel_tasks_that_wait_for_room() -> None:
    core = Core(lambda _: FullEngine())  # type: ignore[arg-type, return-value]
    kept: list[Any] = [Waiter() for _ in range(1000)]
    failures: list[BaseException] = []

    def submit_and_cancel() -> None:
        try:
            for _ in range(300):
                passing: Any = Waiter()
                core.submit_later(None, passing, 0)
                core.cancel(passing)
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for task in kept:
            core.submit_later(None, task, 0)
        threads = [threading.Thread(target=submit_and_cancel) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        _live.discard(core)
    assert not failures
    dropped: list[Any] = []
    for task in kept:
        task._drop = lambda task=task: dropped.append(task)
    core._drop_backlog()
    assert dropped == kept


@pytest.mark.parametrize("count", [0, 1, 64, 2000])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("form", [echoes, lambda count: iter(echoes(count)), counted])
def test_amap_yields_every_result_once(pool: Pool, count: int, ordered: bool, form: Any) -> None:
    async def main() -> None:
        results = [n async for n in pool.amap(form(count), ordered=ordered)]
        assert (results if ordered else sorted(results)) == list(range(count))

    run(main)


def test_amap_with_small_buffers(pool: Pool) -> None:
    async def main() -> None:
        for size in (1, 2, 7):
            assert [n async for n in pool.amap(counted(50), buffersize=size)] == list(range(50))
            assert [n async for n in pool.amap(echoes(50), buffersize=size)] == list(range(50))

    run(main)


def test_amap_is_not_ahead_by_more_than_its_buffer(pool: Pool) -> None:
    async def main() -> None:
        pulled = 0

        async def items() -> AsyncIterator[Any]:
            nonlocal pulled
            for n in range(300):
                pulled += 1
                yield "echo", n

        taken = 0
        async for _ in pool.amap(items(), buffersize=10):
            taken += 1
            assert pulled - taken <= 10
        assert taken == 300

    run(main)


def test_amap_does_not_wait_for_the_next_item(pool: Pool) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def items() -> AsyncIterator[Any]:
            yield "echo", 1
            await go_on.wait()
            yield "echo", 2

        results = pool.amap(items())
        assert await results.__anext__() == 1
        go_on.set()
        assert [n async for n in results] == [2]

    run(main)


def test_amap_errors(pool: Pool) -> None:
    async def main() -> None:
        items = [("echo", 0), ("fail", "x"), ("echo", 2)]
        seen = []
        with pytest.raises(KeyError):
            async for result in pool.amap(items):
                seen.append(result)
        assert seen == [0]
        results = [result async for result in pool.amap(items, errors="return")]
        assert isinstance(results[1], KeyError) and results[2] == 2

        async def broken() -> AsyncIterator[Any]:
            yield "echo", 0
            raise LookupError("no more")

        with pytest.raises(LookupError):
            async for result in pool.amap(broken()):
                seen.append(result)
        assert seen == [0, 0]
        with pytest.raises(TimeoutError):
            async for result in pool.amap([("forever", None)], timeout=0.05):
                pass

    run(main)


def test_closing_amap_cancels_what_is_left() -> None:
    async def main() -> None:
        with Pool(Actor, "sim:1") as pool:
            results = pool.amap([("echo", 1), ("forever", None), *echoes(20)])
            assert await results.__anext__() == 1
            await results.aclose()  # type: ignore[attr-defined]
            assert await pool.asubmit(("echo", 1)) == 1
            assert pool.stats()["cancelled"] == 21

    run(main)


def test_pool_works_in_one_event_loop_after_another(pool: Pool) -> None:
    async def main() -> None:
        assert await pool.asubmit(("echo", 5)) == 5

    for _ in range(3):
        run(main)


def test_loops_in_threads_beside_futures(pool: Pool) -> None:
    failures: list[BaseException] = []

    def loop() -> None:
        async def main() -> None:
            assert [n async for n in pool.amap(echoes(500))] == list(range(500))
            for n in range(100):
                assert await pool.asubmit(("echo", n)) == n

        try:
            run(main)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(300):
        assert pool.submit(("echo", n)).result(DEADLINE_SECONDS) == n
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()
    assert not failures


def test_futures_can_be_awaited_through_wrap_future(pool: Pool) -> None:
    async def main() -> None:
        assert await asyncio.wrap_future(pool.submit(("echo", 5))) == 5

    run(main)


def test_the_pool_as_asynchronous_context(tmp_path: Path) -> None:
    async def main() -> None:
        before = open_descriptors()
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticker = asyncio.ensure_future(tick())
        async with Pool(Actor, "sim:1") as pool:
            task = asyncio.ensure_future(pool.asubmit(("echo", 1)))
            await asyncio.sleep(0)
        assert await task == 1
        assert ticks > 5  # the loop kept running while the workers ended
        ticker.cancel()
        with pytest.raises(PoolClosed):
            await pool.asubmit(1)
        assert open_descriptors() == before

    run(main)


def test_no_worker_is_left() -> None:
    async def main() -> None:
        with Pool(BrokenSetup, "sim:1") as pool:
            with pytest.raises(NoWorkers) as caught:
                await pool.asubmit(1)
            assert isinstance(caught.value.__cause__, RuntimeError)
            with pytest.raises(NoWorkers):
                await pool.asubmit(2)

    run(main)


def test_shutdown_in_the_loop_ends_what_waits() -> None:
    async def main() -> None:
        pool = Pool(Actor, "sim:1")
        tasks = [asyncio.ensure_future(pool.asubmit(("forever", n))) for n in range(3)]
        await asyncio.sleep(0)
        pool._shutdown(True, 2)
        for task in tasks:
            with pytest.raises(PoolClosed):
                await task

    run(main)


@pytest.mark.parametrize("futures", [False, True])
def test_ashutdown_may_be_called_several_times(futures: bool) -> None:
    """Futures need the pool's thread, which has already ended."""

    async def main() -> None:
        async with Pool(Actor, "sim:1") as pool:
            assert await pool.asubmit(("echo", 1)) == 1
            if futures:
                assert await asyncio.wrap_future(pool.submit(("echo", 2))) == 2
            await pool.ashutdown()
            await pool.ashutdown()
        pool.shutdown()

    run(main)


def test_cancelling_the_end_of_the_block_cancels_its_tasks(tmp_path: Path) -> None:
    """Ctrl-C has this effect. Nothing is left to clean up when the program ends."""

    async def main() -> None:
        leaving = asyncio.Event()

        async def block() -> None:
            async with Pool(Actor, "sim:1") as pool:
                pools.append(pool)
                futures.extend(pool.submit(("forever", None)) for _ in range(5))
                leaving.set()

        task = asyncio.create_task(block())
        await leaving.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    pools: list[Pool] = []
    futures: list[Any] = []
    run(main)
    pools[0].shutdown()
    assert all(future.cancelled() for future in futures)
