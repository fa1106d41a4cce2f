# SPDX-License-Identifier: MIT
"""tools/check-exports: the headers, the version script and the library name the same functions."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
BUILD = pathlib.Path(os.environ["GD_BUILD"])
API = '#define GD_API __attribute__((visibility("default")))\n'
MAIN_HEADER = API + """
#include "more.h"
#define GD_PRINTF(fmt, args) \\
	GD_API __attribute__((format(printf, fmt, args)))
/* GD_API int gd_in_a_comment(void); */
// GD_API int gd_in_another(void);
GD_API const char *gd_version(void);
GD_API int gd_split(
	const char *name,
	int (*callback)(void *context, int n),
	void *context);
GD_API void
gd_on_the_next_line (int n);
GD_API struct gd_thing *gd_thing_create(struct gd_thing *parent);
GD_API GD_PRINTF(1, 2) int gd_say(const char *format, ...);
GD_API int gd_say_too(const char *format, ...) __attribute__((format(printf, 1, 2)));
GD_API void (*gd_handler(int n))(int);
GD_API extern const int gd_numbers[3];
int gd_without(void);
"""
MORE_HEADER = """
GD_API int gd_more(void);
"""
PUBLIC = ["gd_handler", "gd_more", "gd_numbers", "gd_on_the_next_line", "gd_say", "gd_say_too", "gd_split",
          "gd_thing_create", "gd_version"]


def check(*arguments):
    return subprocess.run([sys.executable, SOURCE / "tools/check-exports", *arguments],
                          capture_output=True, text=True, timeout=60, check=False)


def link(root, names, script=None):
    """A library with these functions, as build/libgpu_dispatch.so."""
    (root / "build").mkdir(exist_ok=True)
    (root / "all.c").write_text("".join(f"int {name}(void); int {name}(void) {{ return 0; }}\n" for name in names))
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "all.c", "-o", "build/libgpu_dispatch.so",
                    *([f"-Wl,--version-script={script}"] if script else [])], cwd=root, timeout=60, check=True)


@pytest.fixture
def tree(tmp_path):
    """Headers, the map that --write generates from them, and a library that exports the same functions."""
    for name in ("include", "src"):
        (tmp_path / name).mkdir()
    (tmp_path / "include/gpu_dispatch.h").write_text(MAIN_HEADER)
    (tmp_path / "include/more.h").write_text(MORE_HEADER)
    assert check("--root", tmp_path, "--write").returncode == 0
    link(tmp_path, [*PUBLIC, "internal"], "src/gpu_dispatch.map")
    return tmp_path


def test_our_own_library_exports_what_the_headers_declare():
    result = check(BUILD)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_map_names_every_public_declaration_of_every_header(tree):
    text = (tree / "src/gpu_dispatch.map").read_text()
    assert re.findall(r"^\t(\w+);$", text, re.MULTILINE) == PUBLIC
    assert "GPU_DISPATCH_0 {" in text and "local:\n\t*;" in text
    result = check("--root", tree, tree / "build")
    assert (result.returncode, result.stdout) == (0, "")


def test_a_new_declaration_is_missing_in_the_map_and_in_the_library(tree):
    (tree / "include/more.h").write_text(MORE_HEADER + "GD_API int gd_new(void);\n")
    result = check("--root", tree, tree / "build")
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "gd_new: declared in include/more.h, but not in src/gpu_dispatch.map; run tools/check-exports --write",
        "gd_new: declared in include/more.h, but libgpu_dispatch.so does not export it"]


def test_a_removed_declaration_is_still_in_the_map_and_in_the_library(tree):
    (tree / "include/more.h").write_text("")
    result = check("--root", tree, tree / "build")
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "gd_more: in src/gpu_dispatch.map, but no public header declares it; run tools/check-exports --write",
        "gd_more: exported by libgpu_dispatch.so, but no public header declares it"]


def test_a_library_without_the_map_exports_too_much_and_no_version(tree):
    link(tree, [*PUBLIC, "internal"])
    result = check("--root", tree, tree / "build")
    assert result.returncode == 1
    assert "internal: exported by libgpu_dispatch.so, but no public header declares it" in result.stdout
    assert "gd_more: exported with version '' in place of GPU_DISPATCH_0" in result.stdout


def test_a_library_that_was_not_built_and_headers_without_declarations_fail(tree):
    (tree / "build/libgpu_dispatch.so").unlink()
    assert "libgpu_dispatch.so: not built" in check("--root", tree, tree / "build").stdout
    for header in (tree / "include").iterdir():
        header.unlink()
    result = check("--root", tree, tree / "build")
    assert result.returncode == 1
    assert "include: declares nothing with GD_API" in result.stdout
