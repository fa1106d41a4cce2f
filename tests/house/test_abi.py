# SPDX-License-Identifier: MIT
"""tools/check-abi: effects of library changes on programs built earlier."""
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
pytestmark = pytest.mark.skipif(not shutil.which("abidw") or platform.machine() != "x86_64",
                                reason="needs abigail-tools and x86-64")
HEADER = """
#include <stddef.h>
struct gd_thing {
	size_t size;
	int first;
	int second;
};
struct gd_hidden;
int gd_use(struct gd_thing *thing, struct gd_hidden *hidden);
"""
CODE = """
#include "include/gpu_dispatch.h"
struct gd_hidden {
	int number;
};
int gd_use(struct gd_thing *thing, struct gd_hidden *hidden)
{
	return thing->second + hidden->number;
}
"""


def check(root, *options):
    return subprocess.run([sys.executable, SOURCE / "tools/check-abi", "--root", root, *options, root / "build"],
                          capture_output=True, text=True, timeout=60, check=False)


def build(root, header=HEADER, code=CODE, debug="-g"):
    for name in ("include", "build"):
        (root / name).mkdir(exist_ok=True)
    (root / "include/gpu_dispatch.h").write_text(header)
    (root / "code.c").write_text(code)
    subprocess.run([os.environ.get("CC", "cc"), debug, "-O2", "-shared", "-fPIC", root / "code.c",
                    "-o", root / "build/libgpu_dispatch.so"], timeout=60, check=True)


@pytest.fixture
def tree(tmp_path):
    """A library and its stored interface."""
    build(tmp_path)
    result = check(tmp_path, "--write")
    assert result.returncode == 0, result.stderr
    return tmp_path


def test_the_same_library_passes_in_silence(tree):
    result = check(tree)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_stored_interface_names_no_directory(tree):
    text = (tree / "abi/gpu_dispatch.abi").read_text()
    assert "gd_thing" in text
    assert str(tree) not in text and "comp-dir" not in text


def test_field_in_the_middle_of_a_struct_fails(tree):
    build(tree, header=HEADER.replace("int first;", "int first;\n\tlong inserted;"))
    result = check(tree)
    assert result.returncode == 1
    assert "inserted" in result.stdout and "the binary interface has changed" in result.stdout


def test_field_at_the_end_of_a_struct_fails_until_it_is_stored(tree):
    build(tree, header=HEADER.replace("int second;", "int second;\n\tlong third;"))
    result = check(tree)
    assert result.returncode == 1
    assert "third" in result.stdout and "at the end of a struct" in result.stdout
    assert "third" in check(tree, "--write").stdout
    assert (check(tree).returncode, check(tree).stdout) == (0, "")


def test_removed_function_fails(tree):
    build(tree, code=CODE + "int gd_other(void)\n{\n\treturn 1;\n}\n")
    check(tree, "--write")
    build(tree)
    result = check(tree)
    assert result.returncode == 1
    assert "gd_other" in result.stdout


def test_changed_parameter_fails(tree):
    build(tree, header=HEADER.replace("*hidden);", "*hidden, int n);"), code=CODE.replace("*hidden)", "*hidden, int n)"))
    assert check(tree).returncode == 1


def test_added_function_passes_with_a_note(tree):
    build(tree, header=HEADER + "int gd_added(void);\n", code=CODE + "int gd_added(void)\n{\n\treturn 1;\n}\n")
    result = check(tree)
    assert result.returncode == 0
    assert "gd_added" in result.stdout and "compatible additions" in result.stdout


def test_change_of_a_struct_that_no_header_defines_passes(tree):
    build(tree, code=CODE.replace("int number;", "long other;\n\tint number;"))
    result = check(tree)
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("change, words", [
    (lambda root: build(root, debug="-g0"), "no debug information"),
    (lambda root: (root / "build/libgpu_dispatch.so").unlink(), "not built"),
    (lambda root: (root / "abi/gpu_dispatch.abi").unlink(), "tools/check-abi --write"),
])
def test_what_cannot_be_compared_is_an_error(tree, change, words):
    change(tree)
    result = check(tree)
    assert result.returncode == 2
    assert words in result.stderr
