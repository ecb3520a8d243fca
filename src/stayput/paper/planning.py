"""What is to be done for some tables and figures, the cheapest of each first, and how long it may take.

The order goes round: the cheapest cell of every table and figure, then the second cheapest of each, so that a budget
that ends early leaves measured cells everywhere. Times follow from examples per second as cells measured on this device
had them; where there is none, from a calibration of a few rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from stayput.core.history import History, RoundReport
from stayput.errors import DataError
from stayput.experiments.run_in_progress import RunInProgress, train_together
from stayput.paper import figure1
from stayput.paper.catalogue import cells_of
from stayput.paper.cells import Cell
from stayput.paper.measuring import Measurer, example_passes
from stayput.paper.rates import grid_around
from stayput.paper.results import Results
from stayput.paper.workshop import Workshop
from stayput.runs.environment import machine
from stayput.runs.spec import RunSpec

_SIZES: Mapping[str, tuple[int, float, int]] = {
    "mnist-2nn-paper": (100, 600, 10_000),
    "mnist-cnn": (100, 600, 10_000),
    "shakespeare-lstm": (1146, 74.2, 21_000),
    "cifar10-cnn": (100, 500, 10_000),
    "posts-lstm": (19_000, 270, 100_000),
}
"""K, n/K and test examples of a task in the paper's setting, for estimates alone."""
_EVALUATION = 1 / 3
"""What a forward pass costs, in passes with a gradient."""
CALIBRATION_ROUNDS, CALIBRATION_RATES = 3, 5
QUICK_GRID = 3
QUICK_CELLS = 3
"""Of a table or figure, the cheapest, that the short version trains."""


@dataclass(frozen=True)
class Work:
    """One thing to do."""

    exhibit: str
    cell: Cell | None
    """None for figure 1."""

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.exhibit}: {'two models' if self.cell is None else self.cell.label}"


def passes_of(cell: Cell) -> float:
    """Examples that one rate of a cell may be trained on, evaluations among them."""
    clients, each, tested = (100, 20, 500) if cell.quick else _SIZES[cell.task]
    rounds = min(cell.rounds, cell.expected_rounds or cell.rounds)
    settings = cell.algorithm
    if settings["name"] == "central_sgd":
        trained = float(settings["updates_per_round"] * settings["batch_size"])
    else:
        cohort = settings.get("clients_per_round") or max(round(settings["client_fraction"] * clients), 1)
        trained = cohort * settings["local_epochs"] * each
    return rounds * (trained + tested * _EVALUATION / cell.evaluate_every)


_WEIGHT = {"mnist-2nn-paper": 1.0, "mnist-cnn": 15.0, "shakespeare-lstm": 60.0, "cifar10-cnn": 20.0, "posts-lstm": 40.0}
"""About how much an example costs beside one of the 2NN, where nothing was measured."""


def planned(names: Sequence[str], *, quick: bool = False) -> list[Work]:
    """Everything for these tables and figures, the cheapest of each first; what two share comes once."""
    queues = []
    for name in names:
        cells = sorted(cells_of(name), key=lambda cell: passes_of(cell) * _WEIGHT[cell.task])
        if quick:
            cells = [cell.quickened() for cell in _spread(cells)]
        queues.append([Work(name, None)] if name == figure1.NAME else [Work(name, cell) for cell in cells])
    ordered = [queue[rank] for rank in range(max(map(len, queues), default=0)) for queue in queues if rank < len(queue)]
    seen: dict[str, Work] = {}
    for work in ordered:
        cell = work.cell
        seen.setdefault("figure1" if cell is None else f"{cell.key} {cell.rounds} {cell.target} {cell.rates}", work)
    return list(seen.values())


def _spread(cells: Sequence[Cell]) -> list[Cell]:
    """The cheapest cells of each task, and so of each section of a table."""
    by_task: dict[str, list[Cell]] = {}
    for cell in cells:
        by_task.setdefault(cell.task, []).append(cell)
    return [cell for of_task in by_task.values() for cell in of_task[:QUICK_CELLS]]


def runs_in(work: Work, measurer: Measurer, seeds: Sequence[int]) -> int:
    """How many runs are still to be trained for it."""
    if work.cell is None:
        quick = False
        return sum(figure1.read(measurer.results.folder, seed, quick=quick) is None for seed in seeds) * 3
    return sum(len(measurer.missing(work.cell, seed)) for seed in seeds)


def measured_speeds(results: Results, device: str) -> dict[str, float]:
    """Example passes a second by task, from what was measured on a machine like this one."""
    here = machine(device)
    mark = "accelerator" if "accelerator" in here else "processor"
    found: dict[str, list[float]] = {}
    for result in results.all():
        about, same_kind = result.provenance, result.cell["examples"] == "all"
        if (
            same_kind
            and about["device"] == device
            and about["machine"].get(mark) == here[mark]
            and about["seconds"] > 5
        ):
            found.setdefault(result.cell["task"], []).append(about["example_passes"] / about["seconds"])
    return {task: median(speeds) for task, speeds in found.items()}


def calibrated_speed(cell: Cell, workshop: Workshop) -> float | None:
    """Example passes a second from a few rounds on few examples; None where the data are not here.

    Several rates train at once, as in a cell: a GPU is not filled by one.
    """
    small = replace(cell.quickened(), rounds=CALIBRATION_ROUNDS, evaluate_every=CALIBRATION_ROUNDS, target=None)
    try:
        parts, engine = workshop.ready(small)
    except DataError:
        return None
    rounds: dict[int, tuple[float, int]] = {}
    runs = []
    for exponent in grid_around(small.centre, CALIBRATION_RATES):
        spec = workshop.spec(small, exponent, 0, parts.clients.num_clients)

        def heard(report: RoundReport, _: History, spec: RunSpec = spec) -> None:
            seconds, passes = rounds.get(report.round_number, (0.0, 0))
            trained = example_passes(spec.algorithm, report)
            rounds[report.round_number] = (seconds + report.seconds, passes + trained)

        runs.append(RunInProgress(spec, workshop.algorithm(spec), engine, parts.clients, on_round=heard))
    train_together(engine, runs, diverging_ends_all=False)
    seconds, passes = rounds[max(rounds)]
    return passes / max(seconds, 1e-9)


def seconds_of(work: Work, runs: int, speeds: Mapping[str, float]) -> float | None:
    """How long some of its runs take; None where nothing says how fast this device is."""
    if work.cell is None:
        return 30.0
    speed = speeds.get(work.cell.task)
    return None if speed is None else runs * passes_of(work.cell) / speed
