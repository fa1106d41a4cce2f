# SPDX-License-Identifier: MIT
"""gpuq map is interrupted, killed, started twice, and given wrong files: the output is the record."""
import fcntl
import json
import os
import pathlib
import random
import resource
import signal
import subprocess

import processes
import pytest

from map_lab import LIMIT

KILLER = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/killer"


def test_killed_run_continues_with_what_is_missing(map):
    map.put(*range(100), "wait", *range(100))
    process = map.start("--batch", 4)
    map.until(lambda: map.output.exists() and map.output.read_text().count("\n") > 100, "results")
    process.kill()
    process.wait()
    before = map.output.read_text()
    map.go()
    summary, _ = map.summary("--batch", 4)
    assert map.output.read_text().startswith(before)
    assert len(map.results()) == 201
    assert summary["items_skipped"] == before.count("\n") and summary["items_done"] == 201 - summary["items_skipped"]


@pytest.mark.parametrize("torn", ['{', '{"n":', '{"n":7,"item":"00000000","resu', '{"n":2,"item":"00000000","result":4}'])
def test_torn_last_line_is_truncated(map, torn):
    map.put(1, 2, 3)
    map.run("--ordered")
    whole = map.output.read_text()
    map.output.write_text(whole.splitlines(True)[0] + torn)
    map.run("--ordered")
    assert map.output.read_text() == whole


@pytest.mark.parametrize("torn", ['{"n":7,"item":"00000000","r', '{"n":1,"item":"0123abcd","error":"not', '{"n":2,"item":"00000000","result":4}'])
def test_torn_first_line_is_truncated(map, torn):
    map.put(1, 2, 3)
    map.output.write_text(torn)
    map.run()
    assert len(map.results()) == 3


@pytest.mark.parametrize("content", ["hello", "hello\n", "{", '{"n":', '{"n":1}', '{"n":100,"lr":0.1}', '{"n":1,"item":"apple"}', '{"n":1,"item":"00000000","name":"x"}', '{"n":1}\n', '{"a":1}\n', '{"n":1,"item":"0","result":1}\n', "[]",
                                     '{"n":0,"item":"00000000","result":1}\n', '{"n":1,"item":"00000000","result":1,"x":2}\n'])
def test_file_that_is_not_ours_is_refused_and_left_alone(map, content):
    map.put(1)
    map.output.write_text(content)
    _, err = map.run(code=2)
    assert "refusing to append to 'out.jsonl': line 1 was not written by gpuq map" in err
    assert map.output.read_text() == content
    assert not map.notes("setup")


def test_output_of_another_input_is_refused(map):
    map.put(1, 2, 3)
    map.run()
    before = map.output.read_text()
    map.put(1, 5, 3, 4)
    _, err = map.run(code=2)
    assert "belongs to another input: its item 2 is not line 2 of 'in.jsonl'" in err
    map.put(1, 2)
    _, err = map.run(code=2)
    assert "belongs to another input: it has item 3, but 'in.jsonl' has only 2 lines" in err
    map.put(1, 2, 3)
    _, err = map.run("--lines", code=2)
    assert "belongs to another input" in err
    assert map.output.read_text() == before


def test_output_of_another_stream_is_refused(map):
    words = ("--output", "out.jsonl")
    map.run(*words, files=False, given="1\n2\n")
    before = map.output.read_text()
    _, err = map.run(*words, files=False, given="3\n2\n", code=2)
    assert "belongs to another input" in err and map.output.read_text() == before
    map.run(*words, files=False, given="1\n2\n3\n")
    assert map.results() == {1: 2, 2: 4, 3: 6}


def test_input_that_has_grown_is_continued(map):
    map.put(1, 2)
    map.run("--ordered")
    map.put(1, 2, 3)
    map.run("--ordered")
    assert [(line["n"], line["result"]) for line in map.lines()] == [(1, 2), (2, 4), (3, 6)]


def change_while_it_is_read(map, change):
    process = map.start("--gpus", "sim:1", "--in-flight", 1)
    map.until(lambda: map.notes("items"), "a worker to get a message")
    change(map.input)
    map.go()
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and "input 'in.jsonl' became shorter or was rewritten while it was read" in err, err


@pytest.mark.parametrize("size, count", [(1000, 3000), (1 << 20, 20)], ids=["counted", "too large to be counted before"])
def test_input_that_becomes_shorter_while_it_is_read_is_reported(map, size, count):
    map.put("wait", *["x" * size] * count)
    whole = map.input.read_text()
    change_while_it_is_read(map, lambda path: os.truncate(path, len(whole) // 2))
    assert not map.errors() and len(map.results()) < count  # half of a line is not an item
    map.input.write_text(whole)
    map.run()
    assert len(map.results()) == count + 1


def test_input_that_gets_fewer_items_while_it_is_read_is_reported(map):
    def join_lines(path):
        with path.open("r+") as file:
            file.seek(1_000_000)
            file.write("x" * (path.stat().st_size - 1_000_002))
    map.put("wait", *["x" * 1000] * 3000)
    change_while_it_is_read(map, join_lines)
    assert len(map.results()) < 1100


def test_ordered_run_does_not_continue_an_output_with_gaps(map):
    map.put(1, "bad-once", 3)
    map.run(code=1)
    map.output.write_text("".join(line for line in map.output.read_text().splitlines(True) if '"error"' not in line))
    _, err = map.run("--ordered", code=2)
    assert "not in order" in err
    map.run()
    assert map.results() == {1: 2, 2: "bad-once", 3: 6}


@pytest.mark.parametrize("errors", [(), ("--errors", "errors.jsonl")], ids=["one file", "errors apart"])
def test_failed_items_are_tried_again_by_the_same_command(map, errors):
    map.put(1, "bad-once", 3, "bad")
    map.run(*errors, code=1)
    map.output.chmod(0o640)
    out, _ = map.run(*errors, code=1)
    assert "retrying 2 items that failed before" in out
    assert map.results() == {1: 2, 2: "bad-once", 3: 6}
    failed = map.lines(map.directory / "errors.jsonl") if errors else [line for line in map.lines() if "error" in line]
    assert [(line["n"], line["error"]) for line in failed] == [(4, "not this one")]
    assert sum(words.split().count("1") for words in map.notes("items")) == 1  # finished items are not repeated
    assert map.output.stat().st_mode & 0o777 == 0o640
    assert not list(map.directory.glob(".*"))


def test_runs_with_and_without_a_file_of_errors_take_turns(map):
    errors = map.directory / "errors.jsonl"
    map.put(1, "bad-once", 3, "bad")
    map.run("--errors", "errors.jsonl", code=1)
    assert sorted(map.errors(errors)) == [2, 4]
    map.run(code=1)
    assert map.results() == {1: 2, 2: "bad-once", 3: 6} and list(map.errors()) == [4]
    out, _ = map.run("--errors", "errors.jsonl", code=1)
    assert "retrying 1 item that failed before" in out
    assert map.results() == {1: 2, 2: "bad-once", 3: 6} and map.errors() == {} and list(map.errors(errors)) == [4]
    before = map.output.read_text(), errors.read_text()
    map.put(1, "bad-once", 3)  # the last item, which failed, was removed
    map.run("--errors", "errors.jsonl", code=2)
    assert (map.output.read_text(), errors.read_text()) == before


def test_failed_items_of_another_input_stay(map):
    map.put(1, "bad-once", 3)
    map.run(code=1)
    before = map.output.read_text()
    map.put(1, "bad-once", 4)
    map.run(code=2)
    assert map.output.read_text() == before


def test_failed_items_of_an_ordered_run_keep_their_place(map):
    map.put(1, "bad-once", 3)
    map.run("--ordered", code=1)
    before = map.output.read_text()
    map.run("--ordered", code=1)
    assert map.output.read_text() == before


def test_kill_while_failed_items_are_tried_again_loses_no_result(map):
    map.put(1, "bad-once", "wait", 4)
    (map.directory / "go").touch()
    map.run(code=1)
    (map.directory / "go").unlink()
    map.output.write_text("".join(line for line in map.output.read_text().splitlines(True) if '"n":3,' not in line))
    process = map.start()
    map.until(lambda: sum("wait" in words.split() for words in map.notes("items")) == 2, "the item that waits")
    process.kill()
    process.communicate(timeout=LIMIT)
    (map.directory / "go").touch()
    map.run()
    assert map.results() == {1: 2, 2: "bad-once", 3: "wait", 4: 8}


def test_kill_while_the_copy_without_failures_is_written_leaves_the_old_file_or_the_new_one(map):
    map.put(*["x" * 100_000] * 8, "bad", 1)
    map.run(code=1)
    old = map.output.read_bytes()
    new = b"".join(line for line in old.splitlines(True) if b'"error"' not in line)
    draft = map.directory / ".out.jsonl.gpuq-draft"

    def killed_at(call):
        """The state after a run was killed at its call-th system call: size of the draft or None, output."""
        map.output.write_bytes(old)
        draft.unlink(missing_ok=True)
        process = subprocess.run([KILLER, "0", str(call), *map.words()], cwd=map.directory, env=map.environment, timeout=LIMIT,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        assert process.returncode in (0, 42)
        return (draft.stat().st_size if draft.exists() else None), map.output.read_bytes()

    before, after = 1, 2
    while killed_at(after) == (None, old):
        before, after = after, 2 * after
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if killed_at(middle) == (None, old) else (before, middle)
    sizes = set()
    while (state := killed_at(after))[1] == old:
        sizes.add(state[0])
        if state[0] and state[0] < len(new):
            map.run(code=1)
            assert len(map.results()) == 9 and map.errors() == {9: "not this one"} and not draft.exists()
        after += 1
    assert state == (None, new)
    assert {0, len(new)} < sizes, sizes   # some were in the middle


def test_another_worker_is_noticed(map):
    map.put(1, 2, 3)
    map.run()
    map.put(1, 2, 3, 4)
    _, err = map.run("--set", "model=large")
    assert "warning: keeping 3 results of another worker, '" in err and "worker.py', in 'out.jsonl'" in err, err
    map.put(1, 2, 3, 4, 5)
    _, err = map.run("--set", "model=large")
    assert "another worker" not in err
    assert len(map.results()) == 5


def test_item_that_occurs_twice_is_refused(map):
    map.put(1, 2)
    map.run()
    map.output.write_text(map.output.read_text() + map.output.read_text().splitlines(True)[0])
    _, err = map.run(code=2)
    assert "occurs twice (line 3); remove one of its lines" in err


def test_second_run_on_one_output_is_refused(map):
    map.put("wait")
    first = map.start()
    map.until(lambda: map.notes("items"), "a worker of the first run to get a message")
    lock = map.directory / "out.jsonl.lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    _, err = map.run(code=2)
    assert "another gpuq map is writing to this file (process " in err
    _, err = map.run("--output", "other.jsonl", "--errors", "out.jsonl", code=2)
    assert "another gpuq map is writing to this file (process " in err
    map.go()
    assert first.wait(240) == 0 and not lock.exists()
    assert map.results() == {1: "wait"}


def test_lock_that_is_a_link_is_refused(map):
    map.put(1)
    (map.directory / "out.jsonl.lock").symlink_to("elsewhere")
    _, err = map.run(code=2)
    assert "'out.jsonl.lock' is not an empty regular file of yours without other hard links; move it away" in err
    assert not (map.directory / "elsewhere").exists()


def test_input_as_output_is_refused(map):
    map.put()
    _, err = map.run("--output", "in.jsonl", code=2)
    assert "is the input" in err
    _, err = map.run("--errors", "out.jsonl", code=2)
    assert "same file" in err or "another gpuq map is writing to this file" in err


@pytest.mark.parametrize("change", ["mode", "link", "folder"])
def test_output_that_others_can_change_is_refused(map, change):
    map.put(1)
    folder = map.directory / "shared"
    folder.mkdir(mode=0o755)
    output = folder / "out.jsonl"
    if change == "mode":
        output.touch()
        output.chmod(0o666)
    elif change == "link":
        (map.directory / "mine").touch()
        os.link(map.directory / "mine", output)
    else:
        folder.chmod(0o777)
    _, err = map.run("--output", output, code=2)
    assert "refusing to use output" in err and "use --trust" in err
    map.run("--output", output, "--trust")
    assert map.lines(output)[0]["result"] == 2


def test_sticky_folder_of_ours_can_be_used(map):
    map.put(1)
    folder = map.directory / "sticky"
    folder.mkdir()
    folder.chmod(0o1777)
    map.run("--output", folder / "out.jsonl")
    assert map.lines(folder / "out.jsonl")[0]["result"] == 2


def test_interrupt_finishes_what_runs(map):
    map.put("wait", *range(1000))
    process = map.start("--gpus", "sim:1", "--in-flight", 1)
    map.until(lambda: map.notes("items"), "a worker to get a message")
    process.send_signal(signal.SIGINT)
    assert "(Ctrl-C again cancels)" in process.stderr.readline()
    map.go()
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130 and "interrupted; run the same command again to continue" in err
    assert map.results()[1] == "wait" and len(map.results()) < 1000
    map.run("--gpus", "sim:1")
    assert len(map.results()) == 1001


def interrupt(map, at, *words):
    """Ctrl-C during this read of the input; the program may read it only a few times more."""
    library = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libinterrupted_file.so"
    _, err = map.run(*words, code=130, env={"LD_PRELOAD": str(library), "INTERRUPTED_FILE": str(map.input), "INTERRUPTED_AT": str(at),
                                            "ASAN_OPTIONS": "verify_asan_link_order=0"})
    assert "interrupted; run the same command again to continue" in err


def test_interrupt_ends_the_search_for_the_next_item(map):
    map.input.write_bytes(b"1\n" + b"\n" * (17 << 20) + b"2\n")
    interrupt(map, 3, "--batch", 10)
    map.run()
    assert map.results() == {1: 2, (17 << 20) + 2: 4}


def test_interrupt_ends_the_comparison_with_the_output(map):
    map.input.write_bytes(b"1\n" + b"\n" * (4 << 20))
    map.run()
    with map.input.open("ab") as file:
        file.write(b"2\n")
    interrupt(map, 3)
    assert map.results() == {1: 2}
    map.run()
    assert map.results() == {1: 2, (4 << 20) + 2: 4}


def test_items_of_a_large_input_are_all_counted(map):
    map.put("wait", *["x" * (1 << 20)] * 17, 1, 2, 3)
    process = map.start("--gpus", "sim:1", "--in-flight", 1, "--json", "summary.json")
    map.until(lambda: map.notes("items"), "a worker to get a message")
    process.send_signal(signal.SIGINT)
    assert "stopping after" in process.stderr.readline()
    map.go()
    out, _ = process.communicate(timeout=240)
    summary = json.loads((map.directory / "summary.json").read_text())
    assert process.returncode == 130 and summary["items_total"] == 21
    assert summary["items_done"] + summary["items_left"] == 21 and f"{summary['items_done']} of 21 items done" in out


def test_interrupt_ends_the_wait_for_the_writer_of_a_pipe(map):
    os.mkfifo(map.input)
    process = map.start()
    map.until(lambda: map.notes("setup"), "the worker")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "interrupted" in err, err


def test_items_come_from_a_pipe_whose_writer_is_late(map):
    os.mkfifo(map.input)
    process = map.start()
    map.until(lambda: map.notes("setup"), "the worker")
    with open(map.input, "w", encoding="ascii") as pipe:
        pipe.write("1\n")
        pipe.flush()
        map.until(lambda: map.output.read_text().count("\n") == 1, "the first result")
        pipe.write("2\n")
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and map.results() == {1: 2, 2: 4}


def test_input_with_a_lease_is_not_waited_for_long(map):
    """The holder of the lease ignores the kernel's signal."""
    map.put(1)
    fd = os.open(map.input, os.O_RDWR)
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    try:
        _, err = map.run(code=2)
    finally:
        os.close(fd)
        signal.signal(signal.SIGIO, signal.SIG_DFL)
    assert "cannot read input 'in.jsonl': another process has a lease on it" in err
    map.run()


def test_second_interrupt_cancels_what_runs(map):
    map.put(1, "hang", 2)
    process = map.start("--in-flight", 1)
    map.until(lambda: any("hang" in words for words in map.notes("items")), "the item that hangs")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode == 130
    assert 2 not in map.results() and not map.errors()


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (12 << 20, 12 << 20))


def test_full_disk_leaves_whole_lines_and_is_continued(map):
    map.put(*["x" * 200_000] * 100)
    summary, err = map.summary(code=1, preexec_fn=limit_files)
    assert "cannot write 'out.jsonl': File too large" in err
    size = map.output.stat().st_size
    assert 0 < size <= 12 << 20 and map.output.read_text().endswith("\n")
    written = len(map.results())
    assert summary["items_done"] == sum(gpu["items"] for gpu in summary["gpus"]) == written
    assert summary["items_left"] == 100 - written
    map.run()
    assert len(map.results()) == 100


def test_results_that_wait_for_an_earlier_item_are_left_by_an_interrupted_run(map):
    map.put(1, "wait", *range(1000))
    process = map.start("--ordered", "--json", "summary.json")
    map.until(lambda: len(map.notes("items")) > 100, "items after the one that waits")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    summary = json.loads((map.directory / "summary.json").read_text())
    assert process.returncode == 130 and map.results() == {1: 2}
    assert summary["items_done"] == 1 and summary["items_left"] == 1001


def test_output_that_nobody_reads_ends_the_run(map):
    map.put(*range(10))
    read, write = os.pipe()
    os.close(read)
    process = map.start("--output", "-", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1 and "cannot write 'standard output': Broken pipe" in err


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def test_nonblocking_pipe_as_output_gets_everything(map):
    map.put(*["x" * 1000] * 500)
    read, write = os.pipe2(os.O_NONBLOCK)
    process = map.start("--output", "-", stdout=write)
    os.close(write)
    os.set_blocking(read, True)   # only the read end; the write end stays nonblocking
    with open(read) as out:
        lines = out.read().splitlines()
    process.communicate(timeout=240)
    assert process.returncode == 0 and len(lines) == 500


@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_points_lose_and_repeat_nothing(map, seed):
    """Workers and whole runs are killed, by seed; the result is that of an undisturbed run."""
    dice = random.Random(seed)
    ordered = ["--ordered"] if seed % 2 else []
    items = [dice.choice([dice.randrange(1000), "x" * dice.randrange(3000)]) for _ in range(1500)]
    map.put(*items)
    expected = {i + 1: 2 * item if isinstance(item, int) else item for i, item in enumerate(items)}
    for _ in range(200):
        process = map.start("--batch", dice.randrange(1, 20), "--in-flight", dice.randrange(1, 5), *ordered,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = len(map.notes("items")) + dice.randrange(1, 60)
        map.until(lambda: process.poll() is not None or len(map.notes("items")) >= wanted, "messages")
        if dice.random() < 0.5:
            mine = set(processes.with_variable("MAP_LAB", map.directory)) & {int(pid) for pid in map.notes("setup")}
            for pid in sorted(mine)[:1]:
                kill(pid)
            map.until(lambda: process.poll() is not None or len(map.notes("items")) >= wanted + 30, "messages")
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert map.results() == expected
    if ordered:
        assert [line["n"] for line in map.lines()] == list(range(1, 1501))
    map.until(lambda: not processes.with_variable("MAP_LAB", map.directory), "the end of all processes")
