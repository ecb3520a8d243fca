"""A trained model and where it comes from: what an export holds, and what its card and its config say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from stayput._version import __version__
from stayput.core.history import RoundReport
from stayput.core.tensors import BUFFERS, WEIGHTS, Groups, fingerprint
from stayput.errors import RunFolderError
from stayput.runs.run_folder import RunFolder
from stayput.runs.spec import CUSTOM, RunSpec
from stayput.tasks.catalogue import NAMED_TASKS

FORMAT = "stayput-model"
FORMAT_VERSION = 1
"""Raised when a field changes its meaning; a model of a higher version is refused."""

NO_PRIVACY = {"clipping": None, "noise": None, "secure_summation": None, "epsilon": None}
"""The privacy settings of a run that has none."""


@dataclass(frozen=True)
class TrainedModel:
    """The model after one round of a run."""

    state: Groups
    """The server's state; of its groups, weights and buffers are the model."""
    spec: RunSpec
    report: RoundReport
    """Of the round that the model is from."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """What the run was computed with, as in environment.json."""

    @classmethod
    def of_run(cls, folder: RunFolder, *, best: bool = False) -> tuple[TrainedModel, list[str]]:
        """A run's last model, or the one with the best evaluation; and what to tell the user."""
        damaged: list[str] = []
        if best:
            checkpoint = folder.best_checkpoint()
        else:
            checkpoint, errors = folder.latest_checkpoint()
            damaged = [f"{error}; the one before it is used" for error in errors]
        if checkpoint is None:
            which = "best checkpoint (it was not evaluated)" if best else "sound checkpoint"
            raise RunFolderError(
                f"{folder.path}: has no {which}, so there is no model to export (go on with `stayput resume "
                f"{folder.path}`, then export again)"
            )
        reports = {report.round_number: report for report in folder.history().reports}
        report = reports.get(checkpoint.round_number, RoundReport(checkpoint.round_number))
        return cls(checkpoint.state, folder.spec, report, folder.environment), damaged

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Weights and buffers under the names that the module gives them."""
        return {**self.state[WEIGHTS], **self.state.get(BUFFERS, {})}

    @property
    def num_parameters(self) -> int:
        """Trainable numbers."""
        return sum(tensor.numel() for tensor in self.state[WEIGHTS].values())

    @property
    def data_set(self) -> str:
        """The data set's name, or "custom" where the user brought it."""
        named = NAMED_TASKS.get(self.spec.task)
        return CUSTOM if named is None or self.spec.partition["name"] == CUSTOM else named.data_set

    @property
    def architecture(self) -> str | None:
        """The name of the module's class, where the task is a named one."""
        named = NAMED_TASKS.get(self.spec.task)
        return None if named is None else getattr(named.task.model, "__name__", None)

    def config(self) -> dict[str, Any]:
        """All there is to know about it, as JSON-ready data."""
        dtypes = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in self.state[WEIGHTS].values()})
        return {
            "model_type": "stayput",
            **({} if self.architecture is None else {"architectures": [self.architecture]}),
            "torch_dtype": dtypes[0] if len(dtypes) == 1 else dtypes,
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "stayput_version": __version__,
            "task": self.spec.task,
            "num_parameters": self.num_parameters,
            "round": self.report.round_number,
            "evaluation": dict(self.report.evaluation),
            "data": {
                "name": self.data_set,
                **{
                    name: self.environment[name] for name in ("num_clients", "num_examples") if name in self.environment
                },
            },
            "privacy": NO_PRIVACY,
            "spec": self.spec.to_json(),
            "run_id": self.environment.get("run_id"),
            "sha256": sha256_of(self.tensors),
        }


def sha256_of(tensors: Mapping[str, Tensor]) -> str:
    """Over names, dtypes, shapes and bytes."""
    return fingerprint({"model": tensors})


def exists_already(path: Path) -> bool:
    """Whether something is there that an export would write over."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))
