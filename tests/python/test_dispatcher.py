# SPDX-License-Identifier: MIT
"""Dispatcher, BaseWorker and the protocol: guarantees of the library's documents."""
from __future__ import annotations

import collections
import dataclasses
import inspect
import logging
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import workers
from workers import Echo, Facts, Meet, Naughty, NoSetup, wait_until

import gpu_dispatch
from gpu_dispatch import BaseWorker, Dispatcher, protocol


class Book:
    """Callbacks that record their arguments."""

    def __init__(self) -> None:
        self.results: dict[int, Any] = {}
        self.errors: dict[int, str] = {}
        self.timeouts: dict[int, float] = {}
        self.setup_failures: dict[int, str] = {}
        self.workers: dict[int, int] = {}
        self.ends: collections.Counter[int] = collections.Counter()
        self.order: list[tuple[str, int]] = []

    def on_success(self, task_id: int, result: Any, worker_id: int) -> None:
        self._end("success", task_id, worker_id)
        self.results[task_id] = result

    def on_error(self, task_id: int, error: str, worker_id: int) -> None:
        self._end("error", task_id, worker_id)
        self.errors[task_id] = error

    def on_timeout(self, task_id: int, timeout: float, worker_id: int) -> None:
        self._end("timeout", task_id, worker_id)
        self.timeouts[task_id] = timeout

    def on_setup_fail(self, gpu_id: int, error: str) -> None:
        self.order.append(("setup_fail", gpu_id))
        self.setup_failures[gpu_id] = error

    def on_task_start(self, task_id: int, worker_id: int) -> None:
        self.order.append(("start", task_id))

    def on_exit(self) -> None:
        self.order.append(("exit", 0))

    def _end(self, what: str, task_id: int, worker_id: int) -> None:
        self.order.append((what, task_id))
        self.ends[task_id] += 1
        self.workers[task_id] = worker_id

    def callbacks(self, **others: Any) -> dict[str, Any]:
        names = ("on_success", "on_error", "on_timeout", "on_setup_fail", "on_task_start", "on_exit")
        return {**{name: getattr(self, name) for name in names}, **others}

    def check_complete(self, count: int) -> None:
        assert self.ends == {number: 1 for number in range(count)}
        assert self.order[-1] == ("exit", 0) and self.order.count(("exit", 0)) == 1


def run(worker: type[BaseWorker], items: Any, gpu_ids: list[int], **kwargs: Any) -> Book:
    book = Book()
    Dispatcher(worker, gpu_ids).run(items, **book.callbacks(**kwargs))
    return book


# ---- Signatures --------------------------------------------------------------


def test_signatures_are_those_of_the_documents() -> None:
    create = inspect.signature(Dispatcher)
    assert [
        (name, parameter.default)
        for name, parameter in create.parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ] == [
        ("worker_cls", inspect.Parameter.empty),
        ("gpu_ids", inspect.Parameter.empty),
        ("queue_size", 1024),
        ("suppress_worker_output", False),
    ]
    parameters = list(inspect.signature(Dispatcher.run).parameters.values())
    assert [(parameter.name, parameter.default) for parameter in parameters[1:-1]] == [
        ("generator", inspect.Parameter.empty),
        ("on_success", inspect.Parameter.empty),
        ("on_error", None),
        ("on_timeout", None),
        ("on_setup_fail", None),
        ("on_task_start", None),
        ("on_exit", None),
        ("base_seed", 42),
        ("task_timeout", None),
        ("total_tasks", None),
    ]
    assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD


def test_base_worker_is_abstract() -> None:
    assert BaseWorker.__abstractmethods__ == {"setup", "process"}
    assert list(inspect.signature(BaseWorker.setup).parameters)[:3] == ["self", "gpu_id", "seed"]
    Echo().cleanup()
    with pytest.raises(TypeError):
        BaseWorker()


def test_protocol_has_six_dataclasses() -> None:
    fields = {
        name: [field.name for field in dataclasses.fields(getattr(protocol, name))] for name in protocol.__all__
    }
    assert fields == {
        "TaskSuccess": ["task_id", "data", "worker_id"],
        "TaskError": ["task_id", "error", "worker_id"],
        "TaskTimeout": ["task_id", "timeout", "worker_id"],
        "TaskStarted": ["task_id", "worker_id"],
        "SetupFailed": ["gpu_id", "error"],
        "CleanupFailed": ["gpu_id", "error"],
    }


def test_the_package_has_what_it_lists() -> None:
    for name in gpu_dispatch.__all__:
        assert getattr(gpu_dispatch, name)
    assert set(gpu_dispatch.__all__) <= set(dir(gpu_dispatch))
    with pytest.raises(AttributeError, match="nonsense"):
        gpu_dispatch.nonsense


@pytest.mark.parametrize("wrong", [int, object, "Echo", Echo.process, None])
def test_a_class_that_is_not_a_worker_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="BaseWorker"):
        Dispatcher(wrong, [0])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="gpu_ids"):
        Dispatcher(Echo, [])
    with pytest.raises(ValueError, match="queue_size"):
        Dispatcher(Echo, [0], queue_size=0)
    for timeout in (0, -1, float("nan"), 1e12, float("inf")):
        with pytest.raises(ValueError, match="task_timeout"):
            Dispatcher(Echo, [0]).run([], print, task_timeout=timeout)
    with pytest.raises(TypeError, match="on_success"):
        Dispatcher(Echo, [0]).run([], None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Dispatcher(Echo, [0]).run(5, print)  # type: ignore[arg-type]


# ---- Results -----------------------------------------------------------------


def generate(count: int) -> Iterator[int]:
    yield from range(count)


@pytest.mark.parametrize(
    "items",
    [[0, 1, 2], (0, 1, 2), range(3), generate(3), iter([0, 1, 2]), {0: "a", 1: "b", 2: "c"}, map(int, "012")],
)
def test_any_iterable_is_numbered_in_its_order(items: Any) -> None:
    book = run(Echo, items, [0, 1])
    assert book.results == {0: 0, 1: 1, 2: 2}
    book.check_complete(3)


def test_no_items() -> None:
    for items in ([], generate(0)):
        book = run(Echo, items, [0])
        assert book.order == [("exit", 0)]


def test_many_items_have_one_callback_each() -> None:
    for items in (generate(20_000), range(20_000)):
        book = run(Echo, items, [0, 1, 2], on_task_start=None)
        assert book.results == {number: number for number in range(20_000)}
        book.check_complete(20_000)


def test_one_worker_keeps_the_order() -> None:
    book = run(Echo, generate(3000), [5])
    assert [number for what, number in book.order if what == "success"] == list(range(3000))
    assert set(book.workers.values()) == {5}


def test_each_item_starts_before_it_ends() -> None:
    book = run(Echo, generate(200), [0, 1])
    for number in range(200):
        assert book.order.count(("start", number)) == 1
        assert book.order.index(("start", number)) < book.order.index(("success", number))


def test_each_worker_gets_a_share_of_a_short_list(tmp_path: pathlib.Path) -> None:
    book = run(Meet, range(4), [0, 1, 2, 3], directory=str(tmp_path), count=4)
    assert sorted(book.results.values()) == [0, 1, 2, 3]


def test_setup_gets_gpu_seed_and_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3,7")
    monkeypatch.chdir(tmp_path)
    book = run(Facts, generate(20), [3, 7], base_seed=100, model="m", sizes=(1, 2))
    for number, facts in book.results.items():
        assert facts["gpu_id"] == book.workers[number] and facts["gpu_id"] in (3, 7)
        assert facts["seed"] == 100 + facts["gpu_id"]
        assert facts["kwargs"] == {"model": "m", "sizes": (1, 2)}
        assert facts["visible"] == "0,3,7"  # as it was
        assert facts["device_index"] == facts["gpu_id"]
        assert facts["directory"] == str(tmp_path)
    assert run(Facts, [0], [1]).results[0]["seed"] == 43


def test_bind_gpu_shows_a_worker_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUQ_GPUS", "sim:2")
    book = Book()
    Dispatcher(Facts, [0, 1], bind_gpu=True).run(generate(10), **book.callbacks())
    for facts in book.results.values():
        assert facts["device_index"] == 0
        assert facts["visible"] == str(facts["gpu_id"])
    with pytest.raises(gpu_dispatch.GPUNotFound):
        Dispatcher(Facts, [5], bind_gpu=True).run(generate(10), **book.callbacks())


def test_a_gpu_twice_means_two_workers(tmp_path: pathlib.Path) -> None:
    book = run(Meet, range(2), [0, 0], directory=str(tmp_path), count=2)
    assert list(book.results.values()) == [0, 0]
    assert len(list(tmp_path.glob("ready-*"))) == 2


def test_the_generator_is_not_far_ahead(tmp_path: pathlib.Path) -> None:
    pulled: list[int] = []

    def items() -> Iterator[Any]:
        yield "wait_for", "go"
        for number in range(1000):
            pulled.append(number)
            yield "echo", number

    def on_task_start(task_id: int, worker_id: int) -> None:
        if task_id == 0:
            # Enough of them, and then no more.
            wait_until(lambda: len(pulled) >= 5)
            (tmp_path / "go").touch()
            assert len(pulled) < 100

    book = Book()
    callbacks = book.callbacks(on_task_start=on_task_start)
    Dispatcher(Naughty, [0], queue_size=5).run(items(), **callbacks, directory=str(tmp_path))
    book.check_complete(1001)


def test_a_dispatcher_runs_again() -> None:
    dispatcher = Dispatcher(Echo, [0])
    for _ in range(2):
        book = Book()
        dispatcher.run([1, 2], **book.callbacks())
        assert book.results == {0: 1, 1: 2}


def test_a_dispatcher_runs_once_at_a_time() -> None:
    dispatcher = Dispatcher(Echo, [0])
    caught: list[BaseException] = []

    def on_success(task_id: int, result: Any, worker_id: int) -> None:
        try:
            dispatcher.run([1], print)
        except RuntimeError as error:
            caught.append(error)

    dispatcher.run([1], on_success)
    assert "already running" in str(caught[0])


# ---- Failures ----------------------------------------------------------------


def test_an_error_is_a_traceback_and_costs_nothing_else() -> None:
    book = run(Naughty, [("echo", 1), ("fail", "broken"), ("echo", 2)], [0])
    assert book.results == {0: 1, 2: 2}
    assert book.errors[1].startswith("Traceback (most recent call last):\n")
    assert book.errors[1].endswith("ValueError: broken\n")
    assert "do_fail" in book.errors[1] and "workers.py" in book.errors[1]
    assert "_worker.py" not in book.errors[1]
    book.check_complete(3)


@pytest.mark.parametrize("what, words", [("exit", "SystemExit: 3"), ("interrupt", "KeyboardInterrupt")])
def test_exits_of_python_are_errors_of_their_item(what: str, words: str) -> None:
    book = run(Naughty, [("pid",), (what,), ("pid",)], [0])
    assert words in book.errors[1]
    assert book.results[0][0] == book.results[2][0]  # the same process


def test_a_worker_that_dies_costs_its_item_and_is_replaced() -> None:
    book = run(Naughty, [("pid",), ("die",), ("pid",)], [0])
    assert "SIGKILL" in book.errors[1]
    assert book.results[0][0] != book.results[2][0]
    book.check_complete(3)


def test_what_cannot_be_pickled_is_the_error_of_its_item() -> None:
    items = [("echo", 1), workers.Unpicklable(), ("unpicklable",), ("echo", lambda: 1), ("echo", 2)]
    for inputs in (items, iter(items)):
        book = run(Naughty, inputs, [0])
        assert book.results == {0: 1, 4: 2}
        assert "TypeError: this object stays here" in book.errors[1]
        assert "TypeError: this object stays here" in book.errors[2]
        assert "lambda" in book.errors[3]
        book.check_complete(5)


def test_what_cannot_be_unpickled_is_the_error_of_its_item() -> None:
    book = run(Naughty, [("echo", 1), ("undecodable",), workers.Undecodable(), ("odd",), ("echo", 2)], [0])
    assert book.results == {0: 1, 4: 2}
    assert "this object cannot be made here" in book.errors[1]
    assert "this object cannot be made here" in book.errors[2]
    assert "OddError: 1 and 2" in book.errors[3]


def test_what_cannot_be_sent_to_setup_is_raised_at_once() -> None:
    book = Book()
    with pytest.raises(TypeError, match="stays here"):
        Dispatcher(Facts, [0]).run([1], **book.callbacks(), thing=workers.Unpicklable())
    assert book.order == [("exit", 0)]


def test_a_worker_without_setup_leaves_the_items_to_others() -> None:
    book = Book()

    def items() -> Iterator[int]:
        yield from range(100)
        wait_until(lambda: book.setup_failures)  # a setup that has not begun when the items end does not fail

    Dispatcher(NoSetup, [0, 1]).run(items(), **book.callbacks(), bad=[1])
    assert book.results == {number: number for number in range(100)}
    assert list(book.setup_failures) == [1]
    assert "OSError: no model on 1" in book.setup_failures[1]
    assert book.setup_failures[1].startswith("Traceback")
    assert "_worker.py" not in book.setup_failures[1]


@pytest.mark.parametrize("items", [[], [1, 2], generate(0), generate(5000)])
def test_no_worker_at_all(items: Any) -> None:
    book = Book()
    with pytest.raises(RuntimeError, match="^All workers failed during setup$"):
        Dispatcher(NoSetup, [0, 1]).run(items, **book.callbacks(), bad=[0, 1])
    assert set(book.setup_failures) == {0, 1}
    assert not book.ends
    with pytest.raises(RuntimeError, match="^All workers failed during setup$") as caught:
        Dispatcher(NoSetup, [0]).run(items, lambda *args: None, bad=[0])
    assert isinstance(caught.value.__cause__, OSError)
    assert "workers.py" in str(caught.value.__cause__.__cause__)
    assert book.order[-1] == ("exit", 0)


def test_cleanup_runs_before_on_exit(tmp_path: pathlib.Path) -> None:
    seen: list[list[str]] = []

    def items() -> Iterator[int]:
        yield from range(10)
        # A setup that still runs when the items end would be interrupted, and not cleaned up.
        wait_until(lambda: len(list(tmp_path.glob("ready-*"))) == 2)

    run(
        workers.MarkCleanup,
        items(),
        [0, 1],
        directory=str(tmp_path),
        on_exit=lambda: seen.append(sorted(path.name for path in tmp_path.glob("cleaned-*"))),
    )
    assert seen == [["cleaned-0", "cleaned-1"]]


def test_a_failed_cleanup_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        book = run(workers.NoCleanup, [1], [4])
    assert book.results == {0: 1}
    assert "GPU 4" in caplog.text and "OSError: cannot clean up" in caplog.text


# ---- Timeouts ----------------------------------------------------------------


@pytest.mark.parametrize("what", ["hang", "spin"])
def test_a_timeout_interrupts_process_and_keeps_the_worker(what: str, tmp_path: pathlib.Path) -> None:
    items = [("pid",), (what,), ("pid",), ("hang_and_catch",), ("pid",)]
    book = run(Naughty, items, [0], task_timeout=2.0, directory=str(tmp_path))
    assert book.timeouts == {1: 2.0, 3: 2.0}
    assert {pid for pid, _ in book.results.values()} == {book.results[0][0]}
    assert [made for _, made in book.results.values()] == [1, 3, 5]
    book.check_complete(5)


def test_a_timeout_interrupts_a_wait_that_is_about_to_begin() -> None:
    """A signal just before the system call would not interrupt it; after ten seconds the worker would be killed."""
    book = Book()
    dispatcher = Dispatcher(workers.Sleeper, [0])
    counts = [number % 12 for number in range(600)]
    dispatcher.run(counts, book.on_success, book.on_error, book.on_timeout, task_timeout=0.001)
    assert sorted(book.timeouts) == list(range(600))
    assert dispatcher.get_stats()["restarts"] == 0


def test_a_worker_that_dies_with_the_last_item_is_not_replaced() -> None:
    """With a list: the thread of a generator may report its end too late."""
    book = Book()
    dispatcher = Dispatcher(Naughty, [0])
    dispatcher.run([("pid",), ("die",)], **book.callbacks())
    assert list(book.errors) == [1]
    assert dispatcher.get_stats()["restarts"] == 0


def test_a_fractional_timeout_is_reported_as_it_was_given(tmp_path: pathlib.Path) -> None:
    book = run(Naughty, [("hang",)], [0], task_timeout=0.1234567, directory=str(tmp_path))
    assert book.timeouts == {0: 0.1234567}


def test_quick_items_are_not_interrupted() -> None:
    book = run(Echo, generate(2000), [0, 1], task_timeout=30)
    assert len(book.results) == 2000


# ---- Early ends --------------------------------------------------------------


def test_an_exception_of_the_generator_is_raised() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    book = Book()
    with pytest.raises(LookupError, match="no more"):
        Dispatcher(Echo, [0]).run(items(), **book.callbacks())
    assert book.order[-1] == ("exit", 0)
    assert max(book.ends.values(), default=1) == 1


@pytest.mark.parametrize("inline", [True, False])
def test_an_exception_of_a_callback_is_raised(inline: bool) -> None:
    def on_success(task_id: int, result: Any, worker_id: int) -> None:
        book.on_success(task_id, result, worker_id)
        if task_id == 10:
            raise LookupError("full")

    book = Book()
    items = range(100_000)
    with pytest.raises(LookupError, match="full"):
        Dispatcher(Echo, [0, 1]).run(items if inline else iter(items), **book.callbacks(on_success=on_success))
    assert book.order[-1] == ("exit", 0)
    assert max(book.ends.values()) == 1
    assert len(book.ends) < 100_000


def test_an_exception_of_on_exit_is_raised() -> None:
    with pytest.raises(LookupError):
        Dispatcher(Echo, [0]).run([1], lambda *args: None, on_exit=lambda: [][0])


def test_shutdown_in_a_callback() -> None:
    dispatcher = Dispatcher(Echo, [0])
    book = Book()

    def on_success(task_id: int, result: Any, worker_id: int) -> None:
        book.on_success(task_id, result, worker_id)
        dispatcher.shutdown()

    dispatcher.run(generate(1_000_000), **book.callbacks(on_success=on_success))
    assert 0 < len(book.ends) < 100_000
    assert not book.errors and book.order[-1] == ("exit", 0)
    assert dispatcher.get_stats()["cancelled"] > 0
    dispatcher.shutdown()  # there is no run


def test_shutdown_by_another_thread_while_the_generator_blocks(tmp_path: pathlib.Path) -> None:
    never = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        never.wait()

    dispatcher = Dispatcher(Echo, [0])
    book = Book()

    def stop() -> None:
        wait_until(lambda: book.results)
        dispatcher.shutdown()

    stopper = threading.Thread(target=stop)
    stopper.start()
    dispatcher.run(items(), **book.callbacks())
    stopper.join()
    never.set()
    assert book.results == {0: 1} and book.order[-1] == ("exit", 0)


def test_a_second_shutdown_interrupts_what_runs(tmp_path: pathlib.Path) -> None:
    dispatcher = Dispatcher(Naughty, [0])
    book = Book()

    def stop() -> None:
        wait_until((tmp_path / "hangs").exists)
        dispatcher.shutdown()
        dispatcher.shutdown()

    stopper = threading.Thread(target=stop)
    stopper.start()
    dispatcher.run([("hang",), ("echo", 1)], **book.callbacks(), directory=str(tmp_path))
    stopper.join()
    assert list(book.errors) == [0] and "TaskCancelled" in book.errors[0]
    assert not book.results


# ---- Statistics and output ---------------------------------------------------


def test_statistics(tmp_path: pathlib.Path) -> None:
    dispatcher = Dispatcher(Naughty, [0])
    assert dispatcher.get_stats()["pending"] == 0
    during: list[dict[str, Any]] = []
    book = Book()

    def on_success(task_id: int, result: Any, worker_id: int) -> None:
        during.append(dispatcher.get_stats())

    items = [("echo", 1), ("fail", "x"), ("hang",), ("echo", 2)]
    callbacks = book.callbacks(on_success=on_success)
    dispatcher.run(items, **callbacks, task_timeout=2.0, total_tasks=4, directory=str(tmp_path))
    assert during[0]["pending"] == 3 and during[0]["completed"] == 1 and during[0]["total"] == 4
    stats = dispatcher.get_stats()
    assert (stats["pending"], stats["completed"], stats["failed"], stats["timeouts"]) == (0, 2, 1, 1)


def test_what_workers_print_is_seen_unless_suppressed(capfd: pytest.CaptureFixture[str]) -> None:
    Dispatcher(Naughty, [0]).run([("print", "hello from a worker")], lambda *args: None)
    assert "hello from a worker" in capfd.readouterr().out
    Dispatcher(Naughty, [0], suppress_worker_output=True).run([("print", "hello")], lambda *args: None)
    assert capfd.readouterr().out == ""
