# SPDX-License-Identifier: MIT
"""Which thread polls the engine.

The engine makes callbacks only inside ``poll()``, and only one thread may be in it. Threads that
wait for a result therefore take turns: one leads (polls, and delivers the results of all), the
others follow (sleep on a condition).

Invariants:

1. The role of the leader is held inside ``engine.poll()`` only, and the engine itself guards it: a
   second caller returns ``BUSY`` at once. Python code never holds the role, so an exception at any
   point, such as KeyboardInterrupt, cannot leave it taken.
2. A follower registers its condition and then checks whether a thread polls; it sleeps only if so.
   A thread that stops polling checks for followers after its last ``poll()`` has returned and wakes
   one. In every order of these four steps the follower is awake or will be woken.
3. A follower decides to sleep while it holds its condition, and a thread that wakes it takes that
   condition first. So no notification is lost between the decision and the sleep.
4. Every thread that leaves ``wait()``, for any reason, wakes a follower as in 2. A follower that
   was woken to lead but does not need to (its result arrived, its time is up) thereby wakes the
   next one.

Futures may have callbacks while no thread waits for them. For these there is one more thread per
pool, started when the first future is made or the first thread follows. It checks every
``TICK_SECONDS`` while tasks are outstanding, leads if no thread has polled meanwhile, and stops
leading as soon as it has a follower: a loop of ``submit().result()`` polls by itself, which is
twice as fast. It is also the safety net if an exception kept a thread from waking a follower.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from .errors import NoWorkers, PoolClosed

if TYPE_CHECKING:
    from . import _engine

BUSY = -1
"""The return value of ``engine.poll()`` if another thread is in it."""

TICK_SECONDS = 0.002

_log = logging.getLogger("gpu_dispatch")


class Leader:
    """The turns of one engine's threads. All methods may be called by any thread."""

    def __init__(self, engine: _engine.Pool, events: Collection[object] = ()) -> None:
        """`events` are the ended tasks of a poll; after_poll() delivers them."""
        self._engine = engine
        self._events = events
        self._followers: deque[threading.Condition] = deque()
        self._progress = threading.Condition()
        self._progress_wanted = 0
        self._turns = 0
        self._followed = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._thread_asleep = False
        self._thread_lock = threading.RLock()
        self._when_idle: Callable[[], bool] | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._retired = False
        self._ended = False
        self._thread_leads = False
        self.after_poll: Callable[[], None] = lambda: None

    def poll(self) -> bool:
        """Makes the callbacks that are due, unless another thread polls. Does not wait.

        False if no more results can come: the pool was stopped, or no worker is left.
        """
        try:
            self._take_turn(0, lambda: False)
            return True
        except (PoolClosed, NoWorkers):
            return False
        finally:
            if self._followers:
                self._pass_on()

    def _poll(self, timeout_ms: int, idle: bool) -> int:
        """The number of callbacks made, or BUSY if another thread polls.

        With `idle`, waits even if no task is outstanding.
        """
        self._turns += 1
        count = 1
        try:
            if self._events:
                timeout_ms = 0  # events of a poll that was followed by an exception
            if self._closing:
                return BUSY
            count = self._engine.poll(timeout_ms, idle)
        finally:
            if count > 0 or self._events:
                self.after_poll()
                if self._progress_wanted:
                    self.notify_progress()
        return count

    def notify_progress(self) -> None:
        """Wakes the threads in wait_progress()."""
        with self._progress:
            self._progress.notify_all()

    def wait(
        self,
        done: Callable[[], bool],
        condition: threading.Condition,
        timeout: float | None = None,
    ) -> bool:
        """Waits until done() is true; returns its value at the end.

        The thread that makes done() true must notify `condition` afterwards. done() is called with
        and without `condition` held, and again after it was true; it must be fast.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not done():
                left_ms = -1 if deadline is None else _milliseconds(deadline - time.monotonic())
                if not self._take_turn(left_ms, done):
                    self._follow(done, condition, deadline)
                if left_ms == 0:
                    return done()
            return True
        finally:
            if self._followers:
                self._pass_on()

    def wait_progress(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """wait() for a condition that may become true whenever callbacks were made."""
        with self._progress:
            self._progress_wanted += 1
        try:
            return self.wait(done, self._progress, timeout)
        finally:
            with self._progress:
                self._progress_wanted -= 1

    def wait_ready(self, timeout: float) -> None:
        """Waits for workers' setups instead of tasks, up to `timeout` seconds."""
        try:
            if self._closing or self._engine.wait_ready(_milliseconds(timeout)) == BUSY:
                time.sleep(TICK_SECONDS)
        except TimeoutError:
            pass
        finally:
            if self._followers:
                self._pass_on()

    def _take_turn(self, timeout_ms: int, done: Callable[[], bool]) -> bool:
        """Polls once as the leader; False if that is not possible."""
        try:
            return self._poll(timeout_ms, idle=True) != BUSY
        except (PoolClosed, NoWorkers):
            if not (self._closing or done()):
                raise
            return False

    def _follow(
        self,
        done: Callable[[], bool],
        condition: threading.Condition,
        deadline: float | None,
    ) -> None:
        self.start_thread()
        with condition:
            self._followers.append(condition)
            try:
                if done() or not (self._engine.polling() or self._closing):
                    return
                self._followed = True
                condition.wait(None if deadline is None else _wait_seconds(deadline))
            finally:
                self._followers.remove(condition)

    def _pass_on(self) -> None:
        if self._engine.polling():
            return
        try:
            condition = self._followers[0]
        except IndexError:
            return
        with condition:
            condition.notify_all()

    # ---- the thread -----------------------------------------------------------------------

    def start_thread(self) -> bool:
        """Makes sure that a thread polls even if none waits. Cheap if that is already the case.

        False if there is no thread and none can be started (at the end of the program).
        """
        self.wake_thread()
        if self._thread is not None:
            return True
        with self._thread_lock:
            if self._thread is None and not self._retired:
                self._thread = threading.Thread(
                    target=self._run, name="gpu_dispatch-pool", daemon=True
                )
                try:
                    self._thread.start()
                except RuntimeError:
                    self._thread = None
            return self._thread is not None

    def call_later(self, job: Callable[[], None]) -> None:
        """Calls job() on the pool's thread, after earlier jobs.

        Calls it here if that thread has ended.
        """
        with self._thread_lock:
            ended = self._ended
            if not ended:
                self._jobs.put(job)
        if ended:
            job()
        elif not self.start_thread():
            self._run_jobs()
        elif self._thread_leads:
            self._engine.interrupt()

    def call_when_idle(self, try_job: Callable[[], bool]) -> None:
        """Calls try_job() on the pool's thread whenever it is idle, until it returns true."""
        self._when_idle = try_job
        self.call_later(lambda: None)
        if self._thread is None:
            while not try_job():
                self._take_turn(-1, lambda: False)

    def wake_thread(self) -> None:
        """Lets the thread check for events, if there is a thread."""
        if self._thread_asleep:
            self._thread_asleep = False
            self._jobs.put(None)

    def in_thread(self) -> bool:
        """True on the pool's thread."""
        return threading.current_thread() is self._thread

    def close(self, close: Callable[[], object]) -> None:
        """Prevents further polling, calls close(), and ends the pool's thread after its jobs.

        Threads in wait() sleep from now on, until close() has delivered their results.
        """
        self._closing = True
        self._engine.interrupt()
        try:
            close()
        finally:
            self.notify_progress()
            with self._thread_lock:
                self._retired = True
                thread = self._thread
            self._jobs.put(None)
            if thread is None:
                self._run_jobs()

    def join(self) -> None:
        """After close(): waits for the last callbacks of futures."""
        if self._thread is not None and not self.in_thread():
            self._thread.join()

    def _run_jobs(self) -> None:
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None:
                job()

    def _may_end(self) -> bool:
        """Whether the thread ends now. Later jobs are done by their callers."""
        with self._thread_lock:
            self._ended = self._retired and self._jobs.empty()
            return self._ended

    def _run(self) -> None:
        seen = -1
        while not self._may_end():
            try:
                if self._when_idle is not None and self._jobs.empty() and self._when_idle():
                    self._when_idle = None
                    continue
                job = self._next_job()
                if job is not None:
                    job()
                if self._turns == seen:
                    self._lead_alone()
                seen = self._turns
            except BaseException:  # SystemExit would end the thread silently
                _log.exception("the pool's thread continues after an error")

    def _next_job(self) -> Callable[[], None] | None:
        if not self._busy():
            self._thread_asleep = True
            if not self._busy():
                job = self._jobs.get()
                self._thread_asleep = False
                return job
            self._thread_asleep = False
        try:
            return self._jobs.get(timeout=TICK_SECONDS)
        except queue.Empty:
            return None

    def _busy(self) -> bool:
        return not self._closing and bool(self._events or self._engine.outstanding())

    def _lead_alone(self) -> None:
        self._followed = False
        self._thread_leads = True
        try:
            while self._jobs.empty() and self._busy():
                if self._poll(-1, idle=False) == BUSY or self._followed:
                    break
        finally:
            self._thread_leads = False
            if self._followers:
                self._pass_on()


def _milliseconds(seconds: float) -> int:
    return math.ceil(min(max(0.0, seconds * 1000), 2**31 - 1))


def _wait_seconds(deadline: float) -> float:
    return min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
