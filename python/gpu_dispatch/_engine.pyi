# SPDX-License-Identifier: MIT
"""The C extension: a pool of worker processes, the worker's side of it, and GPUs.

Times are milliseconds unless a name says otherwise. Methods of Pool raise RuntimeError in a
child process that the program has forked, and PoolClosed after close(). stop(), interrupt(),
hurry(), polling(), stats() and worker_stats() never raise these exceptions, and close() may be
called twice.
"""
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any, NoReturn, Protocol, final

version: str

@final
class Failure(tuple[Any, ...]):
    """Why a task, a setup or a cleanup did not succeed."""

    @property
    def kind(self) -> str:
        """"failed", "crashed", "out of memory", "timed out", "cancelled", "no worker", "stuck",
        "not transferred" (the library's names), or "undecodable": the result could not be unpickled."""
    @property
    def message(self) -> str:
        """A human-readable line."""
    @property
    def payload(self) -> Any:
        """Of an exception in the worker: a pair of the pickled exception (or a str that says why it is not sent)
        and the traceback. None if there was none. Of an "undecodable" result: the exception."""
    @property
    def code(self) -> int: ...
    @property
    def signal(self) -> int:
        """The signal that ended the worker, or 0."""
    @property
    def attempt(self) -> int: ...
    @property
    def gpu(self) -> int:
        """-1 if the task was waiting for a worker."""
    @property
    def slot(self) -> int: ...

@final
class Pool:
    """Worker processes. One thread at a time may poll, wait or close; all other methods: any thread.

    Callbacks run inside poll(), wait_ready() and close(). `key` is the tag of the task if one was
    given, otherwise its id: 0, 1, 2… in the order of submission. Each task ends in exactly one of
    on_success, on_error, on_timeout and on_cancelled. A callback that is None is not called.
    """

    def __init__(
        self,
        *,
        argv: Sequence[str],
        on_success: Callable[..., object],
        gpus: str | Sequence[int] | None = None,
        bind: bool = True,
        workers_per_gpu: int = 1,
        settings: Mapping[str, bytes] | None = None,
        base_seed: int = 42,
        queue_size: int = 1024,
        retries: int = 0,
        ordered: bool = False,
        task_timeout_ms: int = 0,
        grace_ms: int = 10000,
        setup_timeout_ms: int = 0,
        cleanup_timeout_ms: int = 10000,
        max_tasks_per_worker: int = 0,
        max_worker_rss_bytes: int = 0,
        setup_concurrency: int = 0,
        fair_start: bool = False,
        output: str = "inherit",
        zero_copy: bool = False,
        total_tasks: int = 0,
        dumps: Callable[..., bytes] | None = None,
        on_error: Callable[..., object] | None = None,
        on_timeout: Callable[..., object] | None = None,
        on_cancelled: Callable[..., object] | None = None,
        on_task_start: Callable[[Any, int], object] | None = None,
        on_message: Callable[[Any, int, int], object] | None = None,
        on_setup_fail: Callable[[int, Failure], object] | None = None,
        on_cleanup_fail: Callable[[int, Failure], object] | None = None,
        packed: bool = False,
        environment: Sequence[str] | None = None,
    ) -> None:
        """Starts the workers and does not wait for their setup.

        `argv` runs a program that calls worker_main(). `gpus` is a specification or numbers;
        with bind=False the numbers need not exist and the environment is not narrowed. `environment`
        has strings NAME=VALUE; by default, workers inherit that of this process. `output` is
        "inherit", "silent" or a directory for one log per worker. `dumps` replaces pickle.dumps
        for items that the codec does not take. on_message(object, gpu, slot).

        on_success(key, result, gpu), on_error(key, failure, gpu), on_timeout(key, seconds, gpu) and
        on_cancelled(key, failure, gpu) are called with one tuple instead if `packed`:
        (kind, key, …, gpu), where kind is 0, 1, 2 or 3 in this order.

        Raises ValueError for wrong options, GPUNotFound, OSError.
        """
    def submit(self, item: Any, tag: Any = None, timeout_ms: int = 0, nowait: bool = False) -> int:
        """Adds a task and returns its id.

        Waits for room while another thread polls. Raises BlockingIOError if there is no room and
        nowait is true or this is the polling thread; PoolClosed after stop(); NoWorkers when no
        worker is left; and the exceptions of pickling. After an exception there is no task.
        """
    def feed(self, iterator: Iterator[Any], limit: int = 0, wait: bool = False) -> bool:
        """Submits the items of the iterator. True: it has ended.

        Returns False when there is no room (unless `wait` is true) or after `limit` items. An item
        that found no room is kept for the next call. An item that cannot be pickled becomes a task
        that fails. Raises PoolClosed, NoWorkers, and the exceptions of the iterator.
        """
    def poll(self, timeout_ms: int = -1, idle: bool = False) -> int:
        """Makes the callbacks that are due, after waiting up to timeout_ms for the first (-1: no limit).

        Returns how many were made: 0 at the timeout, after interrupt() or stop(), and when no
        task is outstanding (unless `idle`: then it waits for tasks of other threads). Returns -1
        at once if another thread polls.
        Raises PoolClosed when every task has ended after a stop(), NoWorkers when no worker is
        left, and exceptions of Python's signal handlers (KeyboardInterrupt). An exception of a
        callback is raised after all callbacks that were due; further ones are reported as
        unraisable.
        """
    def wait_ready(self, timeout_ms: int = -1) -> int:
        """Polls until each worker is ready or lost; returns how many are ready, or raises TimeoutError.
        -1 at once if another thread polls."""
    def polling(self) -> bool:
        """True while a thread is in poll(), wait_ready() or close()."""
    def cancel(self, id: int) -> bool:
        """False if the task has ended. Its callback is made by a later poll."""
    def stop(self) -> None:
        """First call: running tasks are finished, waiting ones cancelled. Second: running tasks are
        cancelled. Third: workers are killed. Does nothing after close()."""
    def interrupt(self) -> None:
        """Makes a waiting poll() return. Does nothing after close()."""
    def fileno(self) -> int:
        """Readable when poll() has something to do."""
    def expect_no_more(self) -> None:
        """No more tasks will be submitted: a worker that ends is replaced only if a task waits for it."""
    def hurry(self) -> None:
        """From now on callbacks may take two seconds in total; callbacks that are due later are skipped.

        The same happens when a callback that is not packed raises KeyboardInterrupt; after a
        second one, all further callbacks are skipped.
        """
    def outstanding(self) -> int: ...
    def room(self) -> int: ...
    def stats(self) -> dict[str, Any]:
        """The fields of struct gd_stats; after close(), the last values."""
    def worker_stats(self) -> list[dict[str, Any]]:
        """For each slot the fields of struct gd_worker_stats; task_id is None without a task."""
    def close(self, interrupts: int = 2) -> dict[str, Any]:
        """Cancels the remaining tasks, lets the workers clean up and ends them; returns the last stats().

        The GIL is released while it waits, and callbacks are made. Other threads that are in
        submit(), feed() or poll() are made to return first. On the main thread the
        `interrupts`-th Ctrl-C meanwhile kills the workers at once; KeyboardInterrupt is raised
        at the end. Closing twice is allowed.
        """
    @property
    def closed(self) -> bool: ...

class Hooks(Protocol):
    """The hooks that worker_main() calls. An exception becomes a failure: see gpu_dispatch._failure.describe()."""

    max_batch: int
    """Above 1, process_batch() is used instead of process()."""

    def load(self, gpu: int, device: int, seed: int) -> None:
        """Loads the program. When the pool ends meanwhile, the process ends without an exception."""
    def setup(self) -> None:
        """Follows load(). TaskCancelled is raised in it when the pool ends, TaskTimedOut when its time is over."""
    @property
    def process(self) -> Callable[[Any], Any]:
        """Looked up once, after setup()."""
    @property
    def process_batch(self) -> Callable[[list[Any]], Sequence[Any]]:
        """Returns as many results as there were items; a result that is an exception is that item's error."""
    def cleanup(self) -> None: ...
    def leave(self) -> None:
        """Called last, before the process ends."""

def worker_main(hooks: Hooks) -> int:
    """Runs the worker and ends the process. Returns 2 only if the process was not started by a pool.

    When the running task is out of time or cancelled, TaskTimedOut or TaskCancelled is raised in
    process(), on the main thread.
    """

def continue_worker() -> NoReturn:
    """For a load() that must not return: does everything that follows, and ends the process.

    All threads stay where they are; a thread other than the main thread that calls it blocks.
    """

def setting(key: str) -> memoryview | None:
    """In a worker: a setting of the pool."""

def send(obj: Any) -> None:
    """In a hook, on the main thread: passes the object to the pool's on_message."""

def cancelled() -> bool:
    """In a hook: whether the running task (in setup: the worker) should end. May be called by any thread."""

def task_id() -> int:
    """In process(): the task's id; -1 elsewhere."""

def attempt() -> int: ...
def set_worker_dumps(dumps: Callable[..., bytes] | None) -> None:
    """In a worker: the function that pickles results that the codec does not support; None: pickle.dumps."""

def set_worker_flush(pending: Sized, flush: Callable[[], object]) -> None:
    """In a worker: from now on flush() is called after each task, if `pending` is not empty."""

def encode(obj: Any) -> bytes:
    """The bytes that are sent between the processes."""

def decode(data: bytes) -> Any: ...
def uses_codec(obj: Any) -> bool:
    """True if the object is a tree of plain built-in types, which the codec writes instead of pickle."""

def gpu_list(spec: str | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """The GPUs that the specification selects, and warnings. Unknown fields are None."""

def gpu_survey() -> tuple[list[dict[str, Any]], list[str]]: ...
def gpu_parse(spec: str | None = None) -> list[int]: ...
def gpu_validate(ids: Sequence[int]) -> str | None:
    """None if each is a usable GPU; otherwise a message that names the first unusable GPU and the reason."""

def cuda_available() -> bool: ...
