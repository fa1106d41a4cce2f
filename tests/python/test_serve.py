# SPDX-License-Identifier: MIT
"""Workers that call gpu_dispatch.serve(), under the real gpuq launch."""
from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from multigpu_lab import NOT_UTF8

GPUQ = os.environ["GPUQ"]
LIMIT = 120


class Folder:
    """Files, a worker, and gpuq launch for them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.output = directory / "out"
        (directory / "in").mkdir()

    def put(self, *names: str) -> None:
        for name in names:
            path = os.path.join(os.fsencode(self.directory / "in"), os.fsencode(name))
            with open(path, "wb") as file:
                file.write(os.fsencode(name) + b" has five words here")

    def launch(self, worker: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
        """Runs the launcher with this worker."""
        (self.directory / "worker.py").write_text(textwrap.dedent(worker))
        where = ["--input-dir", "in", "--output-dir", "out", "--pattern", "*.txt", "--gpus", "sim:1"]
        done = subprocess.run(
            [GPUQ, "launch", *where, "--worker-command", f"{sys.executable} worker.py", *words],
            cwd=self.directory,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    def run(self, worker: str, *words: str, code: int = 0) -> dict[str, Any]:
        """The launcher's summary."""
        done = self.launch(worker, "--json", "-", *words, code=code)
        summary: dict[str, Any] = json.loads(done.stdout)
        return summary

    def log(self) -> str:
        return (self.output / "launch.logs" / "worker-0.log").read_text()


@pytest.fixture(name="folder")
def make_folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


COUNT = """
    from gpu_dispatch import serve

    def count(file, output_dir):
        words = len(file.read_text().split())
        (output_dir / "count.txt").write_text(f"{words}\\n")

    serve(count)
"""


def test_worker_in_ten_lines(folder: Folder) -> None:
    folder.put("a.txt", "b.txt")
    assert folder.run(COUNT)["files_done"] == 2
    assert (folder.output / "a" / "count.txt").read_text() == "5\n"


def test_setup_runs_once_and_its_result_is_the_third_argument(folder: Folder) -> None:
    folder.put("a.txt", "b.txt")
    folder.run(
        """
        from gpu_dispatch import serve
        loads = []
        def load(setup):
            loads.append(setup)
            assert (setup.gpu, setup.device, setup.seed) == (0, 0, 42), setup
            assert setup.settings["model_size"] == "large" and setup.settings["k"] == "v=1"
            return "model"
        def work(file, output_dir, model):
            (output_dir / "x").write_text(f"{model} {len(loads)}")
        serve(work, setup=load)
        """,
        "--model-size",
        "large",
        "--set",
        "k=v=1",
    )
    assert [(folder.output / name / "x").read_text() for name in "ab"] == ["model 1", "model 1"]


def test_class_is_constructed_once_called_for_each_file_and_closed(folder: Folder) -> None:
    folder.put("a.txt", "b.txt")
    summary = folder.run(
        """
        from gpu_dispatch import serve
        class Model:
            def __init__(self, setup):
                self.files = 0
            def __call__(self, file, output_dir):
                self.files += 1
                return 2.5
            def close(self):
                print("closed after", self.files)
        serve(Model)
        """
    )
    assert summary["audio_seconds"] == 5.0
    assert "closed after 2" in folder.log()


def test_nothing_that_user_code_prints_reaches_the_protocol(folder: Folder) -> None:
    folder.put("a.txt", "b.txt")
    folder.run(
        """
        import ctypes, os, subprocess, sys
        from gpu_dispatch import serve
        print("half a line before", end="")
        def loud(file, output_dir):
            print('{"id": 99, "ok": false}')
            sys.stdout.write('{"by": "write"')
            sys.__stdout__.write("{}")
            os.write(1, b'{"by": "descriptor"}\\n')
            libc = ctypes.CDLL(None)
            libc.puts(b'{"by": "C"}')
            libc.fflush(None)
            subprocess.run(["echo", '{"by": "child"}'], check=True)
            if os.fork() == 0:
                print('{"by": "fork"}', flush=True)
                os._exit(0)
            os.wait()
            assert sys.stdin.read() == ""
        serve(loud)
        """
    )
    for words in ("descriptor", "C", "child", "fork"):
        assert f'{{"by": "{words}"}}' in folder.log()
    assert "half a line before" in folder.log()


def test_exception_fails_that_file_with_the_line_that_names_it_and_logs_the_traceback(
    folder: Folder,
) -> None:
    folder.put("a.txt", "b.txt", "c.txt", "d.txt", "e.txt", "g.txt", "h.txt", "i.txt")
    summary = folder.run(
        """
        import sys
        from gpu_dispatch import serve
        class Panic(BaseException):  # as PanicException, which modules in Rust raise
            __module__ = "builtins"
        def pick(file, output_dir):
            if file.stem == "a":
                raise ValueError("not a picture\\nsecond line")
            if file.stem == "b":
                sys.exit("gave up")
            if file.stem == "c":
                return "text"
            if file.stem == "d":
                raise RuntimeError("lone \\udc80 surrogate")
            if file.stem == "g":
                error = ValueError("with a note")
                error.__notes__ = ["the note"]
                raise error
            if file.stem == "i":
                raise Panic("index out of bounds")
            if file.stem == "h":
                compile("1 +", "code", "exec")
            return float("nan") if file.stem == "f" else None
        serve(pick)
        """,
        code=1,
    )
    failures = {each["file"]: each["error"] for each in summary["failures"]}
    assert failures == {
        "a.txt": "ValueError: not a picture",
        "b.txt": "SystemExit: gave up",
        "c.txt": "TypeError: the function returned str; it must return None or seconds of audio",
        "d.txt": "RuntimeError: lone ? surrogate",
        "g.txt": "ValueError: with a note",
        "h.txt": "SyntaxError: invalid syntax",
        "i.txt": "Panic: index out of bounds",
    }
    assert summary["files_done"] == 1
    assert 'raise ValueError("not a picture' in folder.log() and "second line" in folder.log()


@pytest.mark.parametrize("value", ["float('nan')", "-1", "float('inf')"])
def test_impossible_seconds_are_an_error(folder: Folder, value: str) -> None:
    folder.put("a.txt")
    summary = folder.run(
        f"""
        from gpu_dispatch import serve
        serve(lambda file, output_dir: {value})
        """,
        code=1,
    )
    assert "seconds of audio are 0 or more" in summary["failures"][0]["error"]


@pytest.mark.parametrize("kind", ["LookupError", "BaseException"])
def test_failed_setup_ends_the_worker_with_the_reason(folder: Folder, kind: str) -> None:
    folder.put("a.txt")
    done = folder.launch(
        f"""
        from gpu_dispatch import serve
        def load(setup):
            raise {kind}("no model called base")
        serve(print, setup=load)
        """,
        code=1,
    )
    assert f"{kind}: no model called base".encode() in done.stderr
    assert b"it ended before it was ready" not in done.stderr


def test_names_that_are_not_utf8_arrive_as_they_are(folder: Folder) -> None:
    folder.put("caf\udce9.txt")
    folder.run(
        """
        import os
        from gpu_dispatch import serve
        def load(setup):
            assert os.fsencode(setup.settings["path"]) == b"/caf\\xe9" and setup.settings["k"] == "v", setup
        def work(file, output_dir, _):
            assert os.fsencode(file.name) == b"caf\\xe9.txt", file
            (output_dir / "seen").write_bytes(file.read_bytes())
        serve(work, setup=load)
        """,
        "--set",
        "path=/caf\udce9",
        "--set",
        "k=v",
    )
    assert list(folder.output.glob("*/seen"))


def test_names_arrive_as_they_are_in_any_locale(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Latin-1, the text of a name in UTF-8 would be the name of another file, which gpuq launch may have refused."""
    for name, value in NOT_UTF8.items():
        monkeypatch.setenv(name, value)
    folder.put("caf\xe9.txt")
    folder.run(
        """
        import os, sys
        from gpu_dispatch import serve
        def load(setup):
            assert sys.getfilesystemencoding() != "utf-8"
            assert os.fsencode(setup.settings["model"]) == b"\\xc3\\xa9.bin", setup
        def work(file, output_dir, state):
            assert os.fsencode(file.name) == b"caf\\xc3\\xa9.txt", file
            (output_dir / "seen").write_bytes(file.read_bytes())
        serve(work, setup=load)
        """,
        "--set",
        "model=\xe9.bin",
    )
    assert (folder.output / "caf\xe9" / "seen").exists()


def test_arguments_that_cannot_work_are_refused() -> None:
    from gpu_dispatch import serve

    with pytest.raises(TypeError):
        serve(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        serve(dict, setup=print)


def test_worker_typed_at_a_terminal_says_how_it_is_started(tmp_path: Path) -> None:
    script = tmp_path / "words.py"
    script.write_text(textwrap.dedent(COUNT))
    master, slave = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, str(script)],
            stdin=slave,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == 2
    assert "gpuq launch --input-dir DIR --worker-command" in done.stderr


# ---- Items ------------------------------------------------------------------


def run_map(
    directory: Path, worker: str, items: list[Any], *words: str, code: int = 0, text: str | None = None
) -> list[dict[str, Any]]:
    """Maps the items, or the lines of the text, and returns the lines of the output."""
    (directory / "worker.py").write_text(textwrap.dedent(worker))
    lines_in = text or "".join(json.dumps(item) + "\n" for item in items)
    (directory / "in.jsonl").write_text(lines_in)
    files = ["--input", "in.jsonl", "--output", "out.jsonl", "--ordered", "--gpus", "sim:1"]
    done = subprocess.run(
        [GPUQ, "map", *files, "--worker-command", f"{sys.executable} worker.py", *words],
        cwd=directory, capture_output=True, timeout=LIMIT, check=False,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    lines = [json.loads(line) for line in (directory / "out.jsonl").read_text().splitlines()]
    assert [line["n"] for line in lines] == list(range(1, len(items) + 1))
    return lines


def test_items_are_served_in_lists(tmp_path: Path) -> None:
    worker = """
        from gpu_dispatch import serve_items
        def work(items, state):
            print("noise")
            return [len(items), *(ValueError("odd") if item % 2 else item + state for item in items[1:])]
        serve_items(work, setup=lambda setup: int(setup.settings["plus"]))
    """
    lines = run_map(tmp_path, worker, [0, 1, 2, 3], "--batch", "4", "--set", "plus=10", code=1)
    assert [line.get("result", line.get("error")) for line in lines] == [4, "ValueError: odd", 12, "ValueError: odd"]


@pytest.mark.parametrize(
    "result, reason",
    [
        ("[float('nan')]", "ValueError: Out of range float values are not JSON compliant"),
        ("[object()]", "TypeError: a result of type object cannot be written as JSON"),
        ("[]", "ValueError: the function returned 0 results for 1 items"),
        ("exit()", "SystemExit"),
        ("panic(items)", "Panic: index out of bounds"),
        ("[Panic('index out of bounds')]", "Panic: index out of bounds"),
    ],
)
def test_results_that_cannot_be_sent_fail_their_item(tmp_path: Path, result: str, reason: str) -> None:
    worker = f"""
        import os
        from gpu_dispatch import serve_items
        class Panic(BaseException):
            __module__ = "builtins"
        def panic(items):
            raise Panic("index out of bounds")
        serve_items(lambda items: {result} if 13 in items else [os.getpid()] * len(items))
    """
    lines = run_map(tmp_path, worker, [1, 13, 3], "--batch", "2", code=1)
    assert lines[0]["result"] == lines[2]["result"]  # no worker was lost
    assert lines[1]["error"].startswith(reason)


def test_number_that_python_does_not_read_fails_its_item_alone(tmp_path: Path) -> None:
    worker = """
        import os
        from gpu_dispatch import serve_items
        serve_items(lambda items: [[item, os.getpid()] for item in items])
    """
    long = f'{{"n":{"9" * 5000}}}'
    lines = run_map(tmp_path, worker, [1, 2, 3, 4], "--batch", "4", code=1, text=f"1\n{long}\n[-{'7' * 4301}]\n4\n")
    assert [line["result"][0] if "result" in line else None for line in lines] == [1, None, None, 4]
    assert all(line["error"].startswith("ValueError: Exceeds the limit (4300") for line in lines[1:3])
    assert lines[0]["result"][1] == lines[3]["result"][1]  # no worker was lost


def test_worker_for_files_refuses_items_and_vice_versa(tmp_path: Path, folder: Folder) -> None:
    (line,) = run_map(tmp_path, "from gpu_dispatch import serve\nserve(print)", [1], code=1)
    assert line["error"] == "this worker calls serve(): start it with gpuq launch --input-dir DIR"
    folder.put("a.txt")
    summary = folder.run("from gpu_dispatch import serve_items\nserve_items(lambda items: items)", code=1)
    assert "this worker calls serve_items()" in summary["failures"][0]["error"]


def test_items_of_the_page_are_counted(tmp_path: Path) -> None:
    page = (Path(os.environ["GD_SOURCE"]) / "docs/worker-protocol.md").read_text()
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "serve_items(" in block]
    assert [line["result"] for line in run_map(tmp_path, program, ["a b", "", "c"], "--batch", "2")] == [2, 0, 1]
