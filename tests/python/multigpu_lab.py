# SPDX-License-Identifier: MIT
"""Files, and a worker that takes its actions from their names, for the tests of gpu_dispatch.multigpu."""
from __future__ import annotations

import sys
import time
import wave
from collections.abc import Callable
from pathlib import Path

LIMIT = 120
# Variables with which Python uses ASCII for names.
NOT_UTF8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

WORKER = """
import os, sys, time
from pathlib import Path
from gpu_dispatch import serve

here = Path(__file__).parent

def work(file, output_dir):
    if "fail" in file.name:
        raise ValueError(f"cannot do {file.name}")
    if "path" in file.name:
        raise ValueError(f"cannot do {file}")
    if "kill" in file.name:
        os.kill(os.getpid(), 9)
    (here / f"began-{file.name}").write_text(str(os.getpid()))
    while "wait" in file.name and not (here / "go").exists():
        time.sleep(0.005)
    (output_dir / "result.txt").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    return 2.0

serve(work)
"""

# A module with the interface of faster-whisper, as far as the worker uses it.
FASTER_WHISPER = """
import os
from types import SimpleNamespace

def download_model(size_or_id, output_dir=None, local_files_only=False, cache_dir=None, **others):
    return "model " + size_or_id

class WhisperModel:
    def __init__(self, model_size_or_path, device="auto", device_index=0, compute_type="default",
                 cpu_threads=0, download_root=None, **others):
        self.words = f"{model_size_or_path} on {device}:{device_index} as {compute_type}"

    def transcribe(self, audio, language=None, task="transcribe", beam_size=5):
        assert os.path.isfile(audio)
        def segments():
            yield SimpleNamespace(start=0.0, end=1.5, text=f" {self.words} ", avg_logprob=-0.1)
            yield SimpleNamespace(start=1.5, end=2.0, text="  ", avg_logprob=-9.0)
        return segments(), SimpleNamespace(duration=2.0, language=language or "de")
"""


class Lab:
    """A directory with a folder of files and a worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.input = directory / "in"
        self.output = directory / "out"
        self.input.mkdir(parents=True)
        (directory / "worker.py").write_text(WORKER)
        self.command = f"{sys.executable} {directory / 'worker.py'}"

    def put(self, *names: str, size: int = 10) -> list[Path]:
        paths = [self.input / name for name in names]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * size)
        return paths

    def put_wave(self, name: str, seconds: float) -> Path:
        with wave.open(str(self.input / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(b"\0\0" * int(8000 * seconds))
        return self.input / name

    def began(self, name: str) -> bool:
        path = self.directory / f"began-{name}"
        return path.exists() and path.read_text() != ""

    def go(self) -> None:
        (self.directory / "go").touch()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < deadline, "the event did not happen"
            time.sleep(0.005)
