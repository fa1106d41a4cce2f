# SPDX-License-Identifier: MIT
"""Speech to text with faster-whisper, the default worker of gpu_dispatch.launcher.

    gpuq launch --input-dir audio \\
        --worker-command 'python3 -P -m gpu_dispatch.multigpu.whisper_worker'

Settings: ``model_size`` (a size, a repository of Hugging Face, or a folder that begins with
``/``, ``./`` or ``../``), ``language``
(``en``…, or ``auto``), and by ``--set``: ``device`` (auto, cuda, cpu), ``compute_type``,
``beam_size``, ``threads``, ``download_root``, ``translate=true``. Writes STEM.txt and STEM.json,
like the plug-ins of gpuq launch.
"""

from __future__ import annotations

import importlib
import json
import math
import os
from pathlib import Path
from typing import Any

from gpu_dispatch._serve import LaunchSetup, serve

__all__ = ["Whisper", "main"]


class Whisper:
    """A loaded model."""

    def __init__(self, setup: LaunchSetup) -> None:
        settings = setup.settings
        self.name = settings.get("model_size") or "base"
        language = settings.get("language", "auto")
        self.options: dict[str, Any] = {
            "language": None if language in ("", "auto") else language,
            "task": "translate" if settings.get("translate") == "true" else "transcribe",
        }
        if "beam_size" in settings:
            self.options["beam_size"] = int(settings["beam_size"])
        library = importlib.import_module("faster_whisper")
        self.model = library.WhisperModel(
            _model_folder(library, self.name, settings.get("download_root")),
            device=settings.get("device", "auto"),
            device_index=setup.device,
            compute_type=settings.get("compute_type", "default"),
            cpu_threads=int(settings.get("threads", "0")),
            download_root=settings.get("download_root"),
        )

    def __call__(self, file: Path, output_dir: Path) -> float:
        found, info = self.model.transcribe(os.fspath(file), **self.options)
        segments = [_segment(each) for each in found]  # the work is done here
        segments = [segment for segment in segments if segment["text"]]
        transcript: dict[str, Any] = {
            "text": " ".join(segment["text"] for segment in segments),
            "segments": segments,
            "duration": round(float(info.duration), 3),
            "model": self.name,
            "language": info.language,
        }
        if segments:
            seconds = sum(each["end"] - each["start"] for each in segments)
            weighted = sum(each["confidence"] * (each["end"] - each["start"]) for each in segments)
            transcript["confidence"] = round(weighted / seconds, 3) if seconds > 0 else 0.0
        lines = "".join(segment["text"] + "\n" for segment in segments)
        _write(output_dir / f"{file.stem}.txt", lines)
        _write(output_dir / f"{file.stem}.json", json.dumps(transcript, ensure_ascii=False) + "\n")
        return float(info.duration)


def _model_folder(library: Any, name: str, download_root: str | None) -> str:
    """The folder of the model, downloaded if it is missing.

    WhisperModel("base") would prefer a folder ``base`` in the current directory, which another
    user may have put there.
    """
    if name.startswith(("/", "./", "../")):
        return name
    return str(library.download_model(name, cache_dir=download_root))


def _segment(segment: Any) -> dict[str, Any]:
    return {
        "start": round(float(segment.start), 3),
        "end": round(float(segment.end), 3),
        "text": segment.text.strip(),
        "confidence": round(min(1.0, math.exp(float(segment.avg_logprob))), 3),
    }


def _write(path: Path, text: str) -> None:
    """Writes a temporary file and renames it, so that an existing file is always complete.

    The temporary name is short: ``path`` may have a name of the maximum length.
    """
    beside = path.with_name(f".transcript{path.suffix}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def main() -> None:
    serve(Whisper)


if __name__ == "__main__":
    main()
