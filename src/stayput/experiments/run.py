"""What `train` returns: the outcome of a run, with the model in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from stayput.core.history import Curve, History
from stayput.exports.model_files import export_model
from stayput.exports.trained_model import TrainedModel
from stayput.report.curves import LabelledCurve, draw_curves
from stayput.runs.spec import RunSpec


@dataclass(frozen=True)
class Run:
    """A finished run."""

    spec: RunSpec
    history: History
    model: nn.Module
    """The trained model, in evaluation mode."""
    model_sha256: str
    """Fingerprint of the server's final state: equal exactly when every bit of two runs' states is."""
    folder: Path | None
    """Where it is on disk, if it is."""
    trained: TrainedModel
    """The model as exports take it, with where it comes from."""

    def curve(self, metric: str | None = None) -> Curve:
        """A metric's curve over the rounds; the task's first metric if none is named."""
        name = self.spec.metric if metric is None else metric
        return self.history.curve(name, higher_is_better=self.spec.higher_is_better(name))

    def rounds_to(self, target: float, metric: str | None = None) -> float | None:
        """The paper's measure: where the curve, made monotone, crosses the target; None where it does not."""
        return self.curve(metric).rounds_to(target)

    def export(self, to: Path | str) -> list[Path]:
        """Write the model to a new folder, or to a new .safetensors file; `load_model` reads it back."""
        return export_model(self.trained, to)

    def plot(self, path: Path | str | None = None, metric: str | None = None) -> Path:
        """Draw the curve into a file (.png or .svg) and return its path; beside the run, or in the current folder."""
        name = self.spec.metric if metric is None else metric
        if path is None:
            path = (self.folder or Path()) / f"{name}.png"
        label = f"{self.spec.task}, {self.spec.algorithm['name']}"
        return draw_curves([LabelledCurve(label, self.curve(name))], path, metric=name, target=self.spec.target)
