# SPDX-License-Identifier: MIT
"""Tracebacks of workers: like those of Python, but formatting them opens no file of another user."""
from __future__ import annotations

import contextlib
import io
import linecache
import logging
import os
import pathlib
import subprocess
import sys
import traceback
import types
import zipfile
from typing import Any

import pytest
from scripts import WORKER, check, guarded, script

from gpu_dispatch import _failure, _log_sender, _serve, _traceback

OTHER = 54321  # another user


def fail(filename: str, code: str = "raise ValueError('reason')", **names: Any) -> BaseException:
    """The exception that this code, which claims to come from the file, raises."""
    try:
        exec(compile(code, filename, "exec"), names)
    except Exception as error:
        return error
    raise AssertionError


def texts(error: BaseException) -> list[str]:
    """The exception as all parts of the package format it."""
    record = logging.LogRecord("name", logging.ERROR, "", 1, "", None, (type(error), error, error.__traceback__))
    log = io.StringIO()
    with contextlib.redirect_stderr(log):
        assert _serve._report(error) == "ValueError: reason"
    return [log.getvalue(), _traceback.exception_text(error), _failure.describe(error)[1][1], _log_sender._as_dictionary(record)["exc_text"]]


def without_columns(error: BaseException) -> str:
    """The text of Python. Without columns, it marks no part of a line."""
    captured = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    rest = [captured]
    while rest:
        one = rest.pop()
        for frame in one.stack:
            if sys.version_info >= (3, 11):
                frame.colno = frame.end_colno = None
        rest += [other for other in (one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())) if other]
    return "".join(captured.format())


def fail_with_all() -> None:
    try:
        try:
            os.environ["GPUQ_MISSING"]
        except KeyError as error:
            raise ValueError("several\nlines") from error
    except ValueError:
        if sys.version_info >= (3, 11):
            raise ExceptionGroup("group", [SyntaxError("no", ("f", 1, 2, "text")), NameError("name", name="nam")])  # noqa: F821
        raise TypeError("context")


def recurse(depth: int) -> None:
    if depth == 0:
        compile("1 +", "<text>", "exec")
    recurse(depth - 1)


@pytest.mark.parametrize("failing", [fail_with_all, lambda: recurse(20), lambda: [].missing])  # type: ignore[attr-defined]
def test_the_text_is_that_of_python_without_columns(failing: Any) -> None:
    with pytest.raises(Exception) as caught:
        failing()
    error = caught.value
    expected = without_columns(error)
    linecache.clearcache()
    assert _traceback.exception_text(error) == expected
    captured = _traceback.capture(error)
    assert list(captured.format_exception_only()) == traceback.format_exception_only(type(error), error)


def test_source_of_other_encodings_and_of_links_is_shown(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source.py"
    source.write_bytes("# coding: latin-1\nraise ValueError('reason')  # ä\n".encode("latin-1"))
    (tmp_path / "link").symlink_to("source.py")
    code = "\nraise ValueError('reason')"
    for name in ("source.py", "link"):
        assert "# ä" in _traceback.exception_text(fail(str(tmp_path / name), code))
    source.write_text("\nchanged\n")
    assert "    changed\n" in _traceback.exception_text(fail(str(source), code))


@pytest.mark.parametrize(
    ("start", "encoding"),
    [
        ("", "utf-8"),
        ("\ufeff", "utf-8"),
        ("\ufeff# -*- coding: UTF_8 -*-", "utf-8"),
        ("#!/usr/bin/python3\n# vim: set fileencoding=iso-8859-1 :", "latin-1"),
        ("\n# coding=windows-1252", "cp1252"),
        ("pass\n# coding=latin-1", "utf-8"),
    ],
)
def test_source_of_a_common_encoding_is_shown(tmp_path: pathlib.Path, start: str, encoding: str) -> None:
    (tmp_path / "source.py").write_bytes(f"{start}\nraise ValueError('reason')  # ä\n".encode(encoding))
    line = start.count("\n") + 1
    assert "# ä" in _traceback.exception_text(fail(str(tmp_path / "source.py"), "\n" * line + "raise ValueError('reason')"))


@pytest.mark.parametrize("encoding", ["rot13", "undefined", "utf-7", "idna", "missing", "x" * 200, "latin-1\n\ufeff", "ascii"])
def test_source_of_another_encoding_is_read_once_and_not_shown(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """No codec that is slow, imports modules or raises other exceptions is used."""
    bom = "\ufeff" if "\ufeff" in encoding else ""
    source = tmp_path / "source.py"
    source.write_text(f"{bom}# coding: {encoding.strip(bom)}\nSECRET ä\n", encoding="utf-8")
    monkeypatch.setattr("codecs.lookup", None)
    check_not_opened(str(source))
    monkeypatch.setattr("io.TextIOWrapper", None)
    check_not_opened(str(source))


@pytest.mark.parametrize("name", ["a\0b.py", "\ud800.py"])
def test_a_name_that_no_file_can_have_has_no_source(name: str) -> None:
    def broken() -> None:
        raise ValueError("reason")

    with pytest.raises(ValueError) as caught:
        types.FunctionType(broken.__code__.replace(co_filename=name), {})()
    assert _traceback.exception_text(caught.value).endswith("ValueError: reason\n")


def test_source_in_memory_and_in_an_archive_is_shown(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "cell", (10, None, ["in memory\n"], "cell"))
    assert "    in memory\n" in _traceback.exception_text(fail("cell"))
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("in_archive.py", "def fail():\n    raise ValueError('reason')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "archive.zip"))
    import in_archive  # type: ignore[import]

    with pytest.raises(ValueError) as caught:
        in_archive.fail()
    assert "    raise ValueError('reason')\n" in _traceback.exception_text(caught.value)


def check_not_opened(filename: str) -> None:
    for text in texts(fail(filename)):
        assert f'File "{filename}", line 1' in text and text.rstrip().endswith("ValueError: reason")
        assert "SECRET" not in text


def test_a_pipe_is_not_opened(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "link.py").symlink_to("pipe.py")
    for name in ("pipe.py", "link.py"):
        check_not_opened(str(tmp_path / name))


def test_a_large_file_is_not_read(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "large.py", "w") as file:
        file.write("SECRET\n")
        file.truncate(_traceback.MOST_SOURCE + 1)
    check_not_opened(str(tmp_path / "large.py"))


@pytest.mark.skipif(os.geteuid() != 0, reason="creates a link of another user: run it as root")
def test_no_link_of_another_user_is_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "private").write_text("SECRET\n")
    (tmp_path / "link.py").symlink_to("private")
    (tmp_path / "own.py").symlink_to("link.py")
    assert "SECRET" in _traceback.exception_text(fail(str(tmp_path / "link.py")))
    os.lchown(tmp_path / "link.py", OTHER, OTHER)
    linecache.clearcache()
    for name in ("link.py", "own.py"):
        check_not_opened(str(tmp_path / name))


PIPES = """
import os
os.mkfifo("<unknown>")
os.mkfifo("cell.py")
"""


def test_a_worker_is_not_blocked_by_pipes_in_its_directory(tmp_path: pathlib.Path) -> None:
    """A notebook's code has the name of a file that does not exist. Python 3.12 opens "<unknown>" to parse an expression."""
    code = WORKER.replace("return data * 2", "exec(compile('x = data; raise ValueError(data)', 'cell.py', 'exec'))")
    run = PIPES + "Dispatcher(Twice, [0]).run([1], on_success, on_error=lambda *args: print(args[1].splitlines()[-1]))\n"
    check(_run(tmp_path, code, guarded(run)), "ValueError: 1\n")


def test_a_callback_that_fails_several_times_opens_no_pipe(tmp_path: pathlib.Path) -> None:
    run = """
exec(compile("def fail(*args): raise KeyError('missing')", "cell.py", "exec"))
try:
    Dispatcher(Twice, [0]).run(range(2000), fail)
except KeyError as error:
    print(error)
"""
    done = _run(tmp_path, WORKER, guarded(PIPES + run))
    check(done, "'missing'\n")
    text = "Exception ignored in a callback of gpu_dispatch:\nTraceback (most recent call last):\n"
    assert done.stderr.startswith(text) and done.stderr.endswith("KeyError: 'missing'\n"), done.stderr


def test_an_ignored_exception_is_printed_even_if_it_cannot_be_formatted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_traceback, "capture", lambda *args: [][0])
    _traceback.print_ignored(ValueError("reason"))
    assert capsys.readouterr().err == "Exception ignored in a callback of gpu_dispatch:\nValueError: reason\n"


def test_a_failing_item_imports_no_module_that_was_planted_meanwhile(tmp_path: pathlib.Path) -> None:
    plant = """
import os, sys
sys.path.insert(0, os.getcwd())
for name in ("tokenize", "traceback", "linecache", "textwrap", "ast"):
    with open(f"{name}.py", "w") as file:
        file.write("open('planted', 'w').close()")
raise ValueError(data)
"""
    code = WORKER.replace("return data * 2", f"exec({plant!r})")
    run = "Dispatcher(Twice, [0]).run([1], on_success, on_error=lambda *args: print(args[1].splitlines()[-1]))\n"
    check(_run(tmp_path, code, guarded(run)), "ValueError: 1\n")
    assert not (tmp_path / "work" / "planted").exists()


def _run(directory: pathlib.Path, *parts: str) -> subprocess.CompletedProcess[str]:
    (directory / "work").mkdir()
    return subprocess.run(
        [sys.executable, script(directory, *parts)],
        cwd=directory / "work",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
