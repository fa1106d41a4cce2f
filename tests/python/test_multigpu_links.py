# SPDX-License-Identifier: MIT
"""multigpu: the folder of links for gpuq launch, in directories that other users can write."""
from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gpu_dispatch import _trust
from gpu_dispatch.multigpu import LauncherOrchestrator, ResourceAllocator, Result, _links
from gpu_dispatch.multigpu._inputs import prepare_inputs
from multigpu_lab import Lab

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes owners: run it as root")


@pytest.fixture(name="lab")
def make_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("GPUQ_GPUS", "sim:2")
    monkeypatch.delenv("GPUQ_TRUST", raising=False)
    return Lab(tmp_path)


@pytest.fixture(name="temporary")
def make_temporary(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = lab.directory / "above" / "temporary"
    path.mkdir(parents=True)
    for each in (path, path.parent):
        each.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def put_deep(folder: Path, step: int, length: int) -> None:
    """a.wav with a path of this length, in folders with names of `step` bytes."""
    left = length - len(os.fsencode(folder)) - len("/a.wav")
    fd = os.open(folder, os.O_PATH)
    while left > 1:
        name = "d" * min(step, left - 1)
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd, left = below, left - len(name) - 1
    os.close(os.open("a.wav", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
    os.close(fd)


def failures(orchestrator: LauncherOrchestrator) -> list[Result]:
    assert orchestrator.load_balancer
    return orchestrator.load_balancer.errors


@pytest.mark.parametrize(
    ("step", "length", "reason"),
    [(200, 4090, "its path is too long"), (2, 1000, "it is in more than 128 nested folders")],
)
def test_deep_file_fails_alone(
    lab: Lab, temporary: Path, step: int, length: int, reason: str
) -> None:
    """Another user can put it into the input folder. The path is longer below the temporary folder."""
    lab.put("b.wav", "c.wav", "sub/e.wav")
    put_deep(lab.input, step, length)
    orchestrator = LauncherOrchestrator()
    code = orchestrator.run(lab.input, lab.output, pattern="**/*.wav", worker_command=lab.command)
    assert code == 1
    assert [result["error"] for result in failures(orchestrator)] == [reason]
    assert lab.began("b.wav") and lab.began("c.wav") and lab.began("e.wav")
    assert orchestrator.process_spawner and orchestrator.process_spawner.exit_code == 1
    assert not list(temporary.iterdir())


def test_launcher_is_not_started_without_files(lab: Lab) -> None:
    (lab.input / "e").mkdir()
    put_deep(lab.input, 200, 4090)
    put_deep(lab.input / "e", 200, 4090)
    orchestrator = LauncherOrchestrator()
    code = orchestrator.run(lab.input, lab.output, pattern="**/*.wav", worker_command=lab.command)
    assert code == 1
    assert [result["error"] for result in failures(orchestrator)] == ["its path is too long"] * 2
    assert not lab.output.exists()


def test_file_that_becomes_a_folder_fails_alone(lab: Lab) -> None:
    """A link to a folder of another user is not followed to create links there."""
    theirs = lab.directory / "theirs"
    theirs.mkdir()
    links = _links.LinkFolder()
    try:
        links.add("a", str(theirs))
        with pytest.raises(FileExistsError):
            links.add("a/b.wav", "/etc/hostname")
        links.add("b/c.wav", "/etc/hostname")
        assert os.readlink(os.path.join(links.path, "b/c.wav")) == "/etc/hostname"
    finally:
        links.remove()
    assert not list(theirs.iterdir())
    assert not os.path.lexists(links.path)


@pytest.mark.parametrize("gone", ["in", "in/sub"])
def test_input_folder_that_disappears_raises_nothing(lab: Lab, gone: str) -> None:
    files = [str(path) for path in lab.put("sub/a.wav", "sub/b.wav")]
    os.rename(lab.directory / gone, lab.directory / "gone")
    for named in (lab.input, lab.input / "sub"):
        with prepare_inputs(files, str(named)) as inputs:
            assert not inputs.failed


# ---- The place of the folder --------------------------------------------------------------


def folder_of_links(lab: Lab) -> Any:
    """The inputs, with a temporary folder: not all files of the folder are given."""
    files = lab.put("a.wav", "sub/b.wav")
    return prepare_inputs([str(path) for path in files], str(lab.input))


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o1777, 0o3775])
def test_links_are_in_the_temporary_directory(lab: Lab, temporary: Path, mode: int) -> None:
    temporary.chmod(mode)
    with folder_of_links(lab) as inputs:
        (folder,) = temporary.iterdir()
        assert inputs.arguments[:2] == ["--input-dir", str(folder)]
        assert folder.stat().st_mode & 0o777 == 0o700
        assert os.readlink(folder / "sub/b.wav") == str(lab.input / "sub/b.wav")
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("which", ["itself", "above"])
@pytest.mark.parametrize("mode", [0o775, 0o2775, 0o777])
def test_links_are_elsewhere_if_others_can_rename_them(
    lab: Lab, temporary: Path, which: str, mode: int
) -> None:
    (temporary if which == "itself" else temporary.parent).chmod(mode)
    with folder_of_links(lab) as inputs:
        assert not list(temporary.iterdir())
        path = inputs.arguments[1]
        assert os.path.dirname(path) == os.path.realpath("/tmp")
        assert os.path.exists(os.path.join(path, "sub/b.wav"))
    assert not os.path.lexists(path)


@needs_root
@pytest.mark.parametrize("what", ["directory", "sticky directory", "link"])
def test_links_are_not_in_a_directory_of_another_user(
    lab: Lab, temporary: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "link":
        link = lab.directory / "link"
        link.symlink_to(temporary)
        os.lchown(link, 12345, 12345)
        monkeypatch.setattr(tempfile, "tempdir", str(link))
    else:
        temporary.chmod(0o1777 if what == "sticky directory" else 0o755)
        os.chown(temporary, 12345, 12345)
    with folder_of_links(lab):
        assert not list(temporary.iterdir())


def test_links_may_be_behind_links_of_the_user(lab: Lab, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.directory / "link").symlink_to("above")
    monkeypatch.setattr(tempfile, "tempdir", str(lab.directory / "link" / "temporary"))
    with folder_of_links(lab) as inputs:
        assert os.path.dirname(inputs.arguments[1]) == str(temporary)
    assert not list(temporary.iterdir())


def test_links_are_in_the_state_directory_if_tmp_is_unsafe(
    lab: Lab, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _trust.open_place

    def refuse_tmp(path: str) -> tuple[str, int]:
        if path == "/tmp":
            raise PermissionError(1, "the directory can be written by everybody", path)
        return real(path)

    monkeypatch.setattr(_links, "open_place", refuse_tmp)
    temporary.chmod(0o777)
    state = lab.directory / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    with folder_of_links(lab) as inputs:
        assert os.path.dirname(inputs.arguments[1]) == str(state / "gpuq")
        assert state.stat().st_mode & 0o777 == 0o700
    assert not list((state / "gpuq").iterdir())
    state.chmod(0o777)
    with pytest.raises(PermissionError, match="can be written by everybody; set TMPDIR to"):
        with folder_of_links(lab):
            pass


def test_exchanged_folder_of_links_is_not_removed(
    lab: Lab, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user gives its name to a folder of this user in the same directory."""
    monkeypatch.setenv("GPUQ_TRUST", "1")
    temporary.chmod(0o777)
    precious = temporary / "precious"
    (precious / "sub").mkdir(parents=True)
    (precious / "model.bin").touch()
    (precious / "a.wav").touch()
    (precious / "sub" / "b.wav").touch()
    with folder_of_links(lab) as inputs:
        folder = Path(inputs.arguments[1])
        assert folder.parent == temporary
        folder.rename(temporary / "moved")
        precious.rename(folder)
    assert sorted(os.listdir(folder)) == ["a.wav", "model.bin", "sub"]
    assert os.listdir(folder / "sub") == ["b.wav"]
    assert not os.listdir(temporary / "moved"), "the links are removed where they are now"


def test_empty_folder_in_place_of_the_links_is_not_removed(
    lab: Lab, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUQ_TRUST", "1")
    with folder_of_links(lab) as inputs:
        folder = Path(inputs.arguments[1])
        folder.rename(temporary / "moved")
        folder.mkdir()
    assert folder.is_dir()


@needs_root
def test_link_that_its_owner_exchanges_after_it_was_read_counts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look at the path would find a folder, not the link that led to the files."""
    files = [str(lab.directory / "link" / path.name) for path in lab.put("a.wav", "b.wav")]
    link, read = lab.directory / "link", os.readlink
    link.symlink_to(lab.input)
    os.lchown(link, 12345, 12345)

    def exchange(path: Any, **options: Any) -> Any:
        target = read(path, **options)
        if str(path) == str(link):
            link.unlink()
            link.mkdir()
        return target

    monkeypatch.setattr(os, "readlink", exchange)
    with prepare_inputs(files[:1], str(link)) as inputs:
        assert inputs.chosen and inputs.folder == str(lab.input)
    assert link.is_dir()


def test_many_links_to_the_same_folder_are_searched_once(tmp_path: Path) -> None:
    """Another user can make a few links with billions of paths."""
    for number in range(300):
        (tmp_path / f"l{number}").symlink_to(".")
    (tmp_path / "speaker").mkdir()
    (tmp_path / "speaker/a.wav").touch()
    (tmp_path / "other").symlink_to("speaker")
    found = ResourceAllocator().discover_files(tmp_path, "*/*/*/*.wav")
    assert len(found) <= 10 and {path.name for path in found} == {"a.wav"}
    assert ResourceAllocator().discover_files(tmp_path, "other/*.wav") == [tmp_path / "other/a.wav"]


def test_first_of_many_links_to_the_same_folder_is_searched(tmp_path: Path) -> None:
    """Whatever the order in which the file system lists them."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.wav").touch()
    for letter in "hcfakbgjdei":
        (tmp_path / letter).symlink_to("real")
    found = ResourceAllocator().discover_files(tmp_path, "*/*.wav")
    assert found == [tmp_path / "a/a.wav", tmp_path / "real/a.wav"]


def test_messages_name_the_files_and_not_the_links(lab: Lab, temporary: Path) -> None:
    lab.put("path1.wav", "path2.wav", "other.wav")
    orchestrator = LauncherOrchestrator()
    assert orchestrator.run(lab.input, lab.output, pattern="path*", worker_command=lab.command) == 1
    errors = {str(result["file"]): str(result["error"]) for result in failures(orchestrator)}
    assert errors == {str(path): f"ValueError: cannot do {path}" for path in lab.input.glob("path*")}


FORGETFUL = """
import os, sys
from pathlib import Path
from gpu_dispatch import serve

seen = Path(__file__).with_name("seen")
if seen.exists():
    sys.exit(f"cannot go on after {seen.read_text()}")

def work(file, output_dir):
    seen.write_text(str(file))
    os.kill(os.getpid(), 9)

serve(work)
"""


def test_messages_of_the_launcher_name_the_files_and_not_the_links(
    lab: Lab, temporary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A lost worker causes a warning, and the error of the files that are left."""
    lab.put("a.wav", "a2.wav", "b.wav")
    (lab.directory / "worker.py").write_text(FORGETFUL)
    orchestrator = LauncherOrchestrator()
    code = orchestrator.run(lab.input, lab.output, [0], pattern="a*", worker_command=lab.command)
    assert code == 1
    words = f"cannot go on after {lab.input}/a"
    assert words in caplog.text and words in str(failures(orchestrator)[-1]["error"])
    assert str(temporary) not in caplog.text + str(failures(orchestrator))
