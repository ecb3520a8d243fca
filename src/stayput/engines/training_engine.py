"""What every engine of the simulator is: the round's protocol, and a way to make it and to get a model out."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from stayput.core.engine import Engine
from stayput.core.tensors import Groups
from stayput.data.federated_data import Examples, FederatedData
from stayput.tasks.task import Task


class TrainingEngine(Engine, Protocol):
    """An engine for one task and one population."""

    def module_with(self, model: Groups) -> nn.Module:
        """A module of its own that holds a model, in evaluation mode."""
        ...


class EngineFactory(Protocol):
    """How an engine is made: usually its class."""

    def __call__(
        self, task: Task, clients: FederatedData, *, test: Examples | None = None, device: torch.device
    ) -> TrainingEngine:
        """An engine for this task and population."""
        ...
