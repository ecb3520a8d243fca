"""Figure 1: the loss on all of MNIST's training images between two models, θw + (1-θ)w', 50 values of θ.

The parents are 2NNs, each trained with SGD (η=0.1, 240 updates on minibatches of 50: 20 passes) on 600 images of its
own. With a shared initialisation their average is better than either; with different ones it is much worse.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stayput.core.round import begin_round
from stayput.core.tensors import WEIGHTS, Groups
from stayput.data.federated_data import Examples
from stayput.errors import CorruptData
from stayput.experiments.preparing import prepared
from stayput.paper.cells import IID_100, Cell, canonical, fed_avg
from stayput.paper.results import text_of
from stayput.paper.workshop import Workshop
from stayput.runs.durable_files import write_whole

NAME = "figure1"
TITLE = "Figure 1: the loss of averages of two models, on all training images"
EXPONENT = -6
PARENTS = (0, 1)
"""Clients of the IID partition: two samples of 600 images that do not overlap."""
THETAS = tuple(round(float(theta), 6) for theta in np.linspace(-0.2, 1.2, 50))
QUICK_THETAS = tuple(round(float(theta), 6) for theta in np.linspace(-0.2, 1.2, 8))
_CELL = Cell("mnist-2nn-paper", IID_100, fed_avg(0.0, 20, 50), rounds=1, rates=(EXPONENT,))
_OTHER_SEED = 1000


@dataclass(frozen=True)
class Interpolation:
    """What is drawn: losses by θ, for different and for shared initial weights."""

    thetas: Sequence[float]
    different: Sequence[float]
    shared: Sequence[float]
    provenance: Mapping[str, Any]

    def best_parent(self, losses: Sequence[float]) -> float:
        """The lower loss of the two parents, at θ=0 and θ=1: between two values of θ, interpolated."""
        return float(min(np.interp(theta, self.thetas, losses) for theta in (0.0, 1.0)))


def path_in(folder: Path, seed: int, *, quick: bool) -> Path:
    """The result's file."""
    return folder / f"figure1-{'quick-' if quick else ''}s{seed}.json"


def read(folder: Path, seed: int, *, quick: bool) -> Interpolation | None:
    """What was measured, if it was."""
    path = path_in(folder, seed, quick=quick)
    if not path.is_file():
        return None
    try:
        found = json.loads(text_of(path))
        points = zip(found["thetas"], found["different"], found["shared"], strict=True)
        thetas, different, shared = zip(*((float(t), float(d), float(s)) for t, d, s in points), strict=True)
        return Interpolation(thetas, different, shared, found["provenance"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"{path}: is not a measured figure 1 ({error!r}); remove it or copy it anew") from error


def measure(workshop: Workshop, folder: Path, seed: int, *, quick: bool) -> Interpolation:
    """Train the parents, and look between them."""
    began = time.monotonic()
    cell = replace(_CELL, quick=quick)
    parts, _ = workshop.ready(cell)
    # On the sequential engine, which is plain PyTorch: two small trainings and a hundred evaluations need no lanes.
    train = Examples(parts.clients.examples.inputs, parts.clients.examples.targets)
    spec = replace(workshop.spec(cell, EXPONENT, seed, parts.clients.num_clients), engine="sequential")
    parts, engine = prepared(spec, replace(parts, test=train))
    algorithm = workshop.algorithm(spec)

    def parent(client: int, initial_seed: int) -> Groups:
        state = algorithm.init(engine.initial_model(initial_seed))
        work = begin_round(state, 1, algorithm=algorithm, num_clients=parts.clients.num_clients, seed=seed)
        work = replace(work, cohort=np.array([client], dtype=np.int64))
        (result,) = engine.run([work])
        return algorithm.server_update(state, result.mean)

    def losses(first: Groups, second: Groups, thetas: Sequence[float]) -> list[float]:
        return [round(engine.evaluate(_mixed(first, second, theta))["loss"], 6) for theta in thetas]

    thetas = QUICK_THETAS if quick else THETAS
    mine, its = parent(PARENTS[0], seed), parent(PARENTS[1], seed)
    foreign = parent(PARENTS[1], seed + _OTHER_SEED)
    provenance = {**workshop.provenance(spec), "seconds": 0.0}
    found = Interpolation(thetas, losses(mine, foreign, thetas), losses(mine, its, thetas), provenance)
    provenance["seconds"] = round(time.monotonic() - began, 1)
    folder.mkdir(parents=True, exist_ok=True)
    plain = {"thetas": list(thetas), "different": found.different, "shared": found.shared, "provenance": provenance}
    write_whole(path_in(folder, seed, quick=quick), (canonical(plain) + "\n").encode())
    return found


def _mixed(first: Groups, second: Groups, theta: float) -> Groups:
    """θw + (1-θ)w'."""
    return {
        **first,
        WEIGHTS: {name: theta * w + (1 - theta) * second[WEIGHTS][name] for name, w in first[WEIGHTS].items()},
    }
