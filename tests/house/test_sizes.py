# SPDX-License-Identifier: MIT
"""Programs that were compiled against an older or a newer header work with this library."""
import os
import pathlib
import re
import shlex
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
BUILD = pathlib.Path(os.environ["GD_BUILD"])
HEADER = (SOURCE / "include/gpu_dispatch.h").read_text()
LIMIT = 60
SIZED = re.compile(r"^struct (gd_\w+) \{\n\tsize_t size;.*?^\};$", re.MULTILINE | re.DOTALL)

# The last field of each struct that the older program knows.
OLDER = {
    "gd_worker_ops": "process",
    "gd_options": "num_gpu_ids",
    "gd_run": "total_tasks",
    "gd_callbacks": "on_timeout",
    "gd_stats": "completed",
    "gd_worker_stats": "pid",
}


def field(name):
    """The line or lines that declare a field, a function pointer included."""
    return re.compile(rf"^\t[^\n]*?\b{name}\b(?:\)\([^;]*)?;[^\n]*\n", re.MULTILINE)


def smaller(match):
    text, last = match.group(), OLDER.get(match.group(1))
    if not last:
        return text
    declaration = field(last).search(text)
    assert declaration, f"struct {match.group(1)} has no field {last}"
    end = declaration.end()
    if "/*" in declaration.group() and "*/" not in declaration.group():
        end = text.index("*/", end) + 3
    return text[:end] + "};"


def larger(match):
    return match.group()[:-2] + "\tuint64_t future[3];\n};"


def build(tmp_path, change, *flags):
    (tmp_path / "gpu_dispatch.h").write_text(SIZED.sub(change, HEADER))
    program = tmp_path / "program"
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), *flags, "-Wall", "-Werror", "-I", tmp_path,
                    SOURCE / "tests/house/sizes_program.c", "-o", program, "-L", BUILD, "-lgpu_dispatch",
                    f"-Wl,-rpath,{BUILD}"], check=True, timeout=LIMIT)
    return program


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIMIT, check=False)


WORKS = "20 ended, 20 submitted\nworker 1 on GPU 1\n"


def test_header_has_the_structs():
    names = [match.group(1) for match in SIZED.finditer(HEADER)]
    assert set(OLDER) <= set(names)
    assert len(names) >= 10


def test_program_with_the_same_header_works(tmp_path):
    result = run(build(tmp_path, lambda match: match.group()))
    assert (result.returncode, result.stdout) == (0, WORKS), result


def test_program_of_an_older_header_works(tmp_path):
    result = run(build(tmp_path, smaller))
    assert (result.returncode, result.stdout) == (0, WORKS), result


def test_program_of_a_newer_header_works_while_it_sets_nothing_unknown(tmp_path):
    result = run(build(tmp_path, larger, "-DGD_TEST_LARGER"))
    assert (result.returncode, result.stdout) == (0, WORKS), result


@pytest.mark.parametrize("name", ["gd_worker_ops", "gd_options", "gd_run", "gd_callbacks"])
def test_field_that_the_library_does_not_know_is_refused(tmp_path, name):
    result = run(build(tmp_path, larger, "-DGD_TEST_LARGER"), name)
    assert result.returncode == 3
    assert result.stdout.startswith("error -7:")
    assert f"struct {name} has a field set that this version of the library" in result.stdout


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def test_sized_structs_are_never_embedded_and_have_no_bool():
    headers = "".join(without_comments(path.read_text()) for path in sorted((SOURCE / "include").glob("*.h")))
    bodies = {match.group(1): match.group() for match in SIZED.finditer(headers)}
    assert len(bodies) > 20
    for name, body in bodies.items():
        for line in body.splitlines()[1:]:
            embedded = re.match(r"\tstruct (gd_\w+) \w+(?:\[|;)", line)
            assert not (embedded and embedded.group(1) in bodies), f"struct {name} embeds {line.strip()}"
            assert not re.match(r"\tbool \w+;", line), f"struct {name} has a bool: {line.strip()}"
