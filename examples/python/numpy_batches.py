# SPDX-License-Identifier: MIT
"""Batches of numpy arrays: when several tasks are waiting, the worker gets them together.

    python numpy_batches.py

Arrays are passed through shared memory. The matrix represents a model, which is created once per worker, in setup().
"""
from __future__ import annotations

from typing import Any

import numpy as np

from gpu_dispatch import BaseWorker, Pool


class Projector(BaseWorker):
    def setup(self, gpu_id: int, seed: int, width: int) -> None:
        self.matrix = np.random.default_rng(0).standard_normal((width, 8))

    def process(self, data: Any) -> Any:
        return data @ self.matrix

    def process_batch(self, items: list[Any]) -> list[Any]:
        return list(np.stack(items) @ self.matrix)   # one product for the whole batch


def main() -> None:
    vectors = np.random.default_rng(1).standard_normal((10_000, 64))
    with Pool(Projector, gpus="sim:2", setup={"width": 64}, max_batch=64) as pool:
        total = sum(float(result.sum()) for result in pool.map(vectors))
    print(f"{len(vectors)} vectors, sum of all projections {total:.3f}")


if __name__ == "__main__":
    main()
