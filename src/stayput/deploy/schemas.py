"""Control messages as frozen dataclasses: the schema is the class, and nothing else is accepted.

A message on the wire is a JSON object:

    {"protocol": 1, "kind": "poll", "may_train": true, ..., "requires": ["field", ...]}

Each field's annotation says what is allowed, with bounds from `Annotated` (`Text`, `Whole`, `Number`, `Items`). A field
that the reader does not know is ignored, so that a newer sender may add some; unless the sender names it under
"requires": then the reader must understand it, and says that it does not. The protocol is looked at first, so that
another version is told as such and not as a wrong field. Must not import torch or a web framework.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar, Union

from stayput.deploy.strict_json import MAX_BYTES, MAX_WHOLE, parse_object, shown
from stayput.errors import MalformedMessage, ProtocolMismatch

PROTOCOL = 1
"""The protocol that this version speaks."""
OLDEST_PROTOCOL = 1
"""The oldest protocol that it still understands."""


@dataclass(frozen=True, slots=True)
class Text:
    """Bounds of a string."""

    longest: int = 256
    pattern: str | None = None
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """Bounds of a whole number."""

    least: int = 0
    most: int = MAX_WHOLE


@dataclass(frozen=True, slots=True)
class Number:
    """Bounds of a finite number."""

    least: float = -1.7976931348623157e308
    most: float = 1.7976931348623157e308


@dataclass(frozen=True, slots=True)
class Items:
    """Bounds of a list or of an object's keys."""

    most: int = 10_000


Plain = Mapping[str, Any]
"""Settings as plain data: any JSON object within the limits of `strict_json`."""


class Message(Protocol):
    """A frozen dataclass with a name on the wire."""

    kind: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """A message as it goes over the wire."""
    fields = {"protocol": PROTOCOL, "kind": message.kind, **plain(message)}
    return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode()


def decode(expected: type[M] | tuple[type[M], ...], data: bytes | bytearray | memoryview, limit: int = MAX_BYTES) -> M:
    """The message of an expected class that `data` is, or the error that says why it is none."""
    classes = {each.kind: each for each in (expected if isinstance(expected, tuple) else (expected,))}
    fields = parse_object(data, what=" or ".join(classes), max_bytes=limit)
    _check_protocol(fields.get("protocol"))
    chosen = classes.get(kind) if isinstance(kind := fields.get("kind"), str) else None
    if chosen is None:
        raise MalformedMessage(f"kind={shown(kind)}: must be {' or '.join(map(repr, classes))}")
    _check_requirements(chosen, fields.get("requires", []))
    return typing.cast("M", read_record(chosen, fields, chosen.kind))


def read_record(record: type[Any], fields: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 - an instance of `record`
    """An instance of a dataclass from plain data, every field held to its annotation."""
    values = {}
    for name, reader, required in _readers(record):
        if name in fields:
            values[name] = reader(fields[name], f"{where}.{name}")
        elif required:
            raise MalformedMessage(f"{where}.{name}: missing")
    return record(**values)


def plain(value: Any) -> Any:  # noqa: ANN401 - any message's field
    """A record, or a field of one, as JSON-ready data. What has its default value of None is left out."""
    if dataclasses.is_dataclass(value):
        named = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: plain(each) for name, each in named if each is not None}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value


def _check_protocol(protocol: object) -> None:
    if not isinstance(protocol, int) or isinstance(protocol, bool):
        raise ProtocolMismatch(f"protocol={shown(protocol)}: must be a whole number; this side speaks {PROTOCOL}")
    if protocol > PROTOCOL:
        raise ProtocolMismatch(
            f"protocol={protocol}: newer than this side, which speaks {OLDEST_PROTOCOL} to {PROTOCOL}; "
            "upgrade stayput on this side"
        )
    if protocol < OLDEST_PROTOCOL:
        raise ProtocolMismatch(
            f"protocol={protocol}: older than this side, which speaks {OLDEST_PROTOCOL} to {PROTOCOL}; "
            "upgrade stayput on the other side"
        )


def _check_requirements(record: type[Any], required: object) -> None:
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise MalformedMessage(f"requires={shown(required)}: must be a list of names of fields")
    known = {field.name for field in dataclasses.fields(record)}
    unknown = [name for name in required if name not in known]
    if unknown:
        raise ProtocolMismatch(
            f"{record.kind}.{shown(unknown[0])}: this side must understand this field and does not; "
            "upgrade stayput on this side"
        )


Reader = Callable[[Any, str], Any]


_compiled: dict[type[Any], tuple[tuple[str, Reader, bool], ...]] = {}


def _readers(record: type[Any]) -> tuple[tuple[str, Reader, bool], ...]:
    if record not in _compiled:
        _compiled[record] = tuple(_compile(record))
    return _compiled[record]


def _compile(record: type[Any]) -> Iterator[tuple[str, Reader, bool]]:
    hints = typing.get_type_hints(record, include_extras=True)
    return (
        (
            field.name,
            _reader_of(hints[field.name]),
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(record)
    )


def _reader_of(hint: Any, bounds: tuple[Any, ...] = ()) -> Reader:  # noqa: ANN401 - a type annotation
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _reader_of(arguments[0], arguments[1:])
    if origin in {Union, types.UnionType}:
        (inner,) = (each for each in arguments if each is not type(None))
        reader = _reader_of(inner, bounds)
        return lambda value, where: None if value is None else reader(value, where)
    if origin is tuple:
        return _list_reader(_reader_of(arguments[0]), _bound(bounds, Items))
    if hint in _SIMPLE:
        kind_of_bound, make = _SIMPLE[hint]
        return make(_bound(bounds, kind_of_bound))
    if hint == Plain:
        return _as_object
    if isinstance(hint, type):
        return _class_reader(hint)
    raise TypeError(f"{hint}: messages have no such fields")


def _class_reader(hint: type[Any]) -> Reader:
    if issubclass(hint, StrEnum):
        return _choice_reader(hint)
    if dataclasses.is_dataclass(hint):
        return lambda value, where: read_record(hint, _as_object(value, where), where)
    raise TypeError(f"{hint}: messages have no such fields")


def _bound(bounds: tuple[Any, ...], kind: type[Any]) -> Any:  # noqa: ANN401 - an instance of `kind`
    return next((bound for bound in bounds if isinstance(bound, kind)), kind())


def _text_reader(bound: Text) -> Reader:
    pattern = re.compile(bound.pattern) if bound.pattern else None

    def read(value: Any, where: str) -> str:  # noqa: ANN401 - whatever came
        if not isinstance(value, str) or len(value) > bound.longest:
            raise MalformedMessage(f"{where}={shown(value)}: must be a string of at most {bound.longest} characters")
        if pattern is not None and not pattern.fullmatch(value):
            raise MalformedMessage(f"{where}={shown(value)}: must be {bound.meaning or bound.pattern}")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise MalformedMessage(f"{where}={shown(value)}: must be Unicode without lone surrogates") from None
        return value

    return read


def _whole_reader(bound: Whole) -> Reader:
    def read(value: Any, where: str) -> int:  # noqa: ANN401 - whatever came
        if isinstance(value, bool) or not isinstance(value, int) or not bound.least <= value <= bound.most:
            raise MalformedMessage(f"{where}={shown(value)}: must be a whole number in [{bound.least}, {bound.most}]")
        return value

    return read


def _number_reader(bound: Number) -> Reader:
    def read(value: Any, where: str) -> float:  # noqa: ANN401 - whatever came
        if isinstance(value, bool) or not isinstance(value, int | float) or not bound.least <= value <= bound.most:
            raise MalformedMessage(f"{where}={shown(value)}: must be a number in [{bound.least}, {bound.most}]")
        return float(value)

    return read


def _flag_reader(_: Items) -> Reader:
    def read(value: Any, where: str) -> bool:  # noqa: ANN401 - whatever came
        if not isinstance(value, bool):
            raise MalformedMessage(f"{where}={shown(value)}: must be true or false")
        return value

    return read


def _list_reader(reader: Reader, bound: Items) -> Reader:
    def read(value: Any, where: str) -> tuple[Any, ...]:  # noqa: ANN401 - whatever came
        if not isinstance(value, list) or len(value) > bound.most:
            raise MalformedMessage(f"{where}={shown(value)}: must be a list of at most {bound.most}")
        return tuple(reader(each, f"{where}[{index}]") for index, each in enumerate(value))

    return read


def _choice_reader(choices: type[StrEnum]) -> Reader:
    def read(value: Any, where: str) -> StrEnum:  # noqa: ANN401 - whatever came
        try:
            return choices(value)
        except ValueError:
            known = ", ".join(choices)
            raise MalformedMessage(f"{where}={shown(value)}: must be one of {known}") from None

    return read


def _as_object(value: Any, where: str) -> Mapping[str, Any]:  # noqa: ANN401 - whatever came
    if not isinstance(value, dict):
        raise MalformedMessage(f"{where}={shown(value)}: must be an object")
    return value


_SIMPLE: dict[Any, tuple[type[Any], Callable[[Any], Reader]]] = {
    str: (Text, _text_reader),
    int: (Whole, _whole_reader),
    float: (Number, _number_reader),
    bool: (Items, _flag_reader),
}
