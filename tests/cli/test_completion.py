# SPDX-License-Identifier: MIT
"""Completion in bash, zsh and fish, in the shells themselves."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from shells import LIMIT, SCRIPTS, make_lab, start_bash, start_fish, start_zsh  # noqa: F401


def lines(lab, *words):
    """The output of `gpuq complete`: it never fails and writes nothing to standard error."""
    result = lab.result("complete", "--", *words)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


def offered(lab, *words):
    return [line.split("\t")[0] for line in lines(lab, *words)]


def commands(lab):
    text = lab.gpuq("help", "--all")
    return re.findall(r"^  ([a-z]+) ", text, re.MULTILINE)


def options(lab, command):
    """As --help lists them: (long ones, letters)."""
    text = lab.gpuq(command, "--help")
    heads = re.findall(r"^ {2,6}(-[^\s,]+(?:, -[^\s,]+)*)", text, re.MULTILINE)
    words = [word.split("=")[0] for head in heads for word in head.split(", ")]
    return {word for word in words if word.startswith("--")}, {word for word in words if re.fullmatch("-[a-zA-Z]", word)}


# ---- The shells ---------------------------------------------------------------------------


def in_bash(lab, *lines_, setup=""):
    """COMPREPLY for each line, as in bash: words are split at blanks, = and :."""
    script = [f"source {SCRIPTS}/gpuq.bash", setup]
    for line in lines_:
        words = re.findall(r"[^\s=:]+|[=:]+", line) + ([""] if line[-1] in " " else [])
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        script.append(f"COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n"
                      "_gpuq; printf '%s\\n' \"${COMPREPLY[@]}\" ---")
    result = subprocess.run(["bash", "--norc", "--noprofile", "-c", "\n".join(script)], cwd=lab.directory, env=lab.environment,
                            capture_output=True, text=True, timeout=LIMIT, check=True)
    assert result.stderr == ""
    return [[word for word in block.split("\n") if word] for block in result.stdout.split("---\n")[:-1]]


def in_fish(lab, *lines_):
    script = [f"source {SCRIPTS}/gpuq.fish"] + [f"complete -C '{line}'; echo ---" for line in lines_]
    result = subprocess.run(["fish", "--no-config", "-c", "\n".join(script)], cwd=lab.directory, env=lab.environment,
                            capture_output=True, text=True, timeout=LIMIT, check=True)
    assert result.stderr == ""
    return [[line.split("\t")[0] for line in block.split("\n") if line] for block in result.stdout.split("---\n")[:-1]]


# ---- Tables -------------------------------------------------------------------------------


def test_every_option_of_every_command_is_completed(lab):
    names = commands(lab)
    assert len(names) > 25
    known = {name: options(lab, name) for name in names if name != "help"}
    for name, (long, letters) in known.items():
        assert {"--help"} <= long
        assert set(offered(lab, name, "--")) == long, name
        assert set(offered(lab, name, "-")) == long | letters, name
    assert "--mem" in known["add"][0] and "-f" in known["logs"][1] and "--balance" in known["launch"][0]
    typed = [f"gpuq {name} --" for name in known]
    for in_shell in (in_bash, in_fish):
        for name, found in zip(known, in_shell(lab, *typed)):
            assert set(found) == known[name][0], (in_shell, name)


def test_commands_are_completed(lab):
    names = commands(lab)
    assert set(offered(lab, "")) == {*names, "--help", "--verbose", "--version"}
    assert offered(lab, "sta") == ["status"]
    assert set(offered(lab, "help", "")) == {*names, "--all"} - {"help"}
    assert "complete" not in names and offered(lab, "nonsense", "") == []
    assert lines(lab, "sta") == ["status\tList the jobs"]


def test_options_of_a_command_without_arguments_need_no_dash(lab):
    assert "--repair" in offered(lab, "verify", "")
    assert "--repair" not in offered(lab, "verify", "x")


def test_values_that_are_enumerations_are_completed(lab):
    states = ["pending", "held", "running", "completed", "failed", "cancelled", "unknown"]
    assert offered(lab, "status", "--state", "") == states
    assert offered(lab, "status", "--state=co") == ["--state=completed"]
    assert offered(lab, "ls", "--state", "running,co") == ["running,completed"]
    assert offered(lab, "run", "--cpu-affinity", "") == ["gpu", "none"]
    assert offered(lab, "run", "--log-access", "g") == ["group"]
    assert offered(lab, "launch", "--balance", "") == ["longest-first", "size", "round-robin", "none"]
    assert offered(lab, "add", "--signal", "USR") == ["USR1", "USR2"]
    assert offered(lab, "add", "--mem", "") == []
    for value in ("owner", "group", "all"):
        lab.gpuq("run", "--log-access", value, "--commands-file", "/dev/null")


def test_files_and_commands_are_left_to_the_shell(lab):
    for words in (["add", "--param-file", "x"], ["map", "--input="], ["report", "-o", ""], ["--verbose", "run", "--config", ""]):
        assert lines(lab, *words) == ["\tfiles"], words
    for words in (["launch", "--input-dir", ""], ["add", "--log-dir", ""], ["report", "--launch", ""]):
        assert lines(lab, *words) == ["\tdirectories"]
    assert lines(lab, "exec", "./x") == lines(lab, "exec", "no-such-program") == ["\tfiles"]
    assert lines(lab, "add", "--mem", "8G", "python3", "--sta") == ["\targuments 3"]
    assert lines(lab, "launch", "--input-dir", "x", "--", "ffmpeg", "-") == ["\targuments 4"]


def test_programs_with_plain_names_are_completed(lab):
    for name in ("train.py", "train;x", "-train", ".train", "tree/train", "tree/run.sh"):
        (lab.directory / name).parent.mkdir(exist_ok=True)
        (lab.directory / name).write_text("#!/bin/sh\n")
    for name in ("tree/run.sh", "train;x"):
        (lab.directory / name).chmod(0o755)
    for words in (["exec"], ["add", "--mem", "8G"], ["add", "--"]):
        assert offered(lab, *words, "a-pro") == ["a-program"]
    assert offered(lab, "add", "--on-finish=a-pro") == ["--on-finish=a-program"]
    # Only `gpuq add` takes scripts that are not executable.
    assert offered(lab, "add", "./tr") == ["./train.py", "./tree/"]
    assert [word for word in offered(lab, "add", "tr") if word.startswith(("tra", "tre"))] == ["train.py", "tree/"]
    assert offered(lab, "launch", "--", "./tr") == ["./tree/"]
    assert offered(lab, "edit", "1", "--command", "tree/") == ["tree/run.sh"]
    assert offered(lab, "add", "~/tree/") == ["~/tree/run.sh", "~/tree/train"]
    assert offered(lab, "add", "./.t") == ["./.train"] and offered(lab, "add", "-t") == []
    assert offered(lab, "add", "train;") == offered(lab, "add", "./no/") == offered(lab, "add", "$HOME/") == []


def test_command_of_a_launch_is_completed_after_the_dashes(lab):
    assert "true" in offered(lab, "launch", "--input-dir", "x", "--", "tru")
    assert lines(lab, "launch", "--input-dir", "x", "tru") == []
    assert "--pattern" in offered(lab, "launch", "--input-dir", "x", "")


# ---- The queue ----------------------------------------------------------------------------


def test_jobs_are_completed_by_what_the_command_can_do_with_them(lab):
    lab.add("--name", "train", "--tag", "night,big", "true")
    lab.add("--hold", "sleep 1")
    lab.add("true")
    lab.gpuq("cancel", 3)
    lab.gpuq("add", "--no-start", "--hold", "--param", "x=1,2", "echo {x}")
    assert lines(lab, "release", "2") == ["2\theld: sleep 1"]
    assert offered(lab, "hold", "") == ["1", "train", "tag:night", "tag:big"]
    assert offered(lab, "retry", "") == ["3"]
    assert offered(lab, "release", "") == ["5", "4", "2", "g4"]
    assert offered(lab, "info", "")[:5] == ["5", "4", "3", "2", "1"]
    assert offered(lab, "cancel", "1,t") == ["1,train", "1,tag:night", "1,tag:big"]
    assert offered(lab, "add", "--after", "2,") == [f"2,{n}" for n in (5, 4, 3, 2, 1, "g4", "train", "tag:night", "tag:big")]
    assert offered(lab, "status", "--name", "") == ["train"]
    assert offered(lab, "edit", "1", "--tag", "night,b") == ["night,big"]


def test_the_queue_is_the_one_of_the_command_line(lab):
    lab.gpuq("add", "--no-start", "--jobs-file", "other.jsonl", "--name", "elsewhere", "true")
    assert offered(lab, "cancel", "") == []
    assert offered(lab, "cancel", "--jobs-file", "other.jsonl", "") == ["1", "elsewhere"]
    assert offered(lab, "cancel", "--jobs-file=~/other.jsonl", "e") == ["elsewhere"]


def test_gpus_are_completed(lab):
    assert offered(lab, "add", "--gpu", "") == ["0", "1"]
    assert offered(lab, "exec", "--gpu", "0,") == ["0,0", "0,1"]
    assert offered(lab, "run", "--gpus", "") == ["auto", "all", "sim:4", "0", "1"]
    uuids = [gpu["uuid"] for gpu in json.loads(lab.gpuq("gpus", "--json"))]
    assert offered(lab, "add", "--gpu", "GPU-") == uuids


def test_without_a_queue_nothing_is_printed_or_created(lab):
    before = sorted(path.name for path in lab.directory.iterdir())
    assert lines(lab, "cancel", "") == []
    assert sorted(path.name for path in lab.directory.iterdir()) == before
    assert lab.result("complete").returncode == 0 and lab.result("complete", "--").returncode == 0
    (lab.directory / "gpuq.yaml").write_text("nonsense: [\n")
    assert lines(lab, "cancel", "") == []
    assert "--all" in offered(lab, "cancel", "--")
    (lab.directory / "gpuq.yaml").unlink()
    lab.journal.write_text("no journal\n")
    assert lines(lab, "cancel", "") == []
    lab.journal.unlink()
    os.mkfifo(lab.journal)
    assert lines(lab, "cancel", "") == []


def test_a_journal_that_others_can_write_offers_nothing(lab):
    lab.add("--name", "mine", "true")
    lab.journal.chmod(0o666)
    assert offered(lab, "cancel", "") == [] and offered(lab, "status", "--name", "") == []
    assert offered(lab, "cancel", "--trust", "") == ["1", "mine"]


def test_names_that_are_not_plain_text_are_not_offered(lab):
    for name in ("good", "bad\x1b[2J", "two\nlines", "$(touch made)", "with blank"):
        lab.add("--name", name, "true")
    assert offered(lab, "status", "--name", "") == ["good"]
    assert in_bash(lab, "gpuq status --name ") == [["good"]]


# ---- In the shells ------------------------------------------------------------------------


def test_bash_completes_words_that_it_splits(lab):
    lab.add("--tag", "night", "true")
    assert in_bash(lab, "gpuq st", "gpuq status --state=co", "gpuq cancel tag:n", "gpuq status --state running,co", "gpuq exec a-pro") == [
        ["status"], ["completed"], ["night"], ["running,completed"], ["a-program"]]


def test_bash_leaves_only_plain_commands_to_other_functions(lab):
    offset = "_command_offset() { COMPREPLY=(\"${COMP_WORDS[$1]}\"); }"
    assert in_bash(lab, "gpuq add --mem=8G git sta", "gpuq add --mem=8G git $x/sta", "gpuq add --mem=8G git a;b sta", setup=offset) == [
        ["git"], [], []]


def test_bash_completes_at_its_prompt(lab, bash):
    lab.add("--tag", "night", "--name", "model", "true")
    (lab.directory / "commands 1.csv").write_text("x\n1\n")
    (lab.directory / "folder").mkdir()
    (lab.directory / "folder.txt").write_text("")
    assert bash.complete("gpuq sta") == "gpuq status "
    assert bash.complete("gpuq status --state=comp") == "gpuq status --state=completed "
    assert bash.complete("gpuq cancel tag:n") == "gpuq cancel tag:night "
    assert bash.complete("gpuq cancel mo") == "gpuq cancel model "
    assert bash.complete("gpuq run --cpu-aff") == "gpuq run --cpu-affinity "
    assert bash.complete("gpuq exec a-pro") == "gpuq exec a-program "
    assert bash.complete("gpuq add ./fold") == "gpuq add ./folder"
    assert bash.complete("gpuq add ~/folder.") == "gpuq add ~/folder.txt "
    assert bash.complete("gpuq add --on-finish ./fold") == "gpuq add --on-finish ./folder/"
    assert bash.complete("gpuq add --log-dir fol") == "gpuq add --log-dir folder/"
    assert bash.complete("gpuq add --log-dir=fol") == "gpuq add --log-dir=folder/"
    assert bash.complete("gpuq add cat 'a;b' com") == "gpuq add cat 'a;b' commands\\ 1.csv "
    for start in ("--param-file ", "--config=", "--config ~/", '--config="', "--mem=8G cat ", "--mem 8G cat "):
        end = '1.csv" ' if start.endswith('"') else "1.csv "
        assert bash.complete(f"gpuq add {start}com").replace("\\ ", " ") == f"gpuq add {start}commands {end}"


def test_bash_executes_no_name_that_it_completes(lab, bash):
    (lab.directory / "tools").mkdir()
    (lab.directory / "tools/evil;touch made").write_text("#!/bin/sh\n")
    (lab.directory / "tools/evil;touch made").chmod(0o755)
    quoted = "evil\\;touch\\ made "
    assert bash.complete("gpuq exec tools/ev") == "gpuq exec tools/" + quoted
    assert bash.complete("gpuq exec ./tools/ev") == "gpuq exec ./tools/" + quoted
    assert bash.complete("gpuq add --config tools/ev") == "gpuq add --config tools/" + quoted
    bash.type("gpuq exec --help ./tools/ev\t\recho do''ne\r")
    bash.until("done\r")
    assert not (lab.directory / "made").exists()


SHELL_TEXT = ("add", "add --on-finish", "add --on-idle", "run --on-finish=", "edit 1 --command", "launch --worker-command",
              "map --worker-command", "launch --worker-command=")


def make_evil_names(lab):
    for name in ("evil;touch made", "evil$(touch made)", "plain-1.sh"):
        (lab.directory / name).write_text("#!/bin/sh\n")
        (lab.directory / name).chmod(0o755)


def test_bash_offers_only_plain_names_for_the_text_of_a_shell(lab, bash):
    make_evil_names(lab)
    for start in SHELL_TEXT:
        line = f"gpuq {start}" + ("" if start.endswith("=") else " ")
        assert bash.complete(line + "./ev") == line + "./ev", start
        assert bash.complete(line + "./pl") == line + "./plain-1.sh ", start
    assert not (lab.directory / "made").exists()


def test_zsh_offers_only_plain_names_for_the_text_of_a_shell(lab, zsh):
    make_evil_names(lab)
    for start in SHELL_TEXT:
        line = f"gpuq {start}" + ("" if start.endswith("=") else " ")
        assert zsh.complete(line + "./ev") == line + "./ev", start
        assert zsh.complete(line + "./pl") == line + "./plain-1.sh ", start
    assert zsh.complete("gpuq add --config ./evil\\;") == "gpuq add --config ./evil\\;touch\\ made "
    assert zsh.complete("gpuq exec ./evil\\;") == "gpuq exec ./evil\\;touch\\ made "
    assert not (lab.directory / "made").exists()


def test_fish_offers_only_plain_names_for_the_text_of_a_shell(lab):
    make_evil_names(lab)
    for start in SHELL_TEXT:
        line = f"gpuq {start}" + ("" if start.endswith("=") else " ")
        got = in_fish(lab, line + "./ev", line + "./pl")
        assert got == [[], [(start.split()[-1] if start.endswith("=") else "") + "./plain-1.sh"]], (start, got)
    assert in_fish(lab, "gpuq exec ./evil;") and not (lab.directory / "made").exists()


def test_zsh_completes_at_its_prompt(lab, zsh):
    lab.add("--tag", "night", "--name", "model", "true")
    (lab.directory / "commands.csv").write_text("x\n1\n")
    (lab.directory / "folder").mkdir()
    (lab.directory / "folder.txt").write_text("")
    assert zsh.complete("gpuq sta") == "gpuq status "
    assert zsh.complete("gpuq status --state=comp") == "gpuq status --state=completed "
    assert zsh.complete("gpuq status --state=running,comp") == "gpuq status --state=running,completed "
    assert zsh.complete("gpuq cancel tag:n") == "gpuq cancel tag:night "
    assert zsh.complete("gpuq cancel mo") == "gpuq cancel model "
    assert zsh.complete("gpuq exec a-pro") == "gpuq exec a-program "
    assert zsh.complete("gpuq add ./fold") == "gpuq add ./folder"
    assert zsh.complete("gpuq add ~/folder.") == "gpuq add ~/folder.txt "
    assert zsh.complete("gpuq add --on-finish ./fold") == "gpuq add --on-finish ./folder/"
    assert zsh.complete("gpuq add --log-dir fol") == "gpuq add --log-dir folder/"
    assert zsh.complete("gpuq add --log-dir=fol") == "gpuq add --log-dir=folder/"
    assert zsh.complete("gpuq add --config ~/com") == "gpuq add --config ~/commands.csv "
    assert zsh.complete("gpuq run --cpu-aff") == "gpuq run --cpu-affinity "
    assert zsh.complete("gpuq add --param-file com") == "gpuq add --param-file commands.csv "
    assert zsh.complete("gpuq add --config=com") == "gpuq add --config=commands.csv "
    assert zsh.complete("gpuq add --mem 8G cat com") == "gpuq add --mem 8G cat commands.csv "
    zsh.type("gpuq logs --\t")
    zsh.until("--follow +-- Follow the output until")


def test_fish_completes_at_its_prompt(lab, fish):
    (lab.directory / "my commands.csv").write_text("x\n1\n")
    (lab.directory / "folder.txt").write_text("")
    assert fish.complete("gpuq status --state=comp") == "gpuq status --state=completed "
    for start in ("--config ", "--config=", "--param-file ./", "cat ", "--mem=8G cat "):
        assert fish.complete(f"gpuq add {start}my") == f"gpuq add {start}my\\ commands.csv "
    assert fish.complete("gpuq add ~/fold") == "gpuq add ~/folder.txt "
    assert fish.complete("gpuq exec ./my") == "gpuq exec ./my\\ commands.csv "


def test_fish_completes(lab):
    lab.add("--tag", "night", "--name", "model", "true")
    (lab.directory / "commands.csv").write_text("x\n1\n")
    (lab.directory / "folder").mkdir()
    assert in_fish(lab, "gpuq sta", "gpuq status --state=comp", "gpuq cancel tag:n", "gpuq cancel mo", "gpuq add --param-file com",
                   "gpuq add --config=com", "gpuq add --log-dir fol", "gpuq add --mem 8G cat com") == [
        ["status"], ["--state=completed"], ["tag:night"], ["model"], ["commands.csv"], ["--config=commands.csv"], ["folder/"],
        ["commands.csv"]]


def test_the_scripts_are_installed_where_the_shells_look():
    meson = shutil.which("meson")
    installed = json.loads(subprocess.run([meson, "introspect", os.environ["GD_BUILD"], "--installed"], capture_output=True, check=True,
                                          timeout=LIMIT).stdout)
    places = {pathlib.Path(source).relative_to(SCRIPTS).name: place for source, place in installed.items()
              if pathlib.Path(source).parent == SCRIPTS}
    assert {name: place.partition("/share/")[2] for name, place in places.items()} == {
        "gpuq.bash": "bash-completion/completions/gpuq",
        "_gpuq": "zsh/site-functions/_gpuq",
        "gpuq.fish": "fish/vendor_completions.d/gpuq.fish",
    }
