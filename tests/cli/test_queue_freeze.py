# SPDX-License-Identifier: MIT
"""Jobs that run in the git tree as it was when they were added."""
import os
import pathlib
import shutil
import subprocess

import pytest

from lab import GPUQ

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def git(directory, *words):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", "-C", str(directory), "-c", "user.name=x", "-c", "user.email=x@x", *words], check=True,
                          capture_output=True, text=True, timeout=120, env=environment).stdout.strip()


@pytest.fixture(name="tree")
def make_tree(lab):
    """A repository with everything that a tree can have; the queue is in it."""
    directory = lab.directory
    git(directory, "init", "-q")
    (directory / ".gitignore").write_text("data/\nsecret\n*.bin\n/no-config\n/state\n/claims\n")
    (directory / "sub").mkdir()
    (directory / "tracked").write_text("old\n")
    (directory / "sub/tracked").write_text("old\n")
    (directory / "gone").write_text("x\n")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "first")
    (directory / "tracked").write_text("changed\n")
    (directory / "gone").unlink()
    (directory / "untracked").write_text("new\n")
    (directory / "data").mkdir()
    (directory / "data/set").write_text("data\n")
    (directory / "secret").write_text("s\n")
    (directory / "sub/deep.bin").write_text("ignored\n")
    return directory


def frozen(lab, number=1):
    return pathlib.Path(lab.job(number)["tree"])


def test_the_tree_is_as_it_was_when_the_job_was_added(lab, tree):
    status = git(tree, "status", "--porcelain")
    lab.add("--freeze", "--hold", "cat tracked untracked sub/tracked data/set secret > \"$OUT\"; ls -d gone sub untracked >> \"$OUT\"", env={"OUT": str(tree / "state-out")})
    assert git(tree, "status", "--porcelain", "--", ".", ":!jobs.jsonl*") == status
    for name in ("tracked", "untracked", "sub/tracked"):
        (tree / name).write_text("later\n")
    (tree / "tracked").unlink()
    lab.gpuq("release", "1")
    lab.gpuq("wait", "1", code=2)
    assert (tree / "state-out").read_text().split() == ["changed", "new", "old", "data", "s", "sub", "untracked"]
    job = lab.job(1)
    assert job["cwd"] == job["tree"] and git(job["tree"], "rev-parse", "HEAD") == job["commit"]
    assert git(tree, "rev-parse", f"{job['commit']}^") == git(tree, "rev-parse", "HEAD")
    assert not (frozen(lab) / "sub/deep.bin").exists() and not list(frozen(lab).glob("jobs.jsonl*"))
    assert os.readlink(frozen(lab) / "data") == str(tree / "data")
    assert (tree / "logs").exists()
    lab.add("--freeze", "true")
    assert sorted(path.name for path in frozen(lab, 2).iterdir() if not path.is_symlink()) == [".git", ".gitignore", "state-out", "sub", "untracked"]


def test_a_change_just_after_git_add_is_not_missed(lab, tree):
    """The file has the same size and time as when it was added; git reads it again, because its index is not newer."""
    git(tree, "config", "core.trustctime", "false")
    then = (10**18, 10**18)
    os.utime(tree / "sub/tracked", ns=then)
    git(tree, "add", "sub/tracked")
    os.utime(tree / ".git/index", ns=then)
    (tree / "sub/tracked").write_text("new\n")
    os.utime(tree / "sub/tracked", ns=then)
    lab.add("--freeze", "--no-start", "true")
    assert (frozen(lab) / "sub/tracked").read_text() == "new\n"


def test_a_clean_tree_is_its_commit_and_a_subdirectory_is_entered(lab, tree):
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "second", "--", ".", ":!jobs.jsonl*")
    result = subprocess.run([os.environ["GPUQ"], "add", "--no-start", "--freeze", "--jobs-file", str(lab.journal), "pwd"], cwd=tree / "sub",
                            env=lab.environment, capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout == "1\n"
    job = lab.job(1)
    assert job["commit"] == git(tree, "rev-parse", "HEAD") and job["cwd"] == job["tree"] + "/sub"
    lab.gpuq("run", "--quiet")
    assert pathlib.Path(lab.job(1)["log_file"]).read_text() == job["cwd"] + "\n"


def test_all_jobs_of_a_sweep_share_a_tree_which_is_removed_with_the_last(lab, tree):
    lab.gpuq("add", "--no-start", "--freeze", "--array", "1-3", "cat tracked; mkdir -p __pycache__; touch __pycache__/x.pyc")
    assert len({job["tree"] for job in lab.jobs().values()}) == 1
    path = frozen(lab)
    lab.gpuq("hold", "2")
    lab.gpuq("run", "--quiet")
    lab.gpuq("prune")
    assert path.exists()
    lab.gpuq("release", "2")
    lab.gpuq("wait", "2")
    lab.gpuq("prune")
    assert not path.exists() and str(path) not in git(tree, "worktree", "list")
    assert (tree / "data/set").read_text() == "data\n"


@pytest.mark.parametrize("command", ["echo x > result", "echo x > tracked", "rm sub/tracked", "echo x > deep.bin",
                                     "mkdir -p runs && echo x > runs/1", "git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x"])
def test_a_tree_with_changes_is_kept(lab, tree, command):
    lab.add("--freeze", command)
    lab.gpuq("run", "--quiet")
    path = frozen(lab)
    result = lab.result("prune")
    assert result.returncode == 0 and f"kept '{path}': it has changed files" in result.stderr
    assert path.exists()


def test_outside_of_git_it_is_refused(lab):
    result = lab.result("add", "--no-start", "--freeze", "true", env={"GIT_CEILING_DIRECTORIES": str(lab.directory.parent)})
    assert result.returncode == 2 and "--freeze: not in a git repository" in result.stderr
    assert not lab.journal.exists() and not (lab.directory / "jobs.jsonl.d").exists()


def test_other_repositories_in_the_tree_are_refused(lab, tree):
    (tree / "other").mkdir()
    git(tree / "other", "init", "-q")
    git(tree / "other", "commit", "-q", "--allow-empty", "-m", "x")
    result = lab.result("add", "--no-start", "--freeze", "true")
    assert result.returncode == 2 and "--freeze: 'other' is a submodule or another git repository, which cannot be frozen; add the job without --freeze" in result.stderr
    assert not lab.journal.exists() or not lab.jobs()


def test_too_many_bytes_of_untracked_files_are_refused(lab, tree):
    with open(tree / "large", "wb") as file:
        file.truncate(101 << 20)
    result = lab.result("add", "--no-start", "--freeze", "true")
    assert result.returncode == 2 and "untracked files take up 101 MiB ('large' is the largest), more than the limit of 100 MiB" in result.stderr
    (tree / ".gitignore").write_text("large\n/no-config\n/state\n/claims\ndata/\n")
    lab.add("--freeze", "true")
    assert (frozen(lab) / "large").is_symlink()


def test_ignored_entries_are_linked(lab, tree):
    """Ignored entries, including empty ones, and directories in which everything is ignored."""
    for name in ("mixed", "models", "empty", "data/empty", "shadow"):
        (tree / name).mkdir()
    for name in ("mixed/a.bin", "mixed/code", "models/b.bin", "c.bin"):
        (tree / name).write_text("x\n")
    (tree / ".gitignore").write_text((tree / ".gitignore").read_text() + "shadow\n")
    (tree / "d.bin").symlink_to("c.bin")
    os.mkfifo(tree / "e.bin")
    lab.add("--freeze", "true")
    entries = {path.name: os.readlink(path) if path.is_symlink() else None for path in frozen(lab).iterdir()}
    linked = {name: target for name, target in entries.items() if target and name not in ("state", "claims")}
    assert linked == {name: str(tree / name) for name in ("data", "secret", "models", "shadow", "c.bin", "d.bin")}
    assert sorted(path.name for path in (frozen(lab) / "mixed").iterdir()) == ["code"] and "empty" not in entries


@pytest.mark.parametrize("words", [(), ("--trust",)])
def test_it_is_refused_in_a_linked_directory(lab, tree, words):
    """There, `python3 ../train.py` would run the current code, not the frozen one."""
    command = [GPUQ, "add", "--freeze", "--no-start", "--jobs-file", str(lab.journal), *words, "cat ../tracked"]
    result = subprocess.run(command, cwd=tree / "data", env=lab.environment, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout) == (2, ""), result
    assert (f"--freeze: the current directory '{tree}/data' is not part of the frozen tree, because git ignores it or has no file in it; "
            f"add the job in a directory that is part of it, such as '{tree}'") in result.stderr
    assert not lab.journal.exists()


def test_a_tree_without_a_commit(lab):
    git(lab.directory, "init", "-q")
    (lab.directory / "new").write_text("new\n")
    lab.add("--freeze", "cat new")
    lab.gpuq("run", "--quiet")
    assert lab.job(1)["status"] == "completed"


def test_hooks_of_the_repository_do_not_run(lab, tree):
    for name in ("post-checkout", "pre-commit", "post-index-change"):
        hook = tree / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{tree}/state-hook'\n")
        hook.chmod(0o755)
    lab.add("--freeze", "true")
    assert not (tree / "state-hook").exists()


def test_a_job_that_is_not_added_leaves_no_tree(lab, tree):
    lab.add("true")
    assert lab.result("add", "--no-start", "--freeze", "--after", "9", "true").returncode == 2
    assert git(tree, "worktree", "list").count("\n") == 0
    trees = tree / "jobs.jsonl.d/trees"
    assert not trees.exists() or list(trees.iterdir()) == []


@pytest.mark.parametrize("rules", ["jobs.jsonl", "jobs.jsonl*", "*.jsonl", "jobs.jsonl\njobs.jsonl.d\nlogs", "logs/", "*.jsonl*\n!jobs.jsonl.d"])
def test_rules_can_ignore_the_files_of_the_queue(lab, tree, rules):
    with open(tree / ".gitignore", "a", encoding="utf-8") as file:
        file.write(rules + "\n")
    (tree / "logs").mkdir()
    (tree / "logs/old").write_text("x\n")
    for _ in range(2):  # in a new journal, and in one with jobs
        lab.add("--freeze", "cat tracked untracked")
    lab.gpuq("run", "--quiet")
    assert [job["status"] for job in lab.jobs().values()] == ["completed"] * 2
    assert pathlib.Path(lab.job(2)["log_file"]).read_text() == "changed\nnew\n"
    for number in (1, 2):
        assert not list(frozen(lab, number).glob("jobs.jsonl*")) and not os.path.lexists(frozen(lab, number) / "logs")


@pytest.mark.parametrize("folder", ["", "queues/deep"])
@pytest.mark.parametrize("name", ["[a-b]*?.jsonl", "]!^", "^x", "!x", "\\x", "é", "-x", ":(top)x"])
@pytest.mark.parametrize("is_ignored", [False, True])
def test_files_of_the_queue_are_left_out_whatever_their_names_are(lab, tree, folder, name, is_ignored):
    place = tree / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / (name + " logs")).mkdir()
    (place / (name + " logs") / "old").write_text("x\n")
    (place / "code").write_text("x\n")
    if is_ignored:
        (place / ".gitignore").write_text("*\n!code\n!/.gitignore\n!/tracked\n" if folder else "*jsonl*\n*logs\n*x*\n*!*\n*é*\n")
    environment = {"GPUQ_JOBS_FILE": str(place / name)}
    words = ["add", "--no-start", "--freeze", "--log-dir", str(place / (name + " logs")), "true"]
    for _ in range(2):
        lab.gpuq(*words, env={**lab.environment, **environment})
    trees = list((place / (name + ".d") / "trees").iterdir())
    assert len(trees) == 2
    for path in trees:
        assert (path / folder / "code").exists() and git(path, "ls-files", "-z", "--", folder or ".").count(name) == 0


def test_a_tracked_journal_is_not_copied(lab, tree):
    """A journal that was committed by mistake, and is ignored since."""
    lab.add("true")
    git(tree, "add", "-f", "jobs.jsonl")
    git(tree, "commit", "-q", "-m", "mistake")
    committed = lab.journal.read_bytes()
    with open(tree / ".gitignore", "a", encoding="utf-8") as file:
        file.write("*.jsonl\n")
    lab.add("true")
    lab.add("--freeze", "true")
    assert (frozen(lab, 3) / "jobs.jsonl").read_bytes() == committed


@pytest.mark.parametrize("folder", ["", "project/"])
def test_the_tree_can_be_the_root_directory(lab, folder):
    """As in a container."""
    root = lab.directory / "root"
    place = root / folder
    place.mkdir(parents=True)
    (place / "code").write_text("x\n")
    (place / "data").mkdir()
    (place / "data/set").write_text("x\n")
    (root / ".gitignore").write_text("/*\n!/project\n!/code\n/project/data\n")
    git(root, "init", "-q")
    script = """for path in /*; do
        if [ -L "$path" ]; then cp -P "$path" "$1"; elif [ -d "$path" ]; then mkdir -p "$1$path" && mount --rbind "$path" "$1$path"; fi || exit 3
    done
    folder=$2; exec chroot "$1" sh -c 'cd "$1" && shift && exec "$@"' sh "/$folder" "$GPUQ" add --no-start --freeze true"""
    space = ["unshare", "--mount", "--propagation", "private", *(["--user", "--map-root-user"] if os.geteuid() else [])]
    result = subprocess.run([*space, "sh", "-c", script, "sh", root, folder], env={**lab.environment, "GPUQ": GPUQ},
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    if result.stderr.startswith(("unshare: ", "mount: ")):
        pytest.skip("mounts are not permitted")
    assert result.returncode == 0 and result.stdout == "1\n", result
    [made] = (place / "jobs.jsonl.d/trees").iterdir()
    assert (made / folder / "code").exists() and not [path for path in made.rglob("*") if path.name.startswith("jobs.jsonl")]
    assert folder or os.readlink(made / "data").lstrip("/") == "data"


@pytest.mark.parametrize("lines, message", [
    ("The following paths are ignored:\\na\\n\\tb\\nhint: Use -f", "--freeze: The following paths are ignored: a b\n"),
    ("fatal: first\\nsecond", "--freeze: fatal: first\n"),
    ("nothing follows:", "--freeze: nothing follows:\n"),
    ("x" * 396 + "ééé", "--freeze: " + "x" * 396 + "…\n"),
    ("", "--freeze: git failed\n"),
])
@pytest.mark.usefixtures("tree")
def test_the_message_of_git_is_complete(lab, tmp_path_factory, lines, message):
    wrapper = tmp_path_factory.mktemp("bin") / "git"
    wrapper.write_text(f"#!/bin/sh\ncase \" $* \" in *' add '*) printf '{lines}' >&2; exit 1;; esac\nexec '{shutil.which('git')}' \"$@\"\n")
    wrapper.chmod(0o755)
    result = lab.result("add", "--no-start", "--freeze", "true", env={"PATH": f"{wrapper.parent}:{os.environ['PATH']}"})
    assert result.returncode == 2 and result.stderr == "gpuq: " + message


# ---- Only trees of this queue are removed ----------------------------------------------------


def finished(lab):
    """The tree of a finished job."""
    lab.add("--freeze", "true")
    lab.gpuq("run", "--quiet")
    return frozen(lab)


def assert_kept(result, path, folder):
    assert result.returncode == 0 and result.stdout == "1 pruned, 0 kept\n"
    assert f"kept '{path}': it is not in '{folder}/jobs.jsonl.d/trees'" in result.stderr and "git worktree remove" in result.stderr


def test_prune_of_a_copied_queue_keeps_the_trees_of_the_original(lab, tree, tmp_path_factory):
    path = finished(lab)
    other = tmp_path_factory.mktemp("other")
    shutil.copy(tree / "jobs.jsonl", other)
    shutil.copytree(tree / "jobs.jsonl.d", other / "jobs.jsonl.d", symlinks=True)
    assert_kept(lab.result("prune", "--trust", "--jobs-file", other / "jobs.jsonl"), path, other)
    assert (path / "tracked").exists() and str(path) in git(tree, "worktree", "list")
    assert lab.result("prune").stderr == ""
    assert not path.exists()


@pytest.mark.parametrize("is_gone", [False, True])
def test_job_of_a_copied_queue_runs_in_the_tree_of_the_copy(lab, tree, tmp_path_factory, is_gone):
    lab.add("--freeze", "touch mark; exit 3")
    lab.gpuq("run", "--quiet", code=1)
    path = frozen(lab)
    (path / "mark").unlink()
    folder = tmp_path_factory.mktemp("other") / "jobs.jsonl.d"
    shutil.copy(tree / "jobs.jsonl", folder.parent)
    shutil.copytree(tree / "jobs.jsonl.d", folder, symlinks=True)
    if is_gone:
        shutil.rmtree(path)
    words = ["--jobs-file", folder.parent / "jobs.jsonl", "1"]
    retry = lab.result("retry", *words)
    assert f"its frozen trees were renamed to '{folder}/trees.copied-1'" in retry.stderr, retry
    lab.gpuq("wait", *words, code=None)
    assert f"cannot enter directory '{folder}/trees/{path.name}'" in lab.gpuq("info", *words)
    (folder / "trees.copied-1").rename(folder / "trees")
    lab.gpuq("retry", *words)
    lab.gpuq("wait", *words, code=3)
    assert (folder / "trees" / path.name / "mark").exists() and not (path / "mark").exists()


@pytest.mark.parametrize("is_folder", [False, True])
def test_prune_follows_no_link_to_a_tree_elsewhere(lab, tree, tmp_path_factory, is_folder):
    path = finished(lab)
    other = tmp_path_factory.mktemp("other") / path.name
    git(tree, "worktree", "move", str(path), str(other))
    if is_folder:
        path.parent.rmdir()
        path.parent.symlink_to(other.parent)
    else:
        path.symlink_to(other)
    assert_kept(lab.result("prune"), path, tree)
    assert (other / "tracked").exists()


def test_prune_of_a_queue_that_is_named_by_a_link(lab, tree, tmp_path_factory):
    path = finished(lab)
    link = tmp_path_factory.mktemp("other") / "link"
    link.symlink_to(tree)
    result = lab.result("prune", "--jobs-file", link / "jobs.jsonl")
    assert result.returncode == 0 and result.stderr == "" and not path.exists()


def test_a_tree_that_is_gone_is_not_mentioned(lab, tree):
    path = finished(lab)
    git(tree, "worktree", "remove", "--force", str(path))
    result = lab.result("prune")
    assert result.returncode == 0 and result.stderr == ""


def test_caches_of_python_are_not_shared_between_trees(lab, tree):
    """Python would use the compiled code of another version if size and time of the source are the same."""
    (tree / ".gitignore").write_text("__pycache__/\ndata/\nsecret\n*.bin\n/no-config\n/state\n/claims\n")
    for version in (1, 2):
        (tree / "settings.py").write_text(f"VERSION = {version}\n")
        os.utime(tree / "settings.py", (1, 1))
        (tree / "__pycache__").mkdir(exist_ok=True)
        (tree / "__pycache__/settings.cpython-311.pyc").write_text(str(version))
        lab.add("--freeze", "--hold", "true")
        assert (tree / "__pycache__").is_dir() and not (frozen(lab, version) / "__pycache__").exists()
        assert (frozen(lab, version) / "data").is_symlink()


@pytest.mark.parametrize("exists", [True, False])
def test_command_that_fails_does_not_remove_the_queue_of_another_command(lab, exists):
    """It creates the queue, and removes it if no job was added; another command may be adding the first job."""
    accepted = 0
    for number in range(30):
        journal = lab.directory / f"q{number}.jsonl"
        if exists:
            journal.touch()
        failing = lab.start("add", "--freeze", "--jobs-file", journal, "true")
        adding = lab.start("add", "--hold", "--no-start", "--jobs-file", journal, "true")
        assert failing.wait(240) == 2
        if adding.wait(240) == 0:
            accepted += 1
            lab.gpuq("cancel", "--jobs-file", journal, "1")
        assert journal.exists() or not exists, "the user created it"
    assert accepted == 30
