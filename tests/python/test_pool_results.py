# SPDX-License-Identifier: MIT
"""Pool: results and exceptions of tasks."""
from __future__ import annotations

import concurrent.futures
import os
import pickle
import signal
import threading
import traceback
from pathlib import Path

import pytest

from gpu_dispatch import Pool, RemoteTraceback, TaskError, TaskTimedOut, WorkerDied
from poolworkers import Actor, Batcher, Grenade, OddError, OddOSError, SlowToUnpickle
from waiting import DEADLINE_SECONDS, alive, eventually, says


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


@pytest.mark.parametrize("verb, word", [("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt"), ("panic", "Panic")])
def test_what_would_end_the_parent_is_the_task_s_error(pool: Pool, verb: str, word: str) -> None:
    pid = pool.submit(("pid", None)).result()
    error = pool.submit((verb, 3)).exception()
    assert isinstance(error, TaskError)
    assert word in str(error)
    assert alive(pid)


@pytest.mark.parametrize("max_batch", [1, 8])
def test_any_exception_in_the_results_of_a_batch_is_an_error(max_batch: int) -> None:
    with Pool(Batcher, "sim:1", max_batch=max_batch) as pool:
        error = pool.submit("panic").exception()
        assert isinstance(error, TaskError) and "Panic('in an item')" in str(error)


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


@pytest.mark.parametrize("left", [False, True])
def test_a_restarted_worker_is_in_the_directory_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, left: bool) -> None:
    """Another user can replace the directory if a group can write its parent. left: the program has left it by then."""
    place, moved, private = tmp_path / "proj", tmp_path / "moved", tmp_path / "private"
    place.mkdir()
    private.mkdir()
    monkeypatch.chdir(place)
    with Pool(Actor, "sim:1") as pool:
        assert pool.submit(("directory", None)).result() == str(place)
        if left:
            os.chdir("/")
        place.rename(moved)
        place.symlink_to(private)
        with pytest.raises(WorkerDied):
            pool.submit(("die", 9)).result()
        assert pool.submit(("directory", None)).result() == str(moved)


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


def test_an_exception_with_a_huge_message_is_cut(pool: Pool) -> None:
    error = pool.submit(("fail_at_length", 20_000_000)).exception(DEADLINE_SECONDS)
    assert isinstance(error, TaskError)
    assert "its pickle is 20000" in str(error) and "the limit is 16 MiB" in str(error)
    trace = str(error.__cause__)
    assert "characters left out" in trace and "the end" in trace and len(trace) < 2_000_000
    assert len(str(error)) < 10_000
    whole = pool.submit(("fail_at_length", 5_000_000)).exception(DEADLINE_SECONDS)
    assert isinstance(whole, ValueError) and len(str(whole)) == 5_000_008


@pytest.mark.parametrize("batches", [False, True])
def test_an_item_that_takes_too_long_to_unpickle_is_interrupted(batches: bool, tmp_path: Path) -> None:
    """The worker survives: its grace period is longer than this test."""
    slow = SlowToUnpickle(str(tmp_path / "state"))
    with Pool(Batcher if batches else Actor, "sim:1", grace=600) as pool:
        with pytest.raises(TaskTimedOut):
            pool.submit(slow, timeout=0.1).result(DEADLINE_SECONDS)
        (tmp_path / "state").unlink(missing_ok=True)
        future = pool.submit(slow)
        eventually(lambda: says(tmp_path / "state", "begun"))
        future.cancel()
        assert pool.submit(3 if batches else ("echo", 3)).result(DEADLINE_SECONDS)
        assert pool.stats()["restarts"] == 0


def test_a_cancelled_task_that_returns_anyway_counts_as_completed(one: Pool, tmp_path: Path) -> None:
    future = one.submit(("ignore_cancel", str(tmp_path / "state")))
    eventually(lambda: says(tmp_path / "state", "begun"))
    assert future.cancel()
    assert one.submit(("echo", 1)).result(DEADLINE_SECONDS) == 1
    assert future.cancelled()
    stats = one.stats()
    assert (stats["completed"], stats["cancelled"]) == (2, 0)
