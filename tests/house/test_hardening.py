# SPDX-License-Identifier: MIT
"""tools/check-hardening: reports missing hardening of programs and libraries."""
import os
import pathlib
import platform
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
PROGRAM = """
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
	char name[16];
	strncpy(name, argv[0], (size_t)argc);
	return puts(name) < 0;
}
"""
HARD = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-fPIE", "-pie",
        "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]
X86 = platform.machine() in ("x86_64", "i686")


def check(build, *files):
    return subprocess.run([sys.executable, SOURCE / "tools/check-hardening", build, *files],
                          capture_output=True, text=True, timeout=60, check=False)


def build(directory, *options):
    """`program`, with its object where Meson would have it."""
    (directory / "program.p").mkdir(exist_ok=True)
    (directory / "program.c").write_text(PROGRAM)
    cc = os.environ.get("CC", "cc")
    cet = ["-fcf-protection=full"] if X86 else []
    subprocess.run([cc, "-w", *HARD, *cet, *options, "-c", "program.c", "-o", "program.p/program.c.o"], cwd=directory,
                   timeout=60, check=True)
    subprocess.run([cc, "-w", *HARD, *cet, *options, "program.p/program.c.o", "-o", "program"], cwd=directory, timeout=60,
                   check=True)


def test_a_hardened_program_passes(tmp_path):
    build(tmp_path)
    result = check(tmp_path, "program")
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("option, words", [
    ("-Wl,-z,norelro", "no RELRO"),
    ("-Wl,-z,lazy", "no BIND_NOW"),
    ("-no-pie", "not position-independent"),
    ("-fno-stack-protector", "no stack protector"),
    ("-U_FORTIFY_SOURCE", "no checked calls of libc"),
    ("-Wl,-z,execstack", "an executable stack"),
    pytest.param("-fcf-protection=none", "no IBT and SHSTK property in program.c.o",
                 marks=pytest.mark.skipif(not X86, reason="a property of x86")),
])
def test_each_thing_that_is_missing_is_named(tmp_path, option, words):
    build(tmp_path, option)
    result = check(tmp_path, "program")
    assert result.returncode == 1
    assert [line for line in result.stdout.splitlines() if line.startswith(f"program: {words}")], result.stdout
    assert len(result.stdout.splitlines()) == 1


def test_a_file_that_was_not_built_fails(tmp_path):
    result = check(tmp_path, "program")
    assert (result.returncode, result.stdout) == (1, "program: not built\n")


def test_a_build_with_nothing_to_install_fails(tmp_path):
    (tmp_path / "meson-info").mkdir()
    (tmp_path / "meson-info/intro-targets.json").write_text("[]")
    result = check(tmp_path)
    assert result.returncode == 1
    assert "nothing to check" in result.stdout


def test_without_a_build_there_is_help():
    result = subprocess.run([sys.executable, SOURCE / "tools/check-hardening"], capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == 2
    assert "tools/check-hardening BUILD" in result.stderr
