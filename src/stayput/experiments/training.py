"""`train`: federated training from the first round to the last, in memory or into a run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from stayput.core.algorithm import AlgorithmSettings
from stayput.data.federated_data import FederatedData
from stayput.experiments.preparing import (
    OnNote,
    Parts,
    TestData,
    as_examples,
    custom_spec,
    finished,
    opened,
    prepared,
    refuse_wrong_kinds,
    warn,
)
from stayput.experiments.run import Run
from stayput.experiments.run_in_progress import OnRound, train_together
from stayput.runs.spec import RunSpec
from stayput.tasks.task import Task


def train(
    task: Task,
    clients: FederatedData,
    algorithm: AlgorithmSettings,
    *,
    rounds: int,
    test: TestData = None,
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
    track: Sequence[str] = (),
) -> Run:
    """Train a model on clients' data and return the run.

    `rounds` is the last round; training ends earlier when `stop_at_target` is set and the first metric reaches
    `target`. The model is evaluated on `test` before the first round, then every `evaluate_every` rounds and after
    the last. With a `folder`, every round is on disk as it ends, and `resume=True` goes on with the run that is
    there (or begins it) to a final model with the same bits as if nothing had happened. `track` names trackers that
    are told of it: "tensorboard", "mlflow", "wandb".
    """
    refuse_wrong_kinds(task, clients, algorithm)
    spec = custom_spec(
        task,
        algorithm,
        rounds=rounds,
        seed=seed,
        target=target,
        stop_at_target=stop_at_target,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        engine=engine,
        device=device,
        precision=precision,
        track=track,
    )
    parts = Parts(task, clients, algorithm.algorithm(), as_examples(test))
    return train_spec(spec, parts, folder=folder, resume=resume, on_round=on_round, on_note=warn)


def train_spec(
    spec: RunSpec,
    parts: Parts,
    *,
    folder: Path | str | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    on_note: OnNote = lambda note: None,  # noqa: ARG005 - says nothing unless asked to
) -> Run:
    """`train`, for a spec whose parts are built already."""
    parts, engine = prepared(spec, parts)
    path = None if folder is None else Path(folder)
    with ExitStack() as stack:
        run = opened(spec, parts, engine, folder=path, resume=resume, on_round=on_round, on_note=on_note, stack=stack)
        train_together(engine, [run])
        return finished(run, engine, path)
