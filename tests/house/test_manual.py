# SPDX-License-Identifier: MIT
"""The commands of the README and the manual, run in an empty directory on a machine without a GPU."""
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
BUILD = pathlib.Path(os.environ["GD_BUILD"])
LIMIT = 240
sys.path[:0] = [str(SOURCE / "tests/house"), str(SOURCE / "tests/cli")]

import manual  # noqa: E402
import processes  # noqa: E402

# Documents whose commands are run by the tests of their subject, or are not for readers of the manual.
OTHERS = {"architecture.md", "figures.md", "hooks.md", "journal.md", "leases.md", "python-launch.md", "python.md", "slurm.md", "testing.md",
          "worker-protocol.md"}
DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (SOURCE / "docs").glob("*.md") if path.name not in OTHERS)]


@pytest.fixture(name="place")
def make_place(tmp_path):
    """An empty directory, a home, and an installation as `make install` leaves it: programs in
    PATH, files for pkg-config."""
    for name in ("work", "home", "claims", "run", "bin"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "bin/gpuq").symlink_to(BUILD / "gpuq")
    (tmp_path / "gpu_dispatch.pc").write_text(
        f"Name: gpu_dispatch\nDescription: build tree\nVersion: 0\nCflags: -I{SOURCE}/include\n"
        f"Libs: -L{BUILD} -Wl,-rpath,{BUILD} -lgpu_dispatch\n")
    yield tmp_path
    for pid in processes.with_variable("GPUQ_CLAIMS_DIR", tmp_path / "claims"):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def type_in(place, text):
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("GPUQ", "SLURM", "XDG", "GIT"))}
    environment = {**keep, "PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": str(place / "home"), "GPUQ_CLAIMS_DIR": str(place / "claims"),
                   "PKG_CONFIG_PATH": str(place), "PYTHONPATH": str(BUILD / "python"), "PYTHONDONTWRITEBYTECODE": "1",
                   "GPUQ_NVML_LIBRARY": "/nonexistent", "GPUQ_SYSFS_ROOT": str(place / "run")}
    return subprocess.run(["bash", "-c", text], cwd=place / "work", env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, check=False)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_says_can_be_typed(document, place):
    text = manual.script(SOURCE / document)
    done = type_in(place, text)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_command_that_fails_is_seen(place):
    document = place / "doc.md"
    document.write_text("```sh\ntrue\nfalse\n```\n\n```sh\ntouch reached\n```\n")
    assert type_in(place, manual.script(document)).returncode == 1
    assert not (place / "work/reached").exists()


def test_every_code_block_names_its_language():
    for document in DOCUMENTS:
        for block in manual.blocks((SOURCE / document).read_text()):
            assert block.language, f"{document}:{block.line}: a block without a language"
            assert block.language != "python" or block.kind, f"{document}:{block.line}: no file and no reason"


def test_the_manual_is_complete():
    """Each page is in the navigation, and each entry is a page; generated ones are lower-case names
    of files at the top."""
    pages = {path.name for path in (SOURCE / "docs").glob("*.md")}
    listed = set(re.findall(r": ([\w-]+\.md)$", (SOURCE / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed - {"contributing.md", "security.md", "news.md"} == pages
