# SPDX-License-Identifier: MIT
"""The recipes of examples/leases, with the real tools."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from lab import LIMIT

RECIPES = pathlib.Path(os.environ["GD_SOURCE"]) / "examples/leases"


@pytest.fixture(name="place")
def make_place(lab):
    shutil.copytree(RECIPES, lab.directory, dirs_exist_ok=True)
    lab.environment["PATH"] = ":".join([os.path.dirname(os.environ["GPUQ"]), os.path.dirname(sys.executable), lab.environment["PATH"]])
    lab.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return lab


def run(lab, *words, **options):
    result = subprocess.run([str(word) for word in words], cwd=lab.directory, env=lab.environment, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=LIMIT, check=False, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def check_leases(lab, count):
    jobs = lab.jobs().values()
    assert len(jobs) == count and all(job["lease"] and job["status"] == "completed" for job in jobs), jobs


def test_make_runs_each_rule_with_a_gpu(place):
    run(place, "make", "-j", "4")
    for n in range(1, 5):
        assert (place.directory / f"model-{n}").read_text().startswith(f"seed {n} on GPU ")
    check_leases(place, 4)


def test_pytest_fixture_holds_a_gpu(place):
    (place.directory / "test_it.py").write_text(
        "import os\n\n\ndef test_gpu(gpu):\n    assert os.environ['CUDA_VISIBLE_DEVICES'] == os.environ['GPUQ_GPU'] == gpu\n")
    run(place, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    check_leases(place, 1)
    assert place.job(1)["name"] == "pytest"


def test_ci_step_has_a_name_and_limits(place):
    place.environment["CI_JOB_ID"] = "77"
    assert run(place, "./ci.sh", "sh", "-c", "echo tested") == "tested\n"
    check_leases(place, 1)
    assert place.job(1)["name"] == "ci-77"


def test_a_lease_of_a_part_of_a_program_in_any_environment(place):
    place.environment["TEXT"] = "an empty line:\n\nGPUQ_GPU=7\n"
    code = ("import os; from gpu_lease import lease\n"
            "with lease('--mem', '1G') as gpu: print(gpu == os.environ['GPUQ_GPU'] == os.environ['CUDA_VISIBLE_DEVICES'])\n"
            "print(os.environ.get('CUDA_VISIBLE_DEVICES'))")
    assert run(place, sys.executable, "-c", code) == "True\nNone\n"
    check_leases(place, 1)


@pytest.mark.heavy
def test_snakemake_runs_each_rule_with_a_gpu(place):
    run(place, "snakemake", "--cores", "2")
    assert all((place.directory / f"result-{n}").exists() for n in range(1, 5))
    check_leases(place, 4)


KERNEL = """
import jupyter_client
km = jupyter_client.KernelManager(kernel_name="gpu")
km.start_kernel()
kc = km.blocking_client()
kc.start_channels()
kc.wait_for_ready(timeout=120)
def ask(code):
    kc.execute_interactive(code, timeout=120, output_hook=lambda m: m["msg_type"] == "stream" and print(m["content"]["text"], end=""))
ask("import os; print(os.environ['GPUQ_GPU'])")
request = kc.execute("import time; print('begin', flush=True); time.sleep(1000)")
while kc.get_iopub_msg(timeout=120)["msg_type"] != "stream": pass
km.interrupt_kernel()
while True:
    reply = kc.get_shell_msg(timeout=120)
    if reply["parent_header"]["msg_id"] == request:
        break
print(reply["content"]["ename"])
kc.stop_channels()
km.shutdown_kernel()
"""


@pytest.mark.heavy
def test_jupyter_kernel_has_a_gpu_and_can_be_interrupted(place):
    shutil.copytree(RECIPES / "jupyter", place.directory / "data/kernels/gpu")
    place.environment["JUPYTER_PATH"] = str(place.directory / "data")
    place.environment["JUPYTER_RUNTIME_DIR"] = str(place.directory / "run")
    out = run(place, sys.executable, "-c", KERNEL).split()
    assert out == [str(place.job(1)["gpu_id"]), "KeyboardInterrupt"]
    assert json.loads(place.gpuq("status", "--json", 1))[0]["status"] == "completed"
