# SPDX-License-Identifier: MIT
"""Other users choose the names of input files, and so of folders below the output folder. Their files must not get folders of the user."""
import json
import shutil
import signal
import subprocess

import pytest

from users import GROUP, LIMIT, MAPPER, STICKY, WAIT_FOR, until, plant, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

COPY = ("cp", "{file}", "{output}/r")


@pytest.fixture(name="place")
def make_place(machine, owner):
    """A directory of the owner for results."""
    return machine.project(owner)


@pytest.fixture(name="shared")
def make_shared(machine):
    """An input folder to which everybody can add files."""
    return machine.directory(STICKY)


def words_of(folder, *words, command=COPY):
    return ("gpuq", "launch", "--input-dir", folder, "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", "--recursive", *words, "--", *command)


def launch(user, place, folder, *words, command=COPY, code=0):
    result = user.run(*words_of(folder, *words, command=command), cwd=place)
    assert result.returncode == code, result
    return result


def texts(place):
    """The results, by folder."""
    return {str(path.parent.relative_to(place)): path.read_text().strip() for path in place.rglob("r") if path.is_file()}


def lines(place):
    return [json.loads(line) for line in (place / "out/launch.jsonl").read_text().splitlines()]


# ---- Folders and links of the user -------------------------------------------------------------


def test_folder_that_a_worker_has_made_in_its_result_is_not_used(owner, other, place, shared):
    command = ("sh", "-c", 'mkdir -p "$1/part"; cp "$0" "$1/part/r"', "{file}", "{output}")
    owner.sh("echo genuine > meeting.txt", shared)
    launch(owner, place, shared, command=command)
    other.sh("mkdir meeting; echo forged > meeting/part.txt", shared)
    launch(owner, place, shared, command=command)
    assert texts(place) == {"out/meeting/part": "genuine", "out/meeting+part/part": "forged"}


def test_link_that_a_worker_has_made_in_its_result_is_not_followed(owner, other, place, shared):
    command = ("sh", "-c", 'cp "$0" "$1/r"; ln -sfn "$PWD/models" "$1/model"', "{file}", "{output}")
    owner.sh("mkdir models; echo precious > models/r", place)
    owner.sh("echo genuine > meeting.txt", shared)
    launch(owner, place, shared, command=command)
    other.sh("mkdir meeting; echo forged > meeting/model.txt", shared)
    launch(owner, place, shared, command=command)
    assert texts(place) == {"models": "precious", "out/meeting": "genuine", "out/meeting+model": "forged"}


@pytest.mark.parametrize("known", [True, False])
def test_existing_folders_and_links_of_the_user_are_not_used(owner, other, place, shared, known):
    """known: the other user has first made the files fail, so that the record names the folders."""
    owner.sh("mkdir -p out/src out/empty old; echo mine > out/src/r; echo old > old/r; ln -s ../old out/link; echo text > out/file", place)
    other.sh("mkdir link file; for name in src empty link file link/in file/in; do echo forged > $name.txt; done", shared)
    if known:
        other.sh("chmod 000 *.txt */*.txt", shared)
        launch(owner, place, shared, code=1)
        other.sh("chmod 644 *.txt */*.txt", shared)
    launch(owner, place, shared)
    expected = {"old": "old", "out/src": "mine", "out/src.txt": "forged", "out/empty": "forged", "out/link.txt": "forged", "out/link+in": "forged",
                "out/file.txt": "forged", "out/file+in": "forged"}
    assert texts(place) == expected
    assert (place / "out/file").read_text() == "text\n"
    launch(owner, place, shared, "--force")
    assert texts(place) == expected, "files keep their folders"


def test_folders_and_links_are_used_if_no_other_user_can_choose_files(owner, place, shared):
    owner.sh("mkdir -p in out/src old; echo old > out/src/r; ln -s ../old out/link; echo new > in/src.txt; echo new > in/link.txt", place)
    launch(owner, place, place / "in")
    assert texts(place) == {"old": "new", "out/src": "new"}
    assert all(line["event"] in ("run", "done") for line in lines(place))


def test_user_who_trusts_the_others_continues_in_existing_folders(owner, other, place, shared):
    owner.sh("mkdir -p out/src; echo old > out/src/r", place)
    other.sh("echo new > src.txt", shared)
    result = owner.run(*words_of(shared), cwd=place, env={"GPUQ_TRUST": "1"})
    assert result.returncode == 0 and texts(place) == {"out/src": "new"}, result


# ---- Files with the name of an earlier one -------------------------------------------------------


def test_file_of_another_user_does_not_replace_the_result_of_an_earlier_one(owner, other, place, shared):
    owner.sh("echo genuine > meeting.txt", shared)
    launch(owner, place, shared)
    owner.sh("rm meeting.txt", shared)
    other.sh("echo forged > meeting.txt", shared)
    for words in ((), ("--force",)):
        launch(owner, place, shared, *words)
        assert texts(place) == {"out/meeting": "genuine", "out/meeting.txt": "forged"}
    assert [line.get("owner") for line in lines(place) if line["event"] == "done"] == [None, other.uid, other.uid]
    other.sh("rm meeting.txt", shared)
    owner.sh("echo second > meeting.txt", shared)
    launch(owner, place, shared)
    assert texts(place) == {"out/meeting": "second", "out/meeting.txt": "forged"}


def test_link_of_another_user_to_a_file_of_root_does_not_replace_a_result(machine, owner, other, place, shared):
    owner.sh("echo genuine > meeting.txt", shared)
    launch(owner, place, shared)
    owner.sh("rm meeting.txt", shared)
    public = machine.directory(0o755) / "text"
    public.write_text("of root\n")
    other.sh(f"ln -s {public} meeting.txt", shared)
    launch(owner, place, shared)
    assert texts(place) == {"out/meeting": "genuine", "out/meeting.txt": "of root"}


def test_file_with_the_size_and_time_of_one_of_another_user_is_not_skipped(owner, other, place, shared):
    other.sh("echo forged! > meeting.txt; touch -d 2020-01-01 meeting.txt", shared)
    launch(owner, place, shared)
    other.sh("rm meeting.txt", shared)
    owner.sh("echo genuine > meeting.txt; touch -d 2020-01-01 meeting.txt", shared)
    launch(owner, place, shared)
    assert texts(place) == {"out/meeting": "forged!", "out/meeting.txt": "genuine"}


def test_file_that_is_replaced_before_its_turn_gets_another_folder(owner, other, place, shared):
    owner.sh("echo 1 > a.txt; echo genuine > b.txt", shared)
    launch(owner, place, shared)
    owner.sh("echo changed > a.txt; echo changed > b.txt", shared)
    wait = WAIT_FOR.format(place / "go")
    command = ("sh", "-c", f'if [ "$2" = a ]; then touch {place}/began; {wait}; fi; cp "$0" "$1/r"', "{file}", "{output}", "{stem}")
    process = owner.start(*words_of(shared, "--balance", "none", "--workers-per-gpu", "1", "--max-failures", "1", command=command), cwd=place)
    until(lambda: process.poll() is not None or (place / "began").exists(), "the first file")
    assert process.poll() is None, process.communicate()
    owner.sh("rm b.txt", shared)
    other.sh("echo forged > b.txt", shared)
    owner.sh("touch go", place)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, (out, err)
    assert texts(place) == {"out/a": "changed", "out/b": "genuine", "out/b.txt": "forged"}


def test_watched_file_of_another_user_does_not_replace_a_result(owner, other, place, shared):
    owner.sh("mkdir -p out/src; echo mine > out/src/r", place)
    owner.sh("echo genuine > meeting.txt", shared)
    process = owner.start(*words_of(shared, "--watch"), cwd=place)

    def wait_for(expected):
        until(lambda: process.poll() is not None or texts(place) == expected, f"{expected}; now: {texts(place)}")
        assert process.poll() is None, process.communicate()
    expected = {"out/src": "mine", "out/meeting": "genuine"}
    wait_for(expected)
    owner.sh("rm meeting.txt", shared)
    other.sh("mkdir .new; echo forged > .new/meeting.txt; echo forged > .new/src.txt; mv .new/*.txt .; mkdir meeting; echo forged > meeting/part.txt", shared)
    expected |= {"out/meeting.txt": "forged", "out/src.txt": "forged", "out/meeting+part": "forged"}
    wait_for(expected)
    other.sh("echo again > .new/meeting.txt; mv .new/meeting.txt .", shared)
    wait_for(expected | {"out/meeting.txt": "again"})
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, (out, err)


# ---- Runs that were killed ----------------------------------------------------------------------


def test_file_keeps_its_folder_after_a_killed_run(owner, other, place, shared):
    owner.sh("mkdir -p out/b; echo mine > out/b/r", place)
    other.sh("echo 1 > a.txt; echo 2 > b.txt", shared)
    wait = WAIT_FOR.format(place / "all")
    command = ("sh", "-c", f'echo part > "$1/r"; {wait}; cp "$0" "$1/r"', "{file}", "{output}")
    process = owner.start(*words_of(shared, "--workers-per-gpu", "2", command=command), cwd=place)
    partial = {"out/a": "part", "out/b": "mine", "out/b.txt": "part"}
    until(lambda: process.poll() is not None or texts(place) == partial, "both files")
    assert process.poll() is None, process.communicate()
    process.kill()
    process.wait(LIMIT)
    owner.sh("touch all", place)
    launch(owner, place, shared, command=command)
    assert texts(place) == {"out/a": "1", "out/b": "mine", "out/b.txt": "2"}


# ---- Two input folders ----------------------------------------------------------------------------


def test_only_the_file_with_the_name_of_a_file_of_another_input_folder_fails(machine, owner, other, place, shared):
    second = machine.directory(STICKY)
    owner.sh("echo genuine > mon.txt", shared)
    other.sh("echo theirs > sun.txt", shared)
    launch(owner, place, shared)
    owner.sh("echo 2 > tue.txt", second)
    other.sh("echo forged > mon.txt; echo forged > sun.txt", second)
    expected = {"out/mon": "genuine", "out/sun": "theirs", "out/tue": "2", "out/mon.txt": "forged"}
    for _ in range(2):
        result = launch(owner, place, second, code=1)
        assert texts(place) == expected
        assert f"results of a file with the same name from '{shared}'" in result.stdout + result.stderr and "--force" not in result.stdout + result.stderr, result
    launch(owner, place, second, "--force")
    assert texts(place) == expected | {"out/sun": "forged"}


def test_report_has_the_files_of_both_owners(owner, other, place, shared):
    owner.sh("echo genuine > meeting.txt", shared)
    launch(owner, place, shared)
    owner.sh("rm meeting.txt", shared)
    other.sh("echo forged > meeting.txt", shared)
    launch(owner, place, shared)
    result = owner.gpuq("report", "--launch", "out", "--output", "report.html", cwd=place)
    assert result.returncode == 0, result
    assert (place / "report.html").read_text().count("<code>meeting.txt</code>") == 2


# ---- Files of the user that others can write ------------------------------------------------------


@pytest.fixture(name="group_folder")
def make_group_folder(machine, owner):
    """A folder of the group, with a file of the owner that the group can write, as with umask 002."""
    folder = machine.directory(GROUP)
    owner.sh("umask 002; echo notes > notes.txt", folder)
    return folder


MOVES = ("mv", "ln")


@pytest.mark.parametrize("move", MOVES)
def test_file_of_the_user_that_others_have_written_does_not_get_the_folder_of_another_file(owner, other, place, shared, group_folder, move):
    owner.sh("echo genuine > report.txt", shared)
    other.sh(f"echo forged > notes.txt; {move} notes.txt {shared}/report.md", group_folder)
    expected = {"out/report": "genuine", "out/report.md": "forged"}
    launch(owner, place, shared)
    assert texts(place) == expected
    result = launch(owner, place, shared)
    assert "2 files are already done" in result.stdout, result
    launch(owner, place, shared, "--force")
    assert texts(place) == expected
    assert {line.get("owner") for line in lines(place) if line.get("file") == "report.md"} == {2**32 - 1}


@pytest.mark.parametrize("move", MOVES)
def test_file_of_the_user_that_others_have_written_does_not_replace_a_result(owner, other, place, shared, group_folder, move):
    owner.sh("echo genuine > meeting.txt", shared)
    launch(owner, place, shared)
    owner.sh("rm meeting.txt", shared)
    other.sh(f"echo forged > notes.txt; {move} notes.txt {shared}/meeting.txt", group_folder)
    launch(owner, place, shared)
    assert texts(place) == {"out/meeting": "genuine", "out/meeting.txt": "forged"}


def test_watched_file_of_the_user_that_others_have_written_does_not_replace_a_result(owner, other, place, shared, group_folder):
    owner.sh("echo genuine > meeting.txt", shared)
    process = owner.start(*words_of(shared, "--watch"), cwd=place)
    for script, folder, expected in (("true", shared, {"out/meeting": "genuine"}),
                                     (f"rm -f {shared}/meeting.txt", shared, {"out/meeting": "genuine"}),
                                     (f"echo forged > notes.txt; mv notes.txt {shared}/meeting.txt", group_folder,
                                      {"out/meeting": "genuine", "out/meeting.txt": "forged"})):
        (other if folder == group_folder else owner).sh(script, folder)
        until(lambda now=expected: process.poll() is not None or texts(place) == now, f"{expected}; now: {texts(place)}")
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, (out, err)


def test_files_that_the_private_group_can_write_are_those_of_the_user(owner, other, place, shared):
    owner.sh("umask 002; echo genuine > report.txt", shared)
    other.sh("echo forged > report.md", shared)
    launch(owner, place, shared)
    assert texts(place) == {"out/report": "genuine", "out/report.md": "forged"}


@pytest.mark.skipif(not shutil.which("setfacl"), reason="needs setfacl")
def test_file_of_the_user_with_an_access_list_counts_as_a_file_of_others(owner, other, place, shared):
    owner.sh(f"echo genuine > report.txt; echo list > report.md; setfacl -m u:{other.name}:rw report.md", shared)
    launch(owner, place, shared)
    assert texts(place) == {"out/report": "genuine", "out/report.md": "list"}


def test_shared_files_in_a_folder_of_the_user_are_those_of_the_user(owner, place):
    owner.sh("mkdir in; echo 1 > in/b.mp3; echo 2 > in/b.wav; chmod 666 in/b.mp3; ln in/b.mp3 second", place)
    launch(owner, place, place / "in")
    assert texts(place) == {"out/b": "1", "out/b.wav": "2"}
    assert not any("owner" in line for line in lines(place))


# ---- Names that commands accept -------------------------------------------------------------------


def test_file_of_another_user_does_not_make_files_of_a_folder_fail(owner, other, place, shared):
    """Result folders that differ from the name of the file have only characters that are inserted into scripts."""
    command = ("sh", "-c", "cp {file} {output}/r")
    other.sh("echo theirs > day.txt", shared)
    launch(owner, place, shared, command=command)
    owner.sh("mkdir day; echo 1 > day/f1.txt; echo 2 > day/f2.txt", shared)
    launch(owner, place, shared, command=command)
    assert texts(place) == {"out/day": "theirs", "out/day+f1": "1", "out/day+f2": "2"}


# ---- Summaries and reports, which quote error messages ----------------------------------------


def mode_of(path):
    return path.stat().st_mode & 0o777


def test_new_summary_and_report_are_private(owner, place):
    owner.sh("mkdir in; echo secret > in/a", place)
    launch(owner, place, place / "in", "--json", "summary.json", command=("sh", "-c", 'cat "$GPUQ_FILE" >&2; exit 1'), code=1)
    assert "secret" in (place / "summary.json").read_text() and mode_of(place / "out") == 0o755
    assert owner.gpuq("report", "--launch", "out", cwd=place).returncode == 0
    assert [mode_of(place / name) for name in ("summary.json", "report.html")] == [0o600] * 2
    owner.sh("chmod 640 summary.json", place)
    launch(owner, place, place / "in", "--json", "summary.json", command=("false",), code=1)
    assert mode_of(place / "summary.json") == 0o640, "a file of the user keeps its permissions"


@pytest.mark.parametrize("output", ["out.jsonl", "-"])
@pytest.mark.parametrize("private", [True, False])
def test_summary_of_a_map_with_private_results_is_private(owner, place, shared, private, output):
    folder = shared if private else place
    owner.sh("echo 1 > items.jsonl", folder)
    result = owner.gpuq("map", "--input", folder / "items.jsonl", "--output", output, "--json", "summary.json", "--gpus", "sim:1",
                        "--worker-command", """read setup; echo '{"type":"ready"}'; read item; echo '{"id":0,"ok":false,"error":"secret"}'; cat""", cwd=place)
    assert result.returncode == 1 and "secret" in (place / "summary.json").read_text(), result
    assert mode_of(place / "summary.json") == 0o600, result
    assert output == "-" or mode_of(place / output) == (0o600 if private else 0o644)


@pytest.fixture(name="gathering", params=[GROUP, STICKY])
def make_gathering(request, machine, owner, other):
    """A folder to which the other user has moved files of the owner, to the names of a summary and a report."""
    source, folder = machine.directory(GROUP), machine.directory(request.param)
    owner.sh("umask 022; echo notes > notes; echo more > more", source)
    other.sh(f"mv notes {folder}/summary.json; mv more {folder}/report.html", source)
    return folder


def check_moved(folder, name, held, result):
    """held: the other user has opened the file before."""
    assert result.returncode <= 1 and "secret" in (folder / name).read_text(), result
    assert mode_of(folder / name) == 0o600, result
    assert f"'{name}' is replaced with a private file" in result.stderr, result
    assert "secret" not in held.read()


def test_files_that_others_moved_do_not_make_summary_and_report_public(owner, place, gathering):
    owner.sh(f"mkdir in; echo secret > in/a; ln {gathering}/summary.json model", place)
    with (gathering / "summary.json").open() as summary, (gathering / "report.html").open() as report:
        words = words_of(place / "in", "--json", "summary.json", command=("sh", "-c", 'cat "$GPUQ_FILE" >&2; exit 1'))
        words = [place / word if word == "out" else word for word in words]
        check_moved(gathering, "summary.json", summary, owner.run(*words, cwd=gathering))
        check_moved(gathering, "report.html", report, owner.gpuq("report", "--launch", place / "out", cwd=gathering))
    assert (place / "model").read_text() == "notes\n", "the file behind a hard link is not emptied"
    again = owner.run(*words, "--retry-failed", cwd=gathering)
    assert "is replaced" not in again.stderr and mode_of(gathering / "summary.json") == 0o600, again


@pytest.mark.parametrize("output", ["out.jsonl", "-"])
def test_file_that_others_moved_does_not_make_the_summary_of_a_map_public(owner, place, gathering, output):
    owner.sh("echo 1 > items.jsonl", place)
    with (gathering / "summary.json").open() as summary:
        result = owner.gpuq("map", "--input", place / "items.jsonl", "--output", output if output == "-" else place / output,
                            "--json", "summary.json", "--gpus", "sim:1",
                            "--worker-command", """read setup; echo '{"type":"ready"}'; read item; echo '{"id":0,"ok":false,"error":"secret"}'; cat""",
                            cwd=gathering)
        check_moved(gathering, "summary.json", summary, result)


def test_report_on_a_queue_is_private_where_others_moved_a_file(owner, place, gathering):
    owner.sh("echo 'echo secret; false' > commands.txt", place)
    result = owner.gpuq("run", "--commands-file", "commands.txt", "--jobs-file", "jobs.jsonl", "--gpus", "sim:1", cwd=place)
    assert result.returncode == 1 and mode_of(place / "jobs.jsonl") == 0o600, result
    with (gathering / "report.html").open() as report:
        result = owner.gpuq("report", "--jobs-file", place / "jobs.jsonl", cwd=gathering)
        check_moved(gathering, "report.html", report, result)


# ---- Files that are replaced keep their access ----------------------------------------------------


def test_replaced_files_keep_their_group(machine, owner, place):
    """Otherwise the members of the owner's group could read what only another group may read."""
    owner.sh("printf '1\n2\n' > items.jsonl; echo true > commands.txt", place)
    words = ("map", "--input", "items.jsonl", "--output", "out.jsonl", "--gpus", "sim:1", "--worker-command",
             """read setup; echo '{"type":"ready"}'; read a; echo '{"id":0,"ok":false,"error":"x"}'; read b; echo '{"id":1,"ok":true}'; cat""")
    run = ("run", "--commands-file", "commands.txt", "--jobs-file", "jobs.jsonl", "--gpus", "sim:1")
    assert owner.gpuq(*words, cwd=place).returncode == 1 and owner.gpuq(*run, cwd=place).returncode == 0
    assert owner.gpuq("report", "--jobs-file", "jobs.jsonl", cwd=place).returncode == 0
    names = ("out.jsonl", "report.html", "jobs.jsonl")
    owner.sh(f"chgrp {machine.group} {' '.join(names)}; chmod 640 {' '.join(names)}", place)
    before = [(place / name).stat() for name in names]
    owner.gpuq(*words, cwd=place)
    owner.gpuq("report", "--jobs-file", "jobs.jsonl", cwd=place)
    assert owner.gpuq("prune", "--jobs-file", "jobs.jsonl", "--yes", cwd=place).returncode == 0
    after = [(place / name).stat() for name in names]
    assert [(st.st_gid, st.st_mode & 0o777) for st in after] == [(st.st_gid, 0o640) for st in before]
    assert all(a.st_ino != b.st_ino for a, b in zip(after, before)), "all were replaced"


@pytest.mark.skipif(not shutil.which("setfacl"), reason="needs setfacl")
def test_replaced_report_keeps_its_access_list(owner, other, place):
    owner.sh("echo true > commands.txt", place)
    owner.gpuq("run", "--commands-file", "commands.txt", "--jobs-file", "jobs.jsonl", "--gpus", "sim:1", cwd=place)
    for _ in range(2):
        assert owner.gpuq("report", "--jobs-file", "jobs.jsonl", cwd=place).returncode == 0
        owner.sh(f"setfacl -m u:{other.name}:r report.html", place)
    assert owner.gpuq("report", "--jobs-file", "jobs.jsonl", cwd=place).returncode == 0
    assert f"user:{other.name}:r--" in owner.sh("getfacl -c report.html", place) and "group::---" in owner.sh("getfacl -c report.html", place)


@pytest.mark.skipif(not shutil.which("setfacl"), reason="needs setfacl")
def test_replaced_report_inherits_no_access_list(machine, owner, other, place):
    owner.sh("echo true > commands.txt", place)
    owner.gpuq("run", "--commands-file", "commands.txt", "--jobs-file", "jobs.jsonl", "--gpus", "sim:1", cwd=place)
    assert owner.gpuq("report", "--jobs-file", "jobs.jsonl", cwd=place).returncode == 0
    owner.sh(f"chmod 660 report.html; setfacl -d -m g:{machine.group}:rwx .", place)
    assert owner.gpuq("report", "--jobs-file", "jobs.jsonl", cwd=place).returncode == 0
    assert mode_of(place / "report.html") == 0o660 and other.run("cat", place / "report.html", cwd="/").returncode != 0


# ---- Default access lists ------------------------------------------------------------------------


@pytest.fixture(name="listed")
def make_listed(machine, owner):
    """A directory of the owner whose default access list gives new files to the group."""
    place = machine.project(owner)
    words = ["setfacl", "-d", "-m", f"g:{machine.group}:rwx", place]
    if not shutil.which("setfacl") or subprocess.run(words, check=False).returncode:
        pytest.skip("needs setfacl, and a file system with access lists")
    owner.sh("mkdir -p in; echo text > in/a.txt", owner.home)
    return place


WRITE = ("sh", "-c", 'cat "$0" > "$1/r"; mkdir "$1/part"; echo > "$1/part/new"', "{file}", "{output}")


def is_open(user, path):
    return user.run("test", "-w", path, cwd="/").returncode == 0


def test_new_output_folders_have_no_default_access_list(owner, other, listed):
    launch(owner, listed, owner.home / "in", "--json", "summary.json", command=WRITE)
    for path in ("out", "out/launch.jsonl", "out/a", "out/a/r", "out/a/part", "out/a/part/new", "summary.json"):
        assert (listed / path).exists() and not is_open(other, listed / path), path


@pytest.mark.parametrize("folder", ["out", "out/a"])
def test_existing_output_folder_whose_default_access_list_gives_new_files_to_others_is_refused(owner, other, listed, folder):
    owner.sh(f"mkdir -m 755 -p {folder}; chmod -R g-w out", listed)
    if folder != "out":
        owner.sh("setfacl -k out", listed)
    result = launch(owner, listed, owner.home / "in", command=WRITE, code=2 if folder == "out" else 1)
    assert "gives others write access to new files (default access list)" in result.stdout + result.stderr
    if folder == "out":
        assert f", then run setfacl -k {listed}/out, or choose another --output-dir" in result.stderr
    owner.sh(f"setfacl -k {folder}", listed)
    launch(owner, listed, owner.home / "in", command=WRITE)
    assert texts(listed) == {"out/a": "text"} and not is_open(other, listed / "out/a/r")


def test_user_who_trusts_the_group_keeps_its_default_access_list(owner, other, listed):
    launch(owner, listed, owner.home / "in", "--trust", command=WRITE)
    assert is_open(other, listed / "out/a/r")


def test_default_access_list_does_not_open_files_of_gpuq_map_to_others(owner, other, listed):
    plant(owner, owner.home / "mapper.py", MAPPER)
    owner.sh("seq 3 > n.jsonl", listed)
    result = owner.gpuq("map", "--worker-command", f"python3 {owner.home}/mapper.py", "--gpus", "sim:1", "--input", "n.jsonl", "--output", "r.jsonl",
                        "--errors", "e.jsonl", "--json", "summary.json", cwd=listed)
    assert result.returncode == 0, result
    made = [path for path in listed.rglob("*") if path.name != "n.jsonl"]
    assert {"r.jsonl", "summary.json"} <= {path.name for path in made}
    assert [str(path) for path in made if is_open(other, path)] == []


def test_doctor_reports_a_default_access_list_that_gives_new_files_to_others(owner, listed):
    result = owner.gpuq("doctor", cwd=listed)
    assert "gives others write access to new files (default access list)" in result.stdout, result
    assert f"run setfacl -k {listed}, or " in result.stdout
    owner.sh("setfacl -k .", listed)
    assert "no other user can change" in owner.gpuq("doctor", cwd=listed).stdout
