# SPDX-License-Identifier: MIT
"""Completion among names that are code for a shell: of files, programs and jobs that other users have chosen."""
import pytest

from shells import EXECUTE, KILL, TAB, make_lab, start_bash, start_fish, start_zsh  # noqa: F401

RUN = "touch PWNED"
NAMES = (
    f'$((a[$({RUN})]))"', f"$((a[$({RUN})]))", f"$[a[$({RUN})]]", f"${{a[$({RUN})]}}", f"a[$({RUN})]", f"$({RUN})", f"`{RUN}`",
    f"({RUN})", f"<({RUN})", f"x\n{RUN}\n", f"x;{RUN}", f"-x;{RUN}", f"--config=$({RUN})", f"~;{RUN}", f"~root$({RUN})", f"!{RUN}",
    f"{{a,$({RUN})}}", "*", f"'$({RUN})'", f'"`{RUN}`"', f"\\$({RUN})", f"\\\\`{RUN}`\\", f"\\'$((a[$({RUN})]))\\\"", f"%n$({RUN})",
    f"=touch;{RUN}", f"$PWD;{RUN}", f"x\r{RUN}\r", f"\udcff$((a[$({RUN})]))",
)
# A directory and a file as the values of options, the program of `gpuq exec`, text for a shell, and arguments of a command.
STARTS = ("launch --input-dir ", "launch --input-dir=", "add --config ", "launch --input-dir='", 'add --config="', "exec ./", "add ./", "add cat ")
# The shell evaluates the line that results, but the command does nothing. `gpuq complete` stays as it is.
STUB = "gpuq() { if [[ $1 == complete ]]; then command gpuq \"$@\"; else echo r''an; fi; }; echo de''fined"
STUBS = {"bash": STUB, "zsh": STUB, "fish": "function gpuq; echo r''an; end; echo de''fined"}


def nothing_made(folder):
    return not list(folder.glob("PWNED*"))


def check(shell, folder, name, start):
    """TAB, three times, does not execute the line. When the line is then executed, no part of the name is."""
    shell.type(f"gpuq {start}" + TAB * 3)
    got = shell.line()
    context = (name, start, got)
    assert got.startswith("gpuq ") and "ran" not in shell.text, context
    assert nothing_made(folder), context
    # The shells differ in when they close a quotation.
    is_closed = not start.endswith(("'", '"')) and "\n" not in name
    shell.type(EXECUTE if is_closed else KILL)
    if is_closed:
        shell.until("ran")
        assert nothing_made(folder), context
    return got


@pytest.fixture(name="shell", params=STUBS)
def start_shell(lab, request):
    shell = request.getfixturevalue(request.param)
    shell.run(STUBS[request.param], "defined")
    return shell


def test_no_name_of_a_file_is_executed(lab, shell):
    lines = []
    for number, name in enumerate(NAMES):
        # A folder for each name, so that TAB needs no letter.
        folder = lab.directory / f"in{number}"
        for inner in ("sub1", "sub2"):
            (folder / name / inner).mkdir(parents=True)
        shell.run(f"cd {folder}; echo mo''ved", "moved")
        lines += [check(shell, folder, name, start) for start in STARTS]
    assert not list(lab.directory.rglob("PWNED*"))
    # The shells did insert names; otherwise this test would prove nothing.
    assert sum("PWNED" in line for line in lines) > 4 * len(NAMES), lines
    # Text for a shell has only plain names.
    assert not [line for line in lines if line.startswith("gpuq add ./") and "PWNED" in line]


@pytest.mark.parametrize("start", ["$D/", "${D}/", '"$D/', "$D/da", "~/"])
def test_no_name_below_a_variable_is_executed(lab, shell, start):
    """bash expands the names that it finds if the word has a variable."""
    for number, name in enumerate((f"data${{a[$({RUN})]}}", f"data$((a[$({RUN})]))", f"data$({RUN})", f"data`{RUN}`")):
        folder = lab.directory / f"in{number}"
        (folder / name).mkdir(parents=True)
        shell.run(f"cd {folder}; export D={folder} HOME={folder}; echo mo''ved", "moved")
        for words in ("launch --input-dir ", "exec -- cat ", "add --config "):
            shell.complete(f"gpuq {words}{start}", times=3)
            assert nothing_made(folder), (name, words)


@pytest.mark.parametrize("name", ["~", "~root"])
def test_folder_with_the_name_of_a_home_is_not_the_home(lab, shell, name):
    folder = lab.directory / "in"
    (folder / name / "x").mkdir(parents=True)
    shell.run(f"cd {folder}; echo mo''ved", "moved")
    for start in ("exec -- ls ", "add ls ", "launch --input-dir "):
        got = shell.complete(f"gpuq {start}", times=2)
        assert f" {name}" not in got, (start, got)


def test_no_folder_that_is_gone_is_executed(lab, shell):
    """bash expands a folder that does not exist. Its owner may have renamed it after the name was completed."""
    for name in (f"$((a[$({RUN})]))", f"$[a[$({RUN})]]", f"${{a[$({RUN})]}}", f"${{!a[$({RUN})]}}", f"\udcff$((a[$({RUN})]))"):
        quoted = "".join("\\" + c if not c.isalnum() else c for c in name)
        for word in (f"'{name}/", f"'{name}'/", f"{quoted}/", f"\\\\{quoted}/"):
            for option in ("launch --input-dir=", "add --config ", "add cat "):
                shell.complete(f"gpuq {option}{word}")
                assert nothing_made(lab.directory), (option, word)


def test_no_name_of_a_job_is_executed(lab, shell):
    for name in NAMES:
        lab.result("add", "--no-start", "--hold", "--name", name, "--", f"echo '%F{{red}}$({RUN})`{RUN}`' {name}")
    lab.gpuq("add", "--no-start", "--hold", "--name=--all", "true")
    lab.gpuq("add", "--no-start", "--hold", "--name", "plain-1", "--tag", "t", "true")
    for start in ("cancel ", "info ", "add --after ", "status --name ", "status --name=", "cancel 1,", "cancel '"):
        # zsh and fish ask before they print long lists, and select the first candidate at the third TAB.
        got = shell.complete(f"gpuq {start}", times=2)
        assert got.startswith(f"gpuq {start.rstrip()}") and "PWNED" not in got and "--all" not in got, (start, got)
    for start in ("status --name pl", "status --name=pl", "cancel pl", "cancel 1,pl"):
        assert shell.complete(f"gpuq {start}").rstrip() == f"gpuq {start}ain-1"
    assert nothing_made(lab.directory)


def test_words_are_plain(lab):
    """`gpuq complete` prints only words of letters, digits and _.,:=@%+/-, whatever is typed."""
    for name in NAMES:
        (lab.directory / name).mkdir()
        (lab.directory / name / "plain").write_text("")
        lab.result("add", "--no-start", "--hold", "--name", name, "--tag", "x", "--", "true")
    lab.gpuq("add", "--no-start", "--hold", "--name", "plain", "true")
    for words in (["cancel"], ["status", "--name"], ["add"], []):
        for typed in ("", ".", "./", "~/", "--", *NAMES, *(f"{name}/" for name in NAMES), *(f"{name}," for name in NAMES)):
            for line in lab.gpuq("complete", "--", *words, typed).splitlines():
                word = line.split("\t")[0]
                assert not word.removeprefix("~/").strip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=@%+/-"), line
                assert word or line == "\tfiles", line
