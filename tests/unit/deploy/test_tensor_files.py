from __future__ import annotations

import contextlib
import json
import math
import struct
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from stayput.deploy.tensor_files import DTYPES, FileLimits, TensorFile, TensorSpec, encode_tensors, read_header
from stayput.errors import MalformedMessage

TORCH = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def numbers(spec, seed=0):
    raw = np.random.default_rng(seed).integers(0, 256, spec.num_bytes, dtype=np.uint8)
    if spec.dtype == "BOOL":
        raw &= 1
    return raw.view(DTYPES[spec.dtype]).reshape(spec.shape)


def as_torch(spec, array):
    flat = torch.frombuffer(bytearray(array.tobytes()), dtype=TORCH[spec.dtype]) if spec.size else torch.empty(0)
    return flat.to(TORCH[spec.dtype]).reshape(spec.shape)


names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=10)
specs = st.lists(
    st.builds(TensorSpec, names, st.sampled_from(list(DTYPES)), st.lists(st.integers(0, 4), max_size=3).map(tuple)),
    unique_by=lambda spec: spec.name,
    max_size=5,
).map(lambda found: [spec for spec in found if spec.name != "__metadata__"])


@given(specs)
def test_what_is_written_here_is_read_here_and_by_the_safetensors_library(found):
    tensors = {spec.name: (spec, numbers(spec)) for spec in found}
    content = encode_tensors(tensors)
    ours, theirs = TensorFile(content), load(content)
    assert set(ours.specs) == set(theirs) == set(tensors)
    for name, (spec, array) in tensors.items():
        assert ours.specs[name] == spec
        assert ours.view(name).tobytes() == array.tobytes()
        assert theirs[name].shape == spec.shape
        assert theirs[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() == array.tobytes()


@given(specs)
def test_what_the_safetensors_library_writes_is_read_here(found):
    content = save({spec.name: as_torch(spec, numbers(spec)) for spec in found}, metadata={"format": "pt"})
    file = TensorFile(content)
    assert file.header.metadata == {"format": "pt"}
    for spec in found:
        assert file.specs[spec.name] == spec
        assert file.view(spec.name).tobytes() == numbers(spec).tobytes()


def test_equal_tensors_give_equal_bytes_in_whatever_order():
    a, b = TensorSpec("a", "F32", (3,)), TensorSpec("b", "F64", (2, 2))
    items = [("a", (a, numbers(a))), ("b", (b, numbers(b)))]
    assert encode_tensors(dict(items)) == encode_tensors(dict(reversed(items)))
    assert encode_tensors(dict(items))[8:].startswith(b'{"b"'), "wide elements come first, so that all are aligned"


def test_tensors_are_views_that_nobody_can_write():
    spec = TensorSpec("a", "F32", (4,))
    content = bytearray(encode_tensors({"a": (spec, numbers(spec))}))
    view = TensorFile(content).view("a")
    before = view.copy()
    content[-1] ^= 0xFF
    assert not np.array_equal(view, before), "a copy was made"
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 0


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "8 of a header's length"),
        (b"\x00" * 7, "8 of a header's length"),
        (b"\xff" * 8, "must be at most"),
        (struct.pack("<Q", 100) + b"{}", "does not fit"),
        (file_of(b"[]"), "must be a JSON object"),
        (file_of(b"{} x"), "not JSON"),
        (file_of({"a": entry()}, b"\0" * 7), "end at byte"),
        (file_of({"a": entry()}, b"\0" * 9), "end at byte"),
        (file_of({"a": entry(offsets=(4, 12))}, b"\0" * 12), "gap"),
        (file_of({"a": entry(), "b": entry(offsets=(0, 8))}, b"\0" * 8), "overlap"),
        (file_of({"a": entry(), "b": entry(offsets=(4, 12))}, b"\0" * 12), "overlap"),
        (file_of({"a": entry(), "b": entry(offsets=(12, 20))}, b"\0" * 20), "gap"),
        (file_of({"a": entry(offsets=(8, 0))}), "must be 8 for its dtype and shape"),
        (file_of({"a": entry(offsets=(0, 2**53 - 1))}), "must be 8 for its dtype and shape"),
        (file_of({"a": entry(shape=(2**52, 2**52))}, b"\0" * 8), "for its dtype and shape"),
        (file_of({"a": entry(shape=(-2,))}, b"\0" * 8), "whole numbers"),
        (file_of({"a": entry(shape=(True, 2))}, b"\0" * 8), "whole numbers"),
        (file_of({"a": entry(shape=(2.0,))}, b"\0" * 8), "whole numbers"),
        (file_of({"a": entry(shape=(1,) * 9, offsets=(0, 4))}, b"\0" * 4), "at most 8 whole numbers"),
        (file_of({"a": entry(offsets=(0, 4, 8))}, b"\0" * 8), "two whole numbers"),
        (file_of({"a": entry(dtype="F31")}, b"\0" * 8), "dtype='F31': must be one of"),
        (file_of({"a": entry(dtype=["F32"])}, b"\0" * 8), "must be one of"),
        (file_of({"a": {"dtype": "F32"}}, b"\0" * 8), "nothing else"),
        (file_of({"a": {**entry(), "code": "x"}}, b"\0" * 8), "nothing else"),
        (file_of({"a": 1}, b"\0" * 8), "nothing else"),
        (file_of({"": entry()}, b"\0" * 8), "printable"),
        (file_of({"a\n": entry()}, b"\0" * 8), "printable"),
        (file_of({"a" * 257: entry()}, b"\0" * 8), "1 to 256"),
        (file_of({"__metadata__": {"a": 1}}), "strings to strings"),
        (file_of({"__metadata__": []}), "strings to strings"),
        (file_of(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{}}', b"\0" * 8), "twice"),
        (file_of({str(i): entry(shape=(0,), offsets=(0, 0)) for i in range(10_001)}), "at most 10000"),
    ],
)
def test_a_file_that_is_not_exactly_its_tensors_is_refused(content, why):
    with pytest.raises(MalformedMessage, match=why):
        TensorFile(content)


@settings(max_examples=150)
@given(st.data())
def test_any_change_of_a_file_is_read_as_numbers_or_refused(data):
    spec, other = TensorSpec("weights/a", "F32", (2, 3)), TensorSpec("weights/b", "BOOL", (3,))
    content = bytearray(encode_tensors({each.name: (each, numbers(each)) for each in (spec, other)}))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1)) if content else 0
        how = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        if how == "flip" and content:
            content[position] = data.draw(st.integers(0, 255))
        elif how == "cut":
            del content[position:]
        else:
            content[position:position] = data.draw(st.binary(max_size=8))
    try:
        file = TensorFile(bytes(content))
    except MalformedMessage:
        return
    assert sum(found.num_bytes for found in file.specs.values()) <= len(content)
    for name in file.specs:
        file.is_finite(name)
        file.square_sum(name)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_file_or_a_refusal(content):
    with contextlib.suppress(MalformedMessage):
        TensorFile(content)


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("position", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 2])
def test_one_number_that_is_none_is_found_wherever_it_is(dtype, bad, position):
    tensor = torch.ones((1 << 20) + 3, dtype=TORCH[dtype])
    assert TensorFile(save({"a": tensor})).is_finite("a")
    tensor[position] = bad
    assert not TensorFile(save({"a": tensor})).is_finite("a")


def test_a_truth_value_is_zero_or_one():
    spec = TensorSpec("a", "BOOL", (3,))
    assert TensorFile(encode_tensors({"a": (spec, np.array([0, 1, 1], np.uint8))})).is_finite("a")
    assert not TensorFile(encode_tensors({"a": (spec, np.array([0, 2, 1], np.uint8))})).is_finite("a")


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16", "I64", "I8", "U8"])
@pytest.mark.parametrize("size", [0, 1, 7, (1 << 20) + 5])
def test_the_sum_of_squares_is_that_of_exact_arithmetic(dtype, size):
    values = (torch.arange(size) % 11).to(torch.float64) / 8 - 0.5
    tensor = values.to(TORCH[dtype])
    expected = math.fsum((tensor.to(torch.float64) ** 2).tolist())
    assert TensorFile(save({"a": tensor})).square_sum("a") == pytest.approx(expected, rel=1e-14)


def test_squares_too_large_for_float64_make_an_infinite_sum():
    assert TensorFile(save({"a": torch.full((3,), 1e200, dtype=torch.float64)})).square_sum("a") == math.inf


def test_a_header_is_read_without_the_data():
    spec = TensorSpec("a", "F32", (1000,))
    content = encode_tensors({"a": (spec, numbers(spec))})
    header = read_header(content[:200], len(content))
    assert header.specs == (spec,)
    assert header.starts["a"] == len(content) - 4000


def test_checking_a_file_takes_a_bounded_amount_beyond_it():
    spec = TensorSpec("a", "F32", (16 << 20,))
    content = bytes(encode_tensors({"a": (spec, np.zeros(spec.shape, np.float32))}))
    tracemalloc.start()
    try:
        file = TensorFile(content)
        assert file.is_finite("a")
        assert file.square_sum("a") == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20, "64 MiB of numbers must not become 128 MiB of float64"


def test_a_header_cannot_ask_for_memory():
    """A header of the largest size, all of it nested objects or names: refused, and cheaply."""
    limits = FileLimits()
    for text in (b'{"a":' * (limits.max_header // 5), b'{"' + b"a" * (limits.max_header - 4) + b'"}'):
        tracemalloc.start()
        try:
            with pytest.raises(MalformedMessage):
                TensorFile(file_of(text))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 64 << 20
