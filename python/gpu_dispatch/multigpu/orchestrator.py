# SPDX-License-Identifier: MIT
"""Combines all parts."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Queue
from typing import Any

from gpu_dispatch._text import printable
from gpu_dispatch.multigpu.allocator import ResourceAllocator, Workload, is_same_folder, put_tasks, without_results
from gpu_dispatch.multigpu.balancer import LoadBalancer
from gpu_dispatch.multigpu.detector import GPUDetector
from gpu_dispatch.multigpu.result import Result
from gpu_dispatch.multigpu.spawner import EXIT_USAGE, ProcessSpawner

__all__ = ["LauncherOrchestrator", "run_multi_gpu"]

logger = logging.getLogger(__name__)

EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130


class LauncherOrchestrator:
    """Finds GPUs and files, starts workers, shows progress and a summary.

    The parts are its attributes ``gpu_detector``, ``resource_allocator`` and, during and
    after a run, ``process_spawner`` and ``load_balancer``.
    """

    def __init__(self) -> None:
        self.gpu_detector = GPUDetector()
        self.resource_allocator = ResourceAllocator()
        self.process_spawner: ProcessSpawner | None = None
        self.load_balancer: LoadBalancer | None = None
        self._output_error: OSError | None = None

    def run(
        self,
        input_dir: str | os.PathLike[str],
        output_dir: str | os.PathLike[str],
        gpus: Sequence[int] | str = "auto",
        model_size: str = "base",
        language: str | None = None,
        pattern: str = "*.wav",
        *,
        worker: str | None = None,
        worker_command: str | None = None,
        settings: Mapping[str, str] | None = None,
        force: bool = False,
        timeout: float | str | None = None,
    ) -> int:
        """Processes the files that match, except those in ``output_dir``.

        For ``worker`` and the rest see :class:`ProcessSpawner`.

        Returns 0 if everything is done or there is nothing to do, 1 if files failed or the output
        cannot be written, 2 for a wrong folder, GPU or worker, 130 after Ctrl-C. The first Ctrl-C
        lets the running files finish, the second one cancels them. A later run continues where this
        one stopped.
        """
        try:
            numbers = self._numbers(gpus)
        except ValueError as failure:
            return _refuse(str(failure))
        valid, error = self.validate_setup(input_dir, numbers)
        if not valid:
            return _refuse(str(error))
        if "**" in Path(pattern).parts and is_same_folder(input_dir, output_dir):
            return _refuse(
                f"output folder '{output_dir}' is the input folder, so results would be found as input; "
                "choose another output_dir"
            )
        found = self.resource_allocator.discover_files(input_dir, pattern)
        files = without_results(found, input_dir, output_dir)
        if not files:
            reason = f"no file in '{input_dir}' matches '{pattern}'"
            if found:
                reason = f"all files in '{input_dir}' that match '{pattern}' are in the output folder"
            print(printable(reason), file=sys.stderr)
            return EXIT_DONE
        # Not queues of multiprocessing: depending on the start method, Python starts a process for those, which imports
        # modules from the current directory, where another user may have planted some.
        tasks: Queue[Path | None] = Queue()
        results: Queue[Result | None] = Queue()
        put_tasks(tasks, files, len(numbers))
        self.load_balancer = LoadBalancer(numbers)
        self._output_error = None
        try:
            self.process_spawner = ProcessSpawner(
                worker=worker,
                worker_command=worker_command,
                settings=settings,
                force=force,
                input_dir=input_dir,
                timeout=timeout,
            )
            self.process_spawner.spawn_workers(
                numbers, tasks, results, model_size, language, output_dir
            )
        except (ValueError, FileNotFoundError) as failure:
            return _refuse(str(failure))
        interrupted = self._monitor(results, len(files))
        if not interrupted and (refusal := self.process_spawner.refusal):
            return _refuse(refusal.removeprefix("gpuq: "))
        self._show(self.load_balancer.print_summary, len(files))
        if self._output_error:
            _complain(f"cannot write the output: {self._output_error.strerror}")
        return self._exit_code(interrupted)

    def validate_setup(
        self, input_dir: str | os.PathLike[str], gpus: Sequence[int] | str
    ) -> tuple[bool, str | None]:
        """``(True, None)``, or ``(False, why)``: the folder must exist and every GPU be usable."""
        if not Path(input_dir).is_dir():
            return False, f"input folder '{input_dir}' does not exist or is not a directory"
        try:
            return self.gpu_detector.validate_gpus(self._numbers(gpus))
        except ValueError as failure:
            return False, str(failure)

    def get_workload_info(
        self, input_dir: str | os.PathLike[str], pattern: str = "*.wav"
    ) -> Workload:
        """Number and sizes of the files that match."""
        files = self.resource_allocator.discover_files(input_dir, pattern)
        return self.resource_allocator.estimate_workload(files)

    def get_gpu_info(self) -> list[dict[str, Any]]:
        """Information about each usable GPU."""
        gpus = self.gpu_detector.get_available_gpus()
        return [self.gpu_detector.get_gpu_info(gpu) for gpu in gpus]

    def _numbers(self, gpus: Sequence[int] | str) -> list[int]:
        return self.gpu_detector.parse_gpu_list(gpus) if isinstance(gpus, str) else list(gpus)

    def _monitor(self, results: Queue[Result | None], total: int) -> bool:
        """Takes results until all workers have ended. True if Ctrl-C was pressed."""
        assert self.load_balancer and self.process_spawner
        with _Interrupts(self.process_spawner) as interrupts:
            try:
                self.load_balancer.monitor_progress(results, total, self._print_progress)
                self.process_spawner.wait_for_completion()
            except BaseException:
                self.process_spawner.terminate_all()
                raise
        return interrupts.count > 0

    def _print_progress(self, completed: int, total: int, result: Result) -> None:
        assert self.load_balancer and self.process_spawner
        # A refusal is the error of each file: it is printed once, at the end.
        if result["error"] is None or result["error"] != self.process_spawner.refusal:
            self._show(self.load_balancer.print_progress, completed, total, result)

    def _show(self, show: Callable[..., None], *arguments: Any) -> None:
        """Calls a function that prints. If it fails, as when the reader of a pipe has ended, the work continues without output."""
        if self._output_error is None:
            try:
                show(*arguments)
            except OSError as failure:
                self._output_error = failure

    def _exit_code(self, interrupted: bool) -> int:
        assert self.load_balancer and self.process_spawner
        if interrupted:
            return EXIT_INTERRUPTED
        if self.process_spawner.exit_code == EXIT_USAGE:
            return EXIT_USAGE
        return (
            EXIT_FAILED
            if self.load_balancer.errors or self.process_spawner.exit_code or self._output_error
            else EXIT_DONE
        )


class _Interrupts:
    """Handles Ctrl-C as a request, not as an exception, which could corrupt a message in a queue.

    Has no effect if Ctrl-C would not raise KeyboardInterrupt here. The third Ctrl-C raises it.
    """

    def __init__(self, spawner: ProcessSpawner) -> None:
        self.count = 0
        self._spawner = spawner
        self._ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )

    def __enter__(self) -> _Interrupts:
        if self._ours:
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, _number: int, _frame: object) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt
        self._spawner.stop()
        if self.count == 1:
            words = b"interrupted: finishing the running files; press Ctrl-C again to cancel them\n"
            with contextlib.suppress(OSError):
                os.write(2, words)  # the signal may have interrupted print()


def run_multi_gpu(
    input_dir: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    gpus: Sequence[int] | str = "auto",
    model_size: str = "base",
    language: str | None = None,
    pattern: str = "*.wav",
    *,
    timeout: float | str | None = None,
) -> int:
    """``LauncherOrchestrator().run(…)``: returns its exit code."""
    return LauncherOrchestrator().run(input_dir, output_dir, gpus, model_size, language, pattern, timeout=timeout)


def _refuse(words: str) -> int:
    _complain(words)
    return EXIT_USAGE


def _complain(words: str) -> None:
    with contextlib.suppress(OSError):  # the exit code remains
        print(f"gpu_dispatch: {printable(words)}", file=sys.stderr)
