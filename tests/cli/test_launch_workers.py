# SPDX-License-Identifier: MIT
"""The speech workers: whisper with a fake library, and (heavy) PocketSphinx on real speech."""
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import wave

import pytest

BUILD = pathlib.Path(os.environ["GD_BUILD"])
GPUQ = os.environ["GPUQ"]
TESTS = BUILD / "tests/workers"
WHISPER = TESTS / "whisper/whisper.so"
POCKETSPHINX = BUILD / "workers/pocketsphinx.so"
LIMIT = 240  # seconds, timeout for much faster operations


def write_tone(path, seconds=3.0, rate=16000, channels=1, bits=16, loud=0.5):
    """440 Hz; in the second channel, if there is one, the same inverted at half the volume."""
    size = bits // 8
    with wave.open(str(path), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(size)
        out.setframerate(rate)
        frames = bytearray()
        for i in range(round(seconds * rate)):
            for channel in range(channels):
                value = loud * math.sin(2 * math.pi * 440 * i / rate) * (1 if channel == 0 else -0.5)
                frames += struct.pack("<i", int(value * (2 ** 31 - 1)))[4 - size:]
        out.writeframes(bytes(frames))
    return path


class Worker:
    """A plug-in, run on files without a launcher."""

    def __init__(self, plugin, folder):
        self.plugin = plugin
        self.folder = folder
        self.output = folder / "out"
        self.output.mkdir()
        self.environment = {**os.environ, "HOME": str(folder / "home")}
        self.environment.pop("WHISPER_MODEL_DIR", None)
        self.environment["GPUQ_WORKER"] = os.path.join(os.environ["GD_BUILD"], "gpuq-worker")

    def run(self, files, *words, **environment):
        """(exit code, the lines)"""
        result = subprocess.run([TESTS / "run_worker", self.plugin, self.output, *words, "--", *files],
                                env={**self.environment, **environment}, stdout=subprocess.PIPE, text=True,
                                timeout=LIMIT, check=False)
        return result.returncode, result.stdout.splitlines()

    def written(self):
        return sorted(path.name for path in self.output.iterdir())

    def json(self, stem):
        return json.loads((self.output / f"{stem}.json").read_text())


@pytest.fixture
def whisper(tmp_path):
    if not WHISPER.exists():
        pytest.skip("no libsndfile here")
    worker = Worker(WHISPER, tmp_path)
    models = tmp_path / "models"
    models.mkdir()
    for name in ("base", "slow", "broken"):
        (models / f"ggml-{name}.bin").write_text("model" if name == "base" else name)
    worker.environment["WHISPER_MODEL_DIR"] = str(models)
    return worker


# ---- whisper, with a fake library ------------------------------------------------------


def test_whisper_writes_text_and_json(whisper, tmp_path):
    files = [write_tone(tmp_path / "a.wav"), write_tone(tmp_path / "b.c.wav", seconds=1.5)]
    code, lines = whisper.run(files, "language=en")
    assert (code, lines) == (0, [f"{files[0]}: 3.000", f"{files[1]}: 1.500"])
    assert whisper.written() == ["a.json", "a.txt", "b.c.json", "b.c.txt"]
    heard = "48000 samples, loud 0.35, device 0, file 1, threads 4"
    assert (whisper.output / "a.txt").read_text() == f'{heard}\nand "more"\n'
    assert whisper.json("a") == {
        "text": f'{heard} and "more"',
        "segments": [{"start": 0.0, "end": 2.0, "text": heard, "confidence": 0.75},
                     {"start": 2.0, "end": 3.0, "text": 'and "more"', "confidence": 0.75}],
        "duration": 3.0, "confidence": 0.75, "model": "whisper base", "language": "en"}
    # The model was loaded once: this is the second file of the same one.
    assert "file 2" in whisper.json("b.c")["text"]


def test_results_may_have_names_of_the_maximum_length(whisper, tmp_path):
    stem = "x" * (255 - len(".json"))
    assert whisper.run([write_tone(tmp_path / f"{stem}.wav")])[0] == 0
    assert whisper.written() == [f"{stem}.json", f"{stem}.txt"]


@pytest.mark.parametrize("rate, channels, bits, loud", [
    (16000, 1, 32, "0.35"), (8000, 1, 16, "0.35"), (44100, 2, 16, "0.09"), (48000, 1, 24, "0.35"), (22050, 3, 16, "0.00"),
])
def test_any_rate_and_number_of_channels_is_heard(whisper, tmp_path, rate, channels, bits, loud):
    code, lines = whisper.run([write_tone(tmp_path / "x.wav", 2.0, rate, channels, bits)])
    assert (code, lines[0].split(": ")[1]) == (0, "2.000")
    # Three channels, one plus two inverted at half the volume: silence.
    assert whisper.json("x")["text"].startswith(f"32000 samples, loud {loud}")


def test_very_short_sound_is_padded_to_the_minimum(whisper, tmp_path):
    code, lines = whisper.run([write_tone(tmp_path / "x.wav", 0.2)])
    assert (code, lines[0].split(": ")[1]) == (0, "0.200")
    assert whisper.json("x")["text"].startswith("17600 samples")
    assert whisper.json("x")["duration"] == 0.2


def test_settings_reach_whisper(whisper, tmp_path):
    file = write_tone(tmp_path / "x.wav")
    assert whisper.run([file], "language=auto", "threads=2", "translate=true")[0] == 0
    assert whisper.json("x")["language"] == "de"
    assert "threads 2, translated" in whisper.json("x")["text"]
    code, lines = whisper.run([file], "language=xx")
    assert code == 1 and "unknown language 'xx'; expected a code such as en or de, or auto" in lines


def test_model_is_a_path_or_a_name_that_is_searched(whisper, tmp_path):
    file = write_tone(tmp_path / "x.wav")
    models = tmp_path / "models"
    assert whisper.run([file], f"model_size={models}/ggml-base.bin")[0] == 0
    assert whisper.json("x")["model"] == "whisper ggml-base.bin"
    cache = tmp_path / "home/.cache/whisper"
    cache.mkdir(parents=True)
    (models / "ggml-base.bin").rename(cache / "ggml-base.bin")
    assert whisper.run([file], "model_size=base")[0] == 0
    assert whisper.json("x")["model"] == "whisper base"

    code, lines = whisper.run([file], "model_size=large-v9")
    assert code == 1
    assert any(f"no model ggml-large-v9.bin in $WHISPER_MODEL_DIR ({models})" in line
               and "download-ggml-model.sh large-v9' of whisper.cpp downloads it" in line for line in lines), lines
    code, lines = whisper.run([file], "model_size=./nowhere.bin")
    assert any("the model './nowhere.bin' cannot be read: No such file or directory" in line for line in lines)
    (models / "ggml-odd.bin").write_text("rubbish")
    code, lines = whisper.run([file], "model_size=odd")
    assert any("whisper cannot load the model" in line and "ggml-odd.bin" in line for line in lines)


def test_missing_parts_are_reported_before_anything_starts(whisper, tmp_path):
    recordings = tmp_path / "audio"
    recordings.mkdir()
    write_tone(recordings / "x.wav")

    def launch(*words, **environment):
        return subprocess.run([GPUQ, "launch", "--input-dir", recordings, "--output-dir", tmp_path / "results", "--gpus", "sim:3", *words],
                              env={**whisper.environment, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT, check=False)

    whisper.environment["GPUQ_WORKER_PATH"] = str(WHISPER.parent)
    result = launch("--model-size", "large-v3")
    assert result.returncode == 2 and result.stdout == ""
    assert "there is no model ggml-large-v3.bin in $WHISPER_MODEL_DIR" in result.stderr and "~/.cache/whisper" in result.stderr
    assert result.stderr.endswith("or give its path with --model-size\n"), result.stderr
    result = launch("--language", "xx")
    assert result.returncode == 2 and "unknown language 'xx'" in result.stderr
    assert not (tmp_path / "results").exists()
    # Without --language the language is detected.
    assert launch().returncode == 0
    assert json.loads((tmp_path / "results/x/x.json").read_text())["language"] == "de"


def test_failure_of_whisper_fails_the_file_and_writes_nothing(whisper, tmp_path):
    file = write_tone(tmp_path / "x.wav")
    assert whisper.run([file], "model_size=broken") == (
        1, [f"{file}: failed: whisper failed with code -7; see the worker's log"])
    assert whisper.written() == []


def test_whisper_stops_when_its_time_is_over(whisper, tmp_path):
    file = write_tone(tmp_path / "x.wav")
    code, lines = whisper.run([file], "--timeout", "300", "model_size=slow")
    assert code == 1 and lines[0].startswith(f"{file}: timed out"), lines
    assert whisper.written() == []


def test_files_that_are_not_recordings_fail_with_the_reason(whisper, tmp_path):
    empty, text, folder, pipe = (tmp_path / name for name in ("empty.wav", "text.wav", "folder.wav", "pipe.wav"))
    empty.touch()
    text.write_text("hello")
    folder.mkdir()
    os.mkfifo(pipe)
    cut = tmp_path / "cut.wav"
    cut.write_bytes(write_tone(tmp_path / "whole.wav").read_bytes()[:20])
    code, lines = whisper.run([empty, text, folder, pipe, cut, "/nowhere.wav", tmp_path / "whole.wav"])
    assert code == 1
    reason = f"{text}: failed: not a readable recording: Format not recognised"
    assert lines[1].startswith(reason) and "ffmpeg" in lines[1]
    assert [lines[0], *lines[2:4]] == [
        f"{empty}: failed: the file is empty",
        f"{folder}: failed: cannot open the file: Is a directory",
        f"{pipe}: failed: cannot open the file: Invalid argument"]
    assert lines[4].startswith(f"{cut}: failed: not a readable recording: ")
    assert lines[5:] == ["/nowhere.wav: failed: cannot open the file: No such file or directory",
                         f"{tmp_path}/whole.wav: 3.000"]
    assert whisper.written() == ["whole.json", "whole.txt"]


# An ffmpeg that knows two files: one has three seconds of sound, the other makes it fail midway. Before it opens a file,
# the files in SWAPPED are replaced by pipes.
FFMPEG = """#!/usr/bin/env python3
import os, struct, sys
with open(sys.argv[0] + ".log", "a") as log: log.write(" ".join(sys.argv[1:]) + "\\n")
for path in os.environ.get("SWAPPED", "").split():
    os.unlink(path)
    os.mkfifo(path)
with open(sys.argv[sys.argv.index("-i") + 1].removeprefix("file:")) as file: text = file.read()
if "sound" not in text: sys.exit("no sound here")
for block in range(3):
    sys.stdout.buffer.write(struct.pack("<f", 0.5) * 16000)
    sys.stdout.flush()
    if "torn" in text: sys.exit("the rest is missing")
"""


def make_ffmpeg(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ffmpeg").write_text(FFMPEG)
    (tools / "ffmpeg").chmod(0o755)
    return tools


def test_pipe_that_replaces_a_recording_does_not_hang_ffmpeg(whisper, tmp_path):
    """Another user who can write the folder replaces the file after the worker has opened and checked it."""
    tools, file = make_ffmpeg(tmp_path), tmp_path / "sound.m4a"
    file.write_text("sound")
    assert whisper.run([file], PATH=f"{tools}:{os.environ['PATH']}", SWAPPED=str(file)) == (0, [f"{file}: 3.000"])
    assert file.is_fifo()


def test_what_libsndfile_cannot_read_is_decoded_by_ffmpeg(whisper, tmp_path):
    tools = make_ffmpeg(tmp_path)
    files = [tmp_path / name for name in ("sound.m4a", "torn-sound.webm", "text.mp4")]
    for file in files:
        file.write_text(f"{file.stem}, not for libsndfile")
    code, lines = whisper.run(files, PATH=f"{tools}:{os.environ['PATH']}")
    assert code == 1 and lines[0] == f"{files[0]}: 3.000", lines
    assert whisper.json("sound")["text"].startswith("48000 samples, loud 0.50")
    assert lines[1] == f"{files[1]}: failed: the recording is truncated or damaged"
    assert lines[2].startswith(f"{files[2]}: failed: not a readable recording: ") and "ffmpeg finds no sound" in lines[2]
    assert whisper.written() == ["sound.json", "sound.txt"]
    calls = (tools / "ffmpeg.log").read_text().splitlines()
    assert len(calls) == 3 and all("-protocol_whitelist file,pipe -format_whitelist aac," in call and "hls" not in call and "concat" not in call
                                   for call in calls)  # one process per file


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_that_may_not_be_read_fails(whisper, tmp_path):
    file = write_tone(tmp_path / "x.wav")
    file.chmod(0)
    assert whisper.run([file]) == (1, [f"{file}: failed: cannot open the file: Permission denied"])


@pytest.mark.parametrize("suffix", ["json", "txt"])
def test_full_disk_fails_the_file_and_leaves_nothing_half_written(whisper, tmp_path, suffix):
    file = write_tone(tmp_path / "x.wav")
    before = whisper.output / f"x.{suffix}"
    before.write_text("of an earlier run")
    code, lines = whisper.run([file], LD_PRELOAD=str(TESTS / "full_disk.so"), FULL_DISK=f"/.transcript.{suffix}.",
                              ASAN_OPTIONS="verify_asan_link_order=0")
    assert (code, lines) == (1, [f"{file}: failed: cannot write 'x.{suffix}': No space left on device"])
    assert before.read_text() == "of an earlier run"
    assert not [name for name in whisper.written() if name.startswith(".")]


# ---- PocketSphinx, for real ------------------------------------------------------------


SAID = {
    "fox": "the quick brown fox jumps over the lazy dog",
    "morning": "good morning everybody and welcome to the show",
    "numbers": "one two three four five six seven eight nine ten",
    "weather": "the weather will be sunny and warm in the afternoon",
}
RECORDINGS = pathlib.Path("/usr/share/pocketsphinx/test/data/librivox")


def make_speech(folder):
    folder.mkdir()
    for name, text in SAID.items():
        spoken = folder / f"{name}.flite"
        subprocess.run(["flite", "-voice", "rms", "-t", text, "-o", spoken], check=True, timeout=LIMIT)
        subprocess.run(["sox", "-t", "wav", spoken, "-r", "16000", "-c1", "-b16", folder / f"{name}.wav",
                        "pad", "0.3", "0.3"], check=True, timeout=LIMIT)
        spoken.unlink()


def words_of(text):
    return re.findall(r"[a-z']+", text.lower())


def assert_understood(text, said, part):
    """Checks that this fraction of the spoken words was recognized, in any order."""
    heard = words_of(text)
    known = [word for word in words_of(said) if word in heard]
    assert len(known) >= part * len(words_of(said)), f"said '{said}', heard '{text}'"


def launch(*words, code=0):
    result = subprocess.run([GPUQ, "launch", *map(str, words)], capture_output=True, text=True, timeout=600,
                            stdin=subprocess.DEVNULL, check=False)
    assert result.returncode == code, result.stdout + result.stderr
    return result


def need_pocketsphinx():
    if not POCKETSPHINX.exists():
        pytest.skip("the worker pocketsphinx was not built")


def encode(path, seconds, *options):
    subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", f"sine=frequency=440:duration={seconds}", *options, str(path)],
                   check=True, timeout=LIMIT)


@pytest.mark.heavy
def test_real_ffmpeg_decodes_what_libsndfile_cannot_read(tmp_path):
    need_pocketsphinx()
    audio = tmp_path / "audio"
    audio.mkdir()
    encode(audio / "a.m4a", 3, "-c:a", "aac")
    encode(audio / "b.webm", 5, "-c:a", "libopus")
    encode(audio / "c.mp4", 2, "-c:a", "aac")
    plan = launch("--input-dir", audio, "--pattern", "*", "--gpus", "sim:2", "--dry-run")
    assert "10s of audio" in plan.stdout, plan  # durations by the real ffprobe
    launch("--input-dir", audio, "--pattern", "*", "--output-dir", tmp_path / "out", "--gpus", "sim:2", "--worker", "pocketsphinx",
           "--json", tmp_path / "summary.json")
    numbers = json.loads((tmp_path / "summary.json").read_text())
    assert (numbers["files_done"], numbers["files_failed"]) == (3, 0)
    assert numbers["audio_seconds"] == pytest.approx(10, abs=0.3)
    for name, seconds in (("a", 3), ("b", 5), ("c", 2)):
        assert json.loads((tmp_path / f"out/{name}/{name}.json").read_text())["duration"] == pytest.approx(seconds, abs=0.1)


@pytest.mark.heavy
def test_real_ffmpeg_follows_no_playlist_to_other_files(tmp_path):
    need_pocketsphinx()
    audio = tmp_path / "audio"
    audio.mkdir()
    secret = tmp_path / "secret.mp3"
    encode(secret, 4)
    (audio / "hls.m4a").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:4,\nfile://{secret}\n#EXT-X-ENDLIST\n")
    (audio / "concat.webm").write_text(f"ffconcat version 1.0\nfile {secret}\n")
    (audio / "noise.mp4").write_text("no recording")
    launch("--input-dir", audio, "--pattern", "*", "--output-dir", tmp_path / "out", "--gpus", "sim:1", "--worker", "pocketsphinx",
           "--json", tmp_path / "summary.json", code=1)
    numbers = json.loads((tmp_path / "summary.json").read_text())
    assert (numbers["files_done"], numbers["files_failed"], numbers["audio_seconds"]) == (0, 3, None)
    assert all("ffmpeg finds no sound in it" in failure["error"] and "., and" not in failure["error"] for failure in numbers["failures"])


@pytest.mark.heavy
def test_speech_of_flite_is_understood(tmp_path):
    need_pocketsphinx()
    make_speech(tmp_path / "audio")
    summary = tmp_path / "summary.json"
    launch("--input-dir", tmp_path / "audio", "--output-dir", tmp_path / "out", "--gpus", "sim:2",
           "--worker", "pocketsphinx", "--json", summary)
    for name, said in SAID.items():
        text = (tmp_path / f"out/{name}/{name}.txt").read_text()
        assert_understood(text, said, 0.7)
        found = json.loads((tmp_path / f"out/{name}/{name}.json").read_text())
        assert found["text"] == " ".join(text.split("\n")).strip()
        assert found["model"] == "pocketsphinx en-us" and found["language"] == "en"
        assert 0 < found["confidence"] <= 1
        starts = [segment["start"] for segment in found["segments"]]
        assert starts == sorted(starts) and starts[0] >= 0
        assert all(s["start"] < s["end"] <= found["duration"] + 0.5 for s in found["segments"])
    numbers = json.loads(summary.read_text())
    assert (numbers["files_total"], numbers["files_done"], numbers["files_failed"]) == (4, 4, 0)
    assert numbers["audio_seconds"] == pytest.approx(sum(
        json.loads(path.read_text())["duration"] for path in (tmp_path / "out").glob("*/*.json")), abs=0.1)
    assert numbers["rtf"] > 0 and numbers["processing_seconds"] > 0


@pytest.mark.heavy
def test_real_recordings_are_mostly_understood_by_the_default_worker(tmp_path):
    need_pocketsphinx()
    if not RECORDINGS.is_dir():
        pytest.skip("no pocketsphinx-testdata here")
    default = [] if not (BUILD / "workers/whisper.so").exists() else ["--worker", "pocketsphinx"]
    launch("--input-dir", RECORDINGS, "--output-dir", tmp_path, "--gpus", "sim:2", *default)
    said = dict(re.match(r"<s> (.*) </s> \((.*)\)", line).group(2, 1)
                for line in (RECORDINGS / "transcription").read_text().splitlines())
    assert len(said) == 5
    texts = {name: (tmp_path / name / f"{name}.txt").read_text() for name in said}
    assert_understood(" ".join(texts.values()), " ".join(said.values()), 0.6)


@pytest.mark.heavy
def test_same_file_gives_the_same_text_whatever_came_before(tmp_path):
    need_pocketsphinx()
    make_speech(tmp_path / "audio")
    files = [tmp_path / f"audio/{name}.wav" for name in ("fox", "numbers")]
    worker = Worker(POCKETSPHINX, tmp_path)
    texts = []
    for order in (files, files[::-1]):
        assert worker.run(order)[0] == 0
        texts.append([(worker.output / f"{path.stem}.txt").read_text() for path in files])
    assert texts[0] == texts[1]


@pytest.mark.heavy
def test_stereo_at_another_rate_is_understood_and_two_sentences_are_two_segments(tmp_path):
    need_pocketsphinx()
    make_speech(tmp_path / "audio")
    both = tmp_path / "both.wav"
    subprocess.run(["sox", tmp_path / "audio/fox.wav", tmp_path / "audio/numbers.wav", "-r", "44100", "-c", "2", both,
                    "pad", "0", "1"], check=True, timeout=LIMIT)
    silent = tmp_path / "silent.wav"
    subprocess.run(["sox", "-n", "-r", "16000", "-c1", "-b16", silent, "trim", "0", "2"], check=True, timeout=LIMIT)
    worker = Worker(POCKETSPHINX, tmp_path)
    code, lines = worker.run([both, silent])
    assert code == 0, lines
    assert_understood((worker.output / "both.txt").read_text(), SAID["fox"] + " " + SAID["numbers"], 0.7)
    assert len(worker.json("both")["segments"]) >= 2
    assert worker.json("silent")["duration"] == 2.0


@pytest.mark.heavy
def test_pocketsphinx_says_what_it_has_no_model_for(tmp_path):
    need_pocketsphinx()
    worker = Worker(POCKETSPHINX, tmp_path)
    file = write_tone(tmp_path / "x.wav")
    for words, reason in [("language=de", "has a model for English only, not for 'de'"),
                          ("model_size=large-v3", "omit the setting model_size"),
                          ("lm=/nowhere", "'/nowhere' cannot be read: No such file or directory")]:
        code, lines = worker.run([file], words)
        assert code == 1 and any(reason in line for line in lines), lines


@pytest.mark.heavy
def test_pocketsphinx_stops_when_its_time_is_over(tmp_path):
    need_pocketsphinx()
    make_speech(tmp_path / "audio")
    file = tmp_path / "long.wav"
    subprocess.run(["sox", tmp_path / "audio/weather.wav", file, "repeat", "300"], check=True, timeout=LIMIT)
    worker = Worker(POCKETSPHINX, tmp_path)
    code, lines = worker.run([file], "--timeout", "2000")
    assert lines[0].startswith(f"{file}: timed out"), lines
    assert "long.txt" not in worker.written()
