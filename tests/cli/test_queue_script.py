# SPDX-License-Identifier: MIT
"""Scripts with options in comments."""
import os
import sys

import pytest


def script(lab, *lines, name="train.sh", first="#!/bin/sh"):
    path = lab.directory / name
    path.write_text("\n".join([first, *lines]) + "\n")
    return path


def test_options_of_a_script(lab):
    script(lab, "# a remark", "#GPUQ --mem 2G --timeout 2h --tag night,x", "#GPUQ --name='my training' --priority=3", "", "echo ran >> ran")
    assert lab.add("train.sh") == 1
    job = lab.job(1)
    assert (job["mem_mb"], job["timeout"], job["tags"], job["name"], job["priority"]) == (2048, 7200, ["night", "x"], "my training", 3)
    lab.gpuq("run", "--quiet")
    assert lab.ran() == ["ran"]


def test_the_command_line_overrides_the_script(lab):
    script(lab, "#GPUQ --mem 2G --name inner --retries 3 --hold", "true")
    lab.add("--mem", "4G", "--name", "outer", "./train.sh")
    job = lab.job(1)
    assert (job["mem_mb"], job["name"], job["retries"], job["status"]) == (4096, "outer", 3, "held")


def test_a_stored_script_with_different_content_is_not_used(lab):
    """Two contents with the same hash, or a changed file: the name proves nothing."""
    script(lab, "echo mine >> ran")
    lab.add("--no-start", "train.sh")
    kept = next((lab.directory / "jobs.jsonl.d/scripts").iterdir())
    for other in (kept.read_text().replace("mine", "else"), kept.read_text() + "more"):
        kept.write_text(other)
        result = lab.result("add", "--no-start", "train.sh")
        assert result.returncode == 1 and "cannot store script 'train.sh': its file in the journal's folder has different content" in result.stderr, result
        assert kept.read_text() == other and len(lab.jobs()) == 1


def test_the_content_at_submission_is_what_runs(lab):
    path = script(lab, "echo old >> ran")
    lab.add("train.sh")
    script(lab, "echo new >> ran")
    lab.add("train.sh")
    lab.add("train.sh")
    path.unlink()
    lab.gpuq("run", "--quiet")
    assert sorted(lab.ran()) == ["new", "new", "old"]
    assert lab.job(1)["name"] == "train.sh" and lab.job(1)["script"] != lab.job(2)["script"] == lab.job(3)["script"]
    assert len(list((lab.directory / "jobs.jsonl.d/scripts").iterdir())) == 2


def test_the_interpreter_is_that_of_the_script_and_no_mode_is_needed(lab):
    script(lab, "import sys; open('ran', 'a').write(repr(sys.flags.dont_write_bytecode))", name="my script.py", first=f"#! {sys.executable} -B ")
    lab.add("./my script.py")
    lab.gpuq("run", "--quiet")
    assert lab.ran() == ["1"]


def test_supported_options_of_slurm_are_applied(lab):
    lab.add("true")
    lab.add("true")
    lab.add("false")
    script(lab, "#SBATCH --job-name=slurm", "#SBATCH --gres=gpu:a100:2", "#SBATCH -t 1-02:03:04", "#SBATCH --output=out/%j.txt",
           "#SBATCH --dependency=afterok:1:2,afterany:3", "#SBATCH --array=1-3", "#SBATCH --signal=B:USR1@120", "echo $GPUQ_ARRAY_INDEX >> ran")
    result = lab.result("add", "--no-start", "train.sh")
    assert (result.stdout, result.stderr) == ("4\n5\n6\n", "gpuq: train.sh:5: #SBATCH --output: the log is written to directory 'out' as "
                                              "job_DATE_TIME_ID.log, not to 'out/%j.txt'; 'gpuq logs ID' shows it, and 'gpuq info ID' prints its path\n"
                                              "gpuq: 3 jobs, group g4\n")
    job = lab.job(4)
    assert (job["name"], job["num_gpus"], job["timeout"]) == ("slurm", 2, ((24 + 2) * 60 + 3) * 60 + 4)
    assert (job["after"], job["after_any"], job["array_index"]) == ([1, 2], [3], 1)
    assert (job["warn_signal"], job["warn_before"]) == (10, 120)
    lab.gpuq("run", "--quiet", code=1)
    assert sorted(lab.ran()) == ["1", "2", "3"]
    assert lab.job(4)["log_file"].startswith(str(lab.directory / "out") + "/")


@pytest.mark.parametrize("time, seconds", [
    ("90", 5400), ("90:30", 5430), ("2:00:00", 7200), ("1-0", 86400), ("1-12", 129600), ("1-12:30", 131400), ("0-0:0:5", 5)])
def test_time_limits_of_slurm(lab, time, seconds):
    script(lab, f"#SBATCH --time={time}", "true")
    lab.add("train.sh")
    assert lab.job(1)["timeout"] == seconds


@pytest.mark.parametrize("gpus, number", [
    ("--gres=gpu", 1), ("--gres=gpu:4", 4), ("--gres=gpu:a100", 1), ("--gpus=2", 2), ("--gpus a100:2", 2), ("-G 3", 3), ("--gpus-per-node=2", 2)])
def test_gpus_of_slurm(lab, gpus, number):
    script(lab, f"#SBATCH {gpus}", "true")
    lab.add("train.sh")
    assert lab.job(1)["num_gpus"] == number


def test_what_is_ignored_is_reported_with_its_line(lab):
    script(lab, "#SBATCH --partition=gpu --nodes 1", "#SBATCH -c8 -p gpu --exclusive --job-name x # the name", "#SBATCH --gres=shard:2", "#SBATCH --array=1-2%1",
           "#SBATCH --output=/dev/null", "##SBATCH --foo", "#SBATCHED", "echo $SLURM_JOB_ID", "#GPUQ --mem 1G")
    result = lab.result("add", "--no-start", "train.sh")
    assert result.stderr.splitlines() == [
        "gpuq: train.sh:2: #SBATCH --partition is ignored",
        "gpuq: train.sh:3: #SBATCH -p is ignored",
        "gpuq: train.sh:3: #SBATCH --exclusive is ignored",
        "gpuq: train.sh:4: #SBATCH --gres is ignored",
        "gpuq: train.sh:5: #SBATCH --array: the limit '%1' is ignored; as many jobs run at the same time as fit on the GPUs",
        "gpuq: train.sh:6: #SBATCH --output is ignored: gpuq names log files itself; 'gpuq logs' shows them",
        "gpuq: train.sh:9: variables that begin with SLURM_ are not set; use GPUQ_JOB_ID and GPUQ_ARRAY_INDEX",
        "gpuq: train.sh:10: ignoring #GPUQ: it comes after the first command",
        "gpuq: 2 jobs, group g1"]
    assert lab.job(1)["name"] == "x" and lab.job(1)["mem_mb"] is None and lab.job(1)["cpus"] == 8


@pytest.mark.parametrize("line, message", [
    ("#GPUQ --mem 12", "train.sh:3: #GPUQ --mem: '12' has no unit"),
    ("#GPUQ --foo 1", "train.sh:3: #GPUQ --foo: unknown option 'foo'"),
    ("#GPUQ --mem", "train.sh:3: #GPUQ --mem: a value is missing"),
    ("#GPUQ mem=12G", "train.sh:3: #GPUQ: expected options, not 'mem=12G'"),
    ("#GPUQ --name 'x", "train.sh:3: #GPUQ: a quotation mark is not closed"),
    ("#SBATCH --time=soon", "train.sh:3: #SBATCH --time: 'soon' is not a time limit"),
    ("#SBATCH --time=1:2:3:4", "train.sh:3: #SBATCH --time: '1:2:3:4' is not a time limit"),
    ("#SBATCH --gpus=many", "train.sh:3: #SBATCH --gpus: 'many' is not"),
    ("#SBATCH --dependency=singleton", "train.sh:3: #SBATCH --dependency: 'singleton': only afterok and afterany"),
    ("#SBATCH --time=10 --signal=FOO@1", "train.sh:3: #SBATCH --signal: 'FOO@1': expected a signal"),
    ("#SBATCH --array=x", "train.sh: array 'x': expected indices"),
    ("#GPUQ --signal USR1", "--signal needs a time limit; give --timeout"),
])
def test_mistakes_name_the_line_and_add_nothing(lab, line, message):
    script(lab, "# a remark", line, "true")
    result = lab.result("add", "--no-start", "train.sh")
    assert result.returncode == 2 and message in result.stderr, result.stderr
    assert not lab.journal.exists()


def test_what_is_not_a_script_is_shell_text(lab):
    (lab.directory / "data.txt").write_text("no script\n")
    (lab.directory / "two").write_text("#")
    (lab.directory / "fifo").mkdir()
    for word in ("data.txt", "two", "fifo", "true", "missing.sh", "train.sh; true"):
        lab.add(word)
        assert lab.job(lab.events()[-1]["id"])["command"] == word
    path = script(lab, "true")
    lab.add("./train.sh", "--lr", "1")
    assert lab.events()[-1]["command"] == "./train.sh --lr 1"
    path.chmod(0o777)
    assert "refusing to use the script 'train.sh'" in lab.result("add", "--no-start", "train.sh").stderr
    lab.add("./train.sh")
    assert lab.events()[-1]["command"].startswith("/bin/sh ")


def test_a_script_that_no_job_needs_is_removed_by_prune(lab):
    script(lab, "true")
    lab.add("train.sh")
    lab.gpuq("run", "--quiet")
    script(lab, "echo kept")
    lab.add("--hold", "train.sh")
    scripts = lab.directory / "jobs.jsonl.d/scripts"
    for path in scripts.iterdir():
        os.utime(path, (1, 1))
    kept = lab.job(2)["script"]
    lab.gpuq("prune")
    assert [path.name for path in scripts.iterdir()] == [kept]
    assert lab.job(2)["script"] == kept


def test_a_dry_run_keeps_nothing(lab):
    script(lab, "#GPUQ --array 1-2", "true")
    lines = lab.gpuq("add", "--dry-run", "train.sh").splitlines()
    assert len(lines) == 2 and lines[0].startswith("GPUQ_ARRAY_INDEX=1 /bin/sh ")
    assert not lab.journal.exists()


def test_arguments_go_to_the_script_and_its_options_are_read(lab):
    script(lab, "#GPUQ --mem 3G", 'printf "%s\\n" "$@" >> ran')
    lab.add("train.sh", "7", "two words", "it's")
    lab.gpuq("add", "--no-start", "--param", "x=1,2", "./train.sh", "{x}")
    assert [lab.job(n)["mem_mb"] for n in (1, 2, 3)] == [3072] * 3
    assert lab.job(1)["name"] == lab.job(2)["name"] == "train.sh"
    lab.gpuq("run", "--quiet", "--gpus", "sim:1", "--jobs-per-gpu", "1")
    assert (lab.directory / "ran").read_text() == "7\ntwo words\nit's\n1\n2\n"


def test_a_program_with_arguments_and_without_options_runs_in_its_place(lab):
    path = script(lab, 'echo "$0" "$1" >> ran')
    path.chmod(0o755)
    lab.add("./train.sh", "7")
    job = lab.job(1)
    assert (job["command"], job["script"], job["name"]) == ("./train.sh 7", None, None)
    # A bare name would not be found there.
    lab.add("train.sh", "8")
    assert lab.job(2)["script_name"] == "train.sh"
    lab.gpuq("run", "--quiet")
    assert sorted(lab.ran()[1::2]) == ["7", "8"] and "./train.sh" in lab.ran()[::2]


def test_large_archive_with_a_first_line_of_a_script_runs_in_its_place(lab):
    path = script(lab, 'echo "$1" >> ran', "exit 0")
    with path.open("ab") as archive:
        archive.truncate(11 << 20)
    path.chmod(0o755)
    result = lab.result("add", "--no-start", "./train.sh")
    assert result.returncode == 2 and "larger than 10 MiB" in result.stderr
    lab.add("./train.sh", "7")
    lab.gpuq("run", "--quiet")
    assert lab.ran() == ["7"]


def test_status_and_info_show_the_original_name_of_the_script(lab):
    lab.directory = lab.directory / "it's here"
    lab.directory.mkdir()
    lab.journal = lab.directory / "jobs.jsonl"
    script(lab, "#GPUQ --name other", "true")
    lab.add("./train.sh", "7", "--lr", "0.1")
    assert "[ ] 1 train.sh 7 --lr 0.1 " in lab.gpuq("status")
    assert "train.sh 7 --lr 0.1\n" in lab.gpuq("info", 1)
    assert "scripts" in lab.job(1)["command"] and lab.job(1)["script_name"] == "train.sh"
    assert "1 train.sh 7 --lr 0.1 → GPU 0 → Completed" in lab.gpuq("run")
    lab.gpuq("edit", lab.add("--hold", "./train.sh"), "--command", "echo edited")
    assert "2 echo edited " in lab.gpuq("status")


@pytest.mark.parametrize("line, cpus, mem", [("-c 1", 1, None), ("--cpus-per-task=1", 1, None), ("--mem=16G", None, 16384), ("--mem 500", None, 500),
                                             ("--mem=2048M", None, 2048)])
def test_cpus_and_main_memory_of_slurm(lab, line, cpus, mem):
    script(lab, f"#SBATCH {line}", "#SBATCH --nodes=1", "#SBATCH -n 1", "true")
    result = lab.result("add", "--no-start", "train.sh")
    assert (result.returncode, result.stderr) == (0, "")
    job = lab.job(1)
    assert (job["cpus"], job["host_mem_mb"]) == (cpus, mem)


@pytest.mark.parametrize("line, words", [("--mem=0", "--mem is ignored: jobs share the main memory"), ("--error=x.err", "--error is ignored: standard error goes to the same log"),
                                         ("-N 2", "-N is ignored: a job is a single command on this machine"),
                                         ("--output=%j/x.txt", "--output is ignored: gpuq names log files itself"),
                                         ("--output=x.txt", "--output: the log is written to directory '.' as job_DATE_TIME_ID.log, not to 'x.txt'")])
def test_differences_from_slurm_are_reported(lab, line, words):
    script(lab, f"#SBATCH {line}", "true")
    result = lab.result("add", "--no-start", "train.sh")
    assert result.returncode == 0 and f"train.sh:2: #SBATCH {words}" in result.stderr


def test_a_script_whose_name_cannot_name_a_job_gives_it_no_name(lab):
    script(lab, "true", name="12")
    lab.add("./12")
    assert (lab.job(1)["name"], lab.job(1)["script_name"]) == (None, "12")


@pytest.mark.parametrize("words", [("true",), ("true", "argument")])
def test_program_in_path_takes_precedence_over_a_script_of_the_same_name(lab, words):
    """As in a shell: a repository may contain a file "python3"."""
    script(lab, "#GPUQ --mem 2G", "echo stolen >> ran", name="true")
    result = lab.result("add", "--no-start", *words)
    assert result.returncode == 0 and "'true' is the program in PATH; write './true'" in result.stderr
    lab.gpuq("run", "--quiet")
    assert lab.ran() == [] and lab.job(1)["mem_mb"] != 2048
    lab.gpuq("add", "--no-start", "./true")
    lab.gpuq("run", "--quiet")
    assert lab.ran() == ["stolen"]
