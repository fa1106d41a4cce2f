# SPDX-License-Identifier: MIT
"""Finds the GPUs of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_dispatch import _engine

__all__ = ["GPUDetector"]


class GPUDetector:
    """Asks the drivers for GPUs in a separate process: this process never loads them.

    If ``GPUQ_GPUS`` names simulated GPUs (``sim:4``), they are the GPUs of the machine.
    """

    def get_available_gpus(self) -> list[int]:
        """The numbers of the usable GPUs, as in nvidia-smi; an empty list if there are none."""
        return _numbers("auto")

    def is_cuda_available(self) -> bool:
        """True if there is at least one usable GPU."""
        return bool(self.get_available_gpus())

    def validate_gpus(self, gpu_ids: Sequence[int]) -> tuple[bool, str | None]:
        """``(True, None)`` if every number is a usable GPU; otherwise ``(False, why)``."""
        if not gpu_ids:
            return False, "no GPU was given, or none was found"
        try:
            error = _engine.gpu_validate(list(gpu_ids))
        except (ValueError, OverflowError, LookupError, OSError) as failure:
            error = str(failure)
        return error is None, error

    def parse_gpu_list(self, spec: str) -> list[int]:
        """The numbers that ``spec`` selects: ``auto``, ``all``, ``0,1,2``, ``0-3`` or UUIDs.

        Raises ValueError for a specification that cannot be read, or for GPUs that do not exist.
        """
        try:
            return _numbers(spec)
        except (LookupError, OSError) as failure:
            raise ValueError(str(failure)) from failure

    def get_gpu_info(self, gpu_id: int) -> dict[str, Any]:
        """Information about a GPU; raises ValueError if it does not exist.

        ``id``, ``name``, ``uuid``, ``total_memory``, ``free_memory`` and ``used_memory``
        (bytes), ``utilization`` (percent), ``temperature`` (°C). Unknown values are None.
        """
        gpus, _ = _engine.gpu_survey()
        for gpu in gpus:
            if gpu["index"] == gpu_id:
                return _info(gpu)
        there = ", ".join(str(gpu["index"]) for gpu in gpus)
        raise ValueError(
            f"GPU {gpu_id} does not exist; "
            + (f"existing GPUs: {there}" if there else "this machine has none")
        )


def _numbers(spec: str) -> list[int]:
    """Each number once: a card that is split into MIG instances is listed once per instance."""
    return list(dict.fromkeys(_engine.gpu_parse(spec)))


def _info(gpu: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": gpu["index"],
        "name": gpu["name"],
        "uuid": gpu["uuid"],
        "total_memory": gpu["memory_total_bytes"],
        "free_memory": gpu["memory_free_bytes"],
        "used_memory": gpu["memory_used_bytes"],
        "utilization": gpu["utilization_percent"],
        "temperature": gpu["temperature_celsius"],
    }
