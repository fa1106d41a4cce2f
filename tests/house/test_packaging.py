# SPDX-License-Identifier: MIT
"""The Python package as pip builds it from an sdist, in a fresh virtual environment. Needs PyPI."""
import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import zipfile

import pytest

pytestmark = pytest.mark.heavy

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
LIMIT = 600
PROGRAMS = ["gpuq", "gpuq-launch", "gpuq-map", "gpuq-probe", "gpuq-top", "gpuq-worker"]


def run(*words, code=0, **options):
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "GPUQ")}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT, check=False,
                          env={**environment, **options.pop("env", {})}, **options)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


@pytest.fixture(scope="module", name="wheel")
def make_wheel(tmp_path_factory):
    """Builds from the unpacked sdist, so that no other files are used."""
    directory = tmp_path_factory.mktemp("packaging")
    run(sys.executable, "-m", "venv", directory / "builder")
    pip = directory / "builder" / "bin" / "pip"
    run(pip, "-q", "install", "build")
    run(directory / "builder" / "bin" / "python", "-m", "build", "--sdist", "-o", directory, SOURCE)
    (sdist,) = directory.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(directory / "unpacked")
    (source,) = (directory / "unpacked").iterdir()
    run(pip, "wheel", "-q", "--no-deps", "-w", directory, source)
    (wheel,) = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module", name="venv")
def make_venv(wheel):
    venv = wheel.parent / "venv"
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin" / "pip", "-q", "install", "--no-index", wheel)
    return venv


def test_wheel_holds_the_package_and_the_programs_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    scripts = sorted(name.rpartition("/")[2] for name in names if ".data/scripts/" in name)
    assert scripts == PROGRAMS
    for name in ("__init__.py", "py.typed", "_engine.pyi", "launcher.py", "multigpu/__init__.py"):
        assert f"gpu_dispatch/{name}" in names
    strangers = [name for name in names if not name.startswith(("gpu_dispatch/", "gpu_dispatch-"))]
    assert strangers == []
    assert not [name for name in names if name.endswith((".a", ".h", ".c", "meson.build"))]


def test_programs_need_nothing_but_libc(venv):
    for program in PROGRAMS:
        out, _ = run("ldd", venv / "bin" / program)
        libraries = [line.split()[0] for line in out.splitlines()]
        assert [name for name in libraries if not name.startswith(("linux-vdso", "libc.so", "/lib"))] == [], program


def test_gpuq_runs_jobs(venv, tmp_path):
    (tmp_path / "commands.txt").write_text("echo ran > result\n")
    run(venv / "bin" / "gpuq", "run", "--commands-file", "commands.txt", cwd=tmp_path, env={"GPUQ_GPUS": "sim:1"})
    assert (tmp_path / "result").read_text() == "ran\n"
    out, _ = run(venv / "bin" / "gpuq", "gpus", env={"GPUQ_GPUS": "sim:2"})
    assert "sim" in out.lower()


def test_gpuq_launches_workers(venv, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one two three")
    (tmp_path / "worker.py").write_text(
        "from gpu_dispatch import serve\n"
        "serve(lambda file, output_dir: (output_dir / 'n').write_text(str(len(file.read_text().split()))) * 0)\n")
    run(venv / "bin" / "gpuq", "launch", "--input-dir", "in", "--output-dir", "out", "--pattern", "*.txt", "--worker-command",
        f"{venv}/bin/python worker.py", cwd=tmp_path, env={"GPUQ_GPUS": "sim:1"})
    assert (tmp_path / "out" / "a" / "n").read_text() == "3"
    (tmp_path / "argparse.py").write_text("raise SystemExit('imported from the current directory')\n")
    run(venv / "bin" / "gpu-dispatch-launcher", "--input-dir", "in", "--output-dir", "out2", "--pattern", "*.txt",
        "--worker-command", f"{venv}/bin/python worker.py", cwd=tmp_path, env={"GPUQ_GPUS": "sim:1", "PATH": "/usr/bin:/bin"})
    assert (tmp_path / "out2" / "a" / "n").read_text() == "3"


def test_package_dispatches_tasks_and_finds_gpus(venv, tmp_path):
    (tmp_path / "script.py").write_text(
        "from gpu_dispatch import BaseWorker, Dispatcher\n"
        "class Square(BaseWorker):\n"
        "    def setup(self, gpu_id, seed): pass\n"
        "    def process(self, item): return item * item\n"
        "    def cleanup(self): pass\n"
        "results = {}\n"
        "Dispatcher(Square, [0, 1]).run(range(5), lambda task, data, gpu: results.__setitem__(task, data))\n"
        "print(sorted(results.values()))\n"
        "from gpu_dispatch.multigpu import GPUDetector\n"
        "print(GPUDetector().get_available_gpus())\n")
    out, _ = run(venv / "bin" / "python", "script.py", cwd=tmp_path, env={"GPUQ_GPUS": "sim:2"})
    assert out == "[0, 1, 4, 9, 16]\n[0, 1]\n"


def test_program_that_is_left_out_says_so(venv):
    _, err = run(venv / "bin" / "gpuq", "web", code=2)
    assert "not part of the Python package" in err and "make install" in err


def test_helpers_that_others_could_have_replaced_are_refused(venv, tmp_path):
    (tmp_path / "in").mkdir()
    folder = venv / "bin"
    before = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(before | 0o022)
    try:
        _, err = run(folder / "gpuq", "launch", "--input-dir", "in", "--", "true", cwd=tmp_path, code=2)
    finally:
        folder.chmod(before)
    assert "refusing to execute" in err
