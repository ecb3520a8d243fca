"""Help pages as plain text, in named sections.

typer can draw them with rich, but importing that takes as long as everything else that `stayput --help` does. What is
kept of it is the sections: each flag and command says in `rich_help_panel` which one it stands in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

Context = Any
"""typer's own copy of click has no public name, so its contexts and formatters have none here."""
Formatter = Any
Row = tuple[str, str]

LONGEST_SUMMARY = 200
"""Characters of a command's summary that the list of commands shows; the formatter folds what is too wide."""


class SectionedCommand(TyperCommand):
    """A command whose help page lists its flags in their sections."""

    def format_options(self, ctx: Context, formatter: Formatter) -> None:
        """Arguments, then each section's flags, then the flags of none."""
        rows = [
            (_section_of(param, "Arguments" if param.param_type_name == "argument" else "Options"), record)
            for param in self.get_params(ctx)
            if (record := param.get_help_record(ctx)) is not None
        ]
        _write_sections(formatter, rows)


class SectionedCommands(TyperGroup):
    """A group of commands whose help page lists them in their sections."""

    def format_commands(self, ctx: Context, formatter: Formatter) -> None:
        """Each section's commands, in the order in which they were added."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        rows = [
            (_section_of(command, "Commands"), (name, command.get_short_help_str(LONGEST_SUMMARY)))
            for name, command in commands
            if not command.hidden
        ]
        _write_sections(formatter, rows)


def _section_of(part: object, otherwise: str) -> str:
    section = getattr(part, "rich_help_panel", None)
    return section if isinstance(section, str) else otherwise


def _write_sections(formatter: Formatter, rows: Iterable[tuple[str, Row]]) -> None:
    sections: dict[str, list[Row]] = {}
    for section, row in rows:
        sections.setdefault(section, []).append(row)
    for section in sorted(sections, key="Options".__eq__):  # flags of no section, such as --help, come last
        with formatter.section(section):
            formatter.write_dl(sections[section])
