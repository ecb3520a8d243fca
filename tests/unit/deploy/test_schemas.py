from __future__ import annotations

import dataclasses
import json
import math
import typing
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stayput.deploy.messages import MESSAGES, Enrol, OfferUpdate, Poll, Receipt, TaskOffer, Wait
from stayput.deploy.schemas import PROTOCOL, Items, Number, Plain, Text, Whole, decode, encode, plain, read_record
from stayput.errors import MalformedMessage, ProtocolMismatch


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Everything:
    kind: ClassVar[str] = "everything"
    text: Annotated[str, Text(5)]
    whole: Annotated[int, Whole(-2, 3)]
    number: Annotated[float, Number(0, 1)]
    flag: bool
    names: Annotated[tuple[Annotated[str, Text(3)], ...], Items(2)]
    colour: Colour
    settings: Plain
    maybe: Annotated[int, Whole(1, 2)] | None = None


GOOD: dict[str, Any] = {
    "protocol": PROTOCOL,
    "kind": "everything",
    "text": "héllo",
    "whole": -2,
    "number": 1,
    "flag": True,
    "names": ["a", "b"],
    "colour": "red",
    "settings": {"x": [1, None]},
}


def read(**changes):
    return decode(Everything, json.dumps({**GOOD, **changes}).encode())


def test_a_message_is_read_field_by_field():
    message = read()
    assert message == Everything("héllo", -2, 1.0, True, ("a", "b"), Colour.RED, {"x": [1, None]})
    assert isinstance(message.number, float)
    assert decode(Everything, encode(message)) == message


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("text", 1, "must be a string of at most 5"),
        ("text", "longer", "must be a string of at most 5"),
        ("text", "\ud800", "lone surrogates"),
        ("whole", 4, r"whole number in \[-2, 3\]"),
        ("whole", True, "whole number"),
        ("whole", 1.0, "whole number"),
        ("whole", "1", "whole number"),
        ("whole", None, "whole number"),
        ("number", 1.5, r"number in \[0, 1\]"),
        ("number", True, "number in"),
        ("number", "0", "number in"),
        ("flag", 1, "true or false"),
        ("flag", "yes", "true or false"),
        ("names", "ab", "list of at most 2"),
        ("names", ["a", "b", "c"], "list of at most 2"),
        ("names", ["a", 5], r"names\[1\]=5: must be a string"),
        ("colour", "green", "must be one of red, blue"),
        ("colour", [], "must be one of red, blue"),
        ("settings", [], "must be an object"),
        ("maybe", 3, r"whole number in \[1, 2\]"),
    ],
)
def test_a_wrong_value_is_refused_with_field_value_and_rule(field, value, why):
    with pytest.raises(MalformedMessage, match=why) as refusal:
        read(**{field: value})
    assert str(refusal.value).startswith(f"everything.{field}")


@pytest.mark.parametrize("field", [name for name in GOOD if name not in {"protocol", "kind"}])
def test_a_missing_field_is_named(field):
    fields = {name: value for name, value in GOOD.items() if name != field}
    with pytest.raises(MalformedMessage, match=rf"everything\.{field}: missing"):
        decode(Everything, json.dumps(fields).encode())


def test_another_kind_is_refused_and_the_right_one_of_several_is_chosen():
    assert decode((Wait, Receipt), encode(Wait(1.5))) == Wait(1.5)
    with pytest.raises(MalformedMessage, match="kind='wait': must be 'receipt'"):
        decode(Receipt, encode(Wait(1.5)))
    with pytest.raises(MalformedMessage, match="kind=a list"):
        read(kind=["everything"])


@pytest.mark.parametrize(
    ("protocol", "why"),
    [
        (PROTOCOL + 1, "newer than this side.*upgrade stayput on this side"),
        (0, "older than this side.*upgrade stayput on the other side"),
        ("1", "must be a whole number"),
        (True, "must be a whole number"),
        (None, "must be a whole number"),
    ],
)
def test_another_protocol_is_told_as_such_even_where_fields_are_wrong_too(protocol, why):
    with pytest.raises(ProtocolMismatch, match=why):
        read(protocol=protocol, text=1, kind="unheard-of")


def test_a_message_without_a_protocol_is_refused():
    with pytest.raises(ProtocolMismatch):
        decode(Everything, b"{}")


def test_an_unknown_field_is_ignored_unless_the_sender_requires_it():
    assert read(new_field=1) == read()
    assert read(new_field=1, requires=["text"]) == read()
    with pytest.raises(ProtocolMismatch, match=r"'new_field'.*must understand this field.*upgrade"):
        read(new_field=1, requires=["text", "new_field"])


@pytest.mark.parametrize("required", ["text", [1], {"text": 1}])
def test_what_is_required_is_a_list_of_names(required):
    with pytest.raises(MalformedMessage, match="list of names"):
        read(requires=required)


def test_a_token_is_in_no_repr():
    assert "secret" not in repr(Enrol("stayput.secret", "ab" * 32))


def test_a_count_that_json_cannot_say_exactly_is_refused():
    good = json.loads(encode(Poll(True, 1.0)))
    for count in ("NaN", "1e400", "1e3", str(2**53), "-1"):
        text = json.dumps(good).replace('"num_examples": 0', f'"num_examples": {count}')
        with pytest.raises(MalformedMessage):
            decode(Poll, text.encode())


# Every message there is, made up from its own schema


def strategy(hint, bounds=()):  # noqa: PLR0911 - one return for each kind of field
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return strategy(arguments[0], arguments[1:])
    if origin is tuple:
        return st.lists(strategy(arguments[0]), max_size=3).map(tuple)
    if type(None) in arguments:
        return st.none() | strategy(next(each for each in arguments if each is not type(None)), bounds)
    bound = bounds[0] if bounds else None
    if hint is str:
        limits = bound or Text()
        if limits.pattern:
            return st.from_regex(limits.pattern, fullmatch=True).filter(lambda text: len(text) <= limits.longest)
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=limits.longest)
    if hint is int:
        limits = bound or Whole()
        return st.integers(limits.least, limits.most)
    if hint is float:
        limits = bound or Number()
        return st.floats(limits.least, limits.most, allow_nan=False)
    if hint is bool:
        return st.booleans()
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = {field.name: strategy(hints[field.name]) for field in dataclasses.fields(hint)}
        return st.builds(hint, **fields)
    return st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(-5, 5), max_size=3
    )


@settings(max_examples=60)
@given(st.one_of([strategy(message) for message in MESSAGES]))
def test_every_message_survives_the_wire(message):
    assert decode(type(message), encode(message)) == message


@settings(max_examples=60)
@given(st.one_of([strategy(message) for message in MESSAGES]), st.data())
def test_a_message_with_any_field_replaced_is_read_or_refused(message, data):
    fields = json.loads(encode(message))
    name = data.draw(st.sampled_from(sorted(fields)))
    junk = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})
    fields[name] = data.draw(junk)
    try:
        read_again = decode(type(message), json.dumps(fields).encode())
    except (MalformedMessage, ProtocolMismatch):
        return
    assert type(read_again) is type(message)
    assert read_record(type(message), plain(read_again), "again") == read_again  # whatever is read obeys the schema


def test_kinds_are_unique():
    assert len({message.kind for message in MESSAGES}) == len(MESSAGES)


def test_a_message_that_cannot_be_json_is_not_sent():
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(Wait(math.nan))


@pytest.mark.parametrize("message", [OfferUpdate, TaskOffer])
def test_ids_hold_nothing_that_could_be_a_path_or_a_line(message):
    hint = typing.get_type_hints(message, include_extras=True)["task_id"]
    record = dataclasses.make_dataclass("Record", [("task_id", hint)])
    for text in ("../x", "a/b", "a\nb", "", ".", "..", "-a", "a\n", "ä", "x" * 65):
        with pytest.raises(MalformedMessage):
            read_record(record, {"task_id": text}, "record")
