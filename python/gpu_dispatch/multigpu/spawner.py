# SPDX-License-Identifier: MIT
"""The workers: one process per GPU, run by ``gpuq launch``."""

from __future__ import annotations

import importlib.util
import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from gpu_dispatch import _interpreter
from gpu_dispatch._main import safe_path_flags
from gpu_dispatch._programs import find_gpuq
from gpu_dispatch._spawn import found_in, milliseconds
from gpu_dispatch._trust import absolute, is_own
from gpu_dispatch.multigpu._launch import Launch
from gpu_dispatch.multigpu._record import SETTING_VARIABLE
from gpu_dispatch.multigpu.result import Queue

__all__ = ["ProcessSpawner", "ProcessStatus", "WorkerProcess"]

logger = logging.getLogger(__name__)

# "-m" and "-c" both put the current directory first in sys.path, and another user may have planted a
# gpu_dispatch in that directory. safe_path_flags() keeps the directory out of sys.path; before Python 3.11,
# this code removes it. The other entries come from PYTHONPATH and not from this text: gpuq launch compares
# commands to know which files are done.
_WHISPER_CODE = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
    "from gpu_dispatch.multigpu.whisper_worker import main; main()"
)


EXIT_USAGE = 2
_STANDARD = os.path.dirname(os.__file__)


class ProcessStatus(TypedDict):
    pid: int | None
    alive: bool
    exitcode: int | None


class WorkerProcess:
    """The worker of one GPU, with the methods of ``multiprocessing.Process`` that make sense here.

    All workers of one ``spawn_workers()`` belong to one ``gpuq launch``: ``pid`` is its
    process, ``exitcode`` its exit code, and they end together.
    """

    def __init__(self, gpu_id: int, launch: Launch) -> None:
        self.gpu_id = gpu_id
        self.name = f"GPU-{gpu_id}"
        self._launch = launch

    @property
    def pid(self) -> int | None:
        """None until the task queue has been read and the launcher has started."""
        return self._launch.pid

    @property
    def exitcode(self) -> int | None:
        """None while running."""
        return self._launch.exit_code if self._launch.done.is_set() else None

    def is_alive(self) -> bool:
        return not self._launch.done.is_set()

    def join(self, timeout: float | None = None) -> None:
        self._launch.done.wait(timeout)

    def terminate(self) -> None:
        """Cancels the running files and ends all workers of this run."""
        self._launch.terminate()

    def __repr__(self) -> str:
        state = "running" if self.is_alive() else f"ended with {self.exitcode}"
        return f"<{type(self).__name__} {self.name} {state}>"


class ProcessSpawner:
    """Runs workers between a task queue and a result queue.

    ``worker`` is the name or file of a plug-in of ``gpuq launch``, ``worker_command`` a program
    that speaks its protocol (see :func:`gpu_dispatch.serve`). The default is faster-whisper if it
    is installed, otherwise the plug-in that gpuq launch chooses. ``settings`` are passed on like
    those of ``--set``, but other users cannot read them in the process table. ``force``: also
    process files that an earlier run has finished. ``input_dir``: the folder in which the files were
    found. Links of other users may lead to this folder, but not to files below it or elsewhere. Names
    of results are relative to it if it contains all files, otherwise to the folder that all files have
    in common. ``timeout``: the time limit per file, in seconds or as a text such as ``"5m"``.
    """

    def __init__(
        self,
        *,
        worker: str | None = None,
        worker_command: str | None = None,
        settings: Mapping[str, str] | None = None,
        force: bool = False,
        input_dir: str | os.PathLike[str] | None = None,
        timeout: float | str | None = None,
    ) -> None:
        if worker and worker_command:
            raise ValueError("give either worker or worker_command")
        self._worker = worker
        self._worker_command = worker_command
        self._settings = dict(settings or {})
        self._force = force
        self._input_dir = None if input_dir is None else absolute(input_dir)
        self._timeout = timeout if isinstance(timeout, str) else _seconds(timeout)
        self._launches: list[Launch] = []
        self._processes: list[WorkerProcess] = []

    def spawn_workers(
        self,
        gpu_ids: Sequence[int],
        task_queue: Queue,
        result_queue: Queue,
        model_size: str = "base",
        language: str | None = None,
        output_dir: str | os.PathLike[str] = Path("data/outputs"),
    ) -> list[WorkerProcess]:
        """Starts one worker per GPU and returns at once.

        The task queue holds paths, then one ``None`` for each GPU: the work begins when all have
        arrived, the longest file first. The result queue gets one
        :class:`~gpu_dispatch.multigpu.Result` for each file as it ends, then ``None``.
        ``language=None``: detected by workers that support it.

        Raises ValueError without a GPU or if ``$GPUQ`` is relative, FileNotFoundError if gpuq is missing or no worker is installed.
        """
        gpus = list(gpu_ids)
        if not gpus:
            raise ValueError("gpu_ids is empty")
        argv = [find_gpuq(), "launch", "--gpus", ",".join(str(gpu) for gpu in gpus)]
        argv += self._worker_arguments(argv[0], model_size, language)
        if self._force:
            argv.append("--force")
        if self._timeout is not None:
            argv.append(f"--timeout={self._timeout}")
        output = Path(absolute(output_dir))
        logger.debug("starting workers on GPUs %s: %s", gpus, shlex.join(argv))
        launch = Launch(
            argv, {**_environment(), **self._setting_variables()}, output, len(gpus), task_queue, result_queue, self._input_dir
        )
        processes = [WorkerProcess(gpu, launch) for gpu in gpus]
        self._launches.append(launch)
        self._processes += processes
        return processes

    def wait_for_completion(self, timeout: float | None = None) -> bool:
        """Waits for all workers. Returns False after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for launch in self._launches:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not launch.done.wait(left):
                return False
        return True

    def stop(self) -> None:
        """Lets the running files finish and begins no others. The second call cancels them.

        A signal handler may call this.
        """
        for launch in self._launches:
            launch.stop()

    def terminate_all(self) -> None:
        """Cancels the running files, ends all workers and waits for them."""
        for launch in self._launches:
            if not launch.done.is_set():
                launch.terminate()
        self.wait_for_completion()

    def get_process_status(self) -> dict[int, ProcessStatus]:
        """For each GPU: ``pid``, ``alive`` and ``exitcode``."""
        return {
            process.gpu_id: {
                "pid": process.pid,
                "alive": process.is_alive(),
                "exitcode": process.exitcode,
            }
            for process in self._processes
        }

    @property
    def exit_code(self) -> int:
        """The worst exit code of the runs that have ended: 0, 1, 2 or 130."""
        return max((launch.exit_code or 0 for launch in self._launches), default=0)

    @property
    def refusal(self) -> str | None:
        """Why nothing was started, if a run ended with the exit code 2. Each file has the same error then."""
        refused = (launch.error for launch in self._launches if launch.exit_code == EXIT_USAGE)
        return next(refused, None)

    def _worker_arguments(self, gpuq: str, model_size: str, language: str | None) -> list[str]:
        command, worker = self._worker_command, self._worker
        detects = worker == "whisper"
        if not command and not worker:
            if importlib.util.find_spec("faster_whisper"):
                # A command with quotes is run by a shell: exec replaces that shell.
                command = "exec " + shlex.join(
                    [_interpreter.executable(), *safe_path_flags(), "-c", _WHISPER_CODE]
                )
                detects = True
            else:
                plugins = _plugins(gpuq)
                if not plugins:
                    raise FileNotFoundError(
                        "no worker is installed: pip install 'gpu_dispatch[whisper]' installs one, "
                        "or give a worker_command"
                    )
                detects = "whisper" in plugins
        argv = ["--model-size", model_size]
        argv += ["--worker-command", command] if command else []
        argv += ["--worker", worker] if worker else []
        language = language or ("auto" if detects else None)
        argv += ["--language", language] if language else []
        return argv

    def _setting_variables(self) -> dict[str, str]:
        """Variables for the settings, which may be secret: every user can read the arguments of a process, but not its environment."""
        return {
            f"{SETTING_VARIABLE}{number}": f"{key}={value}"
            for number, (key, value) in enumerate(self._settings.items())
        }


def _seconds(timeout: float | None) -> str | None:
    return None if timeout is None else f"{milliseconds('timeout', timeout) / 1000:.3f}s"


def _plugins(gpuq: str) -> list[str]:
    """The names of the plug-ins that gpuq launch finds."""
    done = subprocess.run(
        [gpuq, "launch", "--list-workers"],
        capture_output=True,
        check=False,
        env=_interpreter.environment(),
        text=True,
    )
    lines = done.stdout.splitlines()
    return (
        []
        if lines[:1] and lines[0].startswith("No plug-in")
        else [line.split(" ", 1)[0] for line in lines]
    )


def _environment() -> dict[str, str]:
    """Lets workers in Python import everything that this program can import."""
    # "", of interactive programs, is the current directory, where another user may have planted modules. The same is
    # true of a relative entry that Python has not yet searched. PYTHONPATH cannot express a path with a colon. Python
    # ignores entries that are not strings, such as a Path.
    path = [found_in(entry) for entry in sys.path if entry and isinstance(entry, str)]
    path = [entry for entry in dict.fromkeys(path) if os.path.isabs(entry) and os.pathsep not in entry]
    # PYTHONPATH is searched before the standard library and for sitecustomize, but these entries only after it.
    after = path[path.index(_STANDARD) :] if _STANDARD in path else []
    unsafe = {entry for entry in after if not is_own(entry)}
    path = [entry for entry in path if not _is_standard(entry) and entry not in unsafe]
    return {**_interpreter.environment(), "PYTHONPATH": os.pathsep.join(path)}


def _is_standard(entry: str) -> bool:
    """Whether it belongs to the standard library, which a worker that runs another version of Python cannot use."""
    version = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    return entry == _STANDARD or os.path.basename(entry) in ("lib-dynload", version)
