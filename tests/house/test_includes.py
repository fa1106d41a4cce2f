# SPDX-License-Identifier: MIT
"""tools/check-includes: the rooms of src/ know each other in one direction only."""
import os
import pathlib
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])


def check(root):
    return subprocess.run([sys.executable, SOURCE / "tools/check-includes", root],
                          capture_output=True, text=True, timeout=60, check=False)


def tree(tmp_path, **files):
    """A tree in which the named files hold one #include each."""
    for name, include in files.items():
        room, _, file = name.partition("__")
        path = tmp_path / "src" / room / (file + ".c")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"/* a file */\n#include {include}\n")
    return tmp_path


def test_our_own_tree_is_right():
    result = check(SOURCE)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("room, other", [
    ("gpu", "base"), ("pool", "gpu"), ("pool", "base"), ("pool", "pool"), ("launch", "pool"),
    ("queue", "gpu"), ("view", "base"), ("cli", "pool"), ("cli", "queue"), ("cli", "view"),
])
def test_allowed_directions_pass(tmp_path, room, other):
    result = check(tree(tmp_path, **{f"{room}__a": f'"{other}/x.h"'}))
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("room, other", [
    ("base", "gpu"), ("gpu", "pool"), ("pool", "queue"), ("queue", "pool"), ("pool", "cli"),
    ("view", "queue"), ("launch", "queue"), ("queue", "cli"), ("pool", "launch"),
])
def test_forbidden_directions_fail_and_are_named(tmp_path, room, other):
    result = check(tree(tmp_path, **{f"{room}__a": f'"{other}/x.h"'}))
    assert result.returncode == 1
    assert f"src/{room}/a.c:2: {room} must not know {other}" in result.stdout


@pytest.mark.parametrize("include, words", [
    ('"x.h"', 'write "room/file.h"'),
    ('"../base/x.h"', 'write "room/file.h"'),
    ("<base/x.h>", "use quotes"),
    ("<gpu_dispatch.h>", "use quotes"),
])
def test_an_include_that_hides_its_room_fails(tmp_path, include, words):
    result = check(tree(tmp_path, gpu__a=include))
    assert result.returncode == 1
    assert words in result.stdout


def test_public_and_system_headers_pass(tmp_path):
    result = check(tree(tmp_path, base__a="<stdio.h>", base__b='"gpu_dispatch.h"', base__c="<sys/types.h>"))
    assert (result.returncode, result.stdout) == (0, "")


def test_a_room_that_nobody_planned_fails(tmp_path):
    result = check(tree(tmp_path, utils__a="<stdio.h>"))
    assert result.returncode == 1
    assert "'utils' is no room" in result.stdout


def test_public_header_with_more_than_the_standard_types_fails(tmp_path):
    tree(tmp_path, base__a="<stdio.h>")
    (tmp_path / "include").mkdir()
    (tmp_path / "include/gpu_dispatch.h").write_text("#include <stddef.h>\n#include <sys/types.h>\n")
    result = check(tmp_path)
    assert result.returncode == 1
    assert "include/gpu_dispatch.h:2:" in result.stdout


def test_example_that_uses_our_insides_fails(tmp_path):
    tree(tmp_path, base__a="<stdio.h>")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/x.c").write_text('#include <gpu_dispatch.h>\n#include "base/text.h"\n')
    result = check(tmp_path)
    assert result.returncode == 1
    assert "examples/x.c:2:" in result.stdout


def test_a_tree_without_sources_is_no_success(tmp_path):
    assert check(tmp_path).returncode == 1
