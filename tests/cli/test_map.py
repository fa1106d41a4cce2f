# SPDX-License-Identifier: MIT
"""gpuq map: items in, results out, and handling of failed items."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from map_lab import LIMIT, WORKER
from terminal import Terminal

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])


def doubled(numbers):
    return {i + 1: 2 * n for i, n in enumerate(numbers)}


def test_each_item_becomes_one_line_with_its_number(map):
    map.put(*range(100))
    summary, _ = map.summary("--batch", 7)
    assert map.results() == doubled(range(100))
    assert (summary["items_total"], summary["items_done"], summary["items_failed"], summary["items_left"]) == (100, 100, 0, 0)
    assert sum(gpu["items"] for gpu in summary["gpus"]) == 100


def test_values_of_all_kinds_return_as_they_are(map):
    values = [None, True, 1.5, "é \"quoted\" \\ \u2028", [], {}, {"a": [1, {"b": None}]}, ""]
    map.put(*values)
    map.run("--batch", 3, "--ordered")
    assert list(map.results().values()) == values


def test_standard_input_and_output(map):
    out, err = map.run("--batch", 2, "--ordered", files=False, given="1\n2\n\n  \n3")
    assert [json.loads(line) for line in out.splitlines()] == \
        [{"n": n, "item": ANY_CHECK, "result": r} for n, r in ((1, 2), (2, 4), (5, 6))]
    assert "3 of 3 items done" in err
    assert not [name for name in os.listdir(map.directory) if name.endswith((".lock", ".logs"))]


@pytest.mark.parametrize("name", ["in.jsonl", "out.jsonl", "errors.jsonl", "./errors.jsonl"])
def test_summary_does_not_replace_items_or_results(map, name):
    map.put(1)
    map.run("--errors", "errors.jsonl")
    before = {path.name: path.read_bytes() for path in map.directory.iterdir() if path.suffix == ".jsonl"}
    _, err = map.run("--errors", "errors.jsonl", "--json", name, code=2)
    assert "it is also the input, the output or the file of --errors" in err
    with open(map.directory / "in.jsonl", "r+") as both:
        _, err = map.run("--json", "in.jsonl", code=2, files=False, stdout=both)
    assert "it is also the input" in err
    assert {path.name: path.read_bytes() for path in map.directory.iterdir() if path.suffix == ".jsonl"} == before


@pytest.mark.parametrize("option", ["--output", "--errors", "--json"])
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_messages_do_not_overwrite_results_in_a_file_that_is_named_as_standard_output(map, option, name):
    map.put(1, "bad")
    with open(map.directory / "all", "wb") as file:
        result = subprocess.run(map.words(option, name), cwd=map.directory, env=map.environment, stdout=file,
                                stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    written = (map.directory / "all").read_text()
    documents = [json.loads(written)] if option == "--json" else [json.loads(line) for line in written.splitlines()]
    assert len(documents) == (2 if option == "--output" else 1) and result.returncode == 1, (written, result)
    assert "1 of 2 items done" in result.stderr, result


class AnyCheck:
    def __eq__(self, other):
        return re.fullmatch("[0-9a-f]{8}", other) is not None


ANY_CHECK = AnyCheck()


def test_items_of_a_stream_are_not_kept_waiting_for_a_full_batch(map):
    process = map.start("--batch", 64, files=False, stdin=subprocess.PIPE)
    process.stdin.write("21\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"] == 42
    process.stdin.write("22\n")
    process.stdin.close()
    process.stdin = None
    out, _ = process.communicate(timeout=240)
    assert json.loads(out)["result"] == 44 and process.returncode == 0


def test_workers_are_served_while_lines_that_are_no_items_are_read(map):
    """There are enough lines for many seconds; the result must not wait for their end."""
    with subprocess.Popen(["sh", "-c", """echo '"wait"'; yes x | head -n 30000000"""], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as writer:
        process = map.start("--output", "-", "--errors", "/dev/null", files=False, stdin=writer.stdout, stderr=subprocess.DEVNULL)
        writer.stdout.close()
        map.until(lambda: map.notes("items"), "the item")
        map.go()
        assert json.loads(process.stdout.readline())["result"] == "wait"
        assert writer.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130


def test_ordered_results_without_a_worker_need_little_memory(map):
    """All of the lines fail, and no message is sent."""
    map.input.write_text("x\n" * 400000)
    process = map.start("--ordered", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 1 and usage.ru_maxrss < 40 << 10, usage
    assert sum(1 for _ in open(map.output, "rb")) == 400000


def test_worker_gets_no_carriage_return(map):
    """Line readers of some languages end a line there, and the rest of the item would be another message."""
    (map.directory / "raw.py").write_text(
        "import json, sys\nsys.stdin.buffer.readline()\nprint(json.dumps({'type': 'ready'}), flush=True)\n"
        "for line in sys.stdin.buffer:\n    message = json.loads(line)\n"
        "    print(json.dumps({'id': message['id'], 'ok': True, 'results': [line.count(b'\\r')] * len(message['items'])}), flush=True)\n")
    map.input.write_bytes(b'[1,\r{"type":"items","id":0,"items":[7]}\r,2]\n"a\\rb"\n\r3\r\n')
    map.run("--batch", 3, command=("--worker-command", f"{sys.executable} raw.py"))
    assert map.results() == {1: 0, 2: 0, 3: 0}


def test_file_with_the_name_of_the_lock_is_kept(map):
    map.put(1)
    lock = map.directory / "out.jsonl.lock"
    lock.write_text("notes\n")
    lock.chmod(0o644)
    _, err = map.run(code=2)
    assert "'out.jsonl.lock' is not an empty regular file of yours without other hard links; move it away" in err
    assert lock.read_text() == "notes\n" and lock.stat().st_mode & 0o777 == 0o644


def test_lines_are_text(map):
    map.input.write_bytes("\ufeff one\r\n\n\"two\"\nthr\0ee é".encode())
    map.run("--lines", "--ordered")
    assert map.results() == {1: " one", 2: "", 3: '"two"', 4: "thr\0ee é"}


def test_bad_lines_fail_with_file_and_line_and_nothing_is_lost(map):
    long = b'"' + b"x" * (8 << 20) + b'"'
    map.input.write_bytes(b'1\n\n{"a":\n2 3\n' + long + b"\n\"\xff\"\n 4 \r\n" + long)
    out, _ = map.run(code=1)
    assert map.results() == {1: 2, 7: 8}
    assert map.errors() == {3: "in.jsonl:3: the line is not a JSON value; use --lines for lines of text", 4: "in.jsonl:4: the line is not a JSON value; use --lines for lines of text",
                            5: "in.jsonl:5: the line is longer than 8 MiB", 6: "in.jsonl:6: the line is not a JSON value; use --lines for lines of text",
                            8: "in.jsonl:8: the line is longer than 8 MiB"}
    assert "failed: item 3: in.jsonl:3: the line is not a JSON value; use --lines for lines of text" in out


def test_line_of_exactly_the_limit_is_an_item(map):
    map.input.write_text('"' + "x" * ((8 << 20) - 2) + '"\n')
    map.run()
    assert len(map.results()[1]) == (8 << 20) - 2


def test_empty_input_gives_empty_output(map):
    map.input.write_text("")
    map.run()
    assert map.output.read_text() == ""


def test_ordered_output_is_in_the_order_of_the_input(map):
    map.put("wait", *range(200))
    process = map.start("--batch", 3, "--ordered")
    map.until(lambda: len(map.notes("items")) > 60, "messages of the other worker")
    assert map.output.read_text() == ""
    map.go()
    assert process.wait(240) == 0
    assert [line["n"] for line in map.lines()] == list(range(1, 202))


def test_failures_carry_their_reason_and_can_have_a_file_of_their_own(map):
    map.put(1, "bad", 2, "fail")
    map.run("--batch", 4, "--errors", "errors.jsonl", code=1)
    assert map.results() == {1: 2, 3: 4}
    assert map.errors(map.directory / "errors.jsonl") == {2: "not this one", 4: "cannot do that"}
    # Both files together are the record: only failed items are processed again.
    out, _ = map.run("--batch", 4, "--errors", "errors.jsonl", code=1)
    assert "retrying 2 items that failed before" in out and "2 already in the output" in out


def test_a_hundred_failures_are_printed_and_then_the_file_that_lists_all(map):
    map.put(*["bad"] * 101)
    out, errors = map.run(code=1)
    assert (out + errors).count("failed: item") == 100
    assert "further failures are not shown; the output has all of them\n" in out + errors
    out, errors = map.run("--errors", "errors.jsonl", "--output", "other.jsonl", code=1)
    assert "further failures are not shown; the file of --errors has all of them\n" in out + errors


READS_AHEAD = """
import json, os, queue, sys, threading, time
messages, count = queue.Queue(), 0
def read():
    for line in sys.stdin:
        messages.put(json.loads(line))
    messages.put(None)
threading.Thread(target=read).start()
while message := messages.get():
    answer = {"type": "ready"}
    if message["type"] == "items":
        count += 1
        while count == 1 and not os.path.exists("go"): time.sleep(0.005)
        if count == 2: messages.put(messages.get())   # another one comes before this one is answered
        answer = {"id": message["id"], "ok": True, "results": message["items"]}
    print(json.dumps(answer), flush=True)
"""


def test_program_gets_the_next_message_before_it_has_answered(map):
    (map.directory / "worker.py").write_text(READS_AHEAD)
    map.put(*range(100))
    process = map.start("--gpus", "sim:1", "--in-flight", 4)
    assert "0 of 100 items" in process.stdout.readline()   # by now the worker has the others
    map.go()
    assert process.wait(240) == 0
    assert len(map.results()) == 100


def test_message_that_fails_is_split_until_the_item_fails_alone(map):
    map.put(*range(40), "fail", *range(40))
    map.run("--batch", 16, code=1)
    assert map.errors() == {41: "cannot do that"}
    assert len(map.results()) == 80


def test_out_of_memory_halves_the_batch(map):
    map.put(*range(100))
    summary, err = map.summary("--batch", 64, "--set", "memory=5")
    assert len(map.results()) == 100 and summary["batch"] <= 4
    sizes = [len(words.split()) for words in map.notes("items")]
    assert max(sizes) > 5 and sizes.count(4) > 10
    assert "out of memory with" in err


def test_larger_batches_are_tried_again_after_out_of_memory(map):
    map.put("fail", *range(3000))
    (map.directory / "worker.py").write_text(OUT_OF_MEMORY_ONCE)
    summary, err = map.summary("--batch", 8, "--gpus", "sim:1")
    assert len(map.results()) == 3001 and summary["batch"] == 8
    assert err.count("out of memory with") == 1


def test_items_that_need_too_much_memory_alone_do_not_make_batches_small(map):
    """Each of them fails alone, and the batches grow again."""
    map.put(*[*range(300), "bad"] * 6)
    (map.directory / "worker.py").write_text(OUT_OF_MEMORY_ONCE.replace('"fail" in message["items"] and len(message["items"]) > 4', '"bad" in message["items"]'))
    summary, _ = map.summary("--batch", 64, "--gpus", "sim:1", code=1)
    assert len(map.errors()) == 6 and summary["batch"] > 1
    assert summary["messages"] < 600, summary["messages"]


OUT_OF_MEMORY_ONCE = """
import json, sys
sys.stdin.readline()
print(json.dumps({"type": "ready"}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    answer = {"id": message["id"], "ok": True, "results": message["items"]}
    if "fail" in message["items"] and len(message["items"]) > 4:
        answer = {"id": message["id"], "ok": False, "oom": True, "error": "no room"}
    print(json.dumps(answer), flush=True)
"""


def test_out_of_memory_with_one_item_fails_it(map):
    map.put(1, 2)
    map.run("--batch", 2, "--set", "memory=0", code=1)
    assert map.errors() == {1: "CUDA out of memory. Tried to allocate", 2: "CUDA out of memory. Tried to allocate"}


def test_killed_worker_costs_a_retry(map):
    map.put(*range(50), "kill-once", *range(50))
    # On one GPU: a second worker could finish the items before the killed one is replaced.
    summary, err = map.summary("--batch", 8, "--gpus", "sim:1")
    assert len(map.results()) == 101 and summary["worker_restarts"] == 1
    assert "was replaced: SIGKILL" in err


@pytest.mark.parametrize("item, reason", [("kill", "SIGKILL"), ("exit", "exit 3: no such tensor")])
def test_item_that_kills_workers_fails_alone(map, item, reason):
    map.put(*range(30), item, *range(30))
    map.run("--batch", 8, code=1)
    (failed,) = map.errors().items()
    assert failed[0] == 31 and reason in failed[1]
    assert len(map.results()) == 60


DIES_EARLY = """
import json, os, select, sys
os.set_blocking(0, False)
rest, lines = b"", []
def more(seconds):
    global rest
    if select.select([0], [], [], seconds)[0]:
        data = os.read(0, 1 << 16)
        if not data: sys.exit()
        *whole, rest = (rest + data).split(b"\\n")
        lines.extend(whole)
        if b"poison" in data: os.kill(os.getpid(), 9)
while True:
    while not lines: more(None)
    more(0.05)   # a message that is read meanwhile can end the program before this one is answered
    message = json.loads(lines.pop(0))
    answer = {"type": "ready"}
    if message["type"] == "items": answer = {"id": message["id"], "ok": True, "results": message["items"]}
    print(json.dumps(answer), flush=True)
"""


def test_message_before_the_guilty_one_does_not_fail_with_it(map):
    (map.directory / "worker.py").write_text(DIES_EARLY)
    map.put(1, 2, "poison", 3, 4)
    map.run("--gpus", "sim:1", code=1)
    assert list(map.errors()) == [3] and len(map.results()) == 4


def test_timeout_fails_the_item_that_takes_too_long(map):
    map.put(1, "hang")
    map.run("--batch", 2, "--timeout", "1s", "--gpus", "sim:1", code=1)
    assert map.errors() == {2: "not finished within 1000 ms"} and map.results() == {1: 2}


def test_retries_give_an_item_another_try(map):
    map.put("bad-once", "bad")
    map.run("--retries", 1, code=1)
    assert map.results() == {1: "bad-once"} and map.errors() == {2: "not this one"}
    assert sum(words.split().count("bad") for words in map.notes("items")) == 2


def test_max_failures_begins_no_new_item(map):
    map.put(*["bad"] * 1000)
    summary, err = map.summary("--max-failures", 3, "--in-flight", 1, code=1)
    assert 3 <= summary["items_failed"] < 100 and summary["items_left"] + summary["items_failed"] == 1000
    assert "(--max-failures)" in err


def test_second_answer_costs_the_program_not_the_items(map):
    map.put(*range(10), "twice", *range(10))
    _, err = map.run("--gpus", "sim:1")
    assert len(map.results()) == 21
    assert "was replaced: the program answered message" in err


def test_answer_to_an_unknown_message_fails_only_its_item(map):
    map.put(*range(10), "other", *range(10))
    map.run("--gpus", "sim:1", "--batch", 4, code=1)
    assert list(map.errors()) == [11] and len(map.results()) == 20


def test_wrong_number_of_results_is_a_failure(map):
    map.put(1, "short")
    map.run("--batch", 2, code=1)
    assert map.results() == {1: 2}
    assert map.errors() == {2: "its answer has fewer results than the message had items"}


def test_other_output_of_a_program_goes_to_its_log(map):
    map.put("noise")
    map.run()
    assert any("loading…" in path.read_text() for path in (map.directory / "out.jsonl.logs").iterdir())


def test_worker_that_cannot_be_set_up_ends_the_run(map):
    map.put(1, 2, 3)
    _, err = map.run("--set", "broken=1", code=1)
    assert "no worker is left" in err and "no model" in err
    assert map.output.read_text() == ""


def test_panel_on_a_terminal_shows_items_and_failures(map):
    map.put(1, "bad", "wait")
    shown = Terminal(map.words("--gpus", "sim:1", "--in-flight", 1), cwd=map.directory, env={**map.environment, "NO_COLOR": ""})
    try:
        shown.shows("2/3")
        shown.shows("failed: item 2: not this one")
        map.go()
        assert shown.wait() == 1
        text = shown.screen.everything()
        assert shown.screen.cursor
        assert text.count("gpuq map  ") == 1 and re.search(r"━  100%  3/3\n1 failed · .*took ", text), text
        assert "2 of 3 items done, 1 failed" in text
    finally:
        shown.end()


@pytest.mark.parametrize("no_color", ["", "1"], ids=["panel", "lines"])
def test_errors_of_workers_reach_a_terminal_as_text(map, no_color):
    """The test terminal fails on every unknown sequence."""
    (map.directory / "worker.py").write_text(r"""
import sys
import threading
import time
sys.stderr.write("early \x1b]52;c;aGk=\x07\x1b[2Jword\n")
sys.stderr.flush()
""" + WORKER)
    map.put(1, 2)
    words = [*map.words("--gpus", "sim:1"), "--output", "-"]
    shown = Terminal(words, cwd=map.directory, env={**map.environment, "NO_COLOR": no_color})
    try:
        assert shown.wait() == 0
        text = shown.screen.everything()
        assert "early word" in text and '"result":4' in text and "2 of 2 items done" in text, text
    finally:
        shown.end()


def test_progress_on_a_pipe_is_lines(map):
    map.put(1, "wait")
    process = map.start()
    line = process.stdout.readline()
    assert re.fullmatch(r" *(50|0)%  [01] of 2 items.*\n", line) and "\033" not in line
    map.go()
    assert process.wait(240) == 0


def test_progress_shows_that_no_program_is_ready(map):
    (map.directory / "worker.py").write_text("import sys\nfor line in sys.stdin: pass\n")
    map.put(1)
    process = map.start()
    assert process.stdout.readline() == "  0%  0 of 1 items, no worker is ready yet\n"
    process.terminate()
    assert process.wait(240) == 130


def test_ordered_output_holds_back_a_bounded_number_of_items(map):
    map.put("wait", *range(80_000))
    process = map.start("--ordered", "--batch", 1000, "--workers-per-gpu", 1)
    map.until(lambda: len(map.notes("items")) >= 60, "messages of the other worker")
    sent = lambda: sum(len(words.split()) for words in map.notes("items"))
    map.until(lambda: sent() > 60_000, "messages of the other worker")
    assert sent() < 70_000
    map.go()
    assert process.wait(240) == 0
    assert [line["n"] for line in map.lines()] == list(range(1, 80_002))


def test_example_is_short_and_works(map):
    program = SOURCE / "examples/map_worker.py"
    assert len(program.read_text().splitlines()) <= 27
    map.input.write_text("one two\n\nthree words here\n")
    map.run("--lines", command=("--worker-command", f"{sys.executable} {program}"))
    assert map.results() == {1: 2, 2: 0, 3: 3}


def test_example_fails_only_the_item_that_python_does_not_read(map):
    map.input.write_text(f'"one two"\n{"9" * 5000}\n"three"\n')
    map.run("--batch", 3, "--workers-per-gpu", 1, command=("--worker-command", f"{sys.executable} {SOURCE / 'examples/map_worker.py'}"), code=1)
    assert map.results() == {1: 2, 3: 1}
    assert map.errors()[2].startswith("ValueError: Exceeds the limit (4300")


def test_program_that_ends_before_it_is_ready_is_reported(map):
    map.put(1)
    _, err = map.run(command=("--worker-command", "echo hello"), code=1)
    assert "no worker is left: 'echo': it ended before it was ready: exit 0" in err


@pytest.mark.parametrize("words, message", [
    (("--batch", "0"), "--batch"),
    (("--worker-command", ""), "--worker-command: empty command"),
    (("--json", "-", "--output", "-"), "only one of --output, --errors and --json"),
    (("extra",), "unexpected argument 'extra'"),
    (("--input", "missing"), "cannot read input 'missing': No such file or directory"),
    (("--input", "."), "it is a directory"),
    (("--output", "missing/out"), "cannot write output 'missing/out': No such file or directory"),
    (("--worker-command", "no-such-program"), "cannot execute the worker's program 'no-such-program'"),
    (("--gpus", "sim:0"), "GPU specification 'sim:0'"),
])
def test_wrong_usage_is_reported_before_anything_starts(map, words, message):
    map.put(1)
    _, err = map.run(*words, code=2, command=() if "--worker-command" in words else ("--worker-command", "true"))
    assert message in err
    assert not map.output.exists()


@pytest.mark.parametrize("closed, words, message", [
    ("<&-", ("--output", "out.jsonl"), "standard input is closed; name the file with the items: --input FILE"),
    ("<&-", ("--input", "/dev/stdin", "--output", "out.jsonl"), "cannot read input '/dev/stdin': No such file or directory"),
    ("<&-", ("--input", "/dev/fd/0", "--output", "out.jsonl"), "cannot read input '/dev/fd/0': No such file or directory"),
    (">&-", ("--input", "in.jsonl"), "standard output is closed; name the file to write, as in --output FILE"),
])
def test_closed_standard_input_or_output_is_reported(map, closed, words, message):
    """Otherwise, another file of the process would take its place."""
    map.put(1)
    result = subprocess.run(["sh", "-c", f'exec {closed}; exec "$@"', "sh", *map.words(*words, files=False)], cwd=map.directory,
                            env=map.environment, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 2 and message in result.stderr, result


def test_input_of_holes_is_refused(map):
    items = map.directory / "holes"
    with open(items, "wb") as file:
        file.write(b"1\n")
        file.truncate(1 << 40)
    _, err = map.run("--input", items, code=2)
    assert "more than 64 MiB of holes" in err


@pytest.mark.parametrize("end", ["\n", ""])
def test_file_that_grows_while_it_is_read_ends_at_its_original_size(map, end):
    """It grows faster than it is read: holes cost a writer nothing."""
    library = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libgrowing_file.so"
    map.input.write_text("1\n2\n3" + end)
    map.run("--batch", 10, code=0 if end else 1,
            env={"LD_PRELOAD": str(library), "GROWING_FILE": str(map.input), "ASAN_OPTIONS": "verify_asan_link_order=0"})
    assert map.results() == doubled([1, 2, 3] if end else [1, 2])
    assert map.errors() == ({} if end else {3: "in.jsonl:3: the line is longer than 8 MiB"})


def test_file_without_a_size_is_read_to_its_end(map):
    map.run("--lines", "--input", "/proc/self/limits")
    assert len(map.results()) > 10


def test_item_that_is_nested_too_deep_to_be_returned_fails_alone(map):
    """A worker that returns it inside of an object would write an answer that cannot be read, and would be replaced."""
    deep = {depth: "[" * depth + "]" * depth for depth in (45, 55, 70)}
    map.input.write_text("".join(f"{text}\n" for text in deep.values()) + "1\n")
    (map.directory / "worker.py").write_text(OUT_OF_MEMORY_ONCE.replace('"results": message["items"]', '"results": [{"item": item} for item in message["items"]]'))
    summary, _ = map.summary("--batch", 4, "--gpus", "sim:1", code=1)
    assert summary["worker_restarts"] == 0 and sorted(map.errors()) == [2, 3]
    assert map.errors()[2].endswith(": the line is nested more than 48 levels deep")
