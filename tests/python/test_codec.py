# SPDX-License-Identifier: MIT
"""Objects between processes: the codec for plain trees, and pickle with buffers for the rest."""
from __future__ import annotations

import collections
import math
import struct
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_dispatch import _engine

SURROGATES = st.characters()  # lone surrogates included
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.binary(max_size=100)
    | st.text(SURROGATES, max_size=100)
)
KEYS = st.text(max_size=40) | st.integers() | st.binary(max_size=5) | st.tuples(st.integers(), st.text(max_size=3))
TREES = st.recursive(
    SCALARS,
    lambda children: st.lists(children, max_size=5)
    | st.tuples(children, children)
    | st.dictionaries(KEYS, children, max_size=5),
    max_leaves=15,
)


def again(value: Any) -> Any:
    return _engine.decode(_engine.encode(value))


def same(a: Any, b: Any) -> bool:
    """Equal, with equal types everywhere: 1 is not True."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(map(same, a, b)) == [True] * len(a) and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


@given(TREES)
@settings(max_examples=100, deadline=None)
def test_trees_come_back_equal_and_of_the_same_types(value: Any) -> None:
    assert same(again(value), value)


@given(st.integers())
def test_integers_of_any_size(value: int) -> None:
    assert again(value) == value
    assert again(-value) == -value


@pytest.mark.parametrize("value", [2**31 - 1, 2**31, -(2**31), 127, 128, -128, -129, 2**63 - 1, -(2**63), 2**63])
def test_integers_at_the_borders(value: int) -> None:
    assert again([value]) == [value]
    assert _engine.uses_codec(value) == (value < 2**63)


def test_floats_keep_their_bits() -> None:
    nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000123))[0]
    assert struct.pack("<d", again(nan)) == struct.pack("<d", nan)
    assert math.copysign(1, again(-0.0)) == -1
    assert again(math.inf) == math.inf


@pytest.mark.parametrize("length", [0, 1, 253, 254, 255, 256, 70_000])
def test_lengths_at_the_borders(length: int) -> None:
    assert again(b"x" * length) == b"x" * length
    for text in ("x" * length, "é" * length, "€" * length, "😀" * length, "\udc80" * length):
        assert again(text) == text
        assert again([text]) == [text]
    assert again(list(range(length))) == list(range(length))
    assert again({number: None for number in range(length)}) == {number: None for number in range(length)}


def test_order_of_dictionaries_is_kept() -> None:
    value = {"b": 1, "a": 2, 3: "c"}
    assert list(again(value)) == ["b", "a", 3]


def test_keys_that_repeat_are_the_same_object() -> None:
    first, second = again([{"name": 1}, {"name": 2}])
    assert next(iter(first)) is next(iter(second))


# ---- Objects left to pickle --------------------------------------------------


class Number(int):
    pass


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [Number(3), Point(1, 2), collections.OrderedDict(a=1), {1, 2}, bytearray(b"x"), 1 + 2j, [Number(3)], {"a": {1}}],
)
def test_other_types_are_pickled(value: Any) -> None:
    assert not _engine.uses_codec(value)
    assert same(again(value), value)


def test_an_object_that_occurs_twice_is_one_object_afterwards() -> None:
    shared: list[int] = []
    first, second = again([shared, shared])
    assert first is second
    shared_dict: dict[str, int] = {}
    result = again({"a": shared_dict, "b": [shared_dict]})
    assert result["a"] is result["b"][0]


def test_objects_that_others_refer_to_need_no_pickle() -> None:
    rows = [[number] for number in range(100)]
    assert _engine.uses_codec([row for row in rows])
    assert _engine.uses_codec([rows[0], rows[1]])


def test_large_strings_that_repeat_are_sent_once() -> None:
    text = "x" * 1000
    assert len(_engine.encode([text] * 1000)) < 20_000
    data = b"x" * 1000
    assert len(_engine.encode([data] * 1000)) < 20_000


def test_nested_tuples_that_repeat_do_not_explode() -> None:
    value: Any = ("x",)
    for _ in range(50):
        value = (value, value)
    assert len(_engine.encode(value)) < 10_000


def test_a_cycle_comes_back_as_a_cycle() -> None:
    value: list[Any] = []
    value.append(value)
    result = again(value)
    assert result[0] is result
    tree: dict[str, Any] = {"child": {"parent": None}}
    tree["child"]["parent"] = tree
    result = again(tree)
    assert result["child"]["parent"] is result


def test_a_deep_object_is_left_to_pickle() -> None:
    value: Any = None
    for _ in range(65):
        value = [value]
    assert not _engine.uses_codec(value)
    assert again(value) == value
    assert _engine.uses_codec(value[0])


# ---- Buffers -----------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(12.0).reshape(3, 4),
        numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)),
        numpy.arange(12)[::2],
        numpy.zeros(0),
        numpy.zeros((2, 0, 3)),
        numpy.array(5),
        numpy.array(["a", "bc"]),
        numpy.zeros(3, dtype=[("x", "i4"), ("y", "f8")]),
    ],
)
def test_arrays_come_back_equal_and_writable(array: Any) -> None:
    result = again({"array": array})["array"]
    assert numpy.array_equal(result, array) and result.dtype == array.dtype and result.shape == array.shape
    assert result.flags.writeable


def test_read_only_arrays_stay_read_only() -> None:
    array = numpy.arange(3)
    array.setflags(write=False)
    assert not again(array).flags.writeable


def test_the_bytes_of_arrays_are_aligned_and_not_copied_into_the_pickle() -> None:
    array = numpy.frombuffer(b"marker!!" * 1000, dtype="u1")
    data = _engine.encode([array, array[:3].copy()])
    assert data.count(b"marker!!") == 1000
    assert data.index(b"marker!!") % 64 == 0


def test_several_arrays_and_one_twice() -> None:
    one, two = numpy.arange(3), numpy.arange(100.0)
    a, b, c = again((one, two, one))
    assert a is c and numpy.array_equal(a, one) and numpy.array_equal(b, two)


# ---- Damage ------------------------------------------------------------------


@given(TREES, st.integers(0, 1 << 30), st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_a_damaged_tree_is_an_error_or_another_tree(value: Any, where: int, byte: int) -> None:
    if not _engine.uses_codec(value):
        return
    data = bytearray(_engine.encode(value))
    data[where % len(data)] = byte
    if data[0] == ord("P"):
        return
    try:
        _engine.decode(bytes(data))
    except (ValueError, TypeError, UnicodeDecodeError):
        pass


@pytest.mark.parametrize("value", ["\U0010ffff", ["\U0010ffff"]])
def test_a_damaged_code_point_is_an_error(value: Any) -> None:
    data = _engine.encode(value)
    damaged = data.replace("\U0010ffff".encode("utf-32-le"), b"\xff\xff\x11\x00")
    if damaged == data:
        pytest.skip("strings are UTF-8 here")
    with pytest.raises(ValueError):
        _engine.decode(damaged)


@given(TREES, st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_a_truncated_object_is_an_error(value: Any, where: int) -> None:
    data = _engine.encode(value)
    with pytest.raises(Exception):
        _engine.decode(data[: where % len(data)])


def test_bytes_after_the_object_are_an_error() -> None:
    with pytest.raises(ValueError, match="damaged"):
        _engine.decode(_engine.encode(1) + b"N")


def test_a_damaged_pickle_is_an_error() -> None:
    data = bytearray(_engine.encode([numpy.arange(5)]))
    for place in range(4, 32):
        changed = bytearray(data)
        changed[place] = 255
        with pytest.raises(Exception):
            _engine.decode(bytes(changed))
