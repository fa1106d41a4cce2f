# SPDX-License-Identifier: MIT
"""A folder of recordings over several GPUs, as five small classes over ``gpuq launch``.

``LauncherOrchestrator`` coordinates the others: ``GPUDetector`` (which GPUs there are),
``ResourceAllocator`` (which files there are, and who would get which),
``ProcessSpawner`` (the workers) and ``LoadBalancer`` (progress and figures).
``run_multi_gpu()`` is all of it in one call; ``python -m gpu_dispatch.launcher`` from a shell.
"""

from gpu_dispatch.multigpu.allocator import ResourceAllocator, Workload
from gpu_dispatch.multigpu.balancer import GPUStats, LoadBalancer
from gpu_dispatch.multigpu.detector import GPUDetector
from gpu_dispatch.multigpu.orchestrator import LauncherOrchestrator, run_multi_gpu
from gpu_dispatch.multigpu.result import Result
from gpu_dispatch.multigpu.spawner import ProcessSpawner, ProcessStatus, WorkerProcess

__all__ = [
    "GPUDetector",
    "GPUStats",
    "LauncherOrchestrator",
    "LoadBalancer",
    "ProcessSpawner",
    "ProcessStatus",
    "ResourceAllocator",
    "Result",
    "WorkerProcess",
    "Workload",
    "run_multi_gpu",
]
