# SPDX-License-Identifier: MIT
"""The programs in the man page and the README compile, run, and match the examples."""
import os
import pathlib
import re
import shlex
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
BUILD = pathlib.Path(os.environ["GD_BUILD"])
LIMIT = 60  # seconds, timeout for operations that take milliseconds


def man_programs():
    page = (SOURCE / "man/gpu_dispatch.3.scd").read_text()
    blocks = re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block.replace("\\\\", "\\") for block in blocks if "int main(" in block]


@pytest.fixture(name="compiled")
def compile_programs(tmp_path):
    """The page's programs, compiled as strictly as a careful user does."""
    programs = []
    for number, text in enumerate(man_programs()):
        source = tmp_path / f"example{number}.c"
        source.write_text(text)
        program = source.with_suffix("")
        subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
                        "-I", SOURCE / "include", source, "-o", program, BUILD / "libgpu_dispatch.a", "-lpthread", "-ldl"],
                       check=True, timeout=LIMIT)
        programs.append(program)
    return programs


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT, check=False, **more)


def test_the_examples_of_the_page_do_what_they_say(compiled):
    upper, squares = compiled
    lines = "".join(f"line {n}\n" for n in range(3000))
    result = run(upper, "sim:3", input=lines)
    assert (result.returncode, result.stdout, result.stderr) == (0, lines.upper(), "")
    result = run(squares, "sim:2")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{sum(n * n for n in range(100))}\n", "")


def test_the_examples_of_the_page_say_what_is_wrong(compiled):
    for program in compiled:
        result = run(program, "97", stdin=subprocess.DEVNULL)
        assert (result.returncode, result.stdout) == (1, "")
        assert "97" in result.stderr
    by_hand = run(compiled[1], "worker")
    assert by_hand.returncode == 2 and "started by a dispatcher" in by_hand.stderr


def test_the_program_on_the_first_page_of_the_header_runs(tmp_path):
    header = (SOURCE / "include/gpu_dispatch.h").read_text()
    page = header[:header.index("#ifndef")]
    lines = [line[7:] for line in page.splitlines() if line.startswith(" *     ")]
    program = "\n".join(lines[lines.index(next(line for line in lines if line.startswith("static int square"))):])
    program = program[:program.index("\n}\n", program.index("int main(")) + 3]
    source = tmp_path / "first_page.c"
    source.write_text(f"#include <gpu_dispatch.h>\n#include <stdio.h>\n{program}")
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=c99", "-pedantic", "-Wall", "-Werror", "-I", SOURCE / "include",
                    source, "-o", source.with_suffix(""), BUILD / "libgpu_dispatch.a", "-lpthread", "-ldl"],
                   check=True, timeout=LIMIT)
    result = run(source.with_suffix(""), env={**os.environ, "GPUQ_GPUS": "sim:2"})
    assert (result.returncode, result.stderr) == (0, "")
    assert sorted(int(line) for line in result.stdout.splitlines()) == [n * n for n in range(100)]


def test_the_page_names_every_function_of_the_header():
    header = re.sub(r"/\*.*?\*/", "", (SOURCE / "include/gpu_dispatch.h").read_text(), flags=re.DOTALL)
    declared = set(re.findall(r"\b(gd_\w+)\(", header)) - {"gd_callback", "gd_stats_callback"}
    named = set(re.findall(r"\*(gd_\w+)\*\(", (SOURCE / "man/gpu_dispatch.3.scd").read_text()))
    assert len(declared) > 60 and declared - named == set()


def test_the_code_of_the_readme_is_that_of_the_examples():
    known = {line.strip() for text in [(SOURCE / "examples/squares.c").read_text(), *man_programs()]
             for line in text.splitlines()}
    blocks = re.findall(r"^```c\n(.*?)^```$", (SOURCE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    shown = [line.strip() for block in blocks for line in block.splitlines()]
    assert len(shown) > 20
    assert [line for line in shown if line not in known] == []


def test_what_the_documents_name_exists():
    for document in ["README.md", "CONTRIBUTING.md", "NEWS.md", "docs/architecture.md", "docs/worker-protocol.md"]:
        path = SOURCE / document
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{document} names {target}"


def test_what_the_documents_call_is_in_a_header():
    header = "".join(path.read_text() for path in (SOURCE / "include").glob("*.h"))
    declared = set(re.findall(r"\b(gd_\w+)\(", header)) | set(re.findall(r"\b(GD_\w+)\b", header))
    for document in ["README.md", "docs/architecture.md", "man/gpu_dispatch.3.scd"]:
        named = set(re.findall(r"\b(gd_\w+)\(\)", (SOURCE / document).read_text().replace("*", "")))
        named |= set(re.findall(r"\b(GD_[A-Z]\w+)\b", (SOURCE / document).read_text()))
        assert named - declared <= {"GD_WORKER"}, document


def test_every_variable_that_the_sources_read_is_documented():
    page = (SOURCE / "man/gpuq-environment.7.scd").read_text()
    for_tests = {"GPUQ_SIM_NODES", "GPUQ_SIM_LINKS", "GPUQ_ANSWER_MS"}
    read = {name for path in (SOURCE / "src").rglob("*.c") for name in re.findall(r'getenv\("(GPUQ_[A-Z_]+)"\)', path.read_text())}
    assert "GPUQ_JOBS_FILE" in read
    assert [name for name in sorted(read - for_tests) if f"_{name}_" not in page] == []
