# SPDX-License-Identifier: MIT
"""Processes a folder of recordings on several GPUs: five small classes over ``gpuq launch``.

``LauncherOrchestrator`` coordinates the others: ``GPUDetector`` (finds GPUs), ``ResourceAllocator``
(finds files and shows how they would be distributed), ``ProcessSpawner`` (runs the workers) and
``LoadBalancer`` (progress and statistics). ``run_multi_gpu()`` does everything in one call; from a
shell, use ``gpu-dispatch-launcher``.
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
