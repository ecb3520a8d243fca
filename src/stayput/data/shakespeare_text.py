"""Plays as text, taken apart: who speaks, and which lines.

Two layouts are known. The Complete Works (Gutenberg's Etext #100 of 1994, which the paper used) is one file, in which a
speech is indented by two and its further lines by four:

      BERNARDO. Who's there?
        Nay, answer me. ...

Later Gutenberg editions have a file for each play, in which a speaker's name is a line of its own after an empty one:

    BERNARDO.
    Who's there?

A line is what is printed on one. What belongs to nobody (scenes, lists of persons) is left out; directions that are
indented at least as far as a speech ("Exit.") stay with the speaker, as in the paper's count of characters. Pure: reads
no files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Roles = Mapping[str, Sequence[str]]
"""Lines by role, roles in the order in which they first speak."""

_AUTHOR = "by William Shakespeare"
_TITLE_WITHIN = 7
"""Lines above the author's name in which the title stands."""
_SPEECH = re.compile(r"  ([a-zA-Z][a-zA-Z ]*)\. (.*)")
_GOES_ON = re.compile(r"    (.*)")
# In one play of the Complete Works nothing is indented.
_FLAT_PLAY = "THE COMEDY OF ERRORS"
_FLAT_SPEECH = re.compile(r"([a-zA-Z][a-zA-Z ]*)\. (.*)")
_FLAT_GOES_ON = re.compile(r"(.*)")

_NAME_ALONE = re.compile(r"([A-Z][A-Za-z' ]*)\.$")
_NAME_BEFORE = re.compile(r"([A-Z][A-Z' ]+)\. +(.*)$")
_NO_NAME = re.compile(r"(ACT|SCENE|THE END)\b")


def complete_works(text: str) -> list[tuple[str, Roles]]:
    """The plays of the Complete Works, each with its title: what stands between two names of the author."""
    lines = [line.rstrip() for line in text.splitlines()]
    begins = [number for number, line in enumerate(lines) if _AUTHOR in line]
    plays = []
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        title = next((line.strip() for line in lines[begin - 2 : begin - 2 - _TITLE_WITHIN : -1] if line), "")
        # The sonnets and a poem come out of this with no role, or one.
        roles = _indented_roles(lines[begin + 1 : end], flat=title == _FLAT_PLAY)
        if len(roles) > 1:
            plays.append((title, roles))
    return plays


def single_play(text: str) -> Roles:
    """The roles of one play of a later edition; names are brought to capitals, since editors vary them."""
    roles: dict[str, list[str]] = {}
    speaker: str | None = None
    before = ""
    for raw in text.splitlines():
        line = raw.strip()
        name = (_NAME_ALONE.match(line) or _NAME_BEFORE.match(line)) if not before else None
        if not line:
            speaker = None
        elif name is not None and not _NO_NAME.match(name[1]):
            speaker = name[1].upper()
            roles.setdefault(speaker, []).extend(name.groups()[1:])
        elif speaker is not None and line[0] not in "[<":
            roles[speaker].append(line)
        before = line
    return roles


def _indented_roles(lines: Sequence[str], *, flat: bool) -> Roles:
    speech, goes_on = (_FLAT_SPEECH, _FLAT_GOES_ON) if flat else (_SPEECH, _GOES_ON)
    roles: dict[str, list[str]] = {}
    speaker: str | None = None
    for line in lines:
        if begins := speech.match(line):
            speaker = None if flat and begins[1].upper().startswith("ACT ") else begins[1]
            if speaker is not None:
                roles.setdefault(speaker, []).append(begins[2])
        elif speaker is not None and (more := goes_on.match(line)):
            if flat and more[1].startswith("<"):  # the publisher's notice
                speaker = None
            else:
                roles[speaker].append(more[1])
    return roles
