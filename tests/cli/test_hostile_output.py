# SPDX-License-Identifier: MIT
"""Job names and output that attack a terminal: only text and colors reach it."""
import json
import os
import pty
import re
import select
import shlex
import subprocess

import pytest

from lab import GPUQ, LIMIT
from sealing import HEADER, sealed
from terminal import Terminal

# Clears the screen, sets the title, writes the clipboard, requests an answer that is then typed,
# selects another character set, and the same through C1 controls, as UTF-8 and as bytes; then
# reverses the text direction.
HOSTILE = ("\x1b[2J\x1b[H\x1b]0;title\x07\x1b]52;c;aGk=\x1b\\\x1b[6n\x1bP+q\x1b\\\x1b(0\x1bc\u009b2J\u009d0;x\u009c\x07\x08\x7f"
           "\u202etxt.exe\u2066\u200b\ufeff\U000e0041")
FORBIDDEN = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")


def read_terminal(lab, *words):
    """All bytes that the command writes to a terminal."""
    reader, writer = pty.openpty()
    process = subprocess.Popen([GPUQ, *map(str, words)], cwd=lab.directory, env={**lab.environment, "NO_COLOR": ""}, stdin=subprocess.DEVNULL,
                               stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    data = b""
    while select.select([reader], [], [], LIMIT)[0]:
        try:
            data += os.read(reader, 65536)
        except OSError:  # EIO: the end
            break
    os.close(reader)
    assert process.wait(LIMIT) == 0, process.stderr.read()
    process.stderr.close()
    return data


def run_writer(lab, data):
    """Runs a job that writes these bytes; returns its id."""
    path = lab.directory / "bytes"
    path.write_bytes(data)
    number = lab.add("cat bytes")
    lab.gpuq("run")
    return number


# Answers each item with a line of the file `results`, as bytes.
MAPPER = r"""
import json, sys
lines = iter(open("results", "rb").read().split(b"\n"))
for message in sys.stdin:
    message = json.loads(message)
    if message["type"] == "setup":
        answer = b'{"type":"ready"}'
    else:
        answer = b'{"id":%d,"ok":true,"results":[%s]}' % (message["id"], next(lines))
    sys.stdout.buffer.write(answer + b"\n")
    sys.stdout.buffer.flush()
"""


def test_results_of_a_map_are_text_on_a_terminal_and_unchanged_in_a_pipe(lab):
    (lab.directory / "mapper.py").write_text(MAPPER)
    results = ['"\u009b2J\u009d0;x\u009c größe \u202etxt"'.encode(), b'[1,\r2]']
    (lab.directory / "results").write_bytes(b"\n".join(results))
    (lab.directory / "items").write_text("1\n2\n")
    words = ("map", "--gpus", "sim:1", "--input", "items", "--worker-command", "python3 mapper.py")
    shown = read_terminal(lab, *words).decode()
    assert '"\\u009b2J\\u009d0;x\\u009c größe \\u202etxt"}\r\n' in shown and "[1,\\r2]}\r\n" in shown
    assert not FORBIDDEN.search(shown), shown
    piped = subprocess.run([GPUQ, *words], cwd=lab.directory, env=lab.environment, capture_output=True, timeout=LIMIT, check=True).stdout
    assert [line[line.index(b'"result":') + 9:-1] for line in piped.split(b"\n")[:-1]] == results


def test_logs_on_a_terminal_keep_only_text_and_colors(lab):
    number = run_writer(lab, f"begin {HOSTILE}\n\x1b[1;31mred\x1b[0m größe\n".encode() + b"\x9b2J\xff end\n")
    shown = read_terminal(lab, "logs", number).decode()
    assert not FORBIDDEN.search(shown.replace("\x08", "", 1)), shown
    assert "begin \\x1b[2J\\x1b[H\\x1b]0;title\\x07" in shown and "\\u009b2J" in shown and "\\u202etxt.exe" in shown
    assert "\x1b[1;31mred\x1b[0m größe\r\n" in shown
    assert "\\x9b2J\\xff end\r\n" in shown
    # The color of a job does not persist on the terminal.
    assert shown.endswith("\x1b[0m")


def test_logs_with_raw_or_into_a_file_are_as_written(lab):
    data = f"{HOSTILE}\n\x1b[31m".encode() + b"\x9b\xff\n"
    number = run_writer(lab, data)
    assert read_terminal(lab, "logs", "--raw", number) == data.replace(b"\n", b"\r\n")
    result = subprocess.run([GPUQ, "logs", str(number)], cwd=lab.directory, env=lab.environment, capture_output=True, timeout=LIMIT, check=True)
    assert result.stdout == data


def test_job_cannot_write_in_the_name_of_another(lab):
    number = run_writer(lab, b"a\r99: gone\nb\b\b\b\b99: gone\n\x1b[1G99: x\n\x1b[32m  0%\r100%\r\nlast")
    other = lab.add("true")
    shown = read_terminal(lab, "logs", number, other).decode()
    assert shown == (f"{number}: 99: gone\r\n{number}: b\\x08\\x08\\x08\\x0899: gone\r\n{number}: \\x1b[1G99: x\r\n"
                     f"{number}: 100%\r\n{number}: last\r\n")


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_progress_and_wide_characters_pass(lab, follow):
    number = run_writer(lab, "  0%\r 50%\r100%\n日本語 🦜\n".encode())
    assert read_terminal(lab, "logs", *follow, number).decode() == "  0%\r 50%\r100%\r\n日本語 🦜\r\n"


def test_json_escapes_what_deceives_a_terminal(lab):
    lab.add("--name", f"n{HOSTILE}", f"true # {HOSTILE}")
    text = lab.gpuq("status", "--json")
    assert not FORBIDDEN.search(text) and "\x1b" not in text
    job = json.loads(text)[0]
    assert (job["name"], job["command"]) == (f"n{HOSTILE}", f"true # {HOSTILE}")


@pytest.mark.parametrize("words", [["status"], ["status", "1"], ["why", "1"], ["cancel", "1"]])
def test_lists_on_a_terminal_show_hostile_names_as_text(lab, words):
    lab.add("--name", f"n{HOSTILE}", f"true # {HOSTILE}")
    assert not FORBIDDEN.search(read_terminal(lab, *words).decode())


def test_panel_shows_hostile_names_and_output_as_text(lab):
    """The test terminal fails on every unknown sequence."""
    lab.add("--name", f"n{HOSTILE}", f"echo {shlex.quote(HOSTILE)}; exit 3 # {HOSTILE}")
    lab.add("--name", "good", "true")
    terminal = Terminal([GPUQ, "run", "--min-free-mem-mb", "1"], 80, 24, lab.directory, {**lab.environment, "NO_COLOR": ""})
    try:
        assert terminal.wait() == 1
        everything = terminal.screen.everything()
    finally:
        terminal.end()
    assert not FORBIDDEN.search(everything.replace("\n", "")), everything
    assert "\\x1b[2J" in everything


def test_id_of_a_queue_of_another_user_reaches_no_terminal(lab):
    queue = "\u009b2J\u202e\x7f"
    queue += "q" * (32 - len(queue.encode()))
    header = json.dumps({**(HEADER if isinstance(HEADER, dict) else json.loads(HEADER)), "queue": queue}, separators=(",", ":"), ensure_ascii=False)
    (lab.directory / "other.jsonl").write_bytes(sealed(header.encode()))
    for words in (("verify",), ("status",), ("report", "--output", "-"), ("doctor",)):
        done = subprocess.run([GPUQ, *words, "--jobs-file", "other.jsonl"], cwd=lab.directory, env=lab.environment, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        assert not FORBIDDEN.search((done.stdout + done.stderr).decode()), (words, done)


def test_name_of_a_report_reaches_a_terminal_only_as_text(lab):
    lab.gpuq("add", "--no-start", "--hold", "true")
    assert not FORBIDDEN.search(read_terminal(lab, "report", "--output", "r\x1b]0;title\x07.html").decode().replace("\r\n", "\n"))
