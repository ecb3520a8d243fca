from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import stayput.cli.main
from stayput.core.history import RoundReport
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import RunSpec

SPEC = RunSpec(
    task="mnist-2nn",
    partition={"name": "iid", "num_clients": 100},
    algorithm={
        "name": "fed_avg",
        "client_fraction": 0.1,
        "local_epochs": 1,
        "batch_size": 10,
        "learning_rate": 0.1,
        "learning_rate_decay": 1.0,
    },
    rounds=3,
    target=0.97,
)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, tmp_path, capsys) -> Callable[..., Ended]:
    """Runs the command line inside this process, in an empty folder, with no data set at hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STAYPUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STAYPUT_DATA", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(stayput.cli.main, "raise_on_sigterm", lambda: None)

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            stayput.cli.main.main(list(arguments))
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def make_run(tmp_path) -> Callable[..., Path]:
    """Writes a run into runs/ as training would have: accuracies from round 0 on."""

    def make(
        name: str,
        accuracies: Sequence[float],
        spec: RunSpec = SPEC,
        *,
        ended: bool = True,
        checkpoint: int | None = None,
    ) -> Path:
        path = tmp_path / "runs" / name
        environment = {
            "num_clients": 100,
            "num_examples": 60000,
            "versions": {"torch": "2"},
            "machine": {"processor": "P"},
        }
        state = {"weights": {"w": torch.zeros(1)}}
        with RunWriter.create(path, spec, environment, [[5, 5]] * 100) as writer:
            for number, accuracy in enumerate(accuracies):
                report = RoundReport(number, evaluation={"accuracy": accuracy, "loss": 1 - accuracy}, seconds=0.5)
                writer.add_report(report, state)
            last = len(accuracies) - 1
            writer.add_checkpoint(last if checkpoint is None else checkpoint, state)
            if ended:
                best = max((a for a in accuracies if not math.isnan(a)), default=None)
                writer.finish(
                    {
                        "rounds": last,
                        "metric": "accuracy",
                        "final": accuracies[-1],
                        "best": best,
                        "target": spec.target,
                        "rounds_to_target": None,
                        "train_seconds": 0.5 * last,
                        "evaluation_seconds": 0.0,
                        "model_sha256": "0" * 64,
                    }
                )
        return path

    return make


@pytest.fixture
def base_spec() -> RunSpec:
    """The spec that `make_run` writes unless told otherwise."""
    return SPEC
