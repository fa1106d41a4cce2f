# SPDX-License-Identifier: MIT
"""One run of ``gpuq launch`` between a task queue and a result queue.

A thread takes the files from the task queue until it has seen one None per worker,
passes them to ``gpuq launch`` and follows its record, launch.jsonl in the output folder. Each file
taken gets exactly one result, even if the launcher fails or is killed. None in the result queue
marks the end.
"""

from __future__ import annotations

import collections
import json
import logging
import os
import queue
import secrets
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from gpu_dispatch import _interpreter, _tied
from gpu_dispatch._text import printable
from gpu_dispatch.multigpu._inputs import Inputs, prepare_inputs
from gpu_dispatch.multigpu._record import INPUT_VARIABLE, MARK_VARIABLE, RECORD_NAME, Record, event_of, name_of
from gpu_dispatch.multigpu.result import Queue, Result

__all__ = ["Launch"]

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1

_ADVICE = {
    "choose another --output-dir": "choose another output_dir",
    "use --trust": "set GPUQ_TRUST=1 in the environment",
    "use --force": "set force",
}


class Launch:
    """A run, as a thread. ``done`` is set at its end; ``exit_code`` is then the exit code of gpuq launch."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: dict[str, str],
        output_dir: Path,
        num_workers: int,
        task_queue: Queue,
        result_queue: Queue,
        input_dir: str | None = None,
    ) -> None:
        self.done = threading.Event()
        self.exit_code: int | None = None
        self.error: str | None = None
        self._argv = list(argv)
        self._environment = environment
        self._output_dir = output_dir
        self._num_workers = num_workers
        self._tasks = task_queue
        self._results = result_queue
        self._input_dir = input_dir
        self._lock = threading.RLock()  # a signal handler may interrupt the thread that holds it
        self._process: subprocess.Popen[bytes] | None = None
        self._signals: list[int] = []
        # A daemon: it dies with the interpreter, and the launcher, which is tied to it, then ends.
        threading.Thread(target=self._run, name="gpuq launch", daemon=True).start()

    @property
    def pid(self) -> int | None:
        with self._lock:
            return self._process.pid if self._process else None

    def stop(self) -> None:
        """Lets the running files finish. The second call cancels them.

        A signal handler may call this.
        """
        with self._lock:
            # A second SIGINT could merge with a pending one, so send another signal.
            self._signal(signal.SIGTERM if self._signals else signal.SIGINT)

    def terminate(self) -> None:
        """Cancels the running files."""
        with self._lock:
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        """Sends the signal now, or when the launcher starts."""
        self._signals.append(number)
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def _stopped(self) -> bool:
        with self._lock:
            return bool(self._signals)

    # ---- The thread -----------------------------------------------------------------

    def _run(self) -> None:
        waiting: collections.Counter[str] = collections.Counter()
        try:
            waiting.update(self._collect())
            self.exit_code = self._launch(waiting) if waiting else 0
        except Exception as failure:
            logger.exception("launching the workers failed")
            self.error = f"{type(failure).__name__}: {failure}"
            self.exit_code = 1
        try:
            self._end(waiting)
        except Exception:
            logger.exception("the result queue cannot be written")
        finally:
            self.done.set()

    def _end(self, waiting: collections.Counter[str]) -> None:
        """Reports the files that have no result yet."""
        error = self.error or "the worker did not report a result"
        if self._stopped():
            self.exit_code, error = 130, "interrupted"
        for file in waiting.elements():
            self._results.put(_failed(file, error))
        self._results.put(None)

    def _collect(self) -> list[str]:
        """The files of the task queue, up to one None per worker."""
        files: list[str] = []
        ends = 0
        while ends < self._num_workers and not self._stopped():
            try:
                task = self._tasks.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if task is None:
                ends += 1
            else:
                files.append(os.fspath(task))
        return files

    def _launch(self, waiting: collections.Counter[str]) -> int:
        """Runs gpuq launch on the files; removes those that get a result."""
        missing = [file for file in waiting if not os.path.isfile(file)]
        self._report_failed(dict.fromkeys(missing, "no such file"), waiting)
        if not waiting:
            return 1
        with prepare_inputs(list(waiting.elements()), self._input_dir) as inputs:
            self._report_failed(inputs.failed, waiting)
            if not waiting:
                return 1
            code = self._launch_inputs(inputs, waiting)
        incomplete = bool(missing or inputs.failed or waiting)
        return 1 if code == 0 and incomplete else code if code >= 0 else 1

    def _launch_inputs(self, inputs: Inputs, waiting: collections.Counter[str]) -> int:
        if inputs.chosen:
            logger.warning(
                "another user chose input folder '%s' by a symbolic link, so only you can read "
                "new results in '%s'",
                printable(str(self._input_dir)),
                printable(str(self._output_dir)),
            )
        with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as summary:
            mark = secrets.token_hex(16)
            record = Record(self._output_dir / RECORD_NAME, mark)
            argv = [*self._argv, *inputs.arguments, "--output-dir", str(self._output_dir)]
            variables = {MARK_VARIABLE: mark}
            if inputs.folder is not None:
                variables[INPUT_VARIABLE] = inputs.folder
            umask = 0o077 if inputs.chosen else -1
            with self._start(argv, variables, summary, log, umask) as process:
                while not _wait(process):
                    self._report(record.read(), inputs, waiting)
            code = process.returncode
            self._report(record.read(), inputs, waiting)
            numbers = _read_summary(summary)
            if code in (0, 1, 130):
                skipped = numbers.get("files_skipped")
                # If it has not begun, there was nothing to do: all files are done with these settings.
                if skipped and (code == 0 or record.fingerprint is not None):
                    self._report_skipped(record, inputs, waiting)
            for words in _warnings(log):
                logger.warning("%s", inputs.in_words(words))
            if waiting and numbers.get("inputs_skipped") and not numbers.get("files_left"):
                self.error = "gpuq launch skipped it; see the warnings"
            elif waiting and code != 130:
                self.error = inputs.in_words(_last_line(log)) or f"gpuq launch ended with code {code}"
        return code

    def _start(
        self, argv: list[str], variables: Mapping[str, str], summary: IO[bytes], log: IO[bytes], umask: int
    ) -> subprocess.Popen[bytes]:
        tie = [_interpreter.executable(), "-I", "-S", str(_tied.__file__), str(os.getpid())]
        with self._lock:
            # Its own session: Ctrl-C reaches this program, which decides.
            self._process = subprocess.Popen(
                [*tie, *argv, "--json", "-"],
                stdin=subprocess.DEVNULL,
                stdout=summary,
                stderr=log,
                env={**self._environment, **variables},
                start_new_session=True,
                umask=umask,
            )
            for number in self._signals:
                self._process.send_signal(number)
            return self._process

    # ---- Results ----------------------------------------------------------------------

    def _report_failed(self, failed: Mapping[str, str], waiting: collections.Counter[str]) -> None:
        """Reports files that are not given to gpuq launch."""
        for file, error in failed.items():
            while _take(waiting, file):
                self._results.put(_failed(file, error))

    def _report(
        self, events: Iterator[dict[str, Any]], inputs: Inputs, waiting: collections.Counter[str]
    ) -> None:
        for event in events:
            if event.get("event") not in ("done", "failed"):
                continue
            for file in inputs.files_of(name_of(event, "file")):
                if _take(waiting, file):
                    result = self._result(file, event)
                    if result["error"] is not None:
                        result["error"] = inputs.in_words(result["error"])
                    self._results.put(result)

    def _report_skipped(
        self, record: Record, inputs: Inputs, waiting: collections.Counter[str]
    ) -> None:
        """Reports files without a result that an earlier run has finished, by the rules of gpuq launch.

        Not every file with an earlier result was skipped: it may have waited for a worker until the launch ended,
        and its earlier result may come from other settings or from an older version of the file.
        """
        for name, events in record.earlier().items() if waiting else ():
            for file in inputs.files_of(name):
                event = event_of(file, events) if waiting[file] else None
                if event and self._is_done(file, event, record.fingerprint) and _take(waiting, file):
                    result = self._result(file, event)
                    result["skipped"], result["gpu_id"] = True, -1
                    result["duration"] = result["processing_time"] = 0.0
                    self._results.put(result)

    def _is_done(self, file: str, event: dict[str, Any], fingerprint: str | None) -> bool:
        try:
            status = os.stat(file)
        except OSError:
            return False
        return (
            event["event"] == "done"
            and fingerprint in (None, event.get("fingerprint"))
            and (event.get("size"), event.get("mtime")) == (status.st_size, _wrap(status.st_mtime_ns))
            and os.path.exists(self._output_dir / name_of(event, "output"))
        )

    def _result(self, file: str, event: dict[str, Any]) -> Result:
        done = event["event"] == "done"
        return {
            "status": "success" if done else "error",
            "file": file,
            "gpu_id": int(event.get("gpu", -1)),
            "duration": float(event.get("audio_seconds", 0.0)),
            "processing_time": float(event.get("processing_seconds", 0.0)),
            "error": None if done else str(event.get("error", "unknown error")),
            "output_dir": str(self._output_dir / name_of(event, "output")),
            "skipped": False,
        }


def _wrap(nanoseconds: int) -> int:
    """The time as a signed 64-bit number, as gpuq records it: times after 2262 wrap around."""
    return (nanoseconds + 2**63) % 2**64 - 2**63


def _take(waiting: collections.Counter[str], file: str) -> bool:
    if not waiting[file]:
        return False
    waiting[file] -= 1
    if not waiting[file]:
        del waiting[file]
    return True


def _failed(file: str, error: str) -> Result:
    return {
        "status": "error",
        "file": file,
        "gpu_id": -1,
        "duration": 0.0,
        "processing_time": 0.0,
        "error": error,
        "output_dir": None,
        "skipped": False,
    }


def _wait(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _read_summary(file: IO[bytes]) -> dict[str, Any]:
    file.seek(0)
    try:
        summary = json.loads(file.read())
    except ValueError:
        return {}
    return summary if isinstance(summary, dict) else {}


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    text = file.read().decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.strip()]


def _warning(line: str) -> str:
    """The text of a warning of gpuq; empty if the line is something else."""
    prefix, _, words = line.partition(": warning: ")
    return words if prefix.startswith("gpuq") else ""


def _warnings(log: IO[bytes]) -> list[str]:
    return [_in_python(words) for line in _lines(log) if (words := _warning(line))]


def _last_line(file: IO[bytes]) -> str:
    """The last message of gpuq, without warnings: a warning is not the reason for a failure."""
    lines = [line for line in _lines(file) if not _warning(line)]
    ours = [line for line in lines if line.startswith("gpuq")]
    return _in_python((ours or lines or [""])[-1])


def _in_python(words: str) -> str:
    """The message of gpuq launch, with options replaced by their equivalents in this package."""
    for option, python in _ADVICE.items():
        words = words.replace(option, python)
    return words
