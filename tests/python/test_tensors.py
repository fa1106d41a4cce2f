# SPDX-License-Identifier: MIT
"""CPU tensors of PyTorch, with a fake PyTorch: the real one is too large, and used only if it is installed."""
from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import pytest

from gpu_dispatch import BaseWorker, Pool

TORCH = """
import numpy

class _Device:
    def __init__(self, type):
        self.type = type

strided = object()
int16 = "torch.int16"
bfloat16 = "torch.bfloat16"

class Tensor:
    requires_grad = False
    layout = strided

    def __init__(self, array, dtype="torch.float32", device="cpu"):
        self.array, self.dtype, self.device = array, dtype, _Device(device)
    def is_conj(self):
        return False
    def is_neg(self):
        return False
    def contiguous(self):
        return self
    def view(self, dtype):
        return Tensor(self.array, dtype)
    def numpy(self):
        if self.dtype == "torch.bfloat16":
            raise TypeError("unsupported")
        return self.array
    def __reduce_ex__(self, protocol):
        return _in_band, (self.array.tobytes(), self.dtype, self.device.type)

def _in_band(data, dtype, device):
    return Tensor(numpy.frombuffer(data, dtype="u1"), dtype, device)

def from_numpy(array):
    return Tensor(array)
"""

PROGRAM = """
import numpy, torch
from gpu_dispatch import _engine

MARK = b"marker!!"
array = numpy.frombuffer(MARK * 1000, dtype="u1")

def check(tensor, out_of_band):
    data = _engine.encode([tensor, tensor])
    assert data.count(MARK) == 1000
    assert (data.index(MARK) % 64 == 0) == out_of_band, data.index(MARK)
    first, second = _engine.decode(data)
    assert first is second and type(first) is torch.Tensor and first.dtype == tensor.dtype
    assert numpy.array_equal(first.array, tensor.array)

check(torch.Tensor(array), True)
check(torch.Tensor(array, torch.bfloat16), True)
check(torch.Tensor(array, device="cuda"), False)
grad = torch.Tensor(array)
grad.requires_grad = True
check(grad, False)

class Other:
    pass
assert type(_engine.decode(_engine.encode(Other()))) is Other
print("ok")
"""


def run(directory: pathlib.Path, torch: str, program: str) -> str:
    (directory / "torch.py").write_text(torch)
    (directory / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, str(directory / "program.py")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cpu_tensors_travel_out_of_band(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path, TORCH, PROGRAM) == "ok\n"


def test_unrelated_module_of_the_same_name_does_no_harm(tmp_path: pathlib.Path) -> None:
    program = "import torch\nfrom gpu_dispatch import _engine\nprint(_engine.decode(_engine.encode({1, 2})))\n"
    assert run(tmp_path, "", program) == "{1, 2}\n"


class Tensors(BaseWorker):
    """Reports its input, and returns it doubled."""

    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Any) -> Any:
        return str(data["x"].dtype), {key: tensor * 2 for key, tensor in data.items()}


@pytest.mark.parametrize("zero_copy", [False, True])
def test_tensors_of_the_real_torch(zero_copy: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        x = torch.arange(300_000).reshape(3, -1).to(dtype)
        with Pool(Tensors, "sim:2", zero_copy=zero_copy) as pool:
            answers = list(pool.map([{"x": x, "part": x[1, ::7]}] * 4))
        for name, answer in answers:
            assert name == str(dtype)
            assert torch.equal(answer["x"], x * 2) and torch.equal(answer["part"], x[1, ::7] * 2)
            assert answer["x"].dtype == dtype and answer["x"].shape == (3, 100_000)
