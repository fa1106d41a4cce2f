# SPDX-License-Identifier: MIT
"""gpuq top in a real terminal: tmux draws, the tests type and read."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from lab import GPUQ, Lab
from processes import alive

LIMIT = 240  # seconds
pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


class Terminal:
    """A shell in a window of tmux."""

    def __init__(self, lab, columns=80, rows=24, **environment):
        self.lab = lab
        self.command = ["tmux", "-S", str(lab.directory / "tmux"), "-f", "/dev/null"]
        # A shell that shows when it is ready and the exit code of a command.
        lab.environment.update({"PS1": "ready$ ", "LC_ALL": "C.UTF-8", "HISTFILE": "", **environment})
        self.tmux("new-session", "-d", "-x", columns, "-y", rows, "-c", lab.directory, "bash", "--norc", "--noprofile")
        self.shows("ready$")

    def tmux(self, *words):
        result = subprocess.run([*self.command, *map(str, words)], env={**self.lab.environment, "TMUX": ""}, capture_output=True,
                                text=True, timeout=60, check=False)
        assert result.returncode == 0, (words, result.stderr)
        return result.stdout

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def enter(self, line):
        self.tmux("send-keys", "-l", line)
        self.type("Enter")

    def until(self, condition, what):
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            screen = self.screen()
            if condition(screen):
                return screen
            time.sleep(0.01)
        raise AssertionError(f"timed out waiting for {what}:\n{screen}")

    def shows(self, words):
        return self.until(lambda screen: words in screen, repr(words))

    def end(self):
        subprocess.run([*self.command, "kill-server"], capture_output=True, timeout=60, check=False)


@pytest.fixture(name="lab")
def make_lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.end()


@pytest.fixture(name="terminal")
def make_terminal(lab):
    made = []

    def start(*words, **options):
        terminal = Terminal(lab, **options)
        made.append(terminal)
        terminal.enter(" ".join([GPUQ, "top", *words]))
        return terminal
    yield start
    for terminal in made:
        terminal.end()


def fill(lab):
    lab.add("--name", "eval", "--", "sleep 1000")
    lab.add("--mem", "4G", "--", "echo größe 日本語; exit 3")
    held = lab.add("--", "true later")
    lab.gpuq("hold", held)
    return held


def test_shows_the_queue_and_leaves_the_terminal_as_it_was(lab, terminal):
    fill(lab)
    top = terminal()
    screen = top.shows("? Keys")
    assert "gpuq top" in screen and "no runner" in screen
    assert "2 pending  0 failed  1 held" in screen
    assert "eval · sleep 1000" in screen and "echo größe 日本語; exit 3" in screen and "true later" in screen
    top.shows("util ")
    assert top.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"
    top.type("q")
    top.until(lambda screen: screen.rstrip().endswith("ready$"), "the shell")
    assert top.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip() == "0 1"
    top.enter("echo code $?; stty -a | tr ' ' '\\n' | grep -x echo")
    top.shows("code 0")
    top.until(lambda screen: "\necho\n" in screen, "the terminal echoes")


def test_screen_follows_the_queue(lab, terminal):
    fill(lab)
    top = terminal()
    top.shows("3 of 3")
    lab.start("run", "--min-free-mem-mb", "1")
    screen = top.shows("1 failed")
    assert "runner" in screen
    top.until(lambda screen: "1 running" in screen and "no runner" not in screen, "a running job and its runner")
    lab.add("--", "a fourth one")
    top.shows("a fourth one")


def test_acts_on_jobs_and_says_what_went_wrong(lab, terminal):
    held = fill(lab)
    top = terminal()
    top.shows("3 of 3")
    top.type("/")
    top.type("-l", "later")
    top.shows("1 of 1")
    top.type("Enter")
    top.shows("Esc: show all")
    top.type("r")
    top.shows(f"job {held} is held: nothing to retry")
    top.type("u")
    top.shows("moved to the front")
    lab.until(lambda: lab.job(held)["priority"] > 0)
    top.type("c")
    top.shows(f"Cancel job {held}? y/n")
    top.type("n")
    top.shows("no job was cancelled")
    assert lab.job(held)["status"] == "held"
    top.type("c")
    top.shows("y/n")
    top.type("y")
    top.shows(f"job {held}: cancelled")
    top.shows(f"{held} cancelled")
    assert lab.job(held)["status"] == "cancelled"
    top.type("Escape")
    top.shows("3 of 3")


def test_hold_applies_to_all_tagged_jobs(lab, terminal):
    for number in range(5):
        lab.add("--", f"true {number}")
    top = terminal()
    top.shows("5 pending")
    top.type("Space")
    top.type("Space")
    top.shows("2 selected")
    top.type("h")
    top.shows("2 of 2 jobs held")
    top.shows("3 pending  0 failed  2 held")
    assert [job["status"] for job in lab.jobs().values()].count("held") == 2


def test_a_cancelled_job_ends(lab, terminal):
    lab.add("--", "exec sleep 1000")
    lab.start("run", "--min-free-mem-mb", "1")
    lab.until(lambda: lab.jobs()[1]["status"] == "running")
    pid = lab.job(1)["pid"]
    top = terminal()
    top.shows("1 running")
    top.type("c")
    top.shows("Cancel running job 1? y/n")
    top.type("y")
    top.shows("0 running")
    lab.until(lambda: not alive(pid))


@pytest.fixture(name="places")
def make_places(lab):
    """Two queues whose jobs have the same ids, and a function that adds to one."""
    def add(name, *words):
        (lab.directory / name).mkdir(exist_ok=True)
        return int(lab.gpuq("add", "--no-start", "--jobs-file", lab.directory / name / "jobs.jsonl", *words))
    assert add("one", "echo first") == add("two", "echo second") == 1
    assert add("two", "echo third") == 2
    return add


def states(lab, name):
    words = ["--jobs-file", lab.directory / name / "jobs.jsonl"]
    return [job["status"] for job in json.loads(lab.gpuq("status", "--json", *words))]


def test_all_queues_are_shown_and_keys_act_on_the_right_one(lab, places, terminal):
    top = terminal("--all", columns=100)
    screen = top.shows("3 of 3")
    assert "2 queues" in screen and "3 pending" in screen and "QUEUE" in screen
    assert re.search(r"…/one +1 +pending .* echo first\n", screen) and re.search(r"…/two +1 +pending .* echo second\n", screen)
    top.type("/")
    top.type("-l", "second")
    top.shows("1 of 1")
    top.type("Enter")
    top.type("h")
    top.shows("job 1: held")
    assert states(lab, "one") == ["pending"] and states(lab, "two") == ["held", "pending"]
    top.type("Enter")
    screen = top.shows("gpuq release 1")
    assert f"queue       {lab.directory}/two" in screen
    top.type("q")
    top.type("c")
    top.shows("Cancel job 1 of two? y/n")
    top.type("y")
    top.shows("job 1: cancelled")
    assert states(lab, "one") == ["pending"] and states(lab, "two") == ["cancelled", "pending"]


def test_all_queues_includes_those_that_come_and_drops_those_that_go(lab, places, terminal):
    top = terminal("--all", columns=100)
    top.shows("3 of 3")
    places("three", "echo fourth")
    top.until(lambda screen: "4 of 4" in screen and "3 queues" in screen and "echo fourth" in screen, "the third queue")
    shutil.rmtree(lab.directory / "two")
    top.until(lambda screen: "2 of 2" in screen and "2 queues" in screen and "echo second" not in screen and "echo first" in screen, "two queues")


def test_log_of_a_job_is_that_of_its_queue(lab, places, terminal):
    for name in ("one", "two"):
        lab.gpuq("run", "--jobs-file", lab.directory / name / "jobs.jsonl", code=None)
    top = terminal("--all")
    top.shows("3 completed")
    top.type("/")
    top.type("-l", "second")
    top.shows("1 of 1")
    top.type("Enter")
    top.type("l")
    top.until(lambda screen: "log of job 1, completed" in screen and "\nsecond\n" in screen, "the log")


def test_all_queues_excludes_a_file(lab):
    result = lab.result("top", "--all", "--jobs-file", "x")
    assert result.returncode == 2 and "--all cannot be used with --jobs-file" in result.stderr


def test_a_journal_that_cannot_be_written_is_reported(lab, terminal):
    fill(lab)
    for path in (lab.journal, lab.directory / "jobs.jsonl.d"):
        path.chmod(path.stat().st_mode & ~0o222)
    top = terminal()
    top.shows("3 of 3")
    top.type("h")
    if os.geteuid() == 0:
        top.shows("held")  # with all permissions this cannot fail
    else:
        top.shows("ermission denied")
    (lab.directory / "jobs.jsonl.d").chmod(0o700)


def test_log_is_followed_to_its_end(lab, terminal):
    go = lab.directory / "go"
    os.mkfifo(go)
    lab.add("--", f"printf '\\033[31mred\\033[0m\\n10%%\\r99%%\\n'; cat {go}; echo the end")
    lab.start("run", "--min-free-mem-mb", "1")
    lab.until(lambda: lab.jobs()[1]["status"] == "running")
    top = terminal()
    top.shows("1 running")
    top.type("Enter")
    top.shows("runs for")
    top.type("Escape")
    top.until(lambda screen: "any key" not in screen, "the list again")
    top.type("l")
    top.shows("log of job 1, running")
    top.until(lambda screen: screen.split("\n")[1:4] == ["red", "99%", ""], "the log as it reads")
    with go.open("w") as pipe:
        pipe.write("more words\n")
    top.shows("more words")
    top.shows("the end")
    top.shows("log of job 1, completed")
    top.type("q")
    top.shows("1 completed")


def test_only_the_end_of_a_huge_log_is_read(lab, terminal):
    lab.add("--", "echo begin")
    lab.gpuq("run", "--min-free-mem-mb", "1")
    path = lab.job(1)["log_file"]
    with open(path, "ab") as log:
        log.truncate(8 << 30)  # sparse: 8 GiB of nothing
        log.seek(0, os.SEEK_END)
        log.write(b"\nthe very end\n")
    top = terminal()
    top.shows("1 completed")
    top.type("l")
    top.shows("the very end")
    top.shows("(only the end of a long log)")


def test_log_that_grows_while_it_is_read_does_not_hang_top(lab, terminal):
    """It grows faster than it can be read: holes cost a writer nothing."""
    lab.add("--", "echo begin")
    lab.gpuq("run", "--min-free-mem-mb", "1")
    library = pathlib.Path(os.environ["GD_BUILD"]) / "tests/cli/libgrowing_file.so"
    top = terminal(LD_PRELOAD=str(library), GROWING_FILE=lab.job(1)["log_file"], ASAN_OPTIONS="verify_asan_link_order=0")
    top.shows("1 completed")
    top.type("l")
    top.shows("log of job 1, completed")
    top.shows("(only the end of a long log)")
    top.type("q")
    top.shows("1 completed")


def test_a_job_without_a_log_is_reported(lab, terminal):
    lab.add("--", "true")
    top = terminal()
    top.shows("1 pending")
    top.type("l")
    top.shows("job 1 has no log yet")


def test_keys_open_help_why_order_and_states(lab, terminal):
    fill(lab)
    top = terminal()
    top.shows("3 of 3")
    top.type("?")
    top.shows("cancel (asks first)")
    top.type("q")
    top.until(lambda screen: "asks first" not in screen, "the list again")
    top.type("w")
    top.shows("any key: back")
    top.type("Escape")
    top.until(lambda screen: "any key" not in screen, "the list again")
    top.type("s")
    top.shows("Sort by")
    top.type("Down")
    top.type("Enter")
    top.shows("ID▴")
    top.type("F6")
    top.shows("Sort by")
    top.type("Escape")
    top.type("Tab")
    top.type("Tab")
    top.shows("pending 1–3 of 3")


@pytest.mark.parametrize("columns,rows", [(200, 60), (40, 10), (80, 24), (20, 4), (1, 1)])
def test_screen_fits_any_size_and_follows_resizing(lab, terminal, columns, rows):
    fill(lab)
    top = terminal()
    top.shows("3 of 3")
    top.tmux("resize-window", "-x", columns, "-y", rows)
    top.until(lambda screen: max(map(len, screen.split("\n"))) <= columns and screen.startswith(" gpuq top"[:columns].rstrip()), "the title")
    if rows >= 10:
        top.shows("pending")
    top.tmux("resize-window", "-x", 80, "-y", 24)
    top.shows("3 of 3")
    top.type("q")
    top.shows("ready$")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_give_the_terminal_back(lab, terminal, number):
    fill(lab)
    top = terminal()
    top.shows("3 of 3")
    [pid] = [pid for pid in lab.processes() if program(pid) == "gpuq-top"]
    os.kill(pid, number)
    top.until(lambda screen: "ready$" in screen.rstrip().rsplit("\n", 1)[-1], "the shell")
    top.enter("echo code $?; stty -a | tr ' ' '\\n' | grep -x echo")
    top.shows(f"code {128 + number}")
    top.until(lambda screen: "\necho\n" in screen, "the terminal echoes")
    assert top.tmux("display-message", "-p", "#{alternate_on}").strip() == "0"


def program(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def test_no_colors_where_none_are_wanted(lab, terminal):
    fill(lab)
    top = terminal()
    top.shows("3 of 3")
    assert "\x1b[33m" in top.screen("-e")  # held is yellow
    top.type("q")
    top.shows("ready$")
    top.enter(f"NO_COLOR=1 {GPUQ} top")
    top.shows("3 of 3")
    colors = [f"\x1b[{number}m" for number in range(30, 38)]
    assert not [color for color in colors if color in top.screen("-e")]


def test_without_a_terminal_it_says_so(lab):
    fill(lab)
    result = lab.result("top")
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr == "gpuq: 'gpuq top' needs a terminal; use 'gpuq status' instead\n"


@pytest.mark.parametrize("term,words", [("dumb", "TERM is 'dumb'"), ("no-such-terminal", "TERM='no-such-terminal'")])
def test_unsuitable_terminal_exits_2_with_the_reason(lab, terminal, term, words):
    fill(lab)
    top = terminal("--help")
    top.shows("ready$")
    top.tmux("resize-window", "-x", 200, "-y", 24)
    top.enter(f"clear; TERM={term} {GPUQ} top; echo code $?")
    screen = top.shows("code 2")
    assert words in screen


def test_problems_of_the_queue_are_reported_before_the_screen_is_taken(lab, terminal):
    top = terminal("--jobs-file", "nowhere.jsonl", columns=160)
    top.shows("nowhere.jsonl'")
    top.enter("echo code $?")
    top.shows("code 2")
    assert not (lab.directory / "nowhere.jsonl").exists()


def test_program_started_by_hand_names_the_command(lab):
    result = subprocess.run([os.path.join(os.path.dirname(GPUQ), "gpuq-top")], capture_output=True, text=True, timeout=60,
                            env=lab.environment, check=False)
    assert result.returncode == 2 and "run 'gpuq top'" in result.stderr
