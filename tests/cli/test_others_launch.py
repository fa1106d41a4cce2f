# SPDX-License-Identifier: MIT
"""Other users attack the input and output folders of a launch."""
import json
import os
import shlex
import shutil
import signal
import stat

import pytest

from users import BUILD, GROUP, LIMIT, STICKY, hold_pipe, plant, refused, until, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users


# ---- A launch ---------------------------------------------------------------------------


def test_read_lock_of_another_user_does_not_block_a_launch(machine, owner, other):
    if not (machine.place / "bin/gpuq-launch").exists():
        pytest.skip("gpuq-launch is not built")
    shared = machine.directory(0o755)
    os.chown(shared, owner.uid, owner.gid)
    owner.sh("mkdir in out; echo 1 > in/a; : > out/launch.jsonl", shared)
    lock = ("import fcntl, sys\nf = open('out/launch.jsonl')\nfcntl.lockf(f, fcntl.LOCK_SH)\nprint('locked', flush=True)\n"
            "sys.stdin = None\nimport signal\nsignal.pause()\n")
    holder = other.start("python3", "-c", lock, cwd=shared)
    assert holder.stdout.readline() == "locked\n"
    result = owner.gpuq("launch", "--input-dir", "in", "--output-dir", "out", "--pattern", "*", "--", "true", cwd=shared)
    assert result.returncode == 0, result


# ---- The output folder of a launch ------------------------------------------------------


def launch(user, folder, *words, output=("--output-dir", "out"), command="echo ran; echo ran > {output}/result", env=None):
    return user.gpuq("launch", "--input-dir", user.home / "in", *output, "--pattern", "*", "--gpus", "sim:1", *words,
                     "--", "sh", "-c", command, cwd=folder, env=env)


@pytest.fixture(name="victim")
def make_victim(owner):
    """A user with an input file and a file that must not change."""
    owner.sh("mkdir -p in target; echo 1 > in/a; rm -rf target/*", owner.home)
    plant(owner, owner.home / "notes", "precious\n", 0o600)
    return owner


def is_refused(result, words):
    refused(result, words)
    assert "--output-dir" in result.stderr, result


@pytest.mark.parametrize("output", [(), ("--output-dir", "data/outputs")])
def test_output_folder_of_another_user_is_not_used(machine, victim, other, output):
    """In that folder, a worker's log is a link to a file of the victim, or a pipe."""
    shared = machine.directory(STICKY)
    other.sh(f"mkdir -p -m 777 data data/outputs data/outputs/launch.logs; chmod 777 data data/outputs data/outputs/launch.logs;"
             f"ln -s '{victim.home}/notes' data/outputs/launch.logs/worker-0.log", shared)
    is_refused(launch(victim, shared, output=output), "/data' belongs to another user")
    assert (victim.home / "notes").read_text() == "precious\n"
    other.sh("rm data/outputs/launch.logs/worker-0.log; mkfifo -m 666 data/outputs/launch.logs/worker-0.log", shared)
    is_refused(launch(victim, shared, output=output), "/data' belongs to another user")
    assert sorted(p.name for p in (shared / "data/outputs").iterdir()) == ["launch.logs"]


def test_history_of_another_user_does_not_say_that_all_is_done(machine, victim, other):
    shared = machine.directory(STICKY)
    assert launch(victim, victim.home, output=("--output-dir", "first")).returncode == 0
    history = (victim.home / "first/launch.jsonl").read_text()
    other.sh("mkdir -m 777 out", shared)
    (shared / "out/launch.jsonl").write_text(history)
    is_refused(launch(victim, shared), "'out': it belongs to another user")


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_output_folder_that_another_user_makes_during_the_search_is_not_trusted(machine, victim, other, words):
    """The record in it is a link to the record of an earlier launch of the victim."""
    shared = machine.directory(STICKY)
    library, gate = machine.place / "bin/endless_folder.so", victim.home / "gate"
    shutil.copy(BUILD / "tests/cli/libendless_folder.so", library)
    victim.sh("rm -rf first gate*; touch gate", victim.home)
    command = ("gpuq", "launch", "--input-dir", victim.home / "in", "--pattern", "*", "--gpus", "sim:1", "--output-dir")
    worker = ("--", "sh", "-c", "echo true > {output}/result")
    assert victim.run(*command, "first", *worker, cwd=victim.home).returncode == 0
    other.sh(f"mkdir -p ready/a; echo forged > ready/a/result; ln -s '{victim.home}/first/launch.jsonl' ready", shared)
    process = victim.start(*command, "out", *words, *worker, cwd=shared, env={"LD_PRELOAD": str(library), "ENDLESS_FOLDER": str(gate)})
    until(lambda: process.poll() is not None or (victim.home / "gate.reached").exists(), "the search")
    other.sh("mv ready out", shared)
    gate.unlink()
    out, err = process.communicate(timeout=LIMIT)
    if words:
        assert process.returncode == 0 and "1 file to do" in out and "done before" not in out, (out, err)
    else:
        assert process.returncode == 2 and "'out': it belongs to another user" in err and "skipped" not in out, (out, err)


@pytest.mark.parametrize("link", ["out", "data"])
def test_link_of_another_user_is_not_used_as_output_folder(machine, victim, other, link):
    shared = machine.directory(STICKY)
    other.sh(f"ln -s '{victim.home}/target' {link}", shared)
    output = ("--output-dir", "out") if link == "out" else ()
    is_refused(launch(victim, shared, output=output), f"/{link}' is a symbolic link of another user")
    assert list((victim.home / "target").iterdir()) == []


def test_group_that_can_write_the_output_folder_must_be_accepted(machine, victim, other):
    shared = machine.directory(GROUP)
    is_refused(launch(victim, shared, output=("--output-dir", ".")), "can be written by its group")
    assert launch(victim, shared, "--trust", output=("--output-dir", ".")).returncode == 0
    (shared / "a/result").unlink()
    assert launch(victim, shared, "--force", output=("--output-dir", "."), env={"GPUQ_TRUST": "1"}).returncode == 0
    assert (shared / "a/result").exists()


def test_summary_does_not_use_a_link_a_pipe_or_a_file_of_another_user(machine, victim, other):
    shared = machine.directory(GROUP)
    words = ("launch", "--input-dir", victim.home / "in", "--pattern", "*", "--gpus", "sim:1", "--output-dir", victim.home / "out",
             "--force", "--json")
    other.sh(f"ln -s '{victim.home}/notes' summary.json; ln -s '{victim.home}' folder; mkfifo -m 666 pipe", shared)
    for name, why in (("summary.json", "symbolic link of another user"), ("folder/notes", "symbolic link of another user"),
                      ("pipe", "it is a pipe of another user")):
        result = victim.gpuq(*words, name, "--", "true", cwd=shared)
        assert result.returncode == 2 and f"--json '{name}': " in result.stderr and why in result.stderr, result
        assert (victim.home / "notes").read_text() == "precious\n"
    hold_pipe(other, shared / "held")
    result = victim.gpuq(*words, "held", "--", "true", cwd=shared)
    assert result.returncode == 2 and "--json 'held': it is a pipe of another user" in result.stderr, result
    other.sh("echo theirs > theirs; chmod 666 theirs", shared)
    result = victim.gpuq(*words, "theirs", "--", "true", cwd=shared)
    assert result.returncode == 2 and "--json 'theirs': it belongs to another user" in result.stderr, result
    assert (shared / "theirs").read_text() == "theirs\n"
    victim.sh(f"ln -s '{victim.home}/own.json' own.json", shared)
    result = victim.gpuq(*words, "own.json", "--", "true", cwd=shared)
    assert result.returncode == 2 and "is a symbolic link that another user may have moved there" in result.stderr, result
    project = machine.project(victim)
    victim.sh(f"ln -s '{victim.home}/own.json' own.json", project)
    assert victim.gpuq(*words, project / "own.json", "--", "true", cwd=shared).returncode == 0
    assert json.loads((victim.home / "own.json").read_text())["files_done"] == 1


def test_summary_does_not_use_a_file_that_others_can_write(machine, victim, other):
    shared, sticky = machine.directory(GROUP), machine.directory(STICKY)
    victim.sh("umask 002; echo notes > notes", shared)
    other.sh(f"mv '{shared}/notes' summary.json", sticky)
    words = ("launch", "--input-dir", victim.home / "in", "--pattern", "*", "--gpus", "sim:1", "--output-dir", victim.home / "out", "--force")
    map = ("map", "--input", victim.home / "notes", "--lines", "--output", victim.home / "summarized.jsonl", "--gpus", "sim:1", "--worker-command", "true")
    for command in ((*words, "--json", "summary.json", "--", "true"), (*map, "--json", "summary.json")):
        result = victim.gpuq(*command, cwd=sticky)
        assert result.returncode == 2 and "--json 'summary.json': it can be written by its group, so others could change it" in result.stderr, result
        assert (sticky / "summary.json").read_text() == "notes\n"
    for _ in range(2):
        result = victim.run("gpuq", *words, "--json", "new.json", "--", "true", cwd=shared, umask=0o002)
        assert result.returncode == 0 and not (shared / "new.json").stat().st_mode & 0o022, result


@pytest.mark.parametrize("plan", ["mkdir -m 755 out/a", "mkdir -m 777 out/sub/a"])
def test_folder_of_a_result_that_another_user_made_is_not_used(machine, victim, other, plan):
    """The output folder was open to the group for a while; a link in the folder leads to a file of the victim."""
    shared = machine.directory(STICKY)
    victim.sh("rm -rf in3; mkdir -p in3/sub; echo 1 > in3/a; echo 1 > in3/sub/a; echo 1 > in3/fine", victim.home)
    victim.sh(f"mkdir -p out/sub; chgrp {machine.group} out out/sub; chmod 2775 out out/sub", shared)
    other.sh(f"{plan}; ln -s '{victim.home}/notes' {plan.split()[-1]}/r", shared)
    victim.sh("chmod g-w out", shared)
    words = ("launch", "--input-dir", victim.home / "in3", "--recursive", "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1")
    result = victim.gpuq(*words, "--", "sh", "-c", "echo ran > {output}/r", cwd=shared)
    assert result.returncode == 1, result
    assert (victim.home / "notes").read_text() == "precious\n"
    assert "one of its parent folders " in result.stdout + result.stderr, result
    assert (shared / "out/fine/r").read_text() == "ran\n"


def test_links_of_another_user_to_files_of_the_user_are_not_input(machine, victim, other):
    """The result of a private file would be readable by others."""
    shared = machine.directory(GROUP)
    other.sh(f"echo x > theirs; ln -s theirs good; ln -s '{victim.home}/notes' key; ln -s '{victim.home}/in' folder; ln -s / homes", shared)
    victim.sh("rm -rf out", victim.home)
    victim.sh(f"ln -s '{victim.home}/in/a' mine", shared)
    result = victim.gpuq("launch", "--input-dir", shared, "--output-dir", victim.home / "out", "--pattern", "*", "--recursive", "--gpus",
                         "sim:1", "--", "true", cwd=victim.home)
    assert result.returncode == 0, result
    for name, what in (("key", "file of yours"), ("folder", "folder"), ("homes", "folder")):
        assert f"'{name}' is skipped: its path contains a symbolic link of another user to a {what}" in result.stderr, result
    assert sorted(path.name for path in (victim.home / "out").iterdir() if path.is_dir() and path.name != "launch.logs") == [
        "good", "mine", "theirs"]


def test_new_links_of_another_user_to_files_of_the_user_are_not_input_of_a_watched_folder(machine, victim, other):
    shared = machine.directory(GROUP)
    victim.sh("rm -rf out", victim.home)
    process = victim.start("gpuq", "launch", "--watch", "--input-dir", shared, "--output-dir", victim.home / "out", "--pattern", "*", "--recursive",
                           "--gpus", "sim:1", "--", "cp", "{file}", "{output}/r", cwd=victim.home)
    other.sh("echo x > first", shared)
    until(lambda: (victim.home / "out/first/r").exists(), "the first file")
    other.sh(f"ln -s '{victim.home}/notes' key; ln -s '{victim.home}/in' folder; echo x > second", shared)
    until(lambda: (victim.home / "out/second/r").exists(), "the second file")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, (out, err)
    for name, what in (("key", "file of yours"), ("folder", "folder")):
        assert f"'{name}' is skipped: its path contains a symbolic link of another user to a {what}" in err, err
    assert not (victim.home / "out/key").exists() and not (victim.home / "out/folder").exists()


@pytest.mark.parametrize("swap", ["rm sub/d; ln -s '{home}/secret/d' sub/d", "mv sub old; ln -s '{home}/secret' sub"])
def test_input_that_becomes_a_link_of_another_user_to_a_file_of_the_user_is_not_processed(machine, victim, other, swap):
    """The file or its folder is replaced while the launch works on the first file, and the second
    one waits in the pool."""
    shared = machine.directory(GROUP)
    other.sh("mkdir sub; echo the longest > a; echo longer > b; echo long > c; echo x > sub/d", shared)
    victim.sh("rm -rf out go began secret; mkdir secret; echo precious > secret/d; mkfifo go", victim.home)
    process = victim.start("gpuq", "launch", "--input-dir", shared, "--output-dir", victim.home / "out", "--pattern", "?", "--recursive", "--gpus",
                           "sim:1", "--", "sh", "-c",
                           f"if [ {{stem}} = a ]; then cd '{victim.home}'; touch began; cat go; fi; cp {{file}} {{output}}/r", cwd=victim.home)
    until(lambda: process.poll() is not None or (victim.home / "began").exists(), "the first file")
    other.sh(swap.format(home=victim.home), shared)
    victim.sh("echo > go", victim.home)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and "its path contains a symbolic link of another user to a file of yours" in out + err, (out, err)
    assert not (victim.home / "out/sub/d/r").exists() and (victim.home / "out/a/r").exists()


def test_input_that_becomes_a_pipe_fails_with_the_reason(machine, victim, other):
    shared = machine.directory(GROUP)
    other.sh("echo the longest > a; echo longer > b; echo long > c; echo x > d", shared)
    victim.sh("rm -rf out go began; mkfifo go", victim.home)
    process = victim.start("gpuq", "launch", "--input-dir", shared, "--output-dir", victim.home / "out", "--pattern", "?", "--gpus", "sim:1", "--",
                           "sh", "-c", f"if [ {{stem}} = a ]; then cd '{victim.home}'; touch began; cat go; fi; cp {{file}} {{output}}/r", cwd=victim.home)
    until(lambda: process.poll() is not None or (victim.home / "began").exists(), "the first file")
    other.sh("rm d; mkfifo d", shared)
    victim.sh("echo > go", victim.home)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and "it is a pipe, not a regular file" in out + err, (out, err)


# Attacks on the input folder 'in'; 'mine' is a private folder of the victim.
REPLACED = {"link": "mv in old; ln -s '{home}/secret' in", "folder": "mv in old; mv mine in"}


@pytest.fixture(name="replaced", params=REPLACED)
def make_replaced(machine, victim, other, request):
    shared = machine.directory(GROUP)
    other.sh("mkdir in; echo the longest > in/a; echo longer > in/b; echo long > in/c; echo x > in/d", shared)
    victim.sh("rm -rf out go began secret; mkdir secret; echo precious > secret/d; echo precious > secret/e; mkfifo go", victim.home)
    victim.sh(f"cp -r '{victim.home}/secret' mine; chmod 700 mine", shared)
    return shared, lambda: other.sh(REPLACED[request.param].format(home=victim.home), shared), request.param


def test_input_folder_that_another_user_replaces_is_not_processed(victim, replaced):
    shared, attack, kind = replaced
    process = victim.start("gpuq", "launch", "--input-dir", shared / "in", "--output-dir", victim.home / "out", "--pattern", "?", "--gpus", "sim:1", "--",
                           "sh", "-c", f"if [ {{stem}} = a ]; then cd '{victim.home}'; touch began; cat go; fi; cp {{file}} {{output}}/r", cwd=victim.home)
    until(lambda: process.poll() is not None or (victim.home / "began").exists(), "the first file")
    attack()
    victim.sh("echo > go", victim.home)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1, (out, err)
    words = "one of the folders above it is now a symbolic link of another user" if kind == "link" else "the input folder was renamed or replaced"
    assert words in out + err and not (victim.home / "out/d/r").exists(), (out, err)


def test_watched_folder_that_another_user_replaces_is_not_searched(victim, other, replaced):
    shared, attack, kind = replaced
    process = victim.start("sh", "-c", 'exec "$@" 2>err', "sh", "gpuq", "launch", "--watch", "--input-dir", shared / "in", "--output-dir", victim.home / "out", "--pattern", "?", "--gpus", "sim:1",
                           "--", "sh", "-c", "cp {file} {output}/r", cwd=victim.home)
    until(lambda: process.poll() is not None or all((victim.home / f"out/{name}/r").exists() for name in "abcd"), "the first files")
    attack()
    words = "it was replaced with a symbolic link of another user" if kind == "link" else "was replaced, possibly by another user, so it is not searched"
    until(lambda: process.poll() is not None or words in (victim.home / "err").read_text(), "the warning")
    if kind == "folder":
        other.sh("mkdir next; echo new > next/f; mv in away; mv next in", shared)
        until(lambda: process.poll() is not None or (victim.home / "out/f/r").exists(), "the file of another folder of the other user")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, out
    assert not (victim.home / "out/e").exists() and (victim.home / "out/d/r").read_text() == "x\n", out


def test_link_that_another_user_makes_again_and_again_is_named_once(machine, victim, other):
    shared = machine.directory(GROUP)
    victim.sh("rm -rf out; echo precious > notes", victim.home)
    process = victim.start("gpuq", "launch", "--watch", "--input-dir", shared, "--output-dir", victim.home / "out", "--pattern", "*", "--gpus", "sim:1", "--",
                           "cp", "{file}", "{output}/r", cwd=victim.home)
    other.sh("echo x > first", shared)
    until(lambda: process.poll() is not None or (victim.home / "out/first/r").exists(), "the first file")
    other.sh(f"for i in 1 2 3 4 5; do ln -s '{victim.home}/notes' key; rm key; ln -s '{victim.home}/notes' key; mv key key2; rm key2; done; "
             f"ln -s '{victim.home}/notes' key; echo x > second", shared)
    until(lambda: process.poll() is not None or (victim.home / "out/second/r").exists(), "the second file")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and err.count("'key' is skipped") == 1, (out, err)


def test_links_with_ever_new_names_do_not_flood_a_watched_launch(machine, victim, other):
    """A warning for each name would fill the output and the memory."""
    shared = machine.directory(GROUP)
    victim.sh("rm -rf out err; echo precious > notes", victim.home)
    process = victim.start("sh", "-c", 'exec "$@" 2>err', "sh", "gpuq", "launch", "--watch", "--input-dir", shared, "--output-dir", victim.home / "out", "--pattern", "*",
                           "--gpus", "sim:1", "--", "cp", "{file}", "{output}/r", cwd=victim.home)
    other.sh("echo x > first", shared)
    until(lambda: process.poll() is not None or (victim.home / "out/first/r").exists(), "the first file")
    assert other.attack("import os, sys; os.chdir(sys.argv[1]); [os.symlink(sys.argv[2], f'key{n}') for n in range(1200)]; print('made')", shared,
                        victim.home / "notes") == "made"
    other.sh("echo x > second", shared)
    until(lambda: process.poll() is not None or (victim.home / "out/second/r").exists(), "the second file")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT)
    err = (victim.home / "err").read_text()
    assert process.returncode == 0, (out, err)
    assert err.count(" is skipped: ") == 1000 and err.count("are skipped without a warning") == 1, (err.count(" is skipped: "), err[-500:])


HOSTILE = ["x;touch stolen;", "x');import os;os.system('touch stolen')#", 'x");import os;os.system("touch stolen")#', "x|;e touch stolen;#",
           "a[$(touch stolen)]", "`touch stolen`", "$(shell touch stolen)", "a b"]
EXECUTORS = [
    ("sh", "-c", "cat {file} > {output}/r"),
    ("sh", "-c", "cat '{file}' > \"{output}/r\""),
    ("sh", "-c", 'trap "rm -f {output}/part" EXIT; cat {file}'),
    ("sh", "-c", "python3 -c \"print('{file}')\""),
    ("sh", "-c", 'python3 - <<EOF\nprint("{file}")\nEOF'),
    ("sh", "-c", 'echo INPUT | sed "s|INPUT|{file}|"'),
    ("sh", "-c", 'flock /dev/null -c "cat {file}"'),
    ("sh", "-c", "--", "cat {file}"),
    ("bash", "-o", "pipefail", "-c", "cat {file}"),
    ("bash", "-c", "[[ {stem} -gt 5 ]] || cat {file}"),
    ("bash", "-c", "echo $(( {stem}0 ))"),
    ("python3", "-c", "open('{file}')"),
    ("./wrap", "--wrap=cat {file}"),
    ("./wrap", "--wrap={file}"),
    ("env", "-S", "cat {file}"),
    ("make", "-f", "/dev/null", "--eval", "$(FILE)", "FILE={name}"),
]


def test_names_that_another_user_chose_are_not_executed(machine, victim, other):
    """They are executed neither as shell commands, directly or through another program, nor as code of another language."""
    shared = machine.directory(GROUP)
    for name in HOSTILE:
        other.sh(f"echo 1 > {shlex.quote(name)}", shared)
    other.sh("echo 'true' > fine; chmod 755 fine", shared)
    plant(victim, victim.home / "wrap", '#!/bin/sh\nexec sh -c "${1#--wrap=}"\n', 0o755)
    victim.sh("rm -rf out stolen", victim.home)
    for command in EXECUTORS:
        result = victim.gpuq("launch", "--input-dir", shared, "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", "--force", "--",
                             *command, cwd=victim.home)
        assert not list(victim.home.rglob("stolen")), command
        said = result.stdout + result.stderr
        if command[0] != "make":
            assert f"1 of {1 + len(HOSTILE)} files done, {len(HOSTILE)} failed" in said, (command, said)
        assert "its path has special characters, which the command could execute" in said, (command, said)


def test_names_that_another_user_chose_are_input_files_of_sed_and_sox(machine, victim, other):
    """They are not scripts, even if they look like scripts."""
    shared = machine.directory(GROUP)
    names = ["a - x", "e touch stolen", "1e touch stolen (2)"]
    for name in names:
        other.sh(f"echo 1 > {shlex.quote(name)}", shared)
    plant(victim, victim.home / "sox", '#!/bin/sh\ncase $1 in "|"*) sh -c "${1#|}";; esac\ncp "$1" "$2"\n', 0o755)
    for command in (("sed", "-n", "1w /dev/null", "{file}"), ("sed", "-n", "-s", "1p", "{file}"), ("./sox", "{file}", "{output}/x.wav")):
        victim.sh("rm -rf out stolen", victim.home)
        result = victim.gpuq("launch", "--input-dir", shared, "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", "--", *command,
                             cwd=victim.home)
        assert result.returncode == 0 and f"{len(names)} of {len(names)} files done" in result.stdout, (command, result)
        assert not list(victim.home.rglob("stolen")), command
    for command in (("sed", "{file}", "/dev/null"), ("perl", "-ne", "1", "{file}"), ("sed", "-n", "-e", "{file}", "/dev/null")):
        victim.sh("rm -rf out stolen", victim.home)
        result = victim.gpuq("launch", "--input-dir", shared, "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", "--", *command,
                             cwd=victim.home)
        assert f"0 of {len(names)} files done, {len(names)} failed" in result.stdout, (command, result)
        assert not list(victim.home.rglob("stolen")), command


# Special characters that mean something to a program: mounts for apptainer, patterns for sox and curl, numbers for ffmpeg.
SIGNS = ["a:/usr/bin", "a -x", "a,b", "a=b", "a@b", "%d", "[ab]", "{a,b}", "a*", "a?", "~", "a\\b", "a#b", "a'b", "a\tb"]


def test_command_gets_names_of_others_only_without_special_characters(machine, victim, other):
    """Nobody knows what all programs do with special characters in their arguments."""
    shared = machine.directory(STICKY)
    for name in [*HOSTILE, *SIGNS]:
        other.sh(f"mkdir -p {shlex.quote(name)}; echo 1 > {shlex.quote(name)}/x.wav; echo 1 > {shlex.quote(name)}.wav", shared)
    launch = ("launch", "--input-dir", shared, "--output-dir", "out", "-r", "--pattern", "*.wav", "--gpus", "sim:1")
    count = 2 * len([*HOSTILE, *SIGNS])
    for words in ("{file}", "{dir}", "--in={dir}", "{output}/x"):
        victim.sh("rm -rf out", victim.home)
        result = victim.gpuq(*launch, "--", "true", words, cwd=victim.home)
        assert f"2 of {count} files done, {count - 2} failed" in result.stdout, (words, result)
        assert "its path has characters other than letters, digits, blanks and _./+-(), which the command could interpret, and other users can choose names" in result.stdout + result.stderr
        assert "use --trust (trust_input) if you trust these users" in result.stdout + result.stderr
    victim.sh("rm -rf out", victim.home)
    assert victim.gpuq(*launch, "--trust", "--", "cp", "{file}", "{output}/r", cwd=victim.home).returncode == 0


def test_command_gets_the_input_folder_of_others_only_without_special_characters(machine, victim, other):
    """The folder that a link of another user leads to has a name that apptainer -B takes for a mount."""
    shared = machine.directory(STICKY)
    other.sh("mkdir -p x:/usr/bin; echo 1 > x:/usr/bin/a; ln -s x:/usr/bin data", shared)
    launch = ("launch", "--input-dir", shared / "data", "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1")
    victim.sh("rm -rf out", victim.home)
    result = victim.gpuq(*launch, "--", "true", "-B", "{dir}", cwd=victim.home)
    assert result.returncode == 1 and "other users can choose names in this path" in result.stdout + result.stderr, result
    victim.sh("rm -rf out", victim.home)
    assert victim.gpuq(*launch, "--trust", "--", "true", "-B", "{dir}", cwd=victim.home).returncode == 0
    victim.sh("rm -rf out; mkdir -p a@b/in; chmod 777 a@b a@b/in; echo 1 > a@b/in/x", victim.home)
    result = victim.gpuq("launch", "--input-dir", "a@b/in", *launch[3:], "--", "true", "{dir}", cwd=victim.home)
    assert result.returncode == 0, "others could not choose this name"


def test_command_gets_any_name_as_a_variable_or_with_trust(machine, victim, other):
    shared = machine.directory(GROUP)
    for name in HOSTILE:
        other.sh(f"echo 1 > {shlex.quote(name)}", shared)
    for command in (("--trust", "--", "cp", "{file}", "{output}/r"), ("--trust", "--", "sh", "-c", 'cp "$1" "$0"', "{output}/r", "{file}"),
                    ("--", "sh", "-c", 'cd "$GPUQ_DIR"; test -e "$GPUQ_NAME"; cp "$GPUQ_FILE" "$GPUQ_OUTPUT/r"')):
        victim.sh("rm -rf out stolen", victim.home)
        result = victim.gpuq("launch", "--input-dir", shared, "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1", *command,
                             cwd=victim.home)
        assert result.returncode == 0, result
        assert len(list((victim.home / "out").glob("*/r"))) == len(HOSTILE)
        assert not list(victim.home.rglob("stolen")), command


def test_links_of_the_user_through_links_of_another_user_are_not_input(machine, victim, other):
    """The other user controls where the victim's links in the input folder lead."""
    shared = machine.directory(STICKY)
    other.sh(f"ln -s '{victim.home}' way; echo x > theirs; ln -s theirs good; ln -s '{shared}/group' leak", shared)
    (shared / "group").write_text("for the group\n")
    os.chown(shared / "group", 0, victim.groups[-1])
    (shared / "group").chmod(0o640)
    victim.sh(f"rm -rf in4 out; mkdir in4; cd in4; ln -s '{shared}/way/notes' key; ln -s '{shared}/way/target' folder; ln -s ../notes mine;"
              f"ln -s '{shared}/good' good; ln -s '{shared}/leak' leak", victim.home)
    result = victim.gpuq("launch", "--input-dir", "in4", "--output-dir", "out", "--pattern", "*", "--recursive", "--gpus", "sim:1", "--", "true",
                         cwd=victim.home)
    assert result.returncode == 0, result
    for name, what in (("key", "file of yours"), ("folder", "folder"), ("leak", "file that not everybody can read")):
        assert f"'{name}' is skipped: its path contains a symbolic link of another user to a {what}" in result.stderr, result
    assert sorted(path.name for path in (victim.home / "out").iterdir() if path.is_dir()) == ["good", "launch.logs", "mine"]


@pytest.mark.parametrize("trust", [(), ("--trust",)])
def test_links_of_the_user_through_links_of_another_user_are_not_result_folders(machine, victim, other, trust):
    shared = machine.directory(STICKY)
    other.sh(f"ln -s '{victim.home}/target' way", shared)
    for name in ("a", "launch.logs"):
        victim.sh(f"rm -rf out; mkdir out; ln -s '{shared}/way' out/{name}", victim.home)
        result = launch(victim, victim.home, *trust)
        assert result.returncode != 0 and "another user" in result.stdout + result.stderr, result
        assert list((victim.home / "target").iterdir()) == []
    victim.sh("rm -rf out; mkdir out; ln -s ../target out/a", victim.home)
    assert launch(victim, victim.home, *trust).returncode == 0
    assert (victim.home / "target/result").exists()


def test_link_of_a_result_that_leads_through_a_directory_of_the_group_must_be_accepted(machine, victim):
    """A member could rename a folder on the way and put a link to the victim's files in its place."""
    shared = machine.directory(GROUP)
    victim.sh("mkdir -p results/a", shared)
    victim.sh(f"rm -rf out; mkdir out; ln -s '{shared}/results/a' out/a", victim.home)
    result = launch(victim, victim.home)
    assert result.returncode == 1 and "one of its parent folders has a symbolic link" in result.stdout + result.stderr, result
    assert launch(victim, victim.home, "--trust", "--force").returncode == 0
    assert (shared / "results/a/result").exists()


def test_input_named_like_the_lock_of_a_launch_has_its_own_folder(victim):
    victim.sh("rm -rf in2 out; mkdir in2; echo 1 > in2/launch.lock.wav; echo 1 > in2/launch.logs.wav", victim.home)
    result = victim.gpuq("launch", "--input-dir", "in2", "--output-dir", "out", "--gpus", "sim:1", "--", "true", cwd=victim.home)
    assert result.returncode == 0, result
    assert (victim.home / "out/launch.lock.wav").is_dir()


def test_group_that_can_rename_the_output_folder_must_be_accepted(machine, victim, other):
    """A member replaces it with a link while a worker is busy, and so redirects the results."""
    shared = machine.directory(GROUP)
    victim.sh("mkdir -p project/out", shared)
    for output in ("project/out", "project/new", "project/../project/out"):
        is_refused(launch(victim, shared, output=("--output-dir", output)), f"'{shared}' can be written by its group")
    assert launch(victim, shared, "--trust", output=("--output-dir", "project/out")).returncode == 0
    assert (shared / "project/out/a/result").exists() and not (shared / "project/new").exists()
    # In a sticky directory users cannot rename entries of others. Links of its owner are followed.
    own = machine.project(victim)
    victim.sh(f"mkdir '{victim.home}/results'; ln -s '{victim.home}' mine", own)
    assert launch(victim, own, output=("--output-dir", "mine/results")).returncode == 0
    assert (victim.home / "results/a/result").exists()


def test_links_and_pipes_in_an_accepted_output_folder_are_not_followed(machine, victim, other):
    shared = machine.directory(GROUP)
    other.sh(f"mkdir -m 777 out; ln -s '{victim.home}/target' out/a", shared)
    result = launch(victim, shared, "--trust")
    assert result.returncode == 1 and "symbolic link of another user" in result.stdout + result.stderr, result
    assert list((victim.home / "target").iterdir()) == []
    other.sh("rm -f out/a", shared)
    victim.sh("rm -rf out/launch.*", shared)
    for plan in (f"ln -s '{victim.home}/target' out/launch.logs", "mkdir -m 777 out/launch.logs"):
        other.sh(plan, shared)
        result = launch(victim, shared, "--trust")
        assert result.returncode == 2 and "it was created by another user; remove it" in result.stderr, result
        other.sh("rm -rf out/launch.logs", shared)
    assert list((victim.home / "target").iterdir()) == []


@pytest.mark.parametrize("plan", ["ln -s ../../notes worker-0.log", "mkfifo -m 666 worker-0.log", ": > worker-0.log; chmod 666 *"])
def test_log_of_a_worker_is_a_file_of_its_user(victim, other, plan):
    """The folder was open to all for a while."""
    victim.sh("rm -rf out; mkdir -p out/launch.logs", victim.home)
    logs = victim.home / "out/launch.logs"
    logs.chmod(0o777)
    victim.home.chmod(0o711)
    try:
        other.sh(plan, logs)
    finally:
        logs.chmod(0o700)
        victim.home.chmod(0o700)
    result = launch(victim, victim.home)
    assert result.returncode != 0, result
    assert (victim.home / "notes").read_text() == "precious\n"
    if (logs / "worker-0.log").is_file():
        assert (logs / "worker-0.log").stat().st_size == (9 if (logs / "worker-0.log").is_symlink() else 0)


def test_logs_of_a_launch_are_for_their_owner_alone(machine, victim):
    """Even if the umask allows everyone. The new folder can be reused."""
    shared = machine.directory(STICKY)
    words = ("gpuq", "launch", "--input-dir", victim.home / "in", "--pattern", "*", "--gpus", "sim:1", "--force", "--", "echo", "hi")
    for umask in (0, 0o002):
        result = victim.run(*words, cwd=shared, umask=umask)
        assert result.returncode == 0, result
    logs = shared / "data/outputs/launch.logs"
    assert stat.S_IMODE(logs.stat().st_mode) & 0o777 == 0o700
    assert stat.S_IMODE((logs / "worker-0.log").stat().st_mode) == 0o600


def test_planted_lock_of_a_launch_is_named(victim, other):
    victim.sh("rm -rf out; mkdir out; ln -s ../notes out/launch.lock", victim.home)
    result = launch(victim, victim.home)
    assert result.returncode == 2, result
    assert "out/launch.lock': it is a symbolic link; remove it" in result.stderr, result


# ---- The output of a map ----------------------------------------------------------------


def test_results_of_a_map_do_not_go_into_a_pipe_of_another_user(machine, victim, other):
    shared = machine.directory(STICKY)
    hold_pipe(other, shared / "results.jsonl")
    other.sh("mkfifo -m 666 alone; ln -s results.jsonl link", shared)
    victim.sh("echo 1 > items", victim.home)
    for name, why in (("results.jsonl", "it is a pipe of another user"), ("alone", "it is a pipe of another user"),
                      ("link", "its path contains a symbolic link of another user")):
        result = victim.gpuq("map", "--input", victim.home / "items", "--output", name, "--gpus", "sim:1", "--worker-command", "true", cwd=shared)
        assert result.returncode != 0 and f"cannot write output '{name}': {why}" in result.stderr, result


def test_map_does_not_wait_for_a_pipe_of_another_user_in_the_place_of_its_input(machine, victim, other):
    shared = machine.directory(GROUP)
    victim.sh("echo 1 > items", shared)
    other.sh("rm -f items; mkfifo -m 666 items", shared)
    result = victim.gpuq("map", "--input", "items", "--output", victim.home / "results.jsonl", "--gpus", "sim:1", "--worker-command", "true", cwd=shared)
    assert result.returncode == 2 and "cannot read input 'items': it is a pipe of another user" in result.stderr, result


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/ptmx"])
def test_map_does_not_read_a_device_that_another_user_has_put_in_the_place_of_its_input(machine, victim, other, device):
    """Such a device has items without end."""
    shared = machine.directory(GROUP)
    victim.sh("echo 1 > items", shared)
    other.sh(f"rm -f items; ln -s {device} items", shared)
    result = victim.gpuq("map", "--input", "items", "--output", victim.home / "results.jsonl", "--gpus", "sim:1", "--worker-command", "true", cwd=shared)
    assert result.returncode == 2 and "cannot read input 'items': its path contains a symbolic link of another user; " in result.stderr, result
    other.sh("rm items", shared)
    victim.sh(f"ln -s {device} latest", shared)
    other.sh("mv latest items", shared)
    result = victim.gpuq("map", "--input", "items", "--output", victim.home / "results.jsonl", "--gpus", "sim:1", "--worker-command", "true", cwd=shared)
    assert result.returncode == 2 and "cannot read input 'items': it is a device, which another user may have put there" in result.stderr, result
    assert victim.gpuq("map", "--input", "/dev/null", "--output", victim.home / "none.jsonl", "--gpus", "sim:1", "--worker-command", "true", cwd=shared).returncode == 0


# A worker that prints to its log.
MAPPER = """import json, sys
print("said", file=sys.stderr)
print(json.dumps({"type": "ready"}), flush=True)
sys.stdin.readline()
for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps({"id": message["id"], "ok": True, "results": message["items"]}), flush=True)
"""


def run_map(user, output, *words):
    plant(user, user.home / "mapper.py", MAPPER)
    user.sh("echo 1 > items", user.home)
    return user.gpuq("map", "--input", user.home / "items", "--output", output, "--gpus", "sim:1", *words, "--worker-command",
                     f"python3 {user.home}/mapper.py", cwd=user.home)


LINK = "its path contains a symbolic link of another user to "


def test_map_does_not_read_a_private_file_behind_a_link_of_another_user(machine, victim, other):
    shared, project = machine.directory(GROUP), machine.project(victim)
    plant(victim, victim.home / "mapper.py", MAPPER)
    (shared / "secret").write_text("root's\n")
    (shared / "secret").chmod(0o600)
    victim.sh("mkdir -m 755 folder; echo mine > folder/items", project)
    other.sh(f"ln -s '{victim.home}/notes' notes; ln -s '{project}/folder' folder; ln -s secret secret.link; echo theirs > theirs; ln -s theirs public", shared)
    victim.sh(f"ln -s '{shared}/notes' own; echo mine > items; ln -s items link", project)

    def read(name, script='gpuq "$@"'):
        victim.sh("rm -rf results.jsonl*", project)
        return victim.run("bash", "-c", script, "bash", "map", "--lines", "--input", name, "--output", "results.jsonl", "--gpus", "sim:1",
                          "--worker-command", f"python3 {victim.home}/mapper.py", cwd=project)

    for name, why in ((shared / "notes", "a file of yours; to use it, name it without this link"), ("own", "a file of yours"),
                      (shared / "folder/items", "a file of yours"), (f"../{shared.name}/notes", "a file of yours"),
                      (shared / "folder", "a folder"), (shared / "secret.link", "a file that not everybody can read")):
        result = read(name)
        assert result.returncode == 2 and f"cannot read input '{name}': {LINK}{why}" in result.stderr, result
        assert not (project / "results.jsonl").exists()
    for name, script, text in (("link", 'gpuq "$@"', "mine"), (shared / "public", 'gpuq "$@"', "theirs"), (shared / "theirs", 'gpuq "$@"', "theirs"),
                               ("-", f'gpuq "$@" < "{shared}/notes"', "precious"), ("/dev/stdin", 'echo piped | gpuq "$@"', "piped"),
                               ("/dev/fd/9", 'gpuq "$@" 9< <(echo passed)', "passed")):
        result = read(name, script)
        assert result.returncode == 0 and f'"{text}"' in (project / "results.jsonl").read_text(), result


@pytest.mark.parametrize("place", ["group", "sticky", "current directory", "own"])
def test_results_of_an_input_that_another_user_can_exchange_are_private(machine, victim, other, place):
    """The other user renames a link of the victim to the name of the input."""
    shared = machine.directory(STICKY if place == "sticky" else GROUP)
    project = machine.project(victim)
    plant(victim, victim.home / "mapper.py", MAPPER)
    victim.sh(f"ln -s '{victim.home}/notes' latest", shared)
    if place != "sticky":
        other.sh("mv latest items", shared)
    folder = {"own": project, "current directory": "."}.get(place, shared)
    name = "latest" if place == "sticky" else "items"
    victim.sh("echo mine > items", project)

    def modes(*words):
        victim.sh("rm -rf results.jsonl* errors.jsonl*", project)
        result = victim.run("gpuq", "map", "--lines", "--input", f"{folder}/{name}", "--output", project / "results.jsonl", "--errors",
                            project / "errors.jsonl", "--gpus", "sim:1", *words, "--worker-command", f"python3 {victim.home}/mapper.py",
                            cwd=shared if folder == "." else project, umask=0o022)
        assert result.returncode == 0, result
        return {stat.S_IMODE((project / name).stat().st_mode) for name in ("results.jsonl", "errors.jsonl")}

    assert modes() == {0o644 if place == "own" else 0o600}
    assert modes("--trust") == {0o644}


@pytest.mark.parametrize("way, folder, private", [
    ('< "$1"', "group", True), ('< "$1"', "sticky", True), ('< "$1"', "own", False), ('--input /dev/stdin < "$1"', "group", True),
    ('--input /dev/fd/9 9< "$1"', "group", True), ('< <(cat "$1")', "group", False), ('< "$1" --trust', "group", False),
])
def test_results_of_a_redirected_input_that_another_user_can_exchange_are_private(machine, victim, other, way, folder, private):
    """The other user renames a file of the victim to the name of the input."""
    project = machine.project(victim)
    shared = {"group": GROUP, "sticky": STICKY}.get(folder)
    place = machine.directory(shared) if shared else project
    plant(victim, victim.home / "mapper.py", MAPPER)
    victim.sh("echo precious > items", place)
    if folder == "group":
        other.sh("mv items moved; mv moved items", place)
    script = f'gpuq map --lines --output results.jsonl --gpus sim:1 --worker-command "python3 $2/mapper.py" {way}'
    result = victim.run("bash", "-c", script, "bash", place / "items", victim.home, cwd=project)
    assert result.returncode == 0 and "precious" in (project / "results.jsonl").read_text(), result
    assert stat.S_IMODE((project / "results.jsonl").stat().st_mode) == (0o600 if private else 0o644), result
    assert ("with mode 0600" in result.stderr) == private, result


@pytest.mark.parametrize("folder, private", [("group", True), ("sticky", False), ("own", False)])
def test_results_of_a_removed_input_are_private_if_another_user_can_have_removed_it(machine, victim, folder, private):
    """Shells remove the file of a here-document, which is in a sticky directory."""
    project = machine.project(victim)
    shared = {"group": GROUP, "sticky": STICKY}.get(folder)
    plant(victim, victim.home / "mapper.py", MAPPER)
    script = f'echo precious > "$1"; exec < "$1"; rm "$1"; gpuq map --lines --output results.jsonl --gpus sim:1 --worker-command "python3 {victim.home}/mapper.py"'
    result = victim.run("bash", "-c", script, "bash", (machine.directory(shared) if shared else project) / "items", cwd=project)
    assert result.returncode == 0 and "precious" in (project / "results.jsonl").read_text(), result
    assert stat.S_IMODE((project / "results.jsonl").stat().st_mode) == (0o600 if private else 0o644), result
    assert ("with mode 0600" in result.stderr) == private, result


# A worker that fails all items until the file `good` exists.
FAILING = MAPPER.replace('"ok": True, "results": message["items"]',
                         '**({"ok": True, "results": message["items"]} if os.path.exists(sys.argv[1]) else {"ok": False, "error": "bad"})').replace(
                             "import json, sys", "import json, os, sys")


def test_draft_of_another_user_does_not_keep_failed_items_from_their_retry(machine, victim, other):
    shared = machine.directory(STICKY)
    plant(victim, victim.home / "failing.py", FAILING)
    victim.sh("echo 1 > items; rm -f good", victim.home)
    words = ("map", "--input", victim.home / "items", "--output", "results.jsonl", "--gpus", "sim:1", "--worker-command",
             f"python3 {victim.home}/failing.py {victim.home}/good")
    assert victim.gpuq(*words, cwd=shared).returncode == 1
    other.sh("touch .results.jsonl.gpuq-draft", shared)
    victim.sh("touch good", victim.home)
    result = victim.gpuq(*words, cwd=shared)
    assert result.returncode == 0, result
    assert '"error"' not in (shared / "results.jsonl").read_text()
    assert [path.name for path in shared.iterdir() if "draft" in path.name] == [".results.jsonl.gpuq-draft"]


MOVED = "another user may have moved it there; remove it, choose another file, or use --trust"


def forge(machine, user, other, target, text):
    """A file of the user, with content of the other user, who moves it from a directory of the group."""
    shared = machine.directory(GROUP)
    plant(user, shared / "copied", text)
    other.sh(f"mv -n copied '{target}'", shared)
    assert target.read_text() == text


@pytest.mark.parametrize("before", ["nothing", "an output that was removed"])
def test_file_that_another_user_moves_to_the_name_of_the_output_of_a_map_is_not_continued(machine, victim, other, before):
    shared = machine.directory(STICKY)
    output = shared / "results.jsonl"
    genuine = victim.home / "genuine.jsonl"
    victim.sh("rm -rf genuine*", victim.home)
    assert run_map(victim, genuine).returncode == 0
    if before != "nothing":
        assert run_map(victim, output).returncode == 0
        output.unlink()
    forged = genuine.read_text().replace('"result":1', '"result":666')
    forge(machine, victim, other, output, forged)
    refused(run_map(victim, output), MOVED)
    refused(run_map(victim, victim.home / "genuine.jsonl", "--errors", output), MOVED)
    assert output.read_text() == forged
    assert run_map(victim, output, "--trust").returncode == 0
    output.unlink()
    assert run_map(victim, output).returncode == 0
    assert output.read_text() == genuine.read_text()


def test_output_of_a_map_in_a_sticky_directory_is_continued(machine, victim):
    """Even after its failed items were removed from it, which replaces the file, or if it was empty before. The same for a
    file of --errors, also after a run without it."""
    shared = machine.directory(STICKY)
    plant(victim, victim.home / "failing.py", FAILING)
    victim.sh("echo 1 > items; rm -f good", victim.home)
    victim.sh("touch results.jsonl; (umask 077; touch errors.jsonl)", shared)
    for errors in 2 * ((), ("--errors", "errors.jsonl")):
        words = ("map", "--input", victim.home / "items", "--output", "results.jsonl", *errors, "--gpus", "sim:1", "--worker-command",
                 f"python3 {victim.home}/failing.py {victim.home}/good")
        assert [victim.gpuq(*words, cwd=shared).returncode for _ in range(3)] == [1, 1, 1]
    assert "error" not in (shared / "results.jsonl").read_text() and "bad" in (shared / "errors.jsonl").read_text()
    victim.sh("touch good", victim.home)
    assert victim.gpuq(*words, cwd=shared).returncode == 0
    result = victim.gpuq(*words, cwd=shared)
    assert result.returncode == 0 and "all 1 items are in the output already" in result.stdout, result


def test_empty_file_in_a_sticky_directory_is_replaced_with_a_private_output(machine, victim, other):
    """Another user may have moved it there: others may be able to read it, and a process of this user may write to it."""
    shared = machine.directory(STICKY)
    forge(machine, victim, other, shared / "results.jsonl", "")
    victim.sh("echo 1 > items", victim.home)
    with (shared / "results.jsonl").open() as held:
        assert stat.S_IMODE(os.fstat(held.fileno()).st_mode) == 0o644
        run_map(victim, shared / "results.jsonl")
        assert held.read() == ""
    text = (shared / "results.jsonl").read_text()
    assert "1" in text and stat.S_IMODE((shared / "results.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize("umask", [0o007, 0o027, 0o077])
def test_output_of_a_map_is_created_in_a_sticky_directory_with_any_umask(machine, victim, umask):
    shared = machine.directory(STICKY)
    plant(victim, victim.home / "failing.py", FAILING)
    victim.sh("echo 1 > items; touch good", victim.home)
    words = ("map", "--input", victim.home / "items", "--output", "results.jsonl", "--gpus", "sim:1", "--worker-command",
             f"python3 {victim.home}/failing.py {victim.home}/good")
    for _ in range(2):
        result = victim.run("gpuq", *words, cwd=shared, umask=umask)
        assert result.returncode == 0, result
    assert stat.S_IMODE((shared / "results.jsonl").stat().st_mode) == 0o644 & ~umask


def test_group_that_can_rename_a_directory_above_the_output_of_a_map_must_be_accepted(machine, victim):
    """A member could replace it with a link and so redirect the log of the next worker."""
    shared = machine.directory(GROUP)
    victim.sh(f"mkdir -m 700 project; ln -s '{shared}/project/out.jsonl' '{victim.home}/link.jsonl'", shared)
    for output in (shared / "project/out.jsonl", "link.jsonl"):
        refused(run_map(victim, output), f"'{shared}' can be written by its group")
    assert not list((shared / "project").iterdir())
    assert run_map(victim, shared / "project/out.jsonl", "--trust").returncode == 0
    assert "said" in (shared / "project/out.jsonl.logs/worker-0.log").read_text()
    victim.sh("rm link.jsonl", victim.home)


def test_logs_of_a_map_are_next_to_the_file_that_a_link_leads_to(machine, victim, other):
    """Next to the link, another user has created the folder of logs."""
    shared = machine.project(victim)
    shared.chmod(STICKY)
    other.sh(f"mkdir -m 777 link.jsonl.logs; ln -s '{victim.home}/notes' link.jsonl.logs/worker-0.log", shared)
    victim.sh(f"ln -s '{victim.home}/real.jsonl' link.jsonl", shared)
    victim.sh("rm -rf real*", victim.home)
    result = run_map(victim, shared / "link.jsonl")
    assert result.returncode == 2 and "is a symbolic link that another user may have moved there" in result.stderr, result
    shared.chmod(0o755)
    result = run_map(victim, shared / "link.jsonl")
    assert result.returncode == 0, result
    assert (victim.home / "notes").read_text() == "precious\n"
    assert "said" in (victim.home / "real.jsonl.logs/worker-0.log").read_text()


def test_folder_of_logs_of_a_map_that_others_can_replace_is_refused(machine, victim):
    shared = machine.directory(GROUP)
    victim.sh(f"mkdir -p {shared}/project/logs; rm -rf own*; ln -s {shared}/project/logs own.jsonl.logs", victim.home)
    refused(run_map(victim, "own.jsonl"), f"refusing to write logs to 'own.jsonl.logs': '{shared}' can be written by its group")
    assert run_map(victim, "own.jsonl", "--trust").returncode == 0
    victim.sh("rm -rf own*; mkdir own.jsonl.logs; chmod 777 own.jsonl.logs", victim.home)
    refused(run_map(victim, "own.jsonl"), "it can be written by everybody")


# ---- The history of a launch ------------------------------------------------------------


def launch_with_umask(user, folder, *words):
    return user.run("gpuq", "launch", "--input-dir", user.home / "in", "--output-dir", "out", "--pattern", "*", "--gpus", "sim:1",
                    *words, "--", "true", cwd=folder, umask=0o002)


def test_group_cannot_write_the_history_of_a_launch(machine, owner, other):
    shared = owner.home / "work"
    owner.sh(f"rm -rf work in; mkdir -p work in; echo 1 > in/a; chgrp {machine.group} work; chmod 2755 work", owner.home)
    assert launch_with_umask(owner, shared).returncode == 0
    history = shared / "out/launch.jsonl"
    assert history.stat().st_gid != owner.gid
    assert stat.S_IMODE(history.stat().st_mode) == 0o644
    # As created by an older version.
    history.chmod(0o664)
    before = history.read_text()
    result = launch_with_umask(owner, shared)
    assert result.returncode == 2, result
    assert "out/launch.jsonl': it can be written by its group" in result.stderr and "--trust" in result.stderr, result
    assert history.read_text() == before
    assert "skipped" in launch_with_umask(owner, shared, "--trust").stdout


def test_plug_in_at_the_old_path_of_a_renamed_directory_is_not_loaded(machine, victim, other):
    """A worker that died is replaced by a new one, which loads the plug-in again."""
    shared, good = machine.directory(STICKY), BUILD / "tests/launch/plugins/good.so"
    victim.sh("mkdir project files; echo x > files/waits; echo x > files/z", shared)
    shutil.copy(good, shared / "project/w.so")
    os.chown(shared / "project/w.so", victim.uid, victim.gid)
    process = victim.start("gpuq", "launch", "--input-dir", shared / "files", "--pattern", "*", "--balance", "none", "--gpus", "sim:1",
                           "--output-dir", victim.home / "plug", "--worker", "./w.so", cwd=shared / "project")
    pid = victim.home / "plug/waits/waits.pid"
    until(lambda: process.poll() is not None or (pid.exists() and pid.read_text().endswith("\n")), "the first file")
    victim.sh("mv project moved", shared)
    other.sh("mkdir project", shared)
    shutil.copy(good, shared / "project/w.so")
    os.chown(shared / "project/w.so", other.uid, other.gid)
    victim.sh(f"kill -9 {pid.read_text()}", shared)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode != 0 and "project' belongs to another user" in err, (out, err)
    assert not (victim.home / "plug/z/z.pid").exists()
