# SPDX-License-Identifier: MIT
"""Reserves a GPU for a part of a Python program: `with lease("--mem", "4G"):`.

Prefer `gpuq exec -- python …` if the whole program may wait: gpuq then sees how much memory the program uses, and ends it
at its time limit. Take the lease before CUDA is initialized; later changes to CUDA_VISIBLE_DEVICES have no effect.
"""
import contextlib
import os
import subprocess

NAMES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPUQ_GPU")
# Prints a line for each variable, NAME=VALUE or, if it is not set, NAME. Then holds the GPU until its standard input is closed,
# which also happens if this program is killed.
HOLD = "; ".join([*(f'echo "{name}${{{name}+=${name}}}"' for name in NAMES), "exec cat"])


@contextlib.contextmanager
def lease(*options):
    """Waits for a GPU, sets the variables that name it, and yields $GPUQ_GPU; releases the GPU at the end."""
    with subprocess.Popen(["gpuq", "exec", *options, "--", "sh", "-c", HOLD],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        lines = [holder.stdout.readline().rstrip("\n").partition("=") for _ in NAMES]
        granted = {name: value for name, equals, value in lines if equals}
        if "GPUQ_GPU" not in granted:
            raise RuntimeError(f"gpuq exec failed with exit code {holder.wait()}")
        before = {name: os.environ.pop(name, None) for name in NAMES}
        os.environ.update((name, granted[name]) for name in NAMES if name in granted)
        try:
            yield granted["GPUQ_GPU"]
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            holder.stdin.close()
