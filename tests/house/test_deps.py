# SPDX-License-Identifier: MIT
"""tools/deps on fake machines: PATH contains only programs of the test."""
import os
import pathlib
import pty
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
BUILD_TOOLS = ["cc", "meson", "ninja", "pkg-config", "scdoc"]
PLUMBING = ["sh", "env", "mktemp", "rm", "cat"]


class Machine:
    def __init__(self, root):
        self.root = root
        self.bin = root / "bin"
        self.log = root / "log"
        self.bin.mkdir()
        self.log.touch()
        for name in PLUMBING:
            (self.bin / name).symlink_to(shutil.which(name))
        self.uid(0)

    def put(self, name, body="exit 0"):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def uid(self, number):
        self.put("id", f"echo {number}")

    def put_apt(self, installs="", fails=False):
        """An apt-get that records its arguments and installs some commands."""
        lines = [f'echo "apt-get $*" >>"{self.log}"',
                 f'echo "frontend $DEBIAN_FRONTEND" >>"{self.log}"']
        if fails:
            lines.append("exit 100")
        for name in installs.split():
            lines.append(f'case "$*" in *install*) cp "{self.bin}/cc" "{self.bin}/{name}" ;; esac')
        (self.bin / "cp").symlink_to(shutil.which("cp"))
        self.put("apt-get", "\n".join(lines))

    def deps(self, *groups):
        return subprocess.run([self.bin / "sh", SOURCE / "tools/deps", *groups], env={"PATH": str(self.bin)},
                              capture_output=True, text=True, timeout=60, check=False)

    def deps_on_terminal(self, answer, *groups):
        """Its exit code and output on a terminal."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(self.bin / "sh", ["sh", str(SOURCE / "tools/deps"), *groups], {"PATH": str(self.bin)})
        os.write(fd, answer.encode() + b"\n")
        text = b""
        while True:
            try:
                data = os.read(fd, 4096)
            except OSError:  # EIO: the end
                break
            if not data:
                break
            text += data
        os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text.decode()

    def calls(self):
        return self.log.read_text()


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    for name in BUILD_TOOLS:
        made.put(name)
    return made


def test_prints_nothing_if_nothing_is_missing(machine):
    machine.put_apt()
    result = machine.deps("build")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert machine.calls() == ""


def test_without_apt_get_lists_what_is_needed_and_fails(machine):
    (machine.bin / "meson").unlink()
    (machine.bin / "scdoc").unlink()
    result = machine.deps("build")
    assert result.returncode == 1
    assert "apt-get not found" in result.stderr
    assert "meson (Debian: meson)" in result.stderr
    assert "scdoc (Debian: scdoc)" in result.stderr
    assert "ninja" not in result.stderr


def test_missing_tools_are_installed_without_questions(machine):
    (machine.bin / "ninja").unlink()
    (machine.bin / "meson").unlink()
    machine.put_apt(installs="ninja meson")
    result = machine.deps("build")
    assert result.returncode == 0, result.stderr
    assert "installing with apt-get: meson ninja-build" in result.stderr
    assert "--no-install-recommends meson ninja-build" in machine.calls()
    assert "frontend noninteractive" in machine.calls()


def test_a_compiler_without_libc_headers_counts_as_missing(machine):
    machine.put("cc", "exit 1")
    result = machine.deps("build")
    assert result.returncode == 1
    assert "gcc libc6-dev" in result.stderr


def test_a_command_that_does_not_run_counts_as_missing(machine):
    machine.put("meson", "exit 127")
    assert "meson" in machine.deps("build").stderr


@pytest.fixture(name="user_machine")
def make_user_machine(machine):
    """An ordinary user with sudo; ninja is missing and can be installed."""
    machine.uid(1000)
    (machine.bin / "ninja").unlink()
    machine.put_apt(installs="ninja")
    machine.put("sudo", f'echo "sudo $*" >>"{machine.log}"; exec "$@"')
    return machine


@pytest.mark.parametrize("answer", ["y", "yes", "Y"])
def test_users_other_than_root_are_asked_on_a_terminal_and_use_sudo(user_machine, answer):
    code, text = user_machine.deps_on_terminal(answer, "build")
    assert code == 0, text
    assert "ninja (Debian: ninja-build)" in text
    assert "run this now? sudo apt-get install --no-install-recommends ninja-build [y/N]" in text
    assert "sudo env DEBIAN_FRONTEND=noninteractive apt-get" in user_machine.calls()


@pytest.mark.parametrize("answer", ["", "n", "no", "yea", "sure"])
def test_any_other_answer_means_no(user_machine, answer):
    code, text = user_machine.deps_on_terminal(answer, "build")
    assert code == 1 and "nothing was installed" in text
    assert user_machine.calls() == ""


def test_without_a_terminal_sudo_is_never_run(user_machine):
    result = user_machine.deps("build")
    assert result.returncode == 1
    assert "run: sudo apt-get install --no-install-recommends ninja-build" in result.stderr
    assert user_machine.calls() == ""


def lines_of(name):
    return [line for line in (SOURCE / name).read_text().splitlines() if not line.startswith("#")]


def test_packages_of_pypi_are_pinned_by_version():
    lines = lines_of("tools/pypi.txt")
    assert lines and all(re.fullmatch(r"[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    lines = lines_of("tools/python-tools.txt")
    assert lines and all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lines)
    own = r"build-python/wheel/\*\.whl|gpu_dispatch-VERSION\.tar\.gz"  # tools/time-install installs these as a user would
    for path in [*(SOURCE / "tools").iterdir(), *(SOURCE / ".ci").iterdir(), SOURCE / "Makefile"]:
        for line in path.read_text(errors="replace").replace("\\\n", " ").splitlines() if path.is_file() else []:
            assert not re.search(r"\bpip3?\b.* install\b(?!.* -c tools/python-tools\.txt)(?! \"\$@\")(?! (" + own + "))", line), (path, line)
    calls = [line.split() for line in (SOURCE / "tools/pypi").read_text().replace("\\\n", " ").splitlines()
             if line.startswith("install ")]
    for words in calls:
        wanted = [word.strip("'") for word in words[2:] if not word.startswith(("-", ":", '"'))]
        assert "--require-hashes" in words or all(re.fullmatch(r"[\w-]+==[\d.]+", word) for word in wanted), words


def test_without_root_and_sudo_the_command_to_type_is_printed(machine):
    machine.uid(1000)
    (machine.bin / "ninja").unlink()
    machine.put_apt()
    result = machine.deps("build")
    assert result.returncode == 1
    assert "apt-get install --no-install-recommends ninja-build" in result.stderr
    assert machine.calls() == ""


def test_a_failing_apt_get_is_tried_with_fresh_lists_then_reported(machine):
    (machine.bin / "ninja").unlink()
    machine.put_apt(fails=True)
    result = machine.deps("build")
    assert result.returncode == 1
    assert "could not install: ninja-build" in result.stderr
    assert "update" in machine.calls()


def test_an_install_that_did_not_help_is_an_error(machine):
    (machine.bin / "ninja").unlink()
    machine.put_apt()
    result = machine.deps("build")
    assert result.returncode == 1
    assert "still missing" in result.stderr


def test_the_demo_needs_less_than_a_build(machine):
    (machine.bin / "scdoc").unlink()
    assert machine.deps("demo").returncode == 0
    assert machine.deps("build").returncode == 1
    (machine.bin / "ninja").unlink()
    assert "ninja" in machine.deps("demo").stderr


def test_groups_add_up_and_unknown_ones_are_refused(machine):
    machine.put("pkg-config", '[ "$1" = --version ]')
    result = machine.deps("build", "test")
    assert "libcmocka-dev" in result.stderr
    assert "python3-pytest" in result.stderr
    assert machine.deps("biuld").returncode == 2
    assert machine.deps().returncode == 2
