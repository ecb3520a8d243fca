"""Settings records as plain data: {"name": "fed_avg", "client_fraction": 0.1, ...} and back.

For any frozen dataclass with a class attribute `name`: algorithms, partitions. A field may hold another such record
(`Unbalanced` over `Iid`) or a schedule over rounds, whose round numbers JSON and TOML turn into strings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from stayput.errors import InvalidSetting, UnknownName

NAME = "name"


def to_plain(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any settings dataclass
    """A settings record as JSON-ready data."""
    plain: dict[str, Any] = {NAME: settings.name}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = to_plain(value)
        elif isinstance(value, Mapping):
            value = {str(key): entry for key, entry in value.items()}
        plain[field.name] = value
    return plain


def from_plain(kind: str, known: Mapping[str, type[Any]], plain: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The inverse of `to_plain`: `known` maps names to settings classes."""
    if plain.get(NAME) not in known:
        raise UnknownName(kind, plain.get(NAME), known)
    settings_class = known[plain[NAME]]
    fields = {field.name for field in dataclasses.fields(settings_class)}
    values = {}
    for name, value in plain.items():
        if name == NAME:
            continue
        if name not in fields:
            raise UnknownName(f"setting of {kind} {plain[NAME]}", name, fields)
        if isinstance(value, Mapping):
            nested = NAME in value
            values[name] = from_plain(kind, known, value) if nested else _with_round_numbers(name, value)
        else:
            values[name] = value
    return settings_class(**values)


def _with_round_numbers(name: str, schedule: Mapping[Any, Any]) -> dict[int, Any]:
    try:
        return {int(start): value for start, value in schedule.items()}
    except ValueError as error:
        raise InvalidSetting(
            f"{name}={dict(schedule)!r}: must map round numbers to values (such as {{1: 20, 50: 5}})"
        ) from error
