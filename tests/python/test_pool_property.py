# SPDX-License-Identifier: MIT
"""Random mixes of results, errors, timeouts, deaths and cancellations: exactly one end per task."""
from __future__ import annotations

import concurrent.futures
import threading
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_dispatch import Pool, TaskTimedOut, WorkerDied
from poolworkers import Actor
from waiting import DEADLINE_SECONDS

KINDS = ("echo", "fail", "lock", "late", "die", "cancel", "cancel_at_once", "unpicklable")


def item_of(kind: str, number: int) -> Any:
    if kind in ("late", "cancel", "cancel_at_once"):
        return "forever", number
    if kind == "die":
        return "die", 9
    if kind == "unpicklable":
        return "echo", threading.Lock()
    return kind, number


def check(kind: str, number: int, future: concurrent.futures.Future[Any]) -> None:
    if kind.startswith("cancel"):
        assert future.cancelled()
        return
    error = future.exception(DEADLINE_SECONDS)
    if kind == "echo":
        assert error is None and future.result() == number
    elif kind == "fail":
        assert isinstance(error, KeyError) and error.args == (number,)
    elif kind == "late":
        assert isinstance(error, TaskTimedOut)
    elif kind == "die":
        assert isinstance(error, WorkerDied) and error.signal == 9
    else:
        assert isinstance(error, TypeError)


tasks = st.lists(
    st.sampled_from(KINDS * 1 + ("echo",) * 12 + ("fail",) * 4), min_size=1, max_size=40
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(tasks, st.integers(1, 3), st.integers(1, 16))
def test_exactly_one_end_per_task(kinds: list[str], workers: int, queue_size: int) -> None:
    ends: Counter[int] = Counter()
    lock = threading.Lock()

    def end(number: int) -> None:
        with lock:
            ends[number] += 1

    with Pool(Actor, f"sim:{workers}", queue_size=queue_size) as pool:
        futures = []
        for number, kind in enumerate(kinds):
            timeout = 0.05 if kind in ("late", "cancel") else None
            future = pool.submit(item_of(kind, number), timeout=timeout)
            future.add_done_callback(lambda _, number=number: end(number))  # type: ignore[misc]
            if kind == "cancel_at_once":
                assert future.cancel()
            futures.append(future)
        for kind, future in zip(kinds, futures):
            if kind == "cancel" and not future.cancel():
                assert isinstance(future.exception(), TaskTimedOut)
        for number, (kind, future) in enumerate(zip(kinds, futures)):
            if kind != "cancel":
                check(kind, number, future)
    assert ends == Counter(range(len(kinds)))
    stats = pool.stats()
    ended = sum(stats[name] for name in ("completed", "failed", "timeouts", "cancelled"))
    assert stats["submitted"] == ended == len(kinds) - kinds.count("unpicklable")


@settings(
    max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(
    st.lists(st.sampled_from(("echo",) * 8 + ("fail", "die", "late", "lock")), max_size=60),
    st.booleans(),
    st.booleans(),
    st.integers(1, 20),
)
def test_map_yields_one_result_per_item(
    kinds: list[str], ordered: bool, lazily: bool, buffersize: int
) -> None:
    items = [item_of(kind, number) for number, kind in enumerate(kinds)]
    with Pool(Actor, "sim:2", task_timeout=0.3) as pool:
        results = list(
            pool.map(
                iter(items) if lazily else items,
                ordered=ordered,
                errors="return",
                buffersize=buffersize,
            )
        )
    assert len(results) == len(items)
    values = [result for result in results if not isinstance(result, BaseException)]
    assert ordered is False or values == sorted(values)
    expected = {number for number, kind in enumerate(kinds) if kind == "echo"}
    assert set(values) <= expected and len(set(values)) == len(values)
    # On a slow machine other tasks may time out, too.
    late = sum(isinstance(result, TaskTimedOut) for result in results) - kinds.count("late")
    assert len(expected) - len(values) <= late
