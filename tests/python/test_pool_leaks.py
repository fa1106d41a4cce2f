# SPDX-License-Identifier: MIT
"""Nothing is left behind: descriptors, processes, threads, memory."""
from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import Pool
from gpu_dispatch._future import TaskFuture
from poolworkers import Actor
from waiting import children, eventually, open_descriptors

RUNS = 100


def resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * (os.sysconf("SC_PAGE_SIZE") // 1024)


def use(pool: Pool) -> None:
    futures = [pool.submit(("echo", n)) for n in range(20)]
    futures[0].add_done_callback(lambda f: None)
    assert [future.result() for future in futures] == list(range(20))
    pool.submit(("fail", "x")).exception()
    pool.submit(("forever", None)).cancel()
    assert len(list(pool.map([("echo", n) for n in range(50)]))) == 50
    results = pool.map(("echo", bytes(10_000)) for n in range(50))
    next(results)
    del results

    async def main() -> None:
        assert await pool.asubmit(("echo", 1)) == 1
        async for _ in pool.amap([("echo", n) for n in range(20)]):
            pass

    asyncio.run(main())


def test_a_hundred_pools_leave_nothing_behind() -> None:
    def run() -> None:
        with Pool(Actor, "sim:1") as pool:
            use(pool)

    for _ in range(10):
        run()
    gc.collect()
    before = open_descriptors(), children(os.getpid()), threading.active_count()
    memory = resident_kib()
    for _ in range(RUNS):
        run()
    gc.collect()
    eventually(lambda: children(os.getpid()) == before[1])
    eventually(lambda: threading.active_count() == before[2])
    assert open_descriptors() == before[0]
    assert resident_kib() - memory < 6_000


def test_a_pool_that_is_used_long_does_not_grow() -> None:
    with Pool(Actor, "sim:2") as pool:
        for _ in range(20):
            use(pool)
        gc.collect()
        memory, descriptors = resident_kib(), open_descriptors()
        for _ in range(RUNS):
            use(pool)
        gc.collect()
        assert open_descriptors() == descriptors
        assert resident_kib() - memory < 6_000


@pytest.mark.parametrize("verb", ["echo", "fail", "lock", "die", "cancel"])
def test_items_and_results_are_released(verb: str) -> None:
    class Value(dict[str, Any]):
        pass

    with Pool(Actor, "sim:1") as pool:
        future = pool.submit(("forever" if verb == "cancel" else verb, 9))
        if verb == "cancel":
            future.cancel()
        else:
            future.exception()
        reference: weakref.ref[TaskFuture] = weakref.ref(future)
        pool.submit(("echo", 1)).result()
        del future
        eventually(lambda: gc.collect() >= 0 and reference() is None)


def test_a_failed_result_makes_no_cycle() -> None:
    """The objects of a frame are released with it, without the garbage collector."""
    with Pool(Actor, "sim:1") as pool:

        class Heavy:
            pass

        def attempt() -> Callable[[], object]:
            heavy = Heavy()
            try:
                pool.submit(("fail", "x")).result()
            except KeyError:
                pass
            return weakref.ref(heavy)

        gc.disable()
        try:
            assert attempt()() is None
        finally:
            gc.enable()


def test_a_closed_pool_is_collected() -> None:
    with Pool(Actor, "sim:1") as pool:
        pool.submit(("echo", 1)).result()
    reference = weakref.ref(pool._core)
    del pool
    eventually(lambda: gc.collect() >= 0 and reference() is None)
