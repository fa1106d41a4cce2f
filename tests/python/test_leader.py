"""Threads take turns polling one engine; the engine only counts."""
from __future__ import annotations

import random
import threading
import time
from collections import deque
from functools import partial
from typing import Any, Callable

import pytest

from gpu_dispatch._leader import BUSY, Leader
from waiting import eventually

WAIT_SECONDS = 60.0


class FakeEngine:
    """Ends each task in a poll() that comes after `work()` has been called for it."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.tasks: deque[Task] = deque()
        self.ended: deque[Task] = deque()
        self.count = 0
        self.in_poll = False
        self.interrupted = False
        self.raise_in_poll: Callable[[], None] = lambda: None

    def submit(self, task: Task) -> None:
        with self.condition:
            self.tasks.append(task)
            self.count += 1
            self.condition.notify_all()

    def work(self) -> None:
        """A worker: ends tasks in any order."""
        while True:
            with self.condition:
                while not self.tasks:
                    self.condition.wait()
                self.tasks.rotate(random.randrange(3))
                task = self.tasks.popleft()
                if task.last:
                    return
                self.ended.append(task)
                self.condition.notify_all()

    def poll(self, timeout_ms: int = -1, idle: bool = False) -> int:
        with self.condition:
            if self.in_poll:
                return BUSY
            self.in_poll = True
            try:
                self.condition.wait_for(
                    lambda: bool(self.ended) or self.interrupted or not (idle or self.count),
                    None if timeout_ms < 0 else timeout_ms / 1000,
                )
                self.interrupted = False
                batch, self.ended = self.ended, deque()
                self.count -= len(batch)
            finally:
                self.in_poll = False
            self.in_poll = True
        for task in batch:
            task.end()
        self.in_poll = False
        self.raise_in_poll()
        return len(batch)

    def polling(self) -> bool:
        return self.in_poll

    def outstanding(self) -> int:
        return self.count

    def interrupt(self) -> None:
        with self.condition:
            self.interrupted = True
            self.condition.notify_all()


class Task:
    def __init__(self, last: bool = False) -> None:
        self.condition = threading.Condition()
        self.over = False
        self.last = last

    def end(self) -> None:
        with self.condition:
            self.over = True
            self.condition.notify_all()

    def is_over(self) -> bool:
        return self.over


def leader_of(engine: FakeEngine) -> Leader:
    return Leader(engine)  # type: ignore[arg-type]


class Runner(threading.Thread):
    """A thread whose exception fails the test."""

    def __init__(self, body: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._body = body
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._body()
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        self.join(WAIT_SECONDS)
        assert not self.is_alive(), "a thread waits forever"
        if self._error is not None:
            raise self._error


def started(body: Callable[[], object]) -> Runner:
    runner = Runner(body)
    runner.start()
    return runner


def stress(
    threads: int,
    tasks: int,
    body: Callable[[FakeEngine, Leader, Task], None],
    safety_net: bool = False,
) -> None:
    engine = FakeEngine()
    leader = leader_of(engine)
    if not safety_net:
        setattr(leader, "start_thread", lambda: True)
    worker = threading.Thread(target=engine.work, daemon=True)
    worker.start()

    def loop() -> None:
        for _ in range(tasks):
            task = Task()
            engine.submit(task)
            body(engine, leader, task)

    for runner in [started(loop) for _ in range(threads)]:
        runner.finish()
    engine.submit(Task(last=True))
    worker.join(WAIT_SECONDS)
    leader.close(lambda: None)
    leader.join()


class Stage:
    """One thread leads and another follows; the test decides when tasks end."""

    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.leader = leader_of(self.engine)
        setattr(self.leader, "start_thread", lambda: True)
        self.first, self.second = Task(), Task()
        self.engine.submit(self.first)
        self.engine.submit(self.second)
        self.leading = started(lambda: self.leader.wait(self.first.is_over, self.first.condition))
        eventually(self.engine.polling)

    def follow(self, body: Callable[[], object]) -> Runner:
        runner = started(body)
        eventually(lambda: self.leader._followers)
        return runner

    def end(self, task: Task) -> None:
        with self.engine.condition:
            self.engine.ended.append(task)
            self.engine.condition.notify_all()


def test_a_leader_that_leaves_passes_the_role_on() -> None:
    stage = Stage()
    second = stage.second
    following = stage.follow(lambda: stage.leader.wait(second.is_over, second.condition))
    stage.end(stage.first)
    stage.leading.finish()
    stage.end(second)
    following.finish()


def test_a_leader_with_an_exception_passes_the_role_on() -> None:
    class Stop(BaseException):
        pass

    def stop() -> None:
        raise Stop

    stage = Stage()
    second = stage.second
    following = stage.follow(lambda: stage.leader.wait(second.is_over, second.condition))
    stage.engine.raise_in_poll = stop
    stage.engine.interrupt()
    with pytest.raises(Stop):
        stage.leading.finish()
    stage.engine.raise_in_poll = lambda: None
    stage.end(second)
    following.finish()


def test_a_follower_that_is_woken_to_lead_but_is_done_passes_the_role_on() -> None:
    stage = Stage()
    first, second = stage.first, stage.second
    gone = stage.follow(lambda: stage.leader.wait(lambda: first.over, Task().condition, 0.05))
    following = stage.follow(lambda: stage.leader.wait(second.is_over, second.condition))
    stage.end(first)
    stage.leading.finish()
    gone.finish()
    stage.end(second)
    following.finish()


def test_a_follower_does_not_sleep_if_the_leader_has_left_meanwhile() -> None:
    engine = FakeEngine()
    leader = leader_of(engine)
    setattr(leader, "start_thread", lambda: True)
    task = Task()
    polls = iter([BUSY])
    poll = engine.poll

    def busy_once(timeout_ms: int = -1, idle: bool = False) -> int:
        return next(polls, 0) or poll(timeout_ms, idle)

    setattr(engine, "poll", busy_once)
    engine.submit(task)
    engine.ended.append(task)
    started(lambda: leader.wait(task.is_over, task.condition)).finish()


def test_progress_wakes_those_who_wait_for_it() -> None:
    stage = Stage()
    following = stage.follow(lambda: stage.leader.wait_progress(stage.second.is_over))
    stage.end(stage.second)
    following.finish()
    stage.end(stage.first)
    stage.leading.finish()


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_every_waiting_thread_gets_its_result(threads: int) -> None:
    def body(engine: FakeEngine, leader: Leader, task: Task) -> None:
        assert leader.wait(task.is_over, task.condition)

    stress(threads, 2000 // threads, body)


def test_threads_that_give_up_pass_the_role_on() -> None:
    def body(engine: FakeEngine, leader: Leader, task: Task) -> None:
        while not leader.wait(task.is_over, task.condition, random.choice([0, 0.0001, 0.001])):
            pass

    stress(6, 200, body)


def test_thread_without_a_timeout_waits_while_others_give_up() -> None:
    turn = iter(range(10**9))

    def body(engine: FakeEngine, leader: Leader, task: Task) -> None:
        if next(turn) % 3:
            leader.wait(task.is_over, task.condition, 0.0005)
        else:
            assert leader.wait(task.is_over, task.condition)

    stress(6, 300, body)


def test_an_exception_in_the_leader_leaves_no_thread_waiting() -> None:
    class Stop(BaseException):
        pass

    def fail() -> None:
        if random.random() < 0.3:
            raise Stop

    def body(engine: FakeEngine, leader: Leader, task: Task) -> None:
        engine.raise_in_poll = fail
        while not task.over:
            try:
                leader.wait(task.is_over, task.condition)
            except Stop:
                time.sleep(0)

    stress(4, 300, body)


def test_the_thread_polls_when_nobody_waits() -> None:
    def body(engine: FakeEngine, leader: Leader, task: Task) -> None:
        leader.start_thread()
        with task.condition:
            assert task.condition.wait_for(task.is_over, WAIT_SECONDS)

    stress(3, 50, body, safety_net=True)


def test_waiting_for_progress() -> None:
    def body(engine: FakeEngine, leader: Leader, task: Task) -> None:
        if random.random() < 0.5:
            assert leader.wait_progress(task.is_over)
        else:
            assert leader.wait(task.is_over, task.condition)

    stress(5, 300, body)


def test_jobs_run_on_the_thread_in_order() -> None:
    engine = FakeEngine()
    leader = leader_of(engine)
    seen: list[Any] = []
    done = threading.Event()
    task = Task()
    engine.submit(task)  # keeps the thread in poll()
    leader.start_thread()

    def note(number: int) -> None:
        seen.append((number, leader.in_thread()))

    for number in range(100):
        leader.call_later(partial(note, number))
    leader.call_later(done.set)
    assert done.wait(WAIT_SECONDS)
    assert seen == [(number, True) for number in range(100)]
    leader.close(lambda: None)
    leader.join()


def test_close_runs_the_jobs_that_are_left_and_ends_the_thread() -> None:
    engine = FakeEngine()
    leader = leader_of(engine)
    seen: list[str] = []
    leader.start_thread()
    leader.close(lambda: leader.call_later(lambda: seen.append("callback")))
    leader.join()
    assert seen == ["callback"]
    assert leader._thread is not None and not leader._thread.is_alive()
