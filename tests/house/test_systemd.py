# SPDX-License-Identifier: MIT
"""The user unit and the rule for claims, as systemd reads them."""
import os
import pathlib
import re
import shutil
import stat
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
BUILD = pathlib.Path(os.environ["GD_BUILD"])
LIMIT = 120
pytestmark = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


def verify(directory, text):
    """The output of systemd-analyze for a unit."""
    runtime = directory / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    (directory / "gpuq.service").write_text(text)
    done = subprocess.run(["systemd-analyze", "--user", "--man=no", "verify", directory / "gpuq.service"], text=True,
                          env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)}, capture_output=True, timeout=LIMIT, check=False)
    return done.returncode, done.stdout + done.stderr


def unit():
    """The unit for the gpuq of the build tree."""
    return (SOURCE / "systemd/gpuq.service.in").read_text().replace("@bindir@", str(BUILD))


def test_systemd_accepts_the_unit(tmp_path):
    assert verify(tmp_path, unit()) == (0, "")


def test_the_check_sees_a_wrong_key_and_a_missing_program(tmp_path):
    assert "KillMood" in verify(tmp_path, unit().replace("KillMode", "KillMood"))[1]
    code, words = verify(tmp_path, unit().replace("/gpuq run", "/no-gpuq run"))
    assert code != 0 and "no-gpuq" in words


def test_the_command_of_the_unit_is_one_that_gpuq_understands(tmp_path):
    words = re.search(r"^ExecStart=(.*)$", unit(), re.MULTILINE)[1].split()
    done = subprocess.run([*words, "--gpus", "sim:x"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False,
                          env={**os.environ, "HOME": str(tmp_path)})
    assert done.returncode == 2 and "sim:x" in done.stderr


def test_tmpfiles_makes_the_directory_for_claims(tmp_path):
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    shutil.copy("/etc/passwd", root / "etc")
    shutil.copy("/etc/group", root / "etc")
    as_root = [] if os.getuid() == 0 else ["unshare", "-r"]
    if as_root and subprocess.run([*as_root, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("neither root nor user namespaces")
    subprocess.run([*as_root, "systemd-tmpfiles", "--create", f"--root={root}", SOURCE / "tmpfiles.d/gpuq.conf"],
                   check=True, timeout=LIMIT)
    assert stat.S_IMODE((root / "run/gpuq").stat().st_mode) == 0o1777
