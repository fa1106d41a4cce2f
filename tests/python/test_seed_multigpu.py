# SPDX-License-Identifier: MIT
"""The examples of the launcher's original document run as they are, except for the module's name.

The document is not part of this repository: GPUQ_SEEDS_DIR names its directory.
"""
from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch.multigpu import ResourceAllocator
from multigpu_lab import FASTER_WHISPER, LIMIT, Lab

SEEDS = os.environ.get("GPUQ_SEEDS_DIR", "")
FOUND = sorted(Path(SEEDS).glob("004_*")) if SEEDS else []
TEXT = FOUND[0].read_text() if FOUND else ""
NAMES = {"pipeline.multigpu": "gpu_dispatch.multigpu", "launcher_multigpu": "gpu_dispatch.launcher"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(name="lab")
def make_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Two recordings in data/audio, three GPUs, and a fake faster-whisper."""
    lab = Lab(tmp_path)
    lab.input = tmp_path / "data" / "audio"
    lab.put("a.wav", "b.wav")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "faster_whisper.py").write_text(FASTER_WHISPER)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    path = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("GPUQ_GPUS", "sim:3")
    monkeypatch.chdir(tmp_path)
    return lab


def names(lab: Lab) -> dict[str, Any]:
    """Names that the examples use without defining them."""
    files = sorted(lab.input.glob("*.wav"))
    results: Any = multiprocessing.Queue()
    for number in range(100):
        results.put(
            {
                "status": "success",
                "file": f"{number}.wav",
                "gpu_id": number % 2,
                "duration": 4.0,
                "processing_time": 1.0,
                "error": None,
                "output_dir": None,
                "skipped": False,
            }
        )
    return {
        "Path": Path,
        "task_queue": ResourceAllocator().create_task_queue(files, 2),
        "result_queue": results,
        "input_dir": lab.input,
        "output_dir": lab.directory / "out",
        "gpus": [0, 1],
        "model_size": "base",
    }


@pytest.mark.skipif(not TEXT, reason="GPUQ_SEEDS_DIR names no folder with the document")
def test_python_examples_run(lab: Lab) -> None:
    assert len(blocks("python")) >= 8
    imports = "from gpu_dispatch.multigpu import *\n"  # some examples continue another one
    for example in blocks("python"):
        for name, ours in NAMES.items():
            example = example.replace(name, ours)
        namespace = names(lab)
        exec(imports + example, namespace)
        assert namespace.get("exit_code", 0) == 0 and namespace.get("is_valid", True), example


@pytest.mark.skipif(not TEXT, reason="GPUQ_SEEDS_DIR names no folder with the document")
def test_commands_run(lab: Lab) -> None:
    commands = [
        line for text in blocks("bash") for line in text.splitlines() if line.startswith("python ")
    ]
    assert len(commands) >= 2
    for command in commands:
        words = command.replace("python launcher_multigpu.py", "-m gpu_dispatch.launcher").split()
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "2 of 2 files done" in done.stdout
