"""Settings classes listed for people, or as JSON: what `stayput algorithms` and `partitions` share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stayput.cli.outcome import json_line
from stayput.cli.settings_docs import SettingDoc, setting_docs, summary_of
from stayput.cli.wording import aligned, answer


def list_settings_classes(
    known: Mapping[str, type[Any]], *, as_json: bool, flags: Mapping[tuple[str, str], str] | None = None
) -> None:
    """Print each class's name and first line, and its settings as flags with defaults."""
    if as_json:
        answer(json_line([_as_data(name, settings_class) for name, settings_class in known.items()]))
        return
    for position, (name, settings_class) in enumerate(known.items()):
        if position:
            answer()
        answer(f"{name}: {summary_of(settings_class)}")
        rows = [
            ((flags or {}).get((name, setting.name), _flag(setting)), str(setting.default), setting.doc)
            for setting in setting_docs(settings_class)
        ]
        for line in aligned(rows, indent="    "):
            answer(line)


def _flag(setting: SettingDoc) -> str:
    return f"--{setting.name.replace('_', '-')}"


def _as_data(name: str, settings_class: type[Any]) -> dict[str, Any]:
    settings = [{"name": s.name, "default": s.default, "doc": s.doc} for s in setting_docs(settings_class)]
    return {"name": name, "summary": summary_of(settings_class), "settings": settings}
