# SPDX-License-Identifier: MIT
"""Other users choose the input files of a launch: they write or rename its input folder. Results must not disclose private files."""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import stat
import struct
import time

import pytest

from users import BUILD, GROUP, LIMIT, STICKY, until, get_other, get_owner, make_machine, needs_users  # noqa: F401
from watch_lab import COPY, Watch

pytestmark = needs_users

WARNING = "and others can read the results in output folder"
CREATED = "with mode 0700, because other users can change the content of input folder"


@pytest.fixture(name="place")
def make_place(machine, owner):
    """A directory of the owner for results, which the other user can enter."""
    path = machine.project(owner)
    path.chmod(0o755)
    return path


def launch(user, place, folder, *words, umask=0o022):
    result = user.run("gpuq", "launch", "--input-dir", folder, "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", "--recursive", *words,
                      *COPY, cwd=place, umask=umask)
    assert result.returncode == 0, result
    return result


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode) & 0o777


def can_read(user, path):
    return user.run("cat", path, cwd="/").returncode == 0


# ---- Results are private ------------------------------------------------------------------


def test_result_of_a_private_file_that_another_user_renames_into_the_input_folder_is_private(machine, owner, other, place):
    shared = machine.directory(GROUP)
    owner.sh("mkdir -m 2775 in; echo own > private; chmod 600 private", shared)
    other.sh("mv private in/", shared)
    result = launch(owner, place, shared / "in")
    assert (place / "out/private/r").read_text() == "own\n", "a private file of the user is no reason to skip it"
    assert result.stderr.count(CREATED) == 1 and WARNING not in result.stderr, result
    assert mode_of(place / "out") == 0o700
    assert not can_read(other, place / "out/private/r") and not can_read(other, place / "out/launch.jsonl")


def test_user_who_trusts_the_others_gets_a_readable_output_folder(machine, owner, place):
    shared = machine.directory(GROUP)
    owner.sh("mkdir -m 2775 in; echo 1 > in/a", shared)
    result = owner.run("env", "GPUQ_TRUST=1", "gpuq", "launch", "--input-dir", shared / "in", "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", *COPY, cwd=place)
    assert result.returncode == 0 and mode_of(place / "out") == 0o755 and CREATED not in result.stderr, result


# Scripts of the owner and the other user that make `in`: in the group's directory, a sticky one, or the owner's directory {home}.
OPEN_INPUTS = {
    "folder": (GROUP, "mkdir in; chmod 2775 in; echo 1 > in/a", ""),
    "folder below": (STICKY, "mkdir -p in/sub; chgrp {group} in/sub; chmod 775 in/sub; echo 1 > in/sub/a", ""),
    "for everybody": (STICKY, "mkdir in; chmod 1777 in; echo 1 > in/a", ""),
    "can be renamed": (GROUP, "mkdir -m 755 in; echo 1 > in/a", ""),
    "of the other user": (STICKY, "", "mkdir in; echo 1 > in/a"),
    "link to a file": (GROUP, "echo 1 > a; rm -rf {home}/links; mkdir {home}/links; ln -s {shared}/a {home}/links/a; ln -s {home}/links in", ""),
    "link to a file of the other user": (STICKY, "mkdir in; ln -s {shared}/theirs in/a", "echo 1 > theirs"),
    "link to a folder": (GROUP, "mkdir -m 755 sub; echo 1 > sub/a; rm -rf {home}/links; mkdir {home}/links; ln -s {shared}/sub {home}/links/sub", ""),
    "named by a link of the other user": (STICKY, "mkdir mine; echo 1 > mine/a", "ln -s mine in"),
    "named by a link that can be replaced": (GROUP, "rm -rf {home}/mine; mkdir {home}/mine; echo 1 > {home}/mine/a; ln -s {home}/mine in", ""),
}


@pytest.mark.parametrize("kind", OPEN_INPUTS)
def test_output_folder_is_private_if_another_user_can_choose_files(machine, owner, other, place, kind):
    mode, ours, theirs = OPEN_INPUTS[kind]
    shared = machine.directory(mode)
    names = {"group": machine.group, "home": owner.home, "shared": shared}
    other.sh(theirs.format(**names) or ":", shared)
    owner.sh(ours.format(**names) or ":", shared)
    folder = owner.home / "links" if kind == "link to a folder" else shared / "in"
    result = launch(owner, place, folder)
    assert mode_of(place / "out") == 0o700 and CREATED in result.stderr, result
    assert list((place / "out").rglob("r")), result


SAFE_INPUTS = {
    "private folder": "mkdir in; echo 1 > in/a",
    "private group": "umask 002; mkdir -p in/sub; echo 1 > in/sub/a",
    "own links": "umask 002; mkdir in real; echo 1 > real/a; ln -s ../real/a in/a; ln -s {shared}/real in/sub; ln -s /etc/hostname in/root",
    "own link": "mkdir real; echo 1 > real/a; ln -s real in",
}


@pytest.mark.parametrize("kind", SAFE_INPUTS)
def test_output_folder_is_as_usual_if_no_other_user_can_choose_files(machine, owner, place, kind):
    shared = machine.project(owner) if kind == "own link" else machine.directory(STICKY)
    owner.sh(SAFE_INPUTS[kind].format(shared=shared), shared)
    for _ in range(2):
        result = launch(owner, place, shared / "in", "--force", umask=0o002)
        assert mode_of(place / "out") == 0o755 and "warning" not in result.stderr, result


def test_readable_output_folder_stays_with_one_warning(machine, owner, other, place):
    shared = machine.directory(GROUP)
    other.sh("for i in 1 2 3; do echo $i > file$i; done", shared)
    owner.sh("mkdir -m 755 out", place)
    for words in ((), ("--force",)):
        result = launch(owner, place, shared, *words)
        assert result.stderr.count(WARNING) == 1 and "chmod 700 'out'" in result.stderr and CREATED not in result.stderr, result
        assert mode_of(place / "out") == 0o755
    owner.sh("chmod 700 out", place)
    assert WARNING not in launch(owner, place, shared, "--force").stderr


@pytest.mark.parametrize("closed", ["chmod 700 out", "chmod 700 ."])
def test_output_folder_that_others_cannot_enter_causes_no_warning(machine, owner, other, place, closed):
    shared = machine.directory(GROUP)
    other.sh("echo 1 > a", shared)
    owner.sh(f"mkdir -m 755 out; {closed}", place)
    assert "warning" not in launch(owner, place, shared).stderr


@pytest.mark.parametrize(("mode", "group", "warned"), [("750", "shared", True), ("750", "private", False), ("711", "private", True), ("744", "private", True)])
def test_group_of_the_output_folder_decides_about_the_warning(machine, owner, other, place, mode, group, warned):
    shared = machine.directory(GROUP)
    other.sh("echo 1 > a", shared)
    owner.sh(f"mkdir out; chgrp {machine.group if group == 'shared' else owner.gid} out; chmod {mode} out", place)
    assert (WARNING in launch(owner, place, shared).stderr) == warned


def test_accepted_output_folder_is_private_as_well(machine, owner, other):
    shared = machine.directory(GROUP)
    other.sh("mkdir in; echo 1 > in/a", shared)
    result = launch(owner, shared, shared / "in", "--trust")
    assert mode_of(shared / "out") == 0o700 and CREATED in result.stderr, result


# Exchanges two entries when the other process says so, see exchanged_link.c.
EXCHANGE = """
import ctypes, os, sys
print("ready", flush=True)
gate, *names = sys.argv[1:]
open(gate).close()
assert ctypes.CDLL(None).renameat2(-100, os.fsencode(names[0]), -100, os.fsencode(names[1]), 2) == 0
open(gate + ".done", "w").close()
"""


def test_link_that_another_user_exchanges_after_it_was_read_counts(machine, owner, other, place):
    """It leads to a private folder. When it was followed, it becomes a folder of the other user."""
    shared = machine.directory(STICKY)
    library, gate = machine.place / "bin/exchanged_link.so", owner.home / "gate"
    shutil.copy(BUILD / "tests/cli/libexchanged_link.so", library)
    owner.sh("rm -rf private; mkdir -m 700 private; echo secret > private/a; rm -f gate*; mkfifo -m 666 gate gate.done; chmod 755 .", owner.home)
    other.sh(f"ln -s {owner.home}/private in; mkdir folder", shared)
    assert other.attack(EXCHANGE, gate, shared / "in", shared / "folder") == "ready"
    result = owner.run("gpuq", "launch", "--input-dir", shared / "in", "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", *COPY, cwd=place,
                       env={"LD_PRELOAD": str(library), "EXCHANGED_LINK": str(shared / "in"), "EXCHANGED_LINK_GATE": str(gate)})
    assert result.returncode == 0 and (place / "out/a/r").read_text() == "secret\n", result
    assert (shared / "folder").is_symlink(), "it was exchanged"
    assert mode_of(place / "out") == 0o700 and CREATED in result.stderr, result
    assert not can_read(other, place / "out/a/r")


@pytest.mark.parametrize("folder", [".", "{path}"])
def test_owner_of_the_input_folder_can_choose_its_name(machine, owner, other, place, folder):
    shared = machine.directory(STICKY)
    other.sh("mkdir a@b; echo 1 > a@b/a", shared)
    result = owner.run("gpuq", "launch", "--input-dir", folder.format(path=shared / "a@b"), "--output-dir", place / "out", "--pattern", "*", "--gpus", "sim:1",
                       "--", "true", "{dir}", cwd=shared / "a@b")
    assert result.returncode == 1 and "other users can choose names in this path" in result.stdout + result.stderr, result


# ---- Watched folders ----------------------------------------------------------------------


# Keeps many files from being complete, with events of one of them.
KEEP_WRITING = """
import os, sys
for number in range(6000):
    open(f"in/f{number}", "w").close()
print("written", flush=True)
while True:
    for number in range(6000):
        os.utime(f"in/f{number}")
        if number % 100 == 0:
            open("in/events", "w").close()
"""


def opened(folder, count):
    """Yields the times at which files named f… in the folder are opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(libc.inotify_init(), "rb", buffering=0) as events:
        assert libc.inotify_add_watch(events.fileno(), os.fsencode(folder), 0x20) > 0  # IN_OPEN
        while count > 0:
            data, now = events.read(65536), time.monotonic()
            while data:
                size, = struct.unpack_from("I", data, 12)
                if data[16:17] == b"f" and count > 0:
                    count -= 1
                    yield now
                data = data[16 + size:]


def test_few_incomplete_files_of_others_are_checked_at_a_time(machine, owner, other, place):
    """A thousand every half second, whatever the other user does. A file of this user does not wait for them."""
    shared = machine.directory(GROUP)
    owner.sh("mkdir -m 2775 in", shared)
    assert other.attack(f"import os; os.chdir({str(shared)!r})" + KEEP_WRITING) == "written"
    watch = Watch(owner, place, shared / "in")
    watch.until(lambda: (place / "out/launch.jsonl").exists(), "the run")
    for _ in opened(shared / "in", 6000):  # each file was checked once
        pass
    times = list(opened(shared / "in", 6000))
    assert times[-1] - times[0] > 2, "less than the time of six checks"
    owner.sh("echo 1 > in/own", shared)
    watch.until_done("own")
    watch.end(codes=(0, 130))  # 130 if some of the files were about to be checked


def test_file_at_the_old_path_of_a_watched_folder_is_not_processed(machine, owner, other, place):
    """The user renames the folder and uses it at its new place; another user takes the old path, below a sticky directory."""
    shared = machine.directory(STICKY)
    owner.sh("mkdir in; echo 1 > in/first", shared)
    watch = Watch(owner, place, shared / "in")
    watch.until_done("first")
    owner.sh("mv in moved", shared)
    other.sh("mkdir -m 711 in; echo forged > in/second", shared)
    owner.sh("echo mine > moved/second", shared)
    watch.until(lambda: "looking for it again" in watch.errors(), "the message")
    watch.end()
    assert not (place / "out/second").exists()


@pytest.mark.parametrize("below", ["", "/deep"])
def test_watched_folder_is_not_replaced_by_a_folder_that_not_everybody_can_read(machine, owner, other, place, below):
    """A third user's folder, which the victim may read: the other user can rename it, or the one above it, but not enter it."""
    shared = machine.directory(GROUP)
    owner.sh(f"mkdir -p in{below}; chmod 2775 in; echo 1 > in{below}/first", shared)
    (shared / f"secret{below}").mkdir(parents=True)
    (shared / f"secret{below}/second").write_text("confidential\n")
    os.chown(shared / "secret", 0, owner.gid)
    (shared / "secret").chmod(0o750)
    watch = Watch(owner, place, shared / f"in{below}")
    watch.until_done("first")
    assert not can_read(other, shared / f"secret{below}/second")
    other.sh("mv in old; mv secret in", shared)
    if below:
        other.sh("mv old/deep old/away", shared)  # the kernel reports that, but not that its parent was renamed
    watch.until(lambda: "was replaced, possibly by another user, so it is not searched" in watch.errors(), "the refusal")
    # The launch continues with a folder that everybody can read.
    other.sh(f"mkdir -p next{below}; echo 3 > next{below}/third; mv in away; mv next in", shared)
    watch.until_done("third")
    watch.end()
    assert not (place / "out/second").exists()


def test_watched_folder_that_becomes_open_to_others_makes_results_private(machine, owner, other, place):
    shared = machine.directory(STICKY)
    owner.sh(f"mkdir in; chgrp {machine.group} in; echo 1 > in/first", shared)
    watch = Watch(owner, place, shared / "in")
    watch.until_done("first")
    assert mode_of(place / "out") == 0o755
    other.sh("echo 1 > theirs", shared)
    owner.sh(f"ln -s {shared}/theirs in/second; ln -s {shared}/theirs in/third", shared)
    watch.until_done("second")
    watch.until_done("third")
    watch.end()
    assert watch.errors().count("changed the mode of output folder 'out' to 0700") == 1 and WARNING not in watch.errors(), watch.errors()
    assert mode_of(place / "out") == 0o700


def test_folder_above_that_becomes_open_to_others_makes_results_private(machine, owner, other, place):
    shared = machine.directory(STICKY)
    owner.sh(f"mkdir -p top/in; chgrp {machine.group} top; echo 1 > top/in/first", shared)
    watch = Watch(owner, place, shared / "top/in")
    watch.until_done("first")
    assert mode_of(place / "out") == 0o755
    owner.sh("chmod 2775 top", shared)
    names = (f"more{n}" for n in range(10_000))

    def is_private_after_one_more():
        owner.sh(f"echo 1 > {next(names)}", shared / "top/in")
        return mode_of(place / "out") == 0o700
    watch.until(is_private_after_one_more, "the private folder")
    watch.end()


def test_folder_above_the_output_folder_that_becomes_open_to_others_stops_results(machine, owner, other, place):
    """Others could replace the output folder, whose path the workers use."""
    shared = machine.directory(STICKY)
    owner.sh("mkdir in; echo 1 > in/first", shared)
    watch = Watch(owner, place, shared / "in")
    watch.until_done("first")
    owner.sh(f"chgrp {machine.group} .; chmod 2775 .", place)
    names = (f"more{n}" for n in range(10_000))

    def is_refused_after_one_more():
        owner.sh(f"echo 1 > {next(names)}", shared / "in")
        return "one of its parent folders can be written by other users now" in (place / "out/launch.jsonl").read_text()
    watch.until(is_refused_after_one_more, "the refusal")
    owner.sh("chmod 755 .", place)
    watch.process.send_signal(signal.SIGINT)
    watch.process.communicate(timeout=LIMIT)


def test_watched_folder_that_becomes_open_to_others_is_warned_about_once(machine, owner, other, place):
    shared = machine.directory(STICKY)
    owner.sh(f"mkdir in; chgrp {machine.group} in; echo 1 > in/first", shared)
    (place / "out").mkdir(mode=0o755)
    os.chown(place / "out", owner.uid, owner.gid)
    watch = Watch(owner, place, shared / "in")
    watch.until_done("first")
    other.sh("echo 1 > theirs", shared)
    owner.sh(f"ln -s {shared}/theirs in/second; ln -s {shared}/theirs in/third", shared)
    watch.until_done("second")
    watch.until_done("third")
    watch.end()
    assert watch.errors().count(WARNING) == 1, watch.errors()
    assert mode_of(place / "out") == 0o755, "an existing folder keeps its permissions"


def test_input_folder_that_is_opened_to_a_group_later_makes_results_private(machine, owner, place):
    shared = machine.directory(STICKY)
    owner.sh(f"mkdir in; chgrp {machine.group} in; echo 1 > in/first", shared)
    watch = Watch(owner, place, shared / "in")
    watch.until_done("first")
    owner.sh("chmod 2775 in; echo 1 > in/second", shared)
    watch.until_done("second")
    watch.end()
    assert "changed the mode of output folder 'out' to 0700" in watch.errors() and mode_of(place / "out") == 0o700, watch.errors()


# Opens the results of a launch while they are public, and reads them again when the file `look` exists.
SPY = """
import os, sys, time
out, shared = sys.argv[1:]
os.chdir(out + "/first")
result, record = open("r"), open("../launch.jsonl")
print("opened", flush=True)
while not os.path.exists(shared + "/look"): time.sleep(0.01)
found = [result.read(), record.read()]
for name in os.listdir("/proc/self/cwd") if os.access(".", os.R_OK) else ["r"]:
    try: found.append(open(name).read())
    except OSError as error: found.append(str(error))
open(shared + "/found.new", "w").write("\\n".join(found))
os.rename(shared + "/found.new", shared + "/found")
"""


def test_user_who_opened_public_results_reads_no_private_ones(machine, owner, other, place):
    """The output folder becomes private during the launch; another user has a result, its folder and the record open."""
    shared = machine.directory(STICKY)
    owner.sh(f"mkdir in; chgrp {machine.group} in; echo public > in/first; echo this is SECRET > in/private.tmp; chmod 600 in/private.tmp", shared)
    watch = Watch(owner, place, shared / "in", pattern="[!p]*")
    watch.until_done("first")
    watch.until(lambda: '"done"' in (place / "out/launch.jsonl").read_text(), "the record")
    assert other.attack(SPY, place / "out", shared) == "opened"
    owner.sh("chmod 2775 in", shared)
    other.sh("mv -f in/private.tmp in/first; echo 1 > in/second", shared)
    watch.until(lambda: any(path.read_text() == "this is SECRET\n" for path in (place / "out").glob("*/r")), "the result of the private file")
    watch.until(lambda: (place / "out/launch.jsonl").read_text().count('"done"') == 3, "the record")
    other.sh("touch look", shared)
    watch.until((shared / "found").exists, "the other user")
    found = (shared / "found").read_text()
    assert "public" in found and "SECRET" not in found and '"second"' not in found, found
    assert found.count('"done"') == 1 and "Permission denied" in found, found
    assert "changed the mode of output folder 'out'" in watch.errors(), watch.errors()
    assert (place / "out/first/r").read_text() == "public\n" and mode_of(place / "out/first") == 0o700
    assert mode_of(place / "out/launch.jsonl") == 0o600
    # The same file again: its new folder is private, and is used again.
    owner.sh("echo third > in/first", shared)
    watch.until(lambda: [path.read_text() for path in (place / "out").glob("first*/r")].count("third\n") == 1, "the changed file")
    watch.end()
    assert sorted(path.name for path in (place / "out").glob("first*")) == ["first", "first+2"]
    # The next launch continues with the new record.
    result = launch(owner, place, shared / "in")
    assert "2 files are already done" in result.stdout, result


def test_results_below_folders_that_were_public_become_private(machine, owner, other, place):
    shared = machine.directory(STICKY)
    owner.sh(f"mkdir -p in/sub; chgrp {machine.group} in/sub; echo 1 > in/sub/first", shared)
    watch = Watch(owner, place, shared / "in", "--recursive")
    watch.until_done("sub/first")
    assert mode_of(place / "out/sub") == 0o755
    owner.sh("chmod 2775 in/sub; echo 1 > in/sub/second", shared)
    watch.until_done("sub/second")
    watch.end()
    for name in ("", "sub", "sub/first", "sub/second"):
        assert mode_of(place / "out" / name) == 0o700, name


def test_folder_of_another_user_that_cannot_be_read_yet_makes_results_private(machine, owner, other, place):
    shared = machine.directory(STICKY)
    owner.sh("mkdir in; echo 1 > in/first; chmod 1777 in", shared)
    other.sh("mkdir -m 700 in/theirs", shared)
    owner.sh("chmod 755 in", shared)
    result = launch(owner, place, shared / "in")
    assert "folder 'theirs' is skipped: Permission denied" in result.stderr
    assert mode_of(place / "out") == 0o700 and CREATED in result.stderr, result


# ---- Costs --------------------------------------------------------------------------------

# Links that lead back and forth: thousands of components each.
MAZE = ("import os, sys; os.chdir(sys.argv[1]); os.mkdir('d'); open('f', 'w').close(); way = 'd/../' * 800; os.symlink(way + 'f', 'l2'); "
        "[os.symlink(way + 'l2', f's{n:05}') for n in range(3000)]; print('made')")


def test_links_with_long_targets_take_little_time_and_few_warnings(machine, owner, other, place):
    shared = machine.directory(GROUP)
    assert other.attack(MAZE, shared) == "made"
    result = owner.run("prlimit", "--cpu=4", "gpuq", "launch", "--dry-run", "--input-dir", shared, "--output-dir", "out", "--pattern", "s*", "--gpus", "sim:1", "--",
                       "true", cwd=place)
    assert result.returncode == 0, (result.returncode, result.stderr[-500:])
    assert result.stderr.count(" is skipped: Too many levels of symbolic links") == 1000
    assert result.stderr.count("warning: 2000 more files or folders skipped without a warning") == 1, result.stderr[-500:]


MAKE_LONG_LINKS = ("import os, sys; os.chdir(sys.argv[1]); os.mkdir('d'); open('f', 'w').close(); "
                   "[os.symlink('d/../' * 15 + 'f', f's{n:05}') for n in range(11000)]; print('made')")


@pytest.mark.parametrize("trust", [False, True])
def test_links_of_another_user_with_long_targets_are_limited(machine, owner, other, place, trust):
    shared = machine.directory(GROUP)
    assert other.attack(MAKE_LONG_LINKS, shared) == "made"
    owner.sh("echo own > t", shared)
    result = owner.run("gpuq", "launch", "--dry-run", "--input-dir", shared, "--output-dir", "out", "--pattern", "s*", "--pattern", "t", "--gpus", "sim:1",
                       *["--trust"] * trust, "--", "true", cwd=place)
    assert result.returncode == 0, (result.returncode, result.stderr[-500:])
    found = 11000 if trust else 200000 // (31 - 12)
    assert f"{found + 1} files to do" in result.stdout, result.stdout
    words = "symbolic links of other users skipped: following so many links with long targets would take too long; use --trust to include them"
    assert trust or f"{11000 - found} {words}\n" in result.stderr, result.stderr[-500:]
    assert not trust or words not in result.stderr


MAKE_SPARSE = """
import os, sys
os.chdir(sys.argv[1])
file = os.open("s", os.O_CREAT | os.O_RDWR, 0o644)
for number in range(1000):
    os.pwrite(file, b"x", number * 80000)
os.fsync(file)
for number in range(5000):
    os.link("s", f"s{number}")
    os.symlink("s", f"t{number}")
print("made")
"""


def test_holes_of_a_file_with_many_names_are_counted_once(machine, owner, other, place):
    shared = machine.directory(GROUP)
    assert other.attack(MAKE_SPARSE, shared) == "made"
    owner.sh("echo own > u", shared)
    result = owner.run("prlimit", "--cpu=4", "gpuq", "launch", "--dry-run", "--input-dir", shared, "--output-dir", "out", "--pattern", "[stu]*", "--gpus", "sim:1", "--",
                       "true", cwd=place)
    assert result.returncode == 0, (result.returncode, result.stderr[-500:])
    assert result.stdout.startswith(("1 file to do", "10002 files to do")), result.stdout  # depends on the file system


def test_link_of_another_user_with_many_components_is_still_followed(machine, owner, other, place):
    shared = machine.directory(GROUP)
    deep = "/".join(f"d{n}" for n in range(20))
    other.sh(f"mkdir -p {deep}; echo deep > {deep}/f; ln -s {deep}/f a; ln -s ../{shared.name}/a b", shared)
    result = owner.gpuq("launch", "--input-dir", shared, "--output-dir", "out", "--pattern", "?", "--gpus", "sim:1", *COPY, cwd=place)
    assert result.returncode == 0, result
    assert (place / "out/b/r").read_text() == "deep\n"


# ---- Names of result folders ----------------------------------------------------------------


def texts(place):
    return {str(path.parent.relative_to(place / "out")): path.read_text().strip() for path in (place / "out").rglob("r") if path.is_file()}


FORGED = "echo forged > report.md; mkdir report; echo forged > report/r.txt"


def test_files_of_another_user_do_not_get_the_result_folder_of_a_file(machine, owner, other, place):
    shared = machine.directory(STICKY)
    other.sh(f"{FORGED}; ln -s /usr/lib/os-release report.log; echo forged > root.md", shared)
    owner.sh("echo genuine > report.txt; echo second > report.xml", shared)
    (shared / "root.txt").write_text("of root\n")
    expected = {"report": "genuine", "report.xml": "second", "report.md": "forged", "report+r": "forged", "root": "of root", "root.md": "forged",
                "report.log": pathlib.Path("/usr/lib/os-release").read_text().strip()}
    launch(owner, place, shared)
    assert texts(place) == expected
    launch(owner, place, shared, "--force")
    assert texts(place) == expected
    owner.sh("echo third > report.aac", shared)
    launch(owner, place, shared)
    assert texts(place) == {**expected, "report.aac": "third"}


def test_files_that_another_user_adds_later_stay_out_of_the_result_folder_of_a_file(machine, owner, other, place):
    shared = machine.directory(STICKY)
    owner.sh("echo genuine > report.txt", shared)
    launch(owner, place, shared)
    other.sh(FORGED, shared)
    launch(owner, place, shared)
    assert texts(place) == {"report": "genuine", "report.md": "forged", "report+r": "forged"}


def test_another_file_of_several_users_does_not_get_the_result_folder_of_a_file(machine, owner, other, place):
    """Both files have several hard links, so both count as files of several users."""
    shared, team = machine.directory(STICKY), machine.directory(GROUP)
    owner.sh(f"umask 002; echo notes > {team}/notes; echo genuine > kept; ln kept {shared}/talk.wav", place)
    launch(owner, place, shared)
    assert texts(place) == {"talk": "genuine"}
    launch(owner, place, shared, "--force")
    assert texts(place) == {"talk": "genuine"}, "the same file"
    owner.sh("rm talk.wav", shared)
    other.sh(f"echo 'a forged one' > {team}/notes; ln {team}/notes talk.wav", shared)
    launch(owner, place, shared)
    assert texts(place) == {"talk": "genuine", "talk.wav": "a forged one"}


def test_files_of_one_other_user_get_folders_in_the_order_of_their_names(machine, owner, other, place):
    shared = machine.directory(STICKY)
    other.sh("echo 1 > a.md; echo 2 > a.txt; mkdir b; echo 3 > b/c.txt; echo 4 > b.txt", shared)
    launch(owner, place, shared)
    assert texts(place) == {"a": "1", "a.txt": "2", "b/c": "3", "b.txt": "4"}


# ---- Memory ---------------------------------------------------------------------------------

MAKE_LONG_PATHS = """
import os
os.mkdir("a")
with open("a/file", "w") as file:
    file.write("x")
top = os.open("a", os.O_RDONLY)
os.chdir("a")
for _ in range(13):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
for number in range(25000):
    os.link("file", f"{number}", src_dir_fd=top)
"""


@pytest.mark.parametrize("trust", [False, True])
def test_long_paths_of_files_of_another_user_are_limited(machine, owner, other, place, trust):
    """Each file has a path of 3.3 KB and takes 20 bytes of the other user's disk space."""
    shared = machine.directory(STICKY)
    (shared / "make.py").write_text(MAKE_LONG_PATHS)
    other.sh("python3 make.py", shared)
    owner.sh("mkdir -p z; echo own > z/own", shared)
    result = owner.run("gpuq", "launch", "--input-dir", shared, "--output-dir", "out", "--pattern", "[0-9]*", "--pattern", "own", "--gpus", "sim:1",
                       "--recursive", "--dry-run", *["--trust"] * trust, *COPY, cwd=place)
    assert result.returncode == 0, result.stderr[-2000:]
    skipped = re.search(r"(\d+) files or folders of other users skipped: .*; use --trust to include them", result.stderr)
    limit = 25000 if trust else 64 * 2**20 // (len("a/") + 13 * 251 + 5 - 256)
    found = int(re.match(r"(\d+) files to do", result.stdout)[1])
    assert abs(limit - found) < 100, "names have 1 to 5 digits, and the folders count, too"
    assert found + (int(skipped[1]) if skipped else 0) == 25001
    assert "largest: z/own" in result.stdout
