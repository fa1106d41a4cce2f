# SPDX-License-Identifier: MIT
"""gpuq report: the page parses, is correct for a known journal, and escapes commands."""
import fcntl
import html.parser
import json
import os
import re
import stat
import subprocess
import sys
import termios
import xml.etree.ElementTree

import pytest

import sealing
from lab import GPUQ, LIMIT, Lab

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(html.parser.HTMLParser):
    """A strict parser: every tag must be closed in order. Keeps the text of tables and tiles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.wrong, self.tags = [], [], []
        self.tables, self.tiles, self.text = [], {}, ""
        self.words = ""
        self.feed(text)
        self.close()
        self.wrong += self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th", "dt", "dd", "h2"):
            self.words = ""

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")
        if tag in ("td", "th"):
            self.tables[-1][-1].append(self.words.strip())
        elif tag == "dt":
            self.name = self.words
        elif tag == "dd":
            self.tiles[self.name] = self.words

    def handle_data(self, data):
        self.words += data
        if "style" not in self.open:
            self.text += data

    def table(self, first):
        return next(table for table in self.tables if table[0][0] == first)


@pytest.fixture(name="lab")
def make_lab(tmp_path):
    lab = Lab(tmp_path)
    lab.environment["TZ"] = "UTC"
    yield lab
    lab.end()


def moment(seconds):
    return f"2025-11-15T10:{seconds // 60:02}:{seconds % 60:02}.000Z"


def write(lab, *events):
    lab.journal.write_bytes(sealing.sealed({**sealing.HEADER, "time": moment(0)}, *events))


def job(number, gpu, added, start, end, command="true", status="completed", **more):
    return [{"event": "add", "id": number, "time": moment(added), "command": command, "cwd": "/"},
            {"event": "start", "id": number, "attempt": 1, "time": moment(start), "gpus": [gpu], "pid": 1, "keeper": "k"},
            {"event": "end", "id": number, "attempt": 1, "time": moment(end), "status": status,
             "duration": end - start, **({"exit_code": 0} if status == "completed" else {}), **more}]


def report(lab, *words):
    text = lab.gpuq("report", "-o", "-", *words)
    page = Page(text)
    assert page.wrong == []
    return text, page


def pictures(text):
    """Every SVG of the page, parsed by a strict XML parser."""
    return [xml.etree.ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def test_the_numbers_are_those_of_the_journal(lab):
    write(lab, *job(1, 0, 0, 10, 70), *job(2, 1, 0, 10, 40, status="failed", exit_code=3, peak_mem_mb=2048),
          *job(3, 1, 0, 40, 100), {"event": "add", "id": 4, "time": moment(20), "command": "later", "cwd": "/"})
    text, page = report(lab)
    assert page.tiles["jobs"] == "4" and page.tiles["completed"] == "2" and page.tiles["failed"] == "1"
    assert page.tiles["pending"] == "1"
    assert page.tiles["start to end"] == "1m 30s"
    assert page.tiles["GPU time busy"] == "83.3%"
    assert page.tiles["median wait"] == "10s"
    gpus = page.table("GPU")
    assert gpus[1] == ["GPU 0", "66.7%", "1m 00s", "1", "0", "—", "—"]
    assert gpus[2] == ["GPU 1", "100.0%", "1m 30s", "2", "1", "—", "2.0 GiB"]
    longest = [table for table in page.tables if table[0][1] == "time"][0]
    assert [row[0] for row in longest[1:]] == ["1", "3", "2"]
    failed = [table for table in page.tables if table[0][1] == "reason"][0]
    assert failed[1:] == [["2", "exit 3", "30s", "1", "1", "true"]]
    waiting = page.table("waiting")
    assert waiting[1] == ["From submission to first start", "3", "1m 00s", "10s", "40s", "40s"]
    assert "There are no GPU samples" in page.text
    assert len(pictures(text)) == 4  # two GPUs, throughput, how many waited


def on(event, number, second, **more):
    return {"event": event, "id": number, "time": moment(second), **more}


def add(number, second, **more):
    return on("add", number, second, command="true", cwd="/", **more)


def run(number, attempt, start, end, status="completed"):
    return [on("start", number, start, attempt=attempt, gpus=[0], pid=1, keeper="k"),
            on("end", number, end, attempt=attempt, status=status, duration=end - start, exit_code=int(status == "failed"))]


def waits(page):
    """times, total and longest of each kind of waiting."""
    return {row[0]: (row[1], row[2], row[5]) for row in page.table("waiting")[1:]}


FIRST, NEXT = "From submission to first start", "Between attempts"
HELD, BEGIN = "Not waiting: held", "Not waiting: begin time not reached"


def test_held_time_is_not_waiting(lab):
    # Job 1 is held twice, for 30 s in total; job 2 was added as held. In addition, each waits for 5 s.
    write(lab, add(1, 0), on("hold", 1, 2), on("release", 1, 22), on("hold", 1, 23), on("release", 1, 33), *run(1, 1, 35, 50),
          add(2, 0, held=True), on("release", 2, 50), *run(2, 1, 55, 60))
    _, page = report(lab)
    assert waits(page) == {FIRST: ("2", "10s", "5.0s"), HELD: ("2", "1m 20s", "50s")}
    assert "GPUs were empty for 5.0s in total" in page.text


def test_time_until_somebody_asks_for_a_retry_is_not_waiting(lab):
    # Job 1 failed at 20 and was retried at 40. Job 2 was held at 2, cancelled at 5 and retried at 60.
    write(lab, add(1, 0), *run(1, 1, 10, 20, "failed"), on("retry", 1, 40), *run(1, 2, 43, 50),
          add(2, 0), on("hold", 2, 2), on("cancel", 2, 5), on("retry", 2, 60), *run(2, 1, 64, 70))
    _, page = report(lab)
    assert waits(page) == {FIRST: ("2", "16s", "10s"), NEXT: ("1", "3.0s", "3.0s"), HELD: ("1", "3.0s", "3.0s")}


def test_time_before_a_job_may_begin_is_not_waiting(lab):
    write(lab, add(1, 0, begin=moment(30)), *run(1, 1, 34, 40))
    _, page = report(lab)
    assert waits(page) == {FIRST: ("1", "4.0s", "4.0s"), BEGIN: ("1", "30s", "30s")}


def test_time_in_which_the_queue_was_paused_is_not_waiting(lab):
    pause = [{"event": "pause", "time": moment(second), "paused": paused} for second, paused in ((12, True), (14, True), (40, False), (70, True))]
    write(lab, add(1, 0), *run(1, 1, 10, 20), add(2, 5), *pause, *run(2, 1, 43, 60), add(3, 65))
    _, page = report(lab)
    # Job 1 waits from 0 to 10, job 2 from 5 to 12 and from 40 to 43, job 3 from 65 to 70, when the second pause begins.
    assert waits(page) == {FIRST: ("2", "20s", "10s"), "Pending until now": ("1", "5.0s", "5.0s")}
    assert "GPUs were empty for 3.0s in total" in page.text and "The queue was paused for 28s, which" in page.text


def test_parts_of_waiting_add_up_around_held_time(lab):
    # Job 2 comes after job 1 and is held from 5 to 25; job 1 ends at 20.
    write(lab, add(1, 0), *run(1, 1, 0, 20), add(2, 0, after=[1]), on("hold", 2, 5), on("release", 2, 25), *run(2, 1, 32, 40))
    _, page = report(lab)
    table = waits(page)
    assert table[FIRST][1:] == ("12s", "12s") and table[HELD][1] == "20s"
    assert table["for jobs it depends on"][1] == "5.0s" and table["for a free GPU and its turn"][1] == "7.0s"


def test_samples_are_drawn(lab):
    write(lab, *job(1, 0, 0, 0, 60))
    folder = lab.directory / "jobs.jsonl.d"
    folder.mkdir()
    start = 1763200800000  # 10:00:00
    (folder / "samples.jsonl").write_text("".join(
        json.dumps({"time": start + n * 5000, "gpus": [{"gpu": 0, "mem_used_mb": 1024, "mem_total_mb": 4096, "util": 60}]}) + "\n"
        for n in range(12)))
    text, page = report(lab)
    assert "There are no GPU samples" not in page.text
    assert page.table("GPU")[1][5:] == ["60%", "1.0 GiB of 4.0 GiB"]
    assert "utilization 60% on average" in text
    pictures(text)


HOSTILE = ["</title></svg><script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "&amp;&lt;'", "\x1b[31m\u202e\x00\x7f",
           "größe 日本 🦜", "]]>", "<!--"]


def test_hostile_commands_stay_text(lab):
    events = []
    for number, command in enumerate(HOSTILE, 1):
        events += job(number, 0, 0, number * 10, number * 10 + 5, command=command, status="failed", reason=command)
        events[-3]["name"] = command
    write(lab, *events)
    text, page = report(lab)
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "link"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert "\x1b" not in text and "\u202e" not in text
    for command in HOSTILE[:3]:
        assert command in page.text
    pictures(text)


def test_nothing_is_loaded_and_nothing_is_executed(lab):
    write(lab, *job(1, 0, 0, 0, 60))
    text, page = report(lab)
    addresses = re.findall(r"https?://[^\s\"<]+", text)
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img"}
    assert "@media print" in text and "prefers-color-scheme:dark" in text


def test_pictures_have_a_role_and_a_title(lab):
    write(lab, *job(1, 0, 0, 0, 60), *job(2, 1, 0, 0, 60))
    for picture in pictures(report(lab)[0]):
        assert picture.get("role") == "img"
        assert picture.find("{http://www.w3.org/2000/svg}title").text


def test_the_file_with_the_default_name_is_replaced_as_a_whole(lab):
    write(lab, *job(1, 0, 0, 0, 60))
    old = os.umask(0o022)
    try:
        (lab.directory / "report.html").write_text("old")
        assert lab.gpuq("report") == "report.html\n"
    finally:
        os.umask(old)
    path = lab.directory / "report.html"
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    # If it cannot be written, the existing report is kept, and nothing else is left behind.
    result = lab.result("report", "-o", "missing/report.html")
    assert (result.returncode, result.stderr) == (
        2, "gpuq: cannot write report 'missing/report.html': No such file or directory\n")
    assert lab.result("report", "-o", ".").returncode == 2
    assert sorted(entry.name for entry in lab.directory.iterdir() if "report" in entry.name) == ["report.html"]


def test_a_new_report_is_private(lab):
    write(lab, *job(1, 0, 0, 0, 60))
    lab.journal.chmod(0o644)
    path = lab.directory / "page.html"
    old = os.umask(0o022)
    try:
        lab.gpuq("report", "-o", path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o640)  # the user publishes it
        lab.gpuq("report", "-o", path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    finally:
        os.umask(old)


def test_report_does_not_replace_what_it_describes(lab):
    lab.gpuq("add", "--no-start", "true")
    before = lab.journal.read_bytes()
    result = lab.result("report", "-o", lab.journal)
    assert result.returncode == 2 and "it is the file that the report describes" in result.stderr, result
    assert lab.journal.read_bytes() == before


def test_link_with_the_default_name_is_refused(lab):
    """Git and tar create links of the user that somebody else has chosen."""
    lab.add("true")
    (lab.directory / "precious").write_text("kept")
    (lab.directory / "report.html").symlink_to("precious")
    result = lab.result("report")
    assert result.returncode != 0 and "is a symbolic link" in result.stderr and "--output" in result.stderr
    assert (lab.directory / "precious").read_text() == "kept"


def test_a_symbolic_link_and_a_pipe_are_written_through(lab):
    write(lab, *job(1, 0, 0, 0, 60))
    (lab.directory / "real.html").write_text("old")
    (lab.directory / "link.html").symlink_to("real.html")
    lab.gpuq("report", "-o", "link.html")
    assert (lab.directory / "link.html").is_symlink()
    assert (lab.directory / "real.html").read_text().endswith("</html>\n")
    assert "</html>" in lab.gpuq("report", "-o", "/dev/stdout")


def test_file_that_is_standard_output_is_not_replaced(lab):
    """Otherwise, the other output of a script would be lost: { date; gpuq report -o /dev/stdout; date; } > FILE"""
    write(lab, *job(1, 0, 0, 0, 60))
    page = lab.directory / "all.html"
    with open(page, "wb") as file:
        for _ in range(2):
            subprocess.run([GPUQ, "report", "--output", "/dev/stdout"], cwd=lab.directory, env=lab.environment, stdout=file, timeout=LIMIT, check=True)
    assert page.read_text().count("</html>") == 2


@pytest.mark.parametrize("name", ["-", "/dev/fd"])
def test_pipe_that_another_process_made_non_blocking_gets_the_whole_page(lab, name):
    write(lab, *job(1, 0, 0, 0, 60))
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(into, False)
    to, stdout = ("-", into) if name == "-" else (f"{name}/{into}", subprocess.DEVNULL)
    with subprocess.Popen([GPUQ, "report", "-o", to], cwd=lab.directory, env=lab.environment, stdout=stdout, pass_fds=[into]) as process:
        os.close(into)
        lab.until(lambda: fcntl.ioctl(out, termios.FIONREAD, bytes(4)) == (4096).to_bytes(4, sys.byteorder), "a full pipe")
        with open(out, encoding="utf-8") as pipe:
            page = pipe.read()
    assert process.returncode == 0 and page.endswith("</html>\n")


def test_since_selects_jobs_and_bad_arguments_exit_2(lab):
    write(lab, *job(1, 0, 0, 0, 60))
    assert report(lab, "--since", "1h")[1].tiles["jobs"] == "0"
    assert report(lab, "--since", "999w")[1].tiles["job"] == "1"
    assert lab.result("report", "--since", "soon").returncode == 2
    missing = lab.result("report", "--jobs-file", "nowhere.jsonl")
    assert missing.returncode == 2 and "nowhere.jsonl" in missing.stderr
    assert not (lab.directory / "report.html").exists()


def test_bad_lines_are_reported_and_skipped(lab):
    write(lab, *job(1, 0, 0, 0, 60))
    with lab.journal.open("a") as journal:
        journal.write("no json\n")
    result = lab.result("report", "-o", "-")
    assert result.returncode == 0 and "1 bad line skipped, the first is line 5" in result.stderr


def test_report_of_a_real_run_counts_its_jobs(lab):
    lab.commands("true", "exit 3", "true")
    lab.gpuq("run", "--commands-file", "commands.txt", code=1)
    page = report(lab)[1]
    assert page.tiles["completed"] == "2" and page.tiles["failed"] == "1"
    assert "exit 3" in page.text


# ---- gpuq launch ---------------------------------------------------------------------------


def ledger(lab, *lines):
    folder = lab.directory / "out"
    folder.mkdir()
    (folder / "launch.jsonl").write_text("".join(json.dumps(line) + "\n" if isinstance(line, dict) else line for line in lines))
    return folder


def ended(file, gpu, end, processing, event="done", audio=None, **more):
    return {"event": event, "file": file, "size": 1, "mtime": 2, "output": file, "fingerprint": "0" * 32, "gpu": gpu, "attempt": 1,
            **({} if audio is None else {"audio_seconds": audio}), "processing_seconds": processing, "time": moment(end), **more}


def test_report_of_a_launch_has_files_failures_and_bad_lines(lab):
    ledger(lab, {"event": "run", "version": 1, "time": moment(0), "input": "/in", "worker": "whisper"},
           ended("a.wav", 0, 10, 10, audio=100), ended("b/<b>.wav", 1, 5, 5, event="failed", error="no audio & <script>"),
           {"event": "run", "version": 1, "time": moment(100), "input": "/in", "worker": "whisper"},
           ended("b/<b>.wav", 1, 130, 30, audio=100), ended("bad.wav", 0, 101, 1, event="failed", error="torn"),
           "no json\n", '{"event":"done","file":"unfinished')
    result = lab.result("report", "--launch", "out", "-o", "-")
    assert result.returncode == 0 and result.stderr == "gpuq: 'out/launch.jsonl': 1 bad line skipped\n"
    page = Page(result.stdout)
    assert page.wrong == []
    tiles = page.tiles
    assert (tiles["files"], tiles["done"], tiles["failed"]) == ("3", "2", "1")
    assert tiles["of audio"] == "3m 20s" and tiles["of processing"] == "40s"
    assert tiles["RTF"] == "0.200"
    assert tiles["wall clock"] == "40s" and tiles["speedup"] == "1.00 ×"
    assert tiles["skew"] == "50.0%"
    balance = page.table("GPU")
    assert balance[1] == ["GPU 0", "25.0%", "1", "1", "10s", "1m 40s", "0.100"]
    assert balance[2] == ["GPU 1", "75.0%", "1", "0", "30s", "1m 40s", "0.300"]  # the failure was retried with success
    slowest = page.table("processing")
    assert slowest[1] == ["30s", "1m 40s", "0.300", "done", "1", "b/<b>.wav"]
    assert page.table("reason")[1:] == [["torn", "1", "bad.wav"]]
    assert "<script" not in result.stdout
    assert len(pictures(result.stdout)) == 3


def test_report_of_a_launch_on_a_cluster_has_a_row_for_each_gpu_of_each_node(lab):
    ledger(lab, {"event": "run", "version": 1, "time": moment(0), "input": "/in", "worker": "w"},
           ended("a.wav", 0, 10, 10, node="n10"), ended("b.wav", 0, 20, 20, node="n2"), ended("c.wav", 1, 5, 5, node="n2"),
           ended("d.wav", 0, 5, 5), ended("e.wav", 0, 1, 1, node="<b>"))
    page = Page(lab.gpuq("report", "--launch", "out", "-o", "-"))
    assert page.wrong == []
    assert [(row[0], row[2]) for row in page.table("GPU")[1:]] == [("GPU 0", "2"), ("n2:0", "1"), ("n2:1", "1"), ("n10:0", "1")]
    assert page.table("processing")[1] == ["20s", "done", "n2:0", "b.wav"]


def test_a_folder_without_a_launch_is_reported(lab):
    result = lab.result("report", "--launch", "nowhere")
    assert result.returncode == 2
    assert "nowhere/launch.jsonl': no such file; give the output folder of a gpuq launch" in result.stderr


def test_report_of_an_empty_launch_and_of_names_that_are_not_utf8_works(lab):
    folder = ledger(lab)
    assert Page(lab.gpuq("report", "--launch", "out", "-o", "-")).tiles["files"] == "0"
    with (folder / "launch.jsonl").open("a") as file:
        file.write(json.dumps(ended("?", 0, 5, 1, file_b64="/w==")) + "\n")
    assert "\\xff" in Page(lab.gpuq("report", "--launch", "out", "-o", "-")).table("processing")[1]


@pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(GPUQ), "gpuq-launch")), reason="gpuq launch was not built")
def test_report_of_a_real_launch_counts_its_files(lab):
    files = lab.directory / "in"
    files.mkdir()
    for name in ("a.txt", "b.txt", "bad.txt"):
        (files / name).write_text(name)
    lab.gpuq("launch", "--input-dir", "in", "--pattern", "*.txt", "--output-dir", "out", "--", "grep", "-v", "bad", "{file}", code=1)
    page = Page(lab.gpuq("report", "--launch", "out", "-o", "-"))
    assert page.wrong == []
    assert (page.tiles["files"], page.tiles["done"], page.tiles["failed"]) == ("3", "2", "1")
    balance = page.table("GPU")
    assert balance[0] == ["GPU", "share of the work", "done", "failed", "processing"]  # without audio: nothing is known
    assert (sum(int(row[2]) for row in balance[1:]), sum(int(row[3]) for row in balance[1:])) == (2, 1)
    assert page.table("processing")[0] == ["processing", "state", "GPU", "file"]
    [failed] = page.table("reason")[1:]
    assert failed[0].startswith("exit 1") and failed[2] == "bad.txt"
