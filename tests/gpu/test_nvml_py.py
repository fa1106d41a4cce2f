# SPDX-License-Identifier: MIT
"""nvidia-ml-py, NVIDIA's own client, reads the same fake library and gets the same values as our code.

This validates the fake independently of our reading of NVML.
"""
import json
import os
import pathlib
import subprocess
import sys

import pytest

GPUQ = os.environ["GPUQ"]
BUILD = pathlib.Path(os.environ["GD_BUILD"])
FAKE = BUILD / "tests/gpu/libnvidia-ml.so.1"
GIB = 1 << 30

pytestmark = pytest.mark.heavy

CARDS = f"""card
name=NVIDIA A100-SXM4-80GB
uuid=GPU-aaaa1111-0000-0000-0000-000000000000
pci=1:65:0
memory={80 * GIB} {20 * GIB} {59 * GIB} {1 * GIB}
utilization=97
temperature=61
power=287400
mode=3
compute=4711 123456789012
compute=4712
graphics=99 4096
card
name=NVIDIA H100 80GB HBM3
uuid=GPU-bbbb2222-0000-0000-0000-000000000000
pci=0:B3:0
memory={80 * GIB} {80 * GIB} 0 0
mig
instance 2
name=NVIDIA H100 80GB HBM3 MIG 3g.40gb
uuid=MIG-cccc
memory={40 * GIB} {10 * GIB} {30 * GIB} 0
compute=5000 {30 * GIB}
"""

READER = """
import json
import pynvml as n

def ask(call, *args, **more):
    try:
        return call(*args, **more)
    except n.NVMLError:
        return None

def text(value):
    return value.decode() if isinstance(value, bytes) else value

def read(handle, index, pci_id, links):
    memory = ask(n.nvmlDeviceGetMemoryInfo, handle, version=n.nvmlMemory_v2)
    utilization = ask(n.nvmlDeviceGetUtilizationRates, handle)
    processes = n.nvmlDeviceGetComputeRunningProcesses(handle) + n.nvmlDeviceGetGraphicsRunningProcesses(handle)
    return {"index": index, "uuid": text(n.nvmlDeviceGetUUID(handle)), "name": text(n.nvmlDeviceGetName(handle)),
            "vendor": "nvidia", "pci_id": pci_id, "memory_total": memory.total, "memory_free": memory.free,
            "memory_used": memory.used, "utilization": utilization and utilization.gpu,
            "processes": [{"pid": p.pid, "memory": p.usedGpuMemory} for p in processes], "numa_node": None, "links": links}

n.nvmlInit()
gpus = []
for i in range(n.nvmlDeviceGetCount()):
    card = n.nvmlDeviceGetHandleByIndex(i)
    pci_id = text(n.nvmlDeviceGetPciInfo(card).busId)
    gpus.append(read(card, i, pci_id, []))
    if n.nvmlDeviceGetMigMode(card)[0]:
        for k in range(n.nvmlDeviceGetMaxMigDeviceCount(card)):
            instance = ask(n.nvmlDeviceGetMigDeviceHandleByIndex, card, k)
            if instance:
                gpus.append(read(instance, i, pci_id, None))
print(json.dumps(gpus))
"""


def find_python():
    """A Python with nvidia-ml-py: that of this machine, or the one made by `make test-all`."""
    for python in (BUILD / "pypi/bin/python", sys.executable):
        if pathlib.Path(python).exists() and \
                subprocess.run([python, "-c", "import pynvml"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def test_nvidia_ml_py_reads_the_same_values_from_the_fake_library(tmp_path):
    python = find_python()
    if not python:
        pytest.skip("nvidia-ml-py is not installed (tools/pypi BUILD installs it)")
    (tmp_path / "nvml").write_text(CARDS)
    environment = {key: value for key, value in os.environ.items()
                   if not key.endswith("VISIBLE_DEVICES") and key != "GPUQ_GPUS"}
    environment |= {"FAKE_NVML": str(tmp_path / "nvml"), "GPUQ_SYSFS_ROOT": str(tmp_path),
                    "LD_LIBRARY_PATH": str(FAKE.parent)}
    environment.pop("GPUQ_NVML_LIBRARY", None)  # both programs find the library by its usual name
    theirs = subprocess.run([python, "-c", READER], env=environment, capture_output=True, text=True, check=False,
                            timeout=60)
    assert theirs.returncode == 0, theirs.stderr
    ours = subprocess.run([GPUQ, "gpus", "--json"], env=environment, capture_output=True, text=True, check=True,
                          timeout=60)
    assert json.loads(ours.stdout) == json.loads(theirs.stdout)
    assert len(json.loads(ours.stdout)) == 3
