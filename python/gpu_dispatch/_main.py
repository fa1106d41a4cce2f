# SPDX-License-Identifier: MIT
"""The __main__ module of the program, prepared again in its workers.

As with multiprocessing's "spawn": the script is run again under the name "__mp_main__", so that its
classes and functions can be unpickled. A script without `if __name__ == "__main__":` also works: at
the point where it would start workers, the process continues as a worker and never returns. So no
code of the script after that point runs, not even `finally:` or the end of `with`. docs/python.md
describes what such a script repeats in each worker.
"""
from __future__ import annotations

import atexit
import contextlib
import os
import sys
import types

from gpu_dispatch import _directory, _places

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn, TypedDict

    class Preparation(TypedDict):
        argv: list[str]
        import_path: list[str]
        name: str | None
        origin: tuple[str, int]
        path: str | None
        places: dict[str, str]


__all__ = ["describe_main", "end_preparation", "explain", "has_main", "loading", "prepare", "refuse_to_nest", "safe_path_flags"]

_go_on: Callable[[], NoReturn] | None = None
"""Set while __main__ is prepared."""

_cut_short = False
_loading = False
_register = atexit.register


class _Prepared(BaseException):
    """Ends the preparation inside an import, where the process cannot continue as a worker."""


def refuse_to_nest() -> None:
    """Called by everything that starts workers: if each worker started workers while it is being
    started, there would be no end. Ends the preparation of __main__, if it is in progress.

    Raises RuntimeError in a module that is imported for a worker's class.
    """
    global _cut_short
    if _go_on is not None:
        _cut_short = True
        if not _is_importing():
            _go_on()
        raise _Prepared
    if _loading:
        raise RuntimeError(
            "a module that workers import starts workers when it is imported: "
            "put that part under `if __name__ == \"__main__\":`"
        )


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Wraps the import of user modules in a worker, before its setup()."""
    global _loading
    _loading = True
    atexit.register = _register_unless_loading  # type: ignore[assignment]
    try:
        yield
    finally:
        _end_loading()


def _end_loading() -> None:
    global _loading
    atexit.register = _register
    _loading = False


def _register_unless_loading(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    caller: str = sys._getframe(1).f_globals.get("__name__", "")
    if _loading and not _may_run_at_exit(caller):
        return function
    return _register(function, *args, **kwargs)


def _may_run_at_exit(module: str) -> bool:
    """Whether atexit handlers that this module registers during loading run at the end of a worker.

    The program's own handlers are meant for the end of the program: they may remove a folder that
    is still in use. Handlers of the standard library end threads and child processes.
    """
    package = module.partition(".")[0]
    return package == "gpu_dispatch" or package in sys.stdlib_module_names


# ---- In the parent ----------------------------------------------------------


def _name_and_path() -> tuple[str | None, str | None]:
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        # As with multiprocessing, workers do not execute the __main__.py of a package (PACKAGE.__main__), directory
        # or archive (__main__): it is meant to be executed as the program only.
        return (None, None) if name == "__main__" or name.endswith(".__main__") else (name, None)
    path = _places.find_script()
    if path is None:
        _refuse_unknown(getattr(main, "__file__", None))
    if path is None or not os.path.exists(path):
        return None, None
    if os.path.splitext(os.path.basename(path))[0] == "ipython":
        return None, None
    return None, path


def _refuse_unknown(path: str | None) -> None:
    """Raises RuntimeError if there is a file at this relative path: another user may have put it there."""
    if path is not None and os.path.exists(os.path.join(_directory, path)):
        raise RuntimeError(
            f"workers cannot find the script of this program: only its relative path is known, {path!r}, and the current "
            "directory may have changed; start the program with an absolute path"
        )


def has_main() -> bool:
    """Whether workers can prepare __main__: not in a notebook, with -c or from standard input."""
    return _name_and_path() != (None, None)


def describe_main(import_path: list[str]) -> Preparation:
    """The data that a worker with this module path needs for prepare()."""
    # Workers return objects of classes of __main__ under its other name, __mp_main__.
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])
    name, path = _name_and_path()
    script = [os.path.dirname(os.path.realpath(path))] if path else []
    return {
        "argv": list(sys.argv),
        "import_path": import_path,
        "name": name,
        "origin": _places.origin_of_main(),
        "path": path,
        "places": _places.remember([*import_path, *script]),
    }


# ---- In a worker ------------------------------------------------------------


def prepare(what: Preparation, go_on: Callable[[], NoReturn]) -> None:
    """Sets the module path and runs the main module of the parent under the name "__mp_main__".

    Raises RuntimeError if another user may have replaced the script, or a directory or archive of the module path. When the module
    would start workers, go_on() is called, on any thread. It does not return.
    """
    global _go_on
    _places.check(what["places"])
    sys.path[:] = what["import_path"]
    sys.argv[:] = what["argv"]
    _go_on = go_on
    if what["name"] is not None:
        _run_module(what["name"])
    elif what["path"] is not None:
        _run_script(what["path"], _places.open_script(what["path"], what["places"], what["origin"]))


def explain(error: BaseException) -> BaseException:
    """The error, or a better one if a name is missing because the script was not run to its end."""
    text = str(error) if _cut_short and isinstance(error, AttributeError) else ""
    if "__main__" not in text and "__mp_main__" not in text:
        return error
    better = AttributeError(
        f"{text}: workers run the program only up to the line where it creates its first Pool or calls run(). "
        "Define what workers need above that line, or put that line and all that follows it under "
        "`if __name__ == \"__main__\":`"
    )
    return better.with_traceback(error.__traceback__)


def _is_importing() -> bool:
    """Whether the caller is inside an import. The process cannot continue there: the module's lock is held."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") in ("importlib._bootstrap", "_frozen_importlib"):
            return True
        frame = frame.f_back
    return False


def end_preparation() -> None:
    """Ends the preparation. The program has been loaded, to its end or up to the point where it would start workers; it
    does not continue from there."""
    global _go_on
    _go_on = None
    _end_loading()
    if _cut_short:
        _leave_event_loop()


def _leave_event_loop() -> None:
    """Detaches an event loop of the script that never continues: it would block other loops."""
    if "asyncio" not in sys.modules:
        return
    import asyncio

    loop = asyncio._get_running_loop()
    if loop is None:
        return
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    sys.set_asyncgen_hooks(None, None)


def _run_module(name: str) -> None:
    import importlib.util

    spec = importlib.util.find_spec(name)
    get_code = getattr(getattr(spec, "loader", None), "get_code", None)
    if spec is None or get_code is None:
        raise ImportError(f"cannot find the module {name!r}, which is the main module of the program")
    _run(get_code(name), spec.origin, spec)


def _run_script(path: str, descriptor: int) -> None:
    import io

    with io.open(descriptor, "rb") as file:
        _run(compile(file.read(), path, "exec", dont_inherit=True), path, None)


def _run(code: types.CodeType, path: str | None, spec: Any) -> None:
    main = types.ModuleType("__mp_main__")
    if path is not None:
        main.__file__ = path
    main.__spec__ = spec
    if spec is not None:
        main.__package__ = spec.parent
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main
    try:
        exec(code, main.__dict__)
    except (_Prepared, SystemExit):
        pass  # both end the script where its work begins or ends


def safe_path_flags() -> list[str]:
    """Options that keep the current directory out of sys.path.

    Another user may have planted modules in the current directory, and since Python 3.13, "-c" imports a module before
    the code can remove that directory.
    """
    return ["-P"] if sys.version_info >= (3, 11) else []
