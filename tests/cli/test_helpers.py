# SPDX-License-Identifier: MIT
"""Programs that gpuq executes: programs that another user put next to it are not executed."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from uninstalled import copy_uninstalled

BUILD = pathlib.Path(os.environ["GD_BUILD"])
LIMIT = 240  # seconds, timeout for operations that take milliseconds
OWNER, OTHER = 54321, 54322  # unused user ids
HELPERS = {"gpus": "gpuq-probe", "launch": "gpuq-launch", "top": "gpuq-top", "web": "gpuq-web"}


class Directory:
    """A directory for programs, with a copy of gpuq."""

    def __init__(self, path):
        path.chmod(0o755)
        self.bin = path / "bin"
        self.home = path / "home"
        self.ran = path / "ran"
        self.bin.mkdir()
        self.home.mkdir()
        self.ran.touch()
        self.ran.chmod(0o666)
        copy_uninstalled("gpuq", self.bin)
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "GPUQ_SYSFS_ROOT": str(path), "GPUQ_NVML_LIBRARY": ""}

    def plant(self, name):
        """A program that records that it was executed."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\necho {name} >> '{self.ran}'\n")
        path.chmod(0o755)
        return path

    def gpuq(self, *words, env=None, **options):
        return subprocess.run([self.bin / "gpuq", *words], cwd=self.home, env={**self.environment, **(env or {})},
                              capture_output=True, text=True, timeout=LIMIT, check=False, **options)


@pytest.fixture(name="directory")
def make_directory():
    with tempfile.TemporaryDirectory() as path:
        yield Directory(pathlib.Path(path))


@pytest.mark.parametrize("command, helper", HELPERS.items())
def test_program_next_to_gpuq_is_executed(directory, command, helper):
    directory.plant(helper)
    directory.gpuq(command)
    assert helper in directory.ran.read_text().split()


@pytest.mark.parametrize("command, helper", HELPERS.items())
def test_program_in_a_directory_where_everybody_can_write_is_not_executed(directory, command, helper):
    directory.plant(helper)
    directory.bin.chmod(0o1777)
    result = directory.gpuq(command)
    assert directory.ran.read_text() == ""
    if command == "gpus":  # it queries the drivers without the helper
        assert (result.returncode, result.stderr) == (0, "")
    else:
        assert result.returncode == 2
        assert result.stderr == (
            f"gpuq: refusing to execute '{directory.bin}/{helper}': '{directory.bin}' can be written by everybody; "
            f"install gpu_dispatch, correct the permissions, set GPUQ_TRUST=1 if you trust these users, or set GPUQ_{command.upper()} "
            "to the program you trust\n")
    directory.gpuq(command, env={"GPUQ_TRUST": "1"})
    assert helper in directory.ran.read_text().split()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several users: run it as root")
@pytest.mark.parametrize("command, helper", HELPERS.items())
def test_program_of_another_user_is_not_executed(directory, command, helper):
    """One user copied gpuq into a shared directory; another one puts a program there."""
    directory.bin.chmod(0o1777)
    os.chown(directory.bin / "gpuq", OWNER, OWNER)
    directory.plant(helper)
    os.chown(directory.bin / helper, OTHER, OTHER)
    for user in (OWNER, 0):
        result = directory.gpuq(command, user=user, group=user, extra_groups=[])
        assert directory.ran.read_text() == ""
        assert command == "gpus" or f"refusing to execute '{directory.bin}/{helper}': " in result.stderr
    directory.bin.chmod(0o755)
    result = directory.gpuq(command, user=OWNER, group=OWNER, extra_groups=[])
    assert directory.ran.read_text() == ""
    assert command == "gpus" or f"'{directory.bin}/{helper}' belongs to another user" in result.stderr


@pytest.mark.parametrize("command, helper", HELPERS.items())
def test_variable_names_a_program_that_needs_no_trust(directory, command, helper):
    variable = helper.upper().replace("-", "_")
    path = directory.plant("mine")
    directory.bin.chmod(0o1777)
    directory.gpuq(command, env={variable: str(path)})
    assert set(directory.ran.read_text().split()) == {"mine"}


@pytest.mark.parametrize("command", ["launch", "top", "web"])
def test_variable_must_be_an_absolute_path_of_a_program(directory, command):
    directory.plant("gpuq-mine")
    variable = f"GPUQ_{command.upper()}"
    result = directory.gpuq(command, env={variable: "../bin/gpuq-mine"})
    assert result.returncode == 2
    assert result.stderr == f"gpuq: ${variable} '../bin/gpuq-mine' is not an absolute path\n"
    result = directory.gpuq(command, env={variable: "/nowhere/program"})
    assert result.returncode == 2
    assert result.stderr == f"gpuq: ${variable} '/nowhere/program' cannot be executed: No such file or directory\n"
    assert directory.ran.read_text() == ""


# ---- Plug-ins --------------------------------------------------------------------------


@pytest.fixture(name="plugins")
def make_plugins(directory):
    """gpuq-launch and gpuq-worker next to gpuq, and a plug-in that records that it was loaded."""
    if not (BUILD / "gpuq-launch").exists():
        pytest.skip("gpuq-launch is not built")
    copy_uninstalled("gpuq-launch", directory.bin)
    shutil.copy(BUILD / "gpuq-worker", directory.bin)
    folder = directory.bin / "workers"
    folder.mkdir()
    source = directory.home / "planted.c"
    source.write_text('#include <fcntl.h>\n#include <unistd.h>\n'
                      '__attribute__((constructor)) static void begin(void)\n'
                      f'{{ int fd = open("{directory.ran}", O_WRONLY | O_APPEND); if (write(fd, "plug-in\\n", 8)) {{}} close(fd); }}\n')
    subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", source, "-o", folder / "planted.so"],
                   check=True, timeout=LIMIT)
    (directory.home / "in").mkdir()
    (directory.home / "in/a.wav").touch()
    directory.folder = folder
    directory.environment["GPUQ_GPUS"] = "sim:1"
    return directory


def test_plug_in_of_a_folder_that_is_trusted_is_loaded(plugins):
    plugins.gpuq("launch", "--list-workers")
    assert plugins.ran.read_text() == "plug-in\n"


@pytest.mark.parametrize("words", [("--list-workers",), ("--input-dir", "in", "--worker", "planted")])
def test_plug_in_by_name_in_a_folder_where_everybody_can_write_is_not_loaded(plugins, words):
    plugins.folder.chmod(0o1777)
    result = plugins.gpuq("launch", *words)
    assert plugins.ran.read_text() == ""
    assert (f"refusing to load '{plugins.folder}/planted.so': '{plugins.folder}' can be written by everybody; "
            "correct the permissions, set GPUQ_TRUST=1 if you trust these users, "
            f"or use --worker '{plugins.folder}/planted.so' if you trust it") in result.stdout + result.stderr
    plugins.gpuq("launch", *words, env={"GPUQ_TRUST": "1"})
    assert "plug-in" in plugins.ran.read_text()


def test_plug_in_by_path_is_the_users_choice(plugins):
    plugins.folder.chmod(0o1777)
    plugins.gpuq("launch", "--input-dir", "in", "--worker", plugins.folder / "planted.so")
    assert "plug-in" in plugins.ran.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several users: run it as root")
def test_plug_in_of_another_user_is_not_loaded(plugins):
    os.chown(plugins.folder / "planted.so", OTHER, OTHER)
    result = plugins.gpuq("launch", "--list-workers")
    assert plugins.ran.read_text() == ""
    assert f"'{plugins.folder}/planted.so' belongs to another user" in result.stdout


# ---- gpuq-worker -----------------------------------------------------------------------


@pytest.fixture(name="launcher")
def make_launcher(directory):
    """The real gpuq-launch next to gpuq, and a file to process; gpuq-worker is the test's."""
    if not (BUILD / "gpuq-launch").exists():
        pytest.skip("gpuq-launch is not built")
    copy_uninstalled("gpuq-launch", directory.bin)
    (directory.home / "in").mkdir()
    (directory.home / "in/a.wav").touch()
    directory.environment["GPUQ_GPUS"] = "sim:1"
    directory.launch = lambda **env: directory.gpuq("launch", "--input-dir", "in", "--", "true", env=env)
    return directory


def test_worker_helper_that_everybody_can_write_is_not_executed(launcher):
    launcher.plant("gpuq-worker").chmod(0o777)
    result = launcher.launch()
    assert launcher.ran.read_text() == ""
    assert result.returncode == 2
    assert f"refusing to execute '{launcher.bin}/gpuq-worker': '{launcher.bin}/gpuq-worker' can be written by everybody" in result.stderr
    assert "set GPUQ_WORKER to the program you trust" in result.stderr
    result = launcher.launch(GPUQ_WORKER=str(BUILD / "gpuq-worker"))
    assert (result.returncode, result.stderr) == (0, "")


def test_missing_worker_helper_is_reported_before_anything_starts(launcher):
    result = launcher.launch(GPUQ_WORKER="../bin/gpuq-worker")
    assert result.returncode == 2
    assert result.stderr == "gpuq: $GPUQ_WORKER '../bin/gpuq-worker' is not an absolute path\n"
    result = launcher.launch(GPUQ_WORKER="/nowhere/gpuq-worker")
    assert result.returncode == 2
    assert "$GPUQ_WORKER '/nowhere/gpuq-worker' cannot be executed: No such file or directory" in result.stderr
    assert not (launcher.home / "data").exists()
