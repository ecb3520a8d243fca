"""`train`: federated training from the first round to the last, in memory or into a run's folder.

The loop is short because the parts are elsewhere: a round is `core.round.run_round`, local training is an engine's,
what is kept on disk is `runs.RunWriter`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from stayput.core.algorithm import Algorithm, AlgorithmSettings
from stayput.core.history import History
from stayput.core.named_settings import to_plain
from stayput.core.tensors import fingerprint, to_device
from stayput.data.columns import from_arrays
from stayput.data.federated_data import Examples, FederatedData
from stayput.engines import ENGINES
from stayput.engines.precision import PRECISIONS, use_precision
from stayput.errors import InvalidSetting, UnknownName
from stayput.experiments.fit_check import refuse_misfit
from stayput.experiments.run import Run
from stayput.experiments.run_in_progress import OnRound, Progress, RunInProgress, train_together
from stayput.runs.environment import machine, versions
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import CUSTOM, RunSpec
from stayput.tasks.task import Task


def train(
    task: Task,
    clients: FederatedData,
    algorithm: AlgorithmSettings,
    *,
    rounds: int,
    test: Examples | tuple[object, object] | None = None,
    seed: int = 0,
    target: float | None = None,
    stop_at_target: bool = False,
    evaluate_every: int = 1,
    engine: str = "sequential",
    device: str = "cpu",
    precision: str = "float32",
    folder: Path | str | None = None,
    resume: bool = False,
    checkpoint_every: int = 10,
    on_round: OnRound | None = None,
) -> Run:
    """Train a model on clients' data and return the run.

    `rounds` is the last round; training ends earlier when `stop_at_target` is set and the first metric reaches
    `target`. The model is evaluated on `test` before the first round, then every `evaluate_every` rounds and after
    the last. With a `folder`, every round is on disk as it ends, and `resume=True` goes on with the run that is
    there (or begins it) to a final model with the same bits as if nothing had happened.
    """
    spec = RunSpec(
        task=task.name,
        partition={"name": CUSTOM},
        algorithm=to_plain(algorithm),
        rounds=rounds,
        seed=seed,
        target=target,
        stop_at_target=stop_at_target,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        engine=engine,
        device=device,
        precision=precision,
        metrics={metric.name: metric.higher_is_better for metric in task.metrics},
    )
    test_examples = test if isinstance(test, Examples) or test is None else from_arrays(*test)
    parts = Parts(task, clients, algorithm.algorithm(), test_examples)
    return train_spec(spec, parts, folder=folder, resume=resume, on_round=on_round)


@dataclass(frozen=True)
class Parts:
    """What a spec stands for, built."""

    task: Task
    clients: FederatedData
    algorithm: Algorithm
    test: Examples | None


def train_spec(
    spec: RunSpec,
    parts: Parts,
    *,
    folder: Path | str | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    on_note: Callable[[str], None] = lambda note: None,  # noqa: ARG005 - says nothing unless asked to
) -> Run:
    """`train`, for a spec whose parts are built already."""
    refuse_impossible(spec, parts.algorithm)
    if spec.target is not None and parts.test is None:
        raise InvalidSetting(f"target={spec.target}: needs test examples to be measured on (pass test=(x, y))")
    if parts.algorithm.pools_clients:
        parts = replace(parts, clients=parts.clients.pooled())
    refuse_misfit(parts.task, parts.clients, parts.test)
    device = _device(spec.device)
    use_precision(spec.precision)
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    engine = ENGINES[spec.engine](parts.task, parts.clients, test=parts.test, device=device)

    with ExitStack() as stack:
        writer: RunWriter | None = None
        checkpoint, history = None, History()
        if folder is not None:
            environment = _environment(spec, parts)
            if resume and (Path(folder) / "spec.json").is_file():
                writer, checkpoint, history, notes = RunWriter.reopen(folder, spec, environment)
                for note in notes:
                    on_note(note)
            else:
                writer = RunWriter.create(folder, spec, environment, _label_counts(parts.clients))
            stack.enter_context(writer)
        progress = None if checkpoint is None else Progress(to_device(checkpoint.state, device), history)
        run = RunInProgress(
            spec,
            parts.algorithm,
            engine,
            parts.clients.num_clients,
            progress=progress,
            writer=writer,
            on_round=on_round,
        )
        train_together(engine, [run])
        if writer is not None:
            writer.finish(outcome(spec, run.progress))
        progress = run.progress
    model = engine.module_with(progress.state)
    return Run(spec, progress.history, model, fingerprint(progress.state), None if folder is None else Path(folder))


def refuse_impossible(spec: RunSpec, algorithm: Algorithm) -> None:
    """Refuse what can be known to be wrong without the data, before anything is fetched or loaded."""
    _device(spec.device)
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


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InvalidSetting(f"device={name!r}: must be a device torch knows, such as cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidSetting(f"device={name!r}: torch finds no CUDA device here (use cpu; `stayput doctor` says more)")
    if device.type not in ("cpu", "cuda"):
        raise InvalidSetting(f"device={name!r}: must be cpu or cuda (sums are taken in float64, which others lack)")
    return device


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


def outcome(spec: RunSpec, progress: Progress) -> dict[str, object]:
    """How a run ended, for its folder."""
    history = progress.history
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
        "model_sha256": fingerprint(progress.state),
    }
