# SPDX-License-Identifier: MIT
"""User-written workers: the program of docs/worker-protocol.md and the plug-in of examples/, unchanged."""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
BUILD = pathlib.Path(os.environ["GD_BUILD"])
GPUQ = os.environ["GPUQ"]
LIMIT = 240


def launch(folder, *words, code=0, **environment):
    result = subprocess.run([GPUQ, "launch", "--gpus", "sim:2", "--input-dir", folder / "texts", "--pattern", "*.txt",
                             "--output-dir", folder / "out", "--json", folder / "summary.json", *map(str, words)],
                            cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True,
                            timeout=LIMIT, check=False)
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture
def folder(tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for i in range(20):
        (texts / f"text {i}.txt").write_text("one two\n" * i)
    (texts / "-n $(id) 'é\".txt").write_text("three words here\n")
    return tmp_path


def program_of_the_page():
    page = (SOURCE / "docs/worker-protocol.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return programs[0]   # the second one uses the Python package


def test_program_of_the_page_is_short_and_does_what_it_says(folder):
    program = program_of_the_page()
    assert len(program.splitlines()) < 30
    (folder / "words.py").write_text(program)
    (folder / "texts/broken.txt").write_bytes(b"\xff\xfe")
    command = re.search(r"--worker-command '([^']*)'", program).group(1)
    summary = launch(folder, "--worker-command", command, code=1)
    for i in range(20):
        assert (folder / f"out/text {i}/count.txt").read_text() == f"{2 * i}\n"
    assert (folder / "out/-n $(id) 'é\"/count.txt").read_text() == "3\n"
    assert (summary["files_done"], summary["files_failed"]) == (21, 1)
    (failure,) = summary["failures"]
    assert failure["file"].endswith("broken.txt") and failure["error"].startswith("UnicodeDecodeError: ")


def test_program_of_the_page_reads_the_file_whose_name_is_not_utf8(folder):
    """With a replacement character in place of the byte, the name would be that of another file."""
    texts = os.fsencode(folder / "texts")
    for name, words in ((b"caf\xe9.txt", b"mine"), ("caf\ufffd.txt".encode(), b"of somebody else")):
        with open(os.path.join(texts, name), "wb") as file:
            file.write(words)
    (folder / "words.py").write_text(program_of_the_page())
    assert launch(folder, "--worker-command", "python3 words.py")["files_done"] == 23
    out = os.fsencode(folder / "out")
    for name, count in ((b"caf\xe9", "1\n"), ("caf\ufffd".encode(), "3\n")):
        with open(os.path.join(out, name, b"count.txt")) as file:
            assert file.read() == count


SIMPLE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "setup":
        print(json.dumps({"type": "ready"}), flush=True)
        continue
    answer = {"id": message["id"], "ok": True}
    try:
        open(message["output_dir"] + "/r.txt", "w").write(open(message["file"]).read())
    except Exception as error:
        answer.update(ok=False, error=f"{type(error).__name__}: {error}")
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize("crash", [False, True])
def test_worker_that_reads_only_file_fails_only_for_names_that_are_not_utf8(folder, crash):
    with open(os.path.join(os.fsencode(folder / "texts"), b"caf\xe9.txt"), "wb") as file:
        file.write(b"mine")
    (folder / "texts/caf\ufffd.txt").write_text("of somebody else")
    (folder / "out/caf\ufffd").mkdir(parents=True)
    program = SIMPLE.replace("except Exception", "except KeyboardInterrupt") if crash else SIMPLE
    (folder / "simple.py").write_text(program)
    summary = launch(folder, "--worker-command", "python3 simple.py", code=1)
    assert (summary["files_done"], summary["files_failed"]) == (22, 1)
    (failure,) = summary["failures"]
    assert failure["file_b64"] == base64.b64encode(b"caf\xe9.txt").decode()
    assert "KeyError: 'output_dir'" in failure["error"] and "the path is not UTF-8, so the worker gets only file_b64" in failure["error"], failure
    assert (folder / "out/caf\ufffd/r.txt").read_text() == "of somebody else"


def test_output_folder_whose_path_is_not_utf8_is_never_another_one(tmp_path):
    place, other = (os.path.join(os.fsencode(tmp_path), name) for name in (b"caf\xe9", "caf\ufffd".encode()))
    os.mkdir(place)
    os.makedirs(os.path.join(other, b"out/a"))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("two words")
    for name, program, code in (("simple.py", SIMPLE, 1), ("words.py", program_of_the_page(), 0)):
        (tmp_path / name).write_text(program)
        result = subprocess.run([GPUQ, "launch", "--gpus", "sim:1", "--input-dir", "../texts", "--pattern", "*.txt", "--output-dir", "out", "--force",
                                 "--worker-command", f"python3 {tmp_path / name}"], cwd=place, capture_output=True, timeout=LIMIT, check=False)
        assert result.returncode == code, result
        assert os.listdir(os.path.join(other, b"out/a")) == []
        assert code == 0 or b"the output folder's path is not UTF-8" in result.stdout + result.stderr, result
    with open(os.path.join(place, b"out/a/count.txt")) as file:
        assert file.read() == "2\n"


def test_every_message_of_the_page_is_json():
    page = (SOURCE / "docs/worker-protocol.md").read_text()
    messages = re.findall(r"`(\{\"[^`…]*\})`", page)
    assert len(messages) >= 6
    for message in messages:
        json.loads(message)


def test_command_with_quotes_and_variables_is_run_by_a_shell(folder):
    (folder / "my words.py").write_text(program_of_the_page())
    summary = launch(folder, "--worker-command", 'exec python3 "$DIRECTORY/my words.py"', DIRECTORY=str(folder))
    assert summary["files_done"] == 21


def test_plugin_of_the_examples_is_short_and_works(folder):
    assert len((SOURCE / "examples/file_worker.c").read_text().splitlines()) < 60
    summary = launch(folder, "--worker", BUILD / "examples/file_worker.so")
    assert summary["files_done"] == 21
    for i in range(20):
        assert (folder / f"out/text {i}/text {i}.count").read_text() == f"{i}\n"


def test_plugin_is_built_as_its_comment_says(folder):
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no cc here")
    text = (SOURCE / "examples/file_worker.c").read_text()
    build = re.search(r"^ \*     (cc .*)$", text, re.MULTILINE).group(1)
    command = re.search(r"--worker (\S+)$", text, re.MULTILINE).group(1)
    (folder / "file_worker.c").write_text(text)
    subprocess.run(["/bin/sh", "-c", build], cwd=folder, check=True, timeout=LIMIT,
                   env={**os.environ, "CPATH": str(SOURCE / "include")})
    assert launch(folder, "--worker", command)["files_done"] == 21


def test_plugin_in_the_path_is_listed_and_used_by_name(folder):
    result = subprocess.run([GPUQ, "launch", "--list-workers"], capture_output=True, text=True, timeout=LIMIT, check=True,
                            env={**os.environ, "GPUQ_WORKER_PATH": str(BUILD / "examples")})
    assert re.search(r"^file_worker +an example: counts the lines of text files$", result.stdout, re.MULTILINE)
    summary = launch(folder, "--worker", "file_worker", GPUQ_WORKER_PATH=str(BUILD / "examples"))
    assert summary["files_done"] == 21
