"""What stands between a spec and its first round: what is refused, the engine, the folder.

Shared by `train`, which runs one spec, and `sweep`, which runs many on one engine.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from stayput.core.algorithm import Algorithm, AlgorithmSettings
from stayput.core.named_settings import to_plain
from stayput.core.tensors import fingerprint, to_device
from stayput.data.columns import from_arrays
from stayput.data.federated_data import Examples, FederatedData
from stayput.engines import ENGINES, TrainingEngine
from stayput.engines.choice import chosen_engine
from stayput.engines.precision import PRECISIONS, use_precision
from stayput.errors import InvalidSetting, UnknownName
from stayput.experiments.fit_check import refuse_misfit
from stayput.experiments.run import Run
from stayput.experiments.run_in_progress import OnRound, Progress, RunInProgress
from stayput.exports.trained_model import TrainedModel
from stayput.runs.environment import machine, versions
from stayput.runs.run_folder import RunFolder
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import CUSTOM, RunSpec
from stayput.tasks.task import Task
from stayput.tracking import refuse_trackers
from stayput.tracking.tracked_run import TrackedRun
from stayput.tracking.tracker import RunFacts, flat

OnNote = Callable[[str], None]
"""Told what the user should know."""


def warn(note: str) -> None:
    """How Python code is told: by a warning."""
    warnings.warn(note, stacklevel=2)


TestData = Examples | tuple[object, object] | None
"""Examples that a model is measured on: as such, as a pair of arrays, or none."""


@dataclass(frozen=True)
class Parts:
    """What a spec stands for, built."""

    task: Task
    clients: FederatedData
    algorithm: Algorithm
    test: Examples | None


def as_examples(test: TestData) -> Examples | None:
    """Test data in the one form that engines take."""
    if isinstance(test, Examples) or test is None:
        return test
    pair: object = test  # code that is not typed passes anything
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidSetting(f"test={_kind(test)}: must be a pair of arrays (test=(x_test, y_test)), examples, or None")
    return from_arrays(*pair)


def refuse_wrong_kinds(task: object, clients: object, algorithm: object) -> None:
    """Refuse what is no task, no clients or no algorithm at all, as code that is not typed may pass."""
    if not isinstance(task, Task):
        raise InvalidSetting(f"task={_kind(task)}: must be a stayput.Task (a named one is in stayput.tasks.catalogue)")
    if not isinstance(clients, FederatedData):
        raise InvalidSetting(
            f"clients={_kind(clients)}: must be clients with their examples (spread examples with "
            f".partition(stayput.partitions.Iid(num_clients=100)), or see stayput.data.from_clients)"
        )
    if isinstance(algorithm, str) or not callable(getattr(algorithm, "algorithm", None)):
        raise InvalidSetting(f"algorithm={_kind(algorithm)}: must be an algorithm's settings, such as stayput.FedAvg()")


def _kind(value: object) -> str:
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def custom_spec(
    task: Task,
    algorithm: AlgorithmSettings,
    *,
    engine: str,
    device: str,
    **settings: Any,  # noqa: ANN401 - the other fields of a spec, as the caller has them
) -> RunSpec:
    """The spec of a run that Python code starts with a task and data of its own."""
    return RunSpec(
        task=task.name,
        partition={"name": CUSTOM},
        algorithm=to_plain(algorithm),
        engine=chosen_engine(engine, task, device),
        device=device,
        metrics={metric.name: metric.higher_is_better for metric in task.metrics},
        **settings,
    )


def prepared(spec: RunSpec, parts: Parts) -> tuple[Parts, TrainingEngine]:
    """The parts as they will be used, and an engine for them; whatever does not fit is refused."""
    refuse_impossible(spec, parts.algorithm)
    if spec.target is not None and parts.test is None:
        raise InvalidSetting(f"target={spec.target}: needs test examples to be measured on (pass test=(x, y))")
    if parts.algorithm.pools_clients:
        parts = replace(parts, clients=parts.clients.pooled())
    refuse_misfit(parts.task, parts.clients, parts.test)
    use_precision(spec.precision)
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    engine_class = ENGINES[spec.engine]
    return parts, engine_class(parts.task, parts.clients, test=parts.test, device=usable_device(spec.device))


def opened(
    spec: RunSpec,
    parts: Parts,
    engine: TrainingEngine,
    *,
    folder: Path | None,
    resume: bool,
    on_round: OnRound | None,
    on_note: OnNote,
    stack: ExitStack,
    name: str | None = None,
) -> RunInProgress:
    """The run at its beginning, or where its folder says that it is; `stack` holds the folder's lock.

    `name` is what trackers call it, if not by its folder's name.
    """
    writer: RunWriter | None = None
    progress: Progress | None = None
    facts: dict[str, Any] = {"num_clients": parts.clients.num_clients, "num_examples": parts.clients.num_examples}
    if folder is not None:
        environment = _environment(spec, parts)
        if resume and (folder / "spec.json").is_file():
            writer, checkpoint, history, notes = RunWriter.reopen(folder, spec, environment)
            stack.enter_context(writer)
            for note in notes:
                on_note(note)
            if checkpoint is not None:
                progress = Progress(to_device(checkpoint.state, usable_device(spec.device)), history)
        else:
            writer = stack.enter_context(RunWriter.create(folder, spec, environment, _label_counts(parts.clients)))
        facts = RunFolder(folder).environment
    run = RunInProgress(
        spec,
        parts.algorithm,
        engine,
        parts.clients,
        progress=progress,
        writer=writer,
        on_round=on_round,
        tracked=stack.enter_context(_tracked(spec, facts, folder, name, on_note)) if spec.track else None,
        environment=facts,
    )
    if run.tracked is not None:
        run.tracked.catch_up(run.progress.history)
    return run


def finished(run: RunInProgress, engine: TrainingEngine, folder: Path | None) -> Run:
    """The run that came out, its outcome written."""
    history, state, outcome = run.progress.history, run.progress.state, _outcome(run)
    if run.writer is not None:
        run.writer.finish(outcome)
    trained = TrainedModel(state, run.spec, history.reports[-1], run.environment)
    if run.tracked is not None:
        run.tracked.finish(history, outcome, trained)
    return Run(run.spec, history, engine.module_with(state), fingerprint(state), folder, trained)


def refuse_impossible(spec: RunSpec, algorithm: Algorithm) -> None:
    """Refuse what can be known to be wrong without the data, before anything is fetched or loaded."""
    usable_device(spec.device)
    refuse_trackers(spec.track)
    if spec.engine not in ENGINES:
        raise UnknownName("engine", spec.engine, ENGINES)
    if spec.precision not in PRECISIONS:
        raise UnknownName("precision", spec.precision, PRECISIONS)
    only = algorithm.only_rounds
    if only is not None and spec.rounds > only:
        raise InvalidSetting(
            f"rounds={spec.rounds}: {algorithm.name} is {only} round by definition (set rounds={only}, or use "
            f"fed_avg to communicate more often)"
        )


def usable_device(name: str) -> torch.device:
    """The device of that name, or an error that says why it cannot be used."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InvalidSetting(f"device={name!r}: must be a device torch knows, such as cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidSetting(f"device={name!r}: torch finds no CUDA device here (use cpu; `stayput doctor` says more)")
    if device.type not in ("cpu", "cuda"):
        raise InvalidSetting(f"device={name!r}: must be cpu or cuda (sums are taken in float64, which others lack)")
    return device


def _tracked(
    spec: RunSpec, facts: Mapping[str, Any], folder: Path | None, name: str | None, on_note: OnNote
) -> TrackedRun:
    run_id = str(facts.get("run_id") or secrets.token_hex(8))  # a name, not a choice of the run
    name = name or (spec.task if folder is None else folder.resolve().name)
    settings = {key: value for key, value in spec.to_json().items() if key not in ("track", "spec_version")}
    counts = {key: facts[key] for key in ("num_clients", "num_examples")}
    return TrackedRun(spec.track, RunFacts(run_id, name, flat({**settings, **counts}), folder), on_note)


def _environment(spec: RunSpec, parts: Parts) -> dict[str, object]:
    return {
        "versions": versions(),
        "machine": machine(spec.device),
        "threads": torch.get_num_threads(),
        "num_clients": parts.clients.num_clients,
        "num_examples": parts.clients.num_examples,
        "partition_fingerprint": parts.clients.partition_fingerprint,
    }


def _label_counts(clients: FederatedData) -> list[list[int]] | None:
    if not clients.examples.has_labels or clients.num_clients > 10_000:  # a picture of more would show nothing
        return None
    counts: list[list[int]] = clients.label_counts().tolist()
    return counts


def _last_number(values: npt.NDArray[np.float64]) -> float | None:
    """The last value, or None where there is none or it is not a finite number, which JSON cannot hold."""
    return float(values[-1]) if len(values) and np.isfinite(values[-1]) else None


def _outcome(run: RunInProgress) -> dict[str, object]:
    spec, history = run.spec, run.progress.history
    curve = history.curve(spec.metric, higher_is_better=spec.higher_is_better())
    rounds_to_target = None if spec.target is None else curve.rounds_to(spec.target)
    return {
        "rounds": history.last_round,
        "metric": spec.metric,
        "final": _last_number(curve.values),
        "best": _last_number(curve.best_so_far()),
        "target": spec.target,
        "rounds_to_target": rounds_to_target,
        "train_seconds": sum(report.seconds for report in history.reports),
        "evaluation_seconds": sum(report.evaluation_seconds for report in history.reports),
        "diverged": None if run.diverged is None else str(run.diverged),
        "model_sha256": fingerprint(run.progress.state),
        **({"simulated": dict(history.reports[-1].simulated)} if spec.fleet and history.reports else {}),
    }
