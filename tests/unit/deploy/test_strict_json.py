from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayput.deploy.strict_json import MAX_BYTES, MAX_DEPTH, MAX_WHOLE, parse_object
from stayput.errors import MalformedMessage

values = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_WHOLE, MAX_WHOLE) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def depth(value):
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), values, max_size=4))
def test_what_json_writes_is_read_back_unless_it_is_too_deep(value):
    data = json.dumps(value).encode()
    if depth(value) > MAX_DEPTH:
        with pytest.raises(MalformedMessage, match="deeper"):
            parse_object(data, what="message")
    else:
        assert parse_object(data, what="message") == value


@given(st.binary(max_size=400) | st.text(alphabet='{}[]",:\\u0123456789.eE+-truefalsn ', max_size=200).map(str.encode))
def test_any_bytes_are_an_object_or_a_refusal(data):
    with contextlib.suppress(MalformedMessage):
        assert isinstance(parse_object(data, what="message"), dict)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": Infinity}', "Infinity is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": 9007199254740992}', "too large"),
        ('{"a": -9007199254740992}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too large"),
        ('{"a": 0.' + "1" * 5000 + "}", "too large"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"b": {"a": 1, "\\u0061": 2}}', "twice"),
        ("[]", "must be a JSON object"),
        ('"a"', "must be a JSON object"),
        ("", "not JSON"),
        ('{"a": 1} x', "not JSON"),
        ('{"a": 1', "not JSON"),
        ("[" * 1000 + "]" * 1000, "deeper than 8"),
        ('{"a": ' * 9 + "1" + "}" * 9, "deeper than 8"),
    ],
)
def test_what_readers_may_differ_on_is_refused(text, why):
    with pytest.raises(MalformedMessage, match=why):
        parse_object(text.encode(), what="message")


def test_brackets_in_strings_are_no_depth():
    assert parse_object(json.dumps({"a": '[[[[[[[[[["\\'}).encode(), what="message") == {"a": '[[[[[[[[[["\\'}


def test_bytes_that_are_not_utf8_are_refused():
    with pytest.raises(MalformedMessage, match="not JSON"):
        parse_object(b'{"a": "\xff"}', what="message")


def test_too_long_is_refused_before_it_is_read():
    with pytest.raises(MalformedMessage, match=f"must be at most {MAX_BYTES}"):
        parse_object(b" " * (MAX_BYTES + 1), what="message")


@pytest.mark.parametrize("piece", [b'\\"', b'"', b"\\", b"[", b'{"a":', b'"a",', b"9", b"\xc3\xa9"])
def test_no_bytes_take_long(piece):
    """Patterns that make a careless expression try every beginning again; 256 KiB of them."""
    data = (b'{"a":"' + piece * MAX_BYTES)[:MAX_BYTES]
    began = time.process_time()
    with pytest.raises(MalformedMessage):
        parse_object(data, what="message")
    assert time.process_time() - began < 1.0
