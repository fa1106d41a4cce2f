# SPDX-License-Identifier: MIT
"""tools/check-includes: the modules of src/ and workers/ include each other in one direction only."""
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
    """A tree in which the named files contain one #include each."""
    for name, include in files.items():
        module, _, file = name.partition("__")
        path = tmp_path / "src" / module / (file + ".c")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"/* a file */\n#include {include}\n")
    return tmp_path


def test_our_own_tree_is_right():
    result = check(SOURCE)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("module, other", [
    ("gpu", "base"), ("pool", "gpu"), ("pool", "base"), ("pool", "pool"), ("launch", "pool"), ("shown", "pool"),
    ("queue/schedule", "gpu"), ("queue/runner", "queue/keeper"), ("queue/schedule", "queue/journal"), ("view/web", "base"),
    ("view/panel", "view/model"), ("shown", "view/panel"), ("shown", "gpu"), ("cli", "pool"), ("cli", "queue/input"),
    ("cli", "view/top"),
])
def test_allowed_directions_pass(tmp_path, module, other):
    result = check(tree(tmp_path, **{f"{module}__a": f'"{other}/x.h"'}))
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("module, other", [
    ("base", "gpu"), ("gpu", "pool"), ("pool", "queue/journal"), ("queue/runner", "pool"), ("pool", "cli"),
    ("view/model", "queue/journal"), ("view/panel", "pool"), ("launch", "queue/input"), ("queue/runner", "cli"),
    ("pool", "launch"), ("pool", "shown"), ("launch", "shown"), ("queue/journal", "queue/schedule"),
    ("queue/keeper", "queue/runner"), ("queue/schedule", "queue/keeper"), ("queue/runner", "queue/input"),
    ("view/model", "view/panel"), ("view/web", "view/top"), ("shown", "view/web"), ("view/panel", "gpu"),
    ("view/model", "gpu"), ("queue/journal", "gpu"), ("queue/keeper", "gpu"), ("queue/input", "gpu"),
])
def test_forbidden_directions_fail_and_are_named(tmp_path, module, other):
    result = check(tree(tmp_path, **{f"{module}__a": f'"{other}/x.h"'}))
    assert result.returncode == 1
    assert f"src/{module}/a.c:2: {module} must not know {other}" in result.stdout


@pytest.mark.parametrize("include, words", [
    ('"x.h"', 'write "module/file.h"'),
    ('"../base/x.h"', 'write "module/file.h"'),
    ('"queue/x.h"', 'write "module/file.h"'),
    ('"queue/other/x.h"', 'write "module/file.h"'),
    ("<base/x.h>", "use quotes"),
    ("<gpu_dispatch.h>", "use quotes"),
])
def test_an_include_that_hides_its_module_fails(tmp_path, include, words):
    result = check(tree(tmp_path, gpu__a=include))
    assert result.returncode == 1
    assert words in result.stdout


def test_public_and_system_headers_pass(tmp_path):
    result = check(tree(tmp_path, base__a="<stdio.h>", base__b='"gpu_dispatch.h"', base__c="<sys/types.h>"))
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("place", ["utils", "queue", "queue/other", "base/deeper"])
def test_a_file_outside_the_planned_modules_fails(tmp_path, place):
    result = check(tree(tmp_path, **{f"{place}__a": "<stdio.h>"}))
    assert result.returncode == 1
    assert f"src/{place}/a.c:1: not in a module or part" in result.stdout


def plugin(tmp_path, include):
    """A tree with one plug-in that has this #include, and a header next to it."""
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers/audio.h").write_text("/* a header */\n")
    (tmp_path / "workers/a.c").write_text(f"/* a file */\n#include {include}\nint (*f)(void) = gd_run;\n")
    return tmp_path


@pytest.mark.parametrize("include", ['"audio.h"', '"base/text.h"', '"gpu_dispatch.h"', "<stdio.h>", "<whisper.h>"])
def test_plug_in_may_include_its_own_headers_base_and_the_public_header(tmp_path, include):
    result = check(plugin(tmp_path, include))
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("include, words", [
    ('"launch/worker.h"', "workers must not know launch"),
    ('"pool/ring.h"', "workers must not know pool"),
    ('"missing.h"', 'write "module/file.h"'),
    ('"../src/base/text.h"', 'write "module/file.h"'),
    ("<base/text.h>", "use quotes"),
])
def test_plug_in_that_includes_anything_else_fails(tmp_path, include, words):
    result = check(plugin(tmp_path, include))
    assert result.returncode == 1
    assert "workers/a.c:2: " in result.stdout and words in result.stdout


@pytest.mark.parametrize("module", ["base", "cli"])
def test_no_module_may_include_a_plug_in(tmp_path, module):
    result = check(tree(tmp_path, **{f"{module}__a": '"workers/audio.h"'}))
    assert result.returncode == 1
    assert f"src/{module}/a.c:2: {module} must not know workers" in result.stdout


PUBLIC = """
/* ---- Errors ------- */
struct gd_error {
	char text[80];
};
/* ---- Statistics --- */
enum gd_worker_state {
	GD_WORKER_STATE_IDLE,
};
struct gd_stats; /* names gd_show in its comment */
/* ---- Dispatcher ------------- */
int gd_dispatcher_run(struct gd_error *err);
/* ---- Shown run -------------- */
int gd_dispatcher_run_shown(void);
"""


@pytest.mark.parametrize("module, line, module_behind", [
    ("view/model", "int n = GD_WORKER_STATE_IDLE;", "pool"),
    ("view/model", "struct gd_stats *s;", "pool"),
    ("queue/runner", "enum gd_worker_state s;", "pool"),
    ("gpu", "int (*f)(struct gd_error *) = gd_dispatcher_run;", "pool"),
    ("pool", "int (*f)(void) = gd_dispatcher_run_shown;", "shown"),
])
def test_what_is_reached_through_the_public_header_follows_the_graph_too(tmp_path, module, line, module_behind):
    (tmp_path / "include").mkdir()
    (tmp_path / "include/gpu_dispatch.h").write_text(PUBLIC)
    tree(tmp_path, **{f"{module}__a": f'"gpu_dispatch.h"\n{line}'})
    result = check(tmp_path)
    assert result.returncode == 1
    assert f"src/{module}/a.c:3: {module} must not know {module_behind}" in result.stdout


@pytest.mark.parametrize("module, line", [
    ("view/model", "struct gd_error *e;"),
    ("view/model", "/* as gd_dispatcher_run() does */ const char *s = \"gd_run\";"),
    ("shown", "enum gd_worker_state s = GD_WORKER_STATE_IDLE;"),
    ("cli", "int (*f)(void) = gd_dispatcher_run_shown;"),
])
def test_what_the_graph_allows_may_be_reached_through_the_public_header(tmp_path, module, line):
    (tmp_path / "include").mkdir()
    (tmp_path / "include/gpu_dispatch.h").write_text(PUBLIC)
    tree(tmp_path, **{f"{module}__a": f'"gpu_dispatch.h"\n{line}'})
    assert (check(tmp_path).returncode, check(tmp_path).stdout) == (0, "")


def test_a_section_of_the_public_header_without_a_module_fails(tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include/gpu_dispatch.h").write_text("/* ---- News ---- */\n")
    result = check(tree(tmp_path, base__a="<stdio.h>"))
    assert result.returncode == 1
    assert "section 'News'" in result.stdout


def test_public_header_with_more_than_the_standard_types_fails(tmp_path):
    tree(tmp_path, base__a="<stdio.h>")
    (tmp_path / "include").mkdir()
    (tmp_path / "include/gpu_dispatch.h").write_text("#include <stddef.h>\n#include <sys/types.h>\n")
    result = check(tmp_path)
    assert result.returncode == 1
    assert "include/gpu_dispatch.h:2:" in result.stdout


def test_example_that_uses_internal_headers_fails(tmp_path):
    tree(tmp_path, base__a="<stdio.h>")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/x.c").write_text('#include <gpu_dispatch.h>\n#include "base/text.h"\n')
    result = check(tmp_path)
    assert result.returncode == 1
    assert "examples/x.c:2:" in result.stdout


def test_a_tree_without_sources_is_not_a_success(tmp_path):
    assert check(tmp_path).returncode == 1
