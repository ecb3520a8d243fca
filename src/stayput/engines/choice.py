"""`engine="auto"`: which engine is the fastest for a task on a device, by what benchmarks/README.md has of each.

On CUDA that is `lanes`, by far, wherever the model folds. On a CPU with several cores it is a process for each: with
lanes where a step is small, which is where nothing is a convolution; one client after another where convolutions take
the time, whose batch of ten keeps a core busy, and where lanes cannot fold the model. With one core, or where
processes cannot be forked, it is the same without them. `benchmarks/peers.py` measures all of them on a machine.
"""

from __future__ import annotations

import torch
from torch import nn

from stayput.core.seeds import Purpose, torch_stream
from stayput.engines.lanes.choosing import is_folded
from stayput.engines.workers import usable_cores, why_no_workers
from stayput.tasks.task import Task

AUTO = "auto"


def chosen_engine(name: str, task: Task, device: str) -> str:
    """The engine itself, where "auto" was asked for."""
    if name != AUTO:
        return name
    with torch_stream(0, Purpose.INITIAL_WEIGHTS):
        module = task.model()
    folds = is_folded(module)
    if device.startswith("cuda"):
        return "lanes" if folds else "sequential"
    several = usable_cores() > 1 and why_no_workers(torch.device("cpu")) is None
    if folds and not any(isinstance(layer, nn.Conv2d) for layer in module.modules()):
        return "lane_workers" if several else "lanes"
    return "workers" if several else "sequential"
