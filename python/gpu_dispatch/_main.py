# SPDX-License-Identifier: MIT
"""The __main__ module of the program, prepared again in its workers.

As with multiprocessing's "spawn": the script is run once more under the name
"__mp_main__", so that classes and functions of the script can be unpickled. A script
without `if __name__ == "__main__":` works as well: where it would start workers of its
own, the preparation ends by an exception, and the names that were defined so far stay.
docs/python.md says what such a script repeats in each worker.
"""
from __future__ import annotations

import atexit
import contextlib
import os
import sys
import types

TYPE_CHECKING = False  # as in typing, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypedDict

    class Preparation(TypedDict):
        argv: list[str]
        directory: str | None
        name: str | None
        path: str | None


__all__ = ["describe_main", "has_main", "loading", "prepare", "refuse_to_nest"]

_preparing = False
_loading = False


class _Prepared(BaseException):
    """The script has come to its point of no return: what workers need from it is defined."""


def refuse_to_nest() -> None:
    """Called by everything that starts workers: workers that start workers while they themselves are
    being started would never end. Ends the preparation of __main__, if that is under way.

    Raises RuntimeError in a module that is imported for the sake of a worker's class.
    """
    if _preparing:
        raise _Prepared
    if _loading:
        raise RuntimeError(
            "a module that workers import starts workers when it is imported: "
            "put that part under `if __name__ == \"__main__\":`"
        )


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Around whatever imports modules of the user in a worker, before its setup()."""
    global _loading
    register = atexit.register

    def register_unless_loading(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        caller: str = sys._getframe(1).f_globals.get("__name__", "")
        if _loading and not _may_run_at_exit(caller):
            return function
        return register(function, *args, **kwargs)

    _loading = True
    atexit.register = register_unless_loading  # type: ignore[assignment]
    try:
        yield
    finally:
        atexit.register = register
        _loading = False


def _may_run_at_exit(module: str) -> bool:
    """Whether what this module registers while the program is loaded runs at the end of a worker.

    The program's own handlers are meant for the end of the program: they may remove a folder that
    is still in use. Those of the standard library end threads and processes of this process.
    """
    package = module.partition(".")[0]
    return package == "gpu_dispatch" or package in sys.stdlib_module_names


# ---- In the parent ----------------------------------------------------------


def _name_and_path() -> tuple[str | None, str | None]:
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        # A package's __main__ is guarded by its name; a directory or archive has no other name.
        return (None, None) if name == "__main__" or name.endswith(".__main__") else (name, None)
    path = getattr(main, "__file__", None)
    if path is None or not os.path.exists(path):
        return None, None
    if os.path.splitext(os.path.basename(path))[0] == "ipython":
        return None, None
    return None, os.path.abspath(path)


def has_main() -> bool:
    """Whether workers can prepare __main__: not in a notebook, with -c or from standard input."""
    return _name_and_path() != (None, None)


def describe_main() -> Preparation:
    """What a worker needs to know for prepare()."""
    # Objects of classes of __main__ come back under its other name.
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])
    try:
        directory: str | None = os.getcwd()
    except OSError:
        directory = None  # it was removed
    name, path = _name_and_path()
    return {"argv": list(sys.argv), "directory": directory, "name": name, "path": path}


# ---- In a worker ------------------------------------------------------------


def prepare(what: Preparation) -> None:
    """Runs the main module of the parent under the name "__mp_main__"."""
    sys.argv[:] = what["argv"]
    if what["name"] is not None:
        _run_module(what["name"])
    elif what["path"] is not None:
        _run_script(what["path"])


def _run_module(name: str) -> None:
    import importlib.util

    spec = importlib.util.find_spec(name)
    get_code = getattr(getattr(spec, "loader", None), "get_code", None)
    if spec is None or get_code is None:
        raise ImportError(f"cannot find the module {name!r}, which is the main module of the program")
    _run(get_code(name), spec.origin, spec)


def _run_script(path: str) -> None:
    import io

    with io.open_code(path) as file:
        _run(compile(file.read(), path, "exec", dont_inherit=True), path, None)


def _run(code: types.CodeType, path: str | None, spec: Any) -> None:
    global _preparing
    main = types.ModuleType("__mp_main__")
    if path is not None:
        main.__file__ = path
    main.__spec__ = spec
    if spec is not None:
        main.__package__ = spec.parent
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main
    _preparing = True
    try:
        exec(code, main.__dict__)
    except (_Prepared, SystemExit):
        pass  # both end the script where its work begins or is over
    finally:
        _preparing = False
