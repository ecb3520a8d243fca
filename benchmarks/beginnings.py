"""How the 2NN's initial weights and the scale of its pixels change the rounds to 97%: IID, C=0.1, E=1, B=10.

    python benchmarks/beginnings.py          all combinations, about half an hour on one core

The paper does not say how its models began, nor how they saw pixels; with torch's own initial weights and pixels in
[0, 1] the 2NN needs less than half of its rounds. Each combination is trained over a grid of rates, all of them until
the first reaches the target. Writes benchmarks/results/beginnings.json; docs/results.md shows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from stayput.algorithms.fed_avg import FedAvg
from stayput.data import DATA_SETS
from stayput.data.partitions import Iid
from stayput.experiments.preparing import Parts, custom_spec, prepared
from stayput.experiments.run_in_progress import RunInProgress, train_together
from stayput.models import TwoLayerNet
from stayput.models.initialisation import INITIALISATIONS
from stayput.paper.rates import rate_of
from stayput.runs.environment import machine, versions
from stayput.tasks.catalogue import named_task

RESULTS = Path(__file__).parent / "results" / "beginnings.json"
TARGET, MOST_ROUNDS = 0.97, 150

PIXELS: Mapping[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "[-0.5, 0.5]": (lambda pixels: pixels / 255 - 0.5, (-8, -7, -6, -5, -4)),
    "[0, 1]": (lambda pixels: pixels / 255, (-5, -4, -3, -2)),
    "[-1, 1]": (lambda pixels: pixels / 127.5 - 1, (-9, -8, -7, -6, -5)),
    "mean 0, deviation 1": (lambda pixels: (pixels / 255 - 0.1307) / 0.3081, (-6, -5, -4, -3)),
    "0 to 255": (lambda pixels: pixels * 1.0, (-20, -18, -16, -14, -12)),
}
"""How pixels reach the model, and the exponents k of the rates 10^(k/6)."""
ALL_INITIALISATIONS = {"[-0.5, 0.5]", "[0, 1]"}
"""The other scales are tried with torch's alone."""


def measured(initialisation: str, pixels: str) -> dict[str, object]:
    """One combination."""
    prepare, exponents = PIXELS[pixels]
    task = replace(
        named_task("mnist-2nn").task, model=partial(TwoLayerNet, initialisation), prepare=prepare, name="beginning"
    )
    split = DATA_SETS["mnist"].load()
    settings = [FedAvg(learning_rate=rate_of(exponent)) for exponent in exponents]
    spec = custom_spec(task, settings[0], engine="lanes", device="cpu", rounds=MOST_ROUNDS)
    clients = split.train.partition(Iid(100), seed=0)
    parts, engine = prepared(spec, Parts(task, clients, settings[0].algorithm(), split.test))
    runs = [RunInProgress(spec, each.algorithm(), engine, parts.clients) for each in settings]

    def rounds(run: RunInProgress) -> float | None:
        return run.progress.history.curve("accuracy").rounds_to(TARGET)

    def end_with_the_first() -> None:
        if any(rounds(run) is not None for run in runs):
            for run in runs:
                run.dropped = "another was there first"

    train_together(engine, runs, diverging_ends_all=False, after_round=end_with_the_first)
    reached = {rate: found for rate, run in zip(settings, runs, strict=True) if (found := rounds(run)) is not None}
    best = min(reached, key=reached.__getitem__, default=None)
    return {
        "initial weights": initialisation,
        "pixels": pixels,
        "rates": [settings[0].learning_rate, settings[-1].learning_rate],
        "best rate": None if best is None else best.learning_rate,
        "rounds to 97%": None if best is None else round(reached[best], 1),
    }


def main() -> None:
    """Measure every combination and write the file."""
    rows = [
        measured(initialisation, pixels)
        for pixels in PIXELS
        for initialisation in INITIALISATIONS
        if initialisation == "torch" or pixels in ALL_INITIALISATIONS
    ]
    found = {"machine": machine("cpu"), "versions": versions(), "results": rows}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
