# SPDX-License-Identifier: MIT
"""workers/whisper.c with the real whisper.cpp, as tools/whisper builds it. Its models are those of
whisper.cpp's own tests: they load like models of each size, but recognize nothing."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["GD_BUILD"])
SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
GPUQ = os.environ["GPUQ"]
WHISPER = BUILD / "whisper"
PARTS = WHISPER / "whisper.cpp"
LIMIT = 540  # seconds, timeout for much faster operations
SIZES = ["tiny", "base", "small", "medium", "large"]

pytestmark = pytest.mark.heavy


@pytest.fixture(name="workers", scope="session")
def make_workers(tmp_path_factory):
    """A folder with the plug-in, compiled against the real header."""
    if not (WHISPER / "done").exists():
        pytest.skip("tools/whisper has not built whisper.cpp")
    folder = tmp_path_factory.mktemp("workers")
    sources = [SOURCE / "workers" / f"{name}.c" for name in ("whisper", "audio", "ffmpeg", "resample", "speech", "transcript")]
    sources += [SOURCE / "src/base" / f"{name}.c" for name in ("array", "base64", "file", "json_put", "text", "utf8")]
    libraries = [WHISPER / "objects" / f"{name}.a"
                 for name in ("src/libwhisper", "ggml/src/libggml", "ggml/src/libggml-cpu", "ggml/src/libggml-base")]
    include = [f"-I{path}" for path in (SOURCE / "include", SOURCE / "src", SOURCE / "workers", PARTS / "include", PARTS / "ggml/include")]
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-fvisibility=hidden", *include,
                    *sources, *libraries, "-lstdc++", "-lsndfile", "-lm", "-lpthread", "-o", folder / "whisper.so"],
                   check=True, timeout=LIMIT)
    models = folder / "models"
    models.mkdir()
    for size in SIZES:
        shutil.copy(PARTS / f"models/for-tests-ggml-{size}.bin", models / f"ggml-{size}.bin")
    shutil.copy(models / "ggml-large.bin", models / "ggml-large-v3.bin")
    (models / "ggml-bad.bin").write_text("not a model")
    return folder


class Recordings:
    """A folder of recordings, and gpuq launch for it."""

    def __init__(self, workers, folder):
        self.folder = folder
        self.audio = folder / "audio"
        self.audio.mkdir()
        self.environment = {**os.environ, "GPUQ_WORKER_PATH": str(workers), "WHISPER_MODEL_DIR": str(workers / "models")}
        # The models have no weights: the weights are uninitialized memory, and whisper.cpp asserts
        # that they are numbers.
        self.environment.pop("MALLOC_PERTURB_", None)

    def put(self, name):
        shutil.copy(PARTS / "samples/jfk.wav", self.audio / name)

    def launch(self, *words, code=0, gpus="sim:1"):
        result = subprocess.run([GPUQ, "launch", "--input-dir", self.audio, "--output-dir", self.folder / "out", "--gpus", gpus, "--json",
                                 self.folder / "summary.json", *words], env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        assert result.returncode == code, result.stdout + result.stderr
        # The library's output goes to the log.
        assert "whisper_" not in result.stdout + result.stderr
        return result

    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    def written(self, stem):
        return json.loads((self.folder / f"out/{stem}/{stem}.json").read_text())

    def log(self):
        return "".join(path.read_text() for path in sorted((self.folder / "out/launch.logs").iterdir()))


@pytest.fixture(name="recordings")
def make_recordings(workers, tmp_path):
    return Recordings(workers, tmp_path)


@pytest.mark.parametrize("size", [*SIZES, "large-v3"])
def test_model_of_every_size_is_loaded(recordings, size):
    """A file without sound fails, but only after its worker has loaded the model: large ones
    compute for minutes on a CPU."""
    (recordings.audio / "empty.wav").touch()
    recordings.launch("--model-size", size, code=1)
    assert [failure["error"] for failure in recordings.summary()["failures"]] == ["the file is empty"]
    assert "whisper_model_load: model size" in recordings.log()


def test_recordings_are_shared_by_two_workers(recordings):
    for name in ("a.wav", "b.wav"):
        recordings.put(name)
    recordings.launch("--model-size", "tiny", "--language", "en", "--balance", "round-robin", gpus="sim:2")
    summary = recordings.summary()
    assert summary["files_done"] == 2 and [gpu["files"] for gpu in summary["gpus"]] == [1, 1]
    assert summary["audio_seconds"] == 22.0 and 0 < summary["loading_seconds"] < summary["wall_seconds"]
    for stem in ("a", "b"):
        written = recordings.written(stem)
        assert written["duration"] == 11.0 and written["language"] == "en" and written["model"] == "whisper tiny"


def test_language_is_detected_if_none_is_given(recordings):
    recordings.put("a.wav")
    recordings.launch("--model-size", "tiny")
    assert "auto-detected language: " + recordings.written("a")["language"] in recordings.log()


def test_file_that_is_not_a_model_is_reported(recordings):
    recordings.put("a.wav")
    result = recordings.launch("--model-size", "bad", code=1)
    assert "whisper cannot load the model" in result.stderr and "ggml-bad.bin" in result.stderr
    assert "invalid model data" in recordings.log()


def test_recognition_ends_when_its_time_is_over(recordings):
    recordings.put("a.wav")
    recordings.launch("--model-size", "large", "--language", "en", "--timeout", "1s", code=1)
    summary = recordings.summary()
    assert summary["files_failed"] == 1 and summary["wall_seconds"] < 60
