# SPDX-License-Identifier: MIT
"""The worker side of ``gpuq launch`` and ``gpuq map``: docs/worker-protocol.md in one call."""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import json
import math
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from gpu_dispatch import _traceback

__all__ = ["LaunchSetup", "serve", "serve_items"]

_ERROR_LENGTH = 16384  # gpuq takes lines of up to 1 MiB

# Modules in Rust raise a PanicException, which is not an Exception, so everything except these is caught.
_NOT_ERRORS = (KeyboardInterrupt, GeneratorExit)


@dataclasses.dataclass(frozen=True)
class LaunchSetup:
    """The setup data of a worker from ``gpuq launch`` or ``gpuq map``, sent before its first file or item."""

    gpu: int
    """The GPU's number on this machine."""
    device: int
    """The number by which this process opens it, as in ``cuda:0``: it sees no other GPU."""
    seed: int
    """42 plus the GPU's number; if a GPU has several workers, each of them has its own seed."""
    settings: Mapping[str, str]
    """The values of ``--set KEY=VALUE`` and, for ``gpuq launch``, ``model_size`` and ``language``."""


def serve(
    function: Callable[..., Any], *, setup: Callable[[LaunchSetup], Any] | None = None
) -> None:
    """Serve files to ``function`` until ``gpuq launch`` has no more.

    ``function(file, output_dir)`` is called for one file after another, with two absolute
    ``pathlib.Path`` objects; ``output_dir`` exists and belongs only to this file. It returns
    ``None``, or the seconds of audio in the file::

        from gpu_dispatch import serve

        def count(file, output_dir):
            words = len(file.read_text().split())
            (output_dir / "count.txt").write_text(f"{words}\\n")

        serve(count)

    To load a model once per process, pass a function as ``setup``. It is called with a
    :class:`LaunchSetup` object, and its return value is the third argument of ``function``. Or pass
    a class as ``function``: it is constructed with the :class:`LaunchSetup` object, and the object
    is called as ``object(file, output_dir)``. If the object has a method ``close``, it is called at
    the end.

    An exception, including SystemExit and the panic of a module in Rust, fails only that file:
    ``gpuq launch`` shows the line that names it, and the log of the worker has the traceback. An
    exception during the setup ends the worker.

    Everything that the code, a C library or a child process prints goes to the log of the worker,
    not into the protocol; standard input is empty. This applies from the call of ``serve()`` on, so
    call it before you print.

    Raises TypeError for arguments that cannot be called, and ends the program with exit
    code 2 if standard input is a terminal: the program was not started by ``gpuq launch``.
    """
    _converse("serve", "gpuq launch --input-dir DIR", "task", function, setup, _answer)


def serve_items(
    function: Callable[..., Any], *, setup: Callable[[LaunchSetup], Any] | None = None
) -> None:
    """Serve items to ``function`` until ``gpuq map`` has no more.

    ``function(items)`` is called for one message after another, with a list of up to ``--batch``
    items. It returns the same number of results, in the same order; a result that is an exception
    fails that item::

        from gpu_dispatch import serve_items

        def count(texts):
            return [len(text.split()) for text in texts]

        serve_items(count)

    Results can be anything that ``json`` can write, and numpy numbers and arrays. An exception
    fails the message: ``gpuq map`` splits it and sends it again until the failing item is alone; if
    its text contains "out of memory", later messages have fewer items.

    ``setup`` and classes work as in :func:`serve`: the return value of ``setup`` is the second
    argument of ``function``, and an object of a class is called as ``object(items)``.

    Raises TypeError for arguments that cannot be called, and ends the program with exit
    code 2 if standard input is a terminal: the program was not started by ``gpuq map``.
    """
    _converse("serve_items", "gpuq map --input FILE", "items", function, setup, _answer_items)


def _converse(
    name: str,
    command: str,
    kind: str,
    function: Callable[..., Any],
    setup: Callable[[LaunchSetup], Any] | None,
    answer: Callable[[Callable[..., Any], Mapping[str, Any]], dict[str, Any]],
) -> None:
    if not callable(function) or (setup is not None and not callable(setup)):
        raise TypeError(f"{name}() takes a function or a class, and a function as setup")
    if isinstance(function, type) and setup is not None:
        raise TypeError(f"{name}() takes either a class or a setup function, not both")
    if os.isatty(0):
        _explain(command)
    channel = _Channel()
    for message in channel.messages():
        if message.get("type") == "setup":
            break
    else:
        return
    try:
        process, close = _prepare(function, setup, _read_setup(message))
    except _NOT_ERRORS:
        raise
    except BaseException as error:
        channel.send({"type": "error", "error": _report(error)})
        sys.exit(1)
    channel.send({"type": "ready"})
    for message in channel.messages():
        if message.get("type") == kind:
            channel.send(answer(process, message))
        elif message.get("type") in ("task", "items"):
            words = f"this worker calls {name}(): start it with {command}"
            channel.send({"id": message["id"], "ok": False, "error": words})
    if close is not None:
        close()


def _explain(command: str) -> NoReturn:
    script = sys.argv[0] or "worker.py"
    print(
        f"{script}: this is a worker; start it with: "
        f"{command} --worker-command 'python3 {script}'",
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
        # `for line in file` would read ahead and could not be continued.
        while line := self._lines.readline():
            if line.strip():
                message = _parse(line)
                if isinstance(message, dict):
                    yield message

    def send(self, message: Mapping[str, Any]) -> None:
        # ASCII: names that are not UTF-8 cannot make the line invalid.
        self._write(json.dumps(message, default=_plain, allow_nan=False).encode("ascii") + b"\n")

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._out, data) :]


def _parse(line: bytes) -> Any:
    """The message, with an exception instead of items if Python cannot read them."""
    try:
        return json.loads(line)
    except ValueError as error:
        # gpuq has checked the line, but Python does not read numbers of more than 4,300 digits.
        message = json.loads(line, parse_int=lambda digits: int(digits[:20]))
        return {**message, "items": error}


def _text(message: Mapping[str, Any], key: str) -> str:
    """A string of the protocol. If it is not UTF-8, it is sent in base64.

    It is decoded like sys.argv: in a locale that is not UTF-8, the text itself would name another file.
    """
    if f"{key}_b64" in message:
        return os.fsdecode(base64.b64decode(message[f"{key}_b64"]))
    return os.fsdecode(str(message[key]).encode())


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
) -> tuple[Callable[..., Any], Callable[[], Any] | None]:
    """The functions to call for each message, and at the end."""
    if isinstance(function, type):
        worker = function(context)
        if not callable(worker):
            raise TypeError(f"class {function.__name__} has no method __call__()")
        return worker, getattr(worker, "close", None)
    if setup is None:
        return function, None
    state = setup(context)
    return lambda *values: function(*values, state), None


def _answer(
    process: Callable[[pathlib.Path, pathlib.Path], Any], message: Mapping[str, Any]
) -> dict[str, Any]:
    answer: dict[str, Any] = {"id": message["id"], "ok": True}
    try:
        file = pathlib.Path(_text(message, "file"))
        seconds = process(file, pathlib.Path(_text(message, "output_dir")))
        if seconds is not None:
            answer["duration"] = _check_seconds(seconds)
    except _NOT_ERRORS:
        raise
    except BaseException as error:
        answer = {"id": message["id"], "ok": False, "error": _report(error)}
    return answer


def _answer_items(process: Callable[..., Any], message: Mapping[str, Any]) -> dict[str, Any]:
    items = message["items"]
    answer: dict[str, Any] = {"id": message["id"], "ok": True}
    try:
        if isinstance(items, ValueError):
            raise items
        results = list(process(items))
        if len(results) != len(items):
            raise ValueError(f"the function returned {len(results)} results for {len(items)} items")
        errors = [_report(result) if isinstance(result, BaseException) else None for result in results]
        if any(errors):
            results = [None if error else result for result, error in zip(results, errors)]
            answer["errors"] = errors
        answer["results"] = results
        json.dumps(results, default=_plain, allow_nan=False)
    except _NOT_ERRORS:
        raise
    except BaseException as error:
        answer = {"id": message["id"], "ok": False, "error": _report(error)}
    return answer


def _plain(value: Any) -> Any:
    """Converts values that json cannot write: numpy numbers and arrays, and tensors."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a result of type {type(value).__name__} cannot be written as JSON")


def _check_seconds(value: Any) -> float:
    try:
        seconds = float(value)  # accepts numpy numbers, too
    except (TypeError, ValueError):
        raise TypeError(
            f"the function returned {type(value).__name__}; it must return None or seconds of audio"
        ) from None
    if isinstance(value, str) or not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"the function returned {value!r}; seconds of audio are 0 or more")
    return seconds


def _report(error: BaseException) -> str:
    """Print the traceback to the log; return the line that names the exception, without further lines of its message."""
    captured = _traceback.capture(error)
    print("".join(captured.format()), end="", file=sys.stderr, flush=True)
    # The places of syntax errors come before that line, and are indented; notes come after it.
    lines = list(captured.format_exception_only())
    named = next((line for line in lines if not line.startswith(" ")), "").strip()
    line = named.split("\n", 1)[0] or type(error).__name__
    return line.encode("utf-8", "replace").decode("utf-8")[:_ERROR_LENGTH]
