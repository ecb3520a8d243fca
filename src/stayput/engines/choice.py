"""`engine="auto"`: which engine is the fastest for a task on a device, by what benchmarks/lanes.py measured.

On CUDA that is `lanes`, by far, wherever the model folds. On a CPU, lanes turn many small matrix products into fewer
larger ones, which pays for linear layers; a convolution's gathered windows cost more there than torch's own
convolutions save, so those models train one client after another. What lanes cannot fold falls to `sequential`.
"""

from __future__ import annotations

from torch import nn

from stayput.core.seeds import Purpose, torch_stream
from stayput.engines.lanes.choosing import is_folded
from stayput.tasks.task import Task

AUTO = "auto"


def chosen_engine(name: str, task: Task, device: str) -> str:
    """The engine itself, where "auto" was asked for."""
    if name != AUTO:
        return name
    with torch_stream(0, Purpose.INITIAL_WEIGHTS):
        module = task.model()
    if not is_folded(module):
        return "sequential"
    convolves = any(isinstance(layer, nn.Conv2d) for layer in module.modules())
    return "sequential" if convolves and not device.startswith("cuda") else "lanes"
