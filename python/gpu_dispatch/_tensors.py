# SPDX-License-Identifier: MIT
"""Pickling of PyTorch CPU tensors with their memory out of band, like numpy arrays.

By itself torch copies a tensor into the pickle. Used by the extension when torch is imported.
"""
from __future__ import annotations

import collections
import copyreg
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch  # type: ignore[import]

# With zero_copy, arrays are read-only, but torch has no read-only tensors. See docs/python.md.
warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)

__all__ = ["dumps"]

# Types unknown to numpy are sent as integers of the same size.
_AS_INTEGERS = {"torch.bfloat16": "int16"}


def _rebuild(array: Any, name: str | None) -> Any:
    tensor = torch.from_numpy(array)
    return tensor if name is None else tensor.view(getattr(torch, name))


def _reduce(tensor: Any) -> Any:
    plain = tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor.requires_grad
    if not plain or tensor.is_conj() or tensor.is_neg():
        return tensor.__reduce_ex__(5)
    integers = _AS_INTEGERS.get(str(tensor.dtype))
    try:
        if integers is None:
            return _rebuild, (tensor.numpy(), None)
        array = tensor.contiguous().view(getattr(torch, integers)).numpy()
        return _rebuild, (array, str(tensor.dtype).removeprefix("torch."))
    except (TypeError, RuntimeError):
        return tensor.__reduce_ex__(5)  # a type without an equivalent


class _Pickler(pickle.Pickler):
    dispatch_table: Any = collections.ChainMap({torch.Tensor: _reduce}, copyreg.dispatch_table)


def dumps(
    obj: Any, protocol: int = 5, *, buffer_callback: Callable[[pickle.PickleBuffer], object] | None = None
) -> bytes:
    """pickle.dumps() with tensors out of band."""
    file = io.BytesIO()
    _Pickler(file, protocol, buffer_callback=buffer_callback).dump(obj)
    return file.getvalue()
