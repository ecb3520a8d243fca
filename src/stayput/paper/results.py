"""Measured cells on disk: small text files that any machine may add to, and what they say together.

A file holds the curves of one cell, one seed and some learning rates, and where they come from. Its name is made from
what was asked for (`cells.file_stem`), so results of several machines merge by copying files into one folder: the same
question has the same name, other questions have others. Of two curves for the same rate the longer one counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stayput.core.history import Curve
from stayput.errors import CorruptData, InvalidSetting
from stayput.paper.cells import Cell, canonical
from stayput.paper.dropping import BEHIND, DIVERGED, HOPELESS, UNFINISHED, best_exponent
from stayput.paper.rates import rate_of
from stayput.runs.durable_files import write_whole

FORMAT = 1
DIGITS = 5
_BEGINNING = '{\n"format"'
"""How a file of a cell begins, also one that was cut off before its curves."""
_PROVENANCE = ("machine", "versions", "commit", "source_sha256", "device", "precision", "seconds", "example_passes")
"""What the page and the estimates of time read."""


@dataclass(frozen=True)
class MeasuredCurve:
    """What one learning rate did."""

    exponent: int
    curve: Curve
    ended: str
    why: str = ""
    model_sha256: str = ""

    @property
    def last(self) -> int:
        """Its last round."""
        return int(self.curve.rounds[-1]) if len(self.curve.rounds) else 0


@dataclass(frozen=True)
class CellResult:
    """One file."""

    cell: Mapping[str, Any]
    """The cell's identity."""
    asked: Mapping[str, Any]
    """Rounds, target and seed."""
    curves: Sequence[MeasuredCurve]
    provenance: Mapping[str, Any]
    """Machine, versions, commit, seconds, engine, precision, and how much was trained."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Clients, examples and the fingerprint of who holds what."""

    def to_json(self) -> str:
        """As text, a line for each curve."""
        every = self.cell["evaluate_every"]
        lines = [
            canonical(
                {
                    "k": curve.exponent,
                    "rate": rate_of(curve.exponent),
                    "ended": curve.ended,
                    "why": curve.why,
                    "model_sha256": curve.model_sha256,
                    "values": [_rounded(value) for value in curve.curve.values.tolist()],
                }
            )
            for curve in self.curves
        ]
        head = {
            "format": FORMAT, "cell": self.cell, "asked": self.asked, "evaluate_every": every,
            "provenance": self.provenance, "data": self.data,
        }  # fmt: skip
        fields = [f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in head.items()]
        return "{\n" + ",\n".join(fields) + ',\n"curves": [\n' + ",\n".join(lines) + "\n]\n}\n"

    @classmethod
    def from_json(cls, text: str, *, source: str) -> CellResult:
        """The inverse; `source` is named in errors."""
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise CorruptData(
                    f"{source}: format={found['format']!r}: this stayput reads {FORMAT} (upgrade stayput)"
                )
            found["asked"]["seed"], found["data"]["partition_fingerprint"]
            for name in _PROVENANCE:
                found["provenance"][name]
            better = found["cell"]["measured_on"] == "test"
            every = found["cell"]["evaluate_every"]
            curves = [_curve(entry, every, higher_is_better=better) for entry in found["curves"]]
            return cls(found["cell"], found["asked"], curves, found["provenance"], found["data"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"{source}: is not a measured cell ({error!r}); remove it or copy it anew") from error


def text_of(path: Path) -> str:
    """A result's file as text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptData(f"{path}: cannot be read ({error}); remove it or copy it anew") from error


def _rounded(value: float) -> float | None:
    return round(value, DIGITS) if np.isfinite(value) else None


def _curve(entry: Mapping[str, Any], every: int, *, higher_is_better: bool) -> MeasuredCurve:
    values = np.array([np.nan if value is None else value for value in entry["values"]], dtype=np.float64)
    curve = Curve(np.arange(len(values), dtype=np.int64) * every, values, higher_is_better)
    return MeasuredCurve(entry["k"], curve, entry["ended"], entry["why"], entry["model_sha256"])


class Results:
    """A folder of measured cells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, CellResult] = {}
        self._by_cell: dict[str, dict[str, CellResult]] = {}
        if folder.exists() and not folder.is_dir():
            raise InvalidSetting(f"results={str(folder)!r}: must be a folder of measured cells, or a new one")
        for path in sorted(folder.glob("*.json")):
            text = text_of(path)
            if '"curves"' in text or not text.strip() or text.startswith(_BEGINNING):
                self._keep(path.stem, CellResult.from_json(text, source=str(path)))

    def add(self, stem: str, result: CellResult) -> Path:
        """Write a file, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{stem}.json"
        write_whole(path, result.to_json().encode())
        self._keep(stem, result)
        return path

    def remove(self, stem: str) -> None:
        """Take a file away, if it is there."""
        (self.folder / f"{stem}.json").unlink(missing_ok=True)
        result = self._files.pop(stem, None)
        if result is not None:
            del self._by_cell[canonical(result.cell)][stem]

    def _keep(self, stem: str, result: CellResult) -> None:
        self._files[stem] = result
        self._by_cell.setdefault(canonical(result.cell), {})[stem] = result

    def of(self, cell: Cell) -> list[CellResult]:
        """Every file of a cell, whatever seed and rates; where clients differ, those of the most files."""
        mine = list(self._by_cell.get(cell.key, {}).values())
        prints = [result.data.get("partition_fingerprint") for result in mine]
        if len(set(prints)) > 1:
            usual = max(prints, key=prints.count)
            mine = [result for result, mark in zip(mine, prints, strict=True) if mark == usual]
        return mine

    def seeds(self, cell: Cell) -> list[int]:
        """The seeds that were measured."""
        return sorted({result.asked["seed"] for result in self.of(cell)})

    def curves(self, cell: Cell, seed: int) -> dict[int, MeasuredCurve]:
        """What is known of each learning rate."""
        known: dict[int, MeasuredCurve] = {}
        for result in self.of(cell):
            if result.asked["seed"] != seed:
                continue
            for curve in result.curves:
                other = known.get(curve.exponent)
                if other is None or _counts_more(curve, other):
                    known[curve.exponent] = curve
        return dict(sorted(known.items()))

    def all(self) -> list[CellResult]:
        """Every file."""
        return list(self._files.values())


def _counts_more(curve: MeasuredCurve, other: MeasuredCurve) -> bool:
    return (curve.last, curve.ended != UNFINISHED) > (other.last, other.ended != UNFINISHED)


def is_settled(curve: MeasuredCurve, cell: Cell) -> bool:
    """Whether more rounds of it would tell the cell nothing."""
    if curve.ended in (DIVERGED, HOPELESS) or curve.last >= cell.rounds:
        return True
    if cell.target is None:
        return False
    return curve.curve.rounds_to(cell.target) is not None or curve.ended == BEHIND


@dataclass(frozen=True)
class Outcome:
    """A cell's number, for one seed."""

    state: str
    """ "measured", "not reached", "unfinished" or "not run"."""
    rounds: float | None = None
    exponent: int | None = None
    """k of the best rate."""
    exponents: tuple[int, ...] = ()
    """All that were tried."""
    best_value: float | None = None
    inside: bool = False
    """Whether the best rate has a neighbour on each side."""


def outcome(cell: Cell, curves: Mapping[int, MeasuredCurve], target: float | None = None) -> Outcome:
    """What is read off a cell's curves, as the paper reads it."""
    if not curves:
        return Outcome("not run")
    target = cell.target if target is None else target
    plain = {exponent: curve.curve for exponent, curve in curves.items()}
    best = best_exponent(plain, target)
    rounds = None if target is None else plain[best].rounds_to(target)
    finite = plain[best].best_so_far()
    best_value = float(finite[-1]) if len(finite) and np.isfinite(finite[-1]) else None
    tried = tuple(sorted(curves))
    state = "measured"
    if rounds is None:
        open_ends = any(not is_settled(curve, cell) for curve in curves.values())
        state = "unfinished" if open_ends else "not reached"
    return Outcome(state, rounds, best, tried, best_value, tried[0] < best < tried[-1])
