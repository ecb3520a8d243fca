from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from stayput.core.history import Curve
from stayput.paper.cells import Cell, file_stem
from stayput.paper.results import CellResult, MeasuredCurve, Results

PROVENANCE = {
    "machine": {"processor": "P", "cores": 2},
    "versions": {"torch": "2"},
    "commit": None,
    "source_sha256": "0" * 64,
    "engine": "lanes",
    "device": "cpu",
    "precision": "float32",
    "seconds": 10.0,
    "example_passes": 1000,
}


def crossing_curve(targets: Sequence[float], rounds: Sequence[float | None], every: int, allowed: int) -> Curve:
    """A curve that crosses each target exactly where it is told to, by linear interpolation."""
    points = [(0.0, 0.1), *((r, t) for t, r in zip(targets, rounds, strict=True) if r is not None)]
    last = points[-1][0] if len(points) > len(targets) else float(allowed)
    steps = np.arange(0, int(np.ceil(last / every)) + 1) * every
    xs, ys = zip(*points, strict=True)
    values = np.interp(steps, xs, ys)
    if len(points) > len(targets):  # the last stretch goes on as it came, so that it crosses where it should
        slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
        values = np.where(steps > xs[-1], ys[-1] + slope * (steps - xs[-1]), values)
    return Curve(steps, values)


@pytest.fixture
def crossing():
    """Makes a curve that crosses targets where it is told to."""
    return crossing_curve


@pytest.fixture
def keep():
    """Writes a cell's curves, by exponent, as a machine would have."""

    def write(results: Results, cell: Cell, curves: dict[int, Curve], seed: int = 0, ended: str = "rounds") -> None:
        measured = [MeasuredCurve(k, curve, ended, "", "f" * 64) for k, curve in curves.items()]
        asked = {"rounds": cell.rounds, "target": cell.target, "seed": seed}
        data = {"num_clients": 100, "num_examples": 60000, "partition_fingerprint": "a"}
        stem = file_stem(cell, seed=seed, exponents=list(curves))
        results.add(stem, CellResult(cell.identity, asked, measured, PROVENANCE, data))

    return write
