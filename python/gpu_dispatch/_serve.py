# SPDX-License-Identifier: MIT
"""The worker side of ``gpuq launch --worker-command``: docs/worker-protocol.md in one call."""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import json
import math
import os
import pathlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

__all__ = ["LaunchSetup", "serve"]

_ERROR_LENGTH = 16384  # gpuq takes lines of up to 1 MiB


@dataclasses.dataclass(frozen=True)
class LaunchSetup:
    """What ``gpuq launch`` tells a worker before its first file."""

    gpu: int
    """The GPU's number on this machine."""
    device: int
    """The number by which this process opens it, as in ``cuda:0``: it sees no other GPU."""
    seed: int
    """42 plus the GPU's number."""
    settings: Mapping[str, str]
    """``model_size``, ``language`` and what ``--set KEY=VALUE`` gave."""


def serve(
    function: Callable[..., Any], *, setup: Callable[[LaunchSetup], Any] | None = None
) -> None:
    """Serve files to ``function`` until ``gpuq launch`` has no more of them.

    ``function(file, output_dir)`` is called for one file after the other, with two
    absolute ``pathlib.Path`` objects; ``output_dir`` exists and belongs to this file
    alone. It returns ``None``, or how many seconds of audio the file holds::

        from gpu_dispatch import serve

        def count(file, output_dir):
            words = len(file.read_text().split())
            (output_dir / "count.txt").write_text(f"{words}\\n")

        serve(count)

    To load a model once per process, pass a function as ``setup``. It is called with a
    :class:`LaunchSetup` object, and what it returns is the third argument of ``function``.
    Or pass a class as ``function``: it is constructed with the :class:`LaunchSetup` object, and
    the object is called as ``object(file, output_dir)``. If the object has a method
    ``close``, it is called at the end.

    An exception, SystemExit included, fails that file only: ``gpuq launch`` shows its last
    line, and the log of the worker has the traceback. One during the setup ends the worker.

    Whatever the code, a C library or a child process prints goes to the log of the
    worker, not into the protocol; standard input is empty. This holds from the call of
    ``serve()`` on, so call it before you print.

    Raises TypeError for arguments that cannot be called, and ends the program with exit
    code 2 if it was not started by ``gpuq launch``.
    """
    if not callable(function) or (setup is not None and not callable(setup)):
        raise TypeError("serve() takes a function or a class, and a function as setup")
    if isinstance(function, type) and setup is not None:
        raise TypeError("serve() takes either a class or a setup function, not both")
    if os.isatty(0):
        _explain()
    channel = _Channel()
    for message in channel.messages():
        if message.get("type") == "setup":
            break
    else:
        return
    try:
        process, close = _prepare(function, setup, _read_setup(message))
    except (Exception, SystemExit) as error:
        channel.send({"type": "error", "error": _report(error)})
        sys.exit(1)
    channel.send({"type": "ready"})
    for message in channel.messages():
        if message.get("type") == "task":
            channel.send(_answer(process, message))
    if close is not None:
        close()


def _explain() -> NoReturn:
    script = sys.argv[0] or "worker.py"
    print(
        f"{script}: this is a worker; start it with: "
        f"gpuq launch --input-dir DIR --worker-command 'python3 {script}'",
        file=sys.stderr,
    )
    sys.exit(2)


class _Channel:
    """The protocol's two descriptors, moved away from 0 and 1.

    Afterwards 0 is empty and 1 is the log, for everything in this process and its
    children: Python's print(), printf() in C, and programs that are executed.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._in = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        self._out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        os.dup2(2, 1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self._lines = os.fdopen(self._in, "rb")
        # Half a line may have been printed before; gpuq logs an empty one.
        self._write(b"\n")

    def messages(self) -> Iterator[dict[str, Any]]:
        # Not `for line in file`, which reads ahead and could not be continued.
        while line := self._lines.readline():
            if line.strip():
                message = json.loads(line)
                if isinstance(message, dict):
                    yield message

    def send(self, message: Mapping[str, Any]) -> None:
        # ASCII: names that are not UTF-8 cannot make the line invalid.
        self._write(json.dumps(message).encode("ascii") + b"\n")

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._out, data) :]


def _text(message: Mapping[str, Any], key: str) -> str:
    """A string of the protocol; one that is not UTF-8 comes in base64, too."""
    if f"{key}_b64" in message:
        return os.fsdecode(base64.b64decode(message[f"{key}_b64"]))
    return str(message[key])


def _read_setup(message: Mapping[str, Any]) -> LaunchSetup:
    settings = message.get("settings") or {}
    keys = [key for key in settings if not (key.endswith("_b64") and key[:-4] in settings)]
    return LaunchSetup(
        gpu=int(message.get("gpu", -1)),
        device=int(message.get("device", 0)),
        seed=int(message.get("seed", 0)),
        settings={key: _text(settings, key) for key in keys},
    )


def _prepare(
    function: Callable[..., Any], setup: Callable[[LaunchSetup], Any] | None, context: LaunchSetup
) -> tuple[Callable[[pathlib.Path, pathlib.Path], Any], Callable[[], Any] | None]:
    """What to call for each file, and at the end."""
    if isinstance(function, type):
        worker = function(context)
        if not callable(worker):
            raise TypeError(f"class {function.__name__} has no method __call__(file, output_dir)")
        return worker, getattr(worker, "close", None)
    if setup is None:
        return function, None
    state = setup(context)
    return lambda file, output_dir: function(file, output_dir, state), None


def _answer(
    process: Callable[[pathlib.Path, pathlib.Path], Any], message: Mapping[str, Any]
) -> dict[str, Any]:
    answer: dict[str, Any] = {"id": message["id"], "ok": True}
    try:
        file = pathlib.Path(_text(message, "file"))
        seconds = process(file, pathlib.Path(_text(message, "output_dir")))
        if seconds is not None:
            answer["duration"] = _check_seconds(seconds)
    except (Exception, SystemExit) as error:
        answer = {"id": message["id"], "ok": False, "error": _report(error)}
    return answer


def _check_seconds(value: Any) -> float:
    try:
        seconds = float(value)  # numpy's numbers, too
    except (TypeError, ValueError):
        raise TypeError(
            f"the function returned {type(value).__name__}; it must return None or seconds of audio"
        ) from None
    if isinstance(value, str) or not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"the function returned {value!r}; seconds of audio are 0 or more")
    return seconds


def _report(error: BaseException) -> str:
    """Print the traceback to the log and return its last line: the first of a longer message."""
    traceback.print_exception(error)
    sys.stderr.flush()
    last = "".join(traceback.format_exception_only(type(error), error)[-1:]).strip()
    line = last.split("\n", 1)[0] or type(error).__name__
    return line.encode("utf-8", "replace").decode("utf-8")[:_ERROR_LENGTH]
