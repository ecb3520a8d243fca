"""Whether model, loss, metrics and data fit together, before a run trains for an hour to find out.

Runs the model on two examples, and looks at every label where the loss is `cross_entropy`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stayput.data.federated_data import Examples, FederatedData
from stayput.engines.model_program import ModelProgram
from stayput.engines.placed_examples import PlacedExamples
from stayput.errors import LabelOutOfRange, ModelMisfit
from stayput.tasks.losses import cross_entropy
from stayput.tasks.task import Task


def refuse_misfit(task: Task, clients: FederatedData, test: Examples | None) -> None:
    """Raise `ModelMisfit` or `LabelOutOfRange`, with what does not fit, or return."""
    _check(task, clients.examples, "the clients' examples", clients)
    if test is not None:
        _check(task, test, "the test examples", None)


def _check(task: Task, examples: Examples, whose: str, clients: FederatedData | None) -> None:
    program = ModelProgram(task, torch.device("cpu"))
    few = Examples(examples.inputs[:2], examples.targets[:2])
    placed = PlacedExamples(few, task, torch.device("cpu"), program.dtype)
    stored = f"{whose} (rows of shape {few.inputs.shape[1:]}, {few.inputs.dtype})"
    inputs, targets = _called("`prepare` of the task", stored, lambda: placed.batch(slice(None)))
    what = f"{whose} (a batch of {_shape_of(inputs)})"
    output = _called(f"the model {type(program.module).__name__}", what, lambda: program.predict(inputs))
    if not isinstance(output, Tensor) or output.dim() == 0 or len(output) != len(inputs):
        found = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise ModelMisfit(
            f"the model's output for {what} is {found}: must be one tensor with a row for each example, "
            f"[{len(inputs)}, ...]"
        )
    if task.loss is cross_entropy:
        _refuse_labels_out_of_range(examples, whose, num_outputs=output.shape[1] if output.dim() > 1 else 1, of=clients)
    _refuse_unless_per_example("the loss", what, lambda: task.loss(output, targets), len(inputs))
    for metric in task.metrics:
        measure = f"the metric {metric.name!r}"
        _refuse_unless_per_example(measure, what, lambda m=metric: m.per_example(output, targets), len(inputs))  # type: ignore[misc]


def _refuse_unless_per_example(name: str, what: str, call: Callable[[], Any], num_examples: int) -> None:
    values = _called(name, what, call)
    if not isinstance(values, Tensor) or values.shape != (num_examples,):
        found = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
        raise ModelMisfit(
            f"{name} gave {found} for {num_examples} examples: must be one value per example, ({num_examples},) "
            f"(in torch's own losses, reduction='none')"
        )


def _refuse_labels_out_of_range(examples: Examples, whose: str, *, num_outputs: int, of: FederatedData | None) -> None:
    targets = np.asarray(examples.targets)
    if not np.issubdtype(targets.dtype, np.integer):
        return  # class probabilities: cross_entropy takes those too
    least, most = examples.target_range or (-1, num_outputs)
    if least >= 0 and most < num_outputs:
        return  # known since they were stored, and there may be millions of them
    wrong = np.flatnonzero((targets < 0) | (targets >= num_outputs))
    if not wrong.size:
        return
    row = int(wrong[0]) if targets.ndim == 1 else int(np.unravel_index(wrong[0], targets.shape)[0])
    holder = "" if of is None else f", held by client {_holder(of, row)}"
    raise LabelOutOfRange(
        f"label {targets.reshape(-1)[wrong[0]]} (row {row} of {whose}{holder}): must be in 0..{num_outputs - 1}, since "
        f"the model has {num_outputs} outputs ({wrong.size} such labels; give the model more outputs or renumber them)"
    )


def _holder(clients: FederatedData, row: int) -> str:
    order = clients.assignment.order
    position = row if order is None else int(np.flatnonzero(order == row)[0])
    client = int(np.searchsorted(clients.assignment.offsets, position, side="right")) - 1
    return clients.assignment.client_name(client)


def _called(name: str, what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what a user's function returns
    try:
        with torch.no_grad():
            return call()
    except Exception as error:
        sentence = " ".join(str(error).split())
        raise ModelMisfit(
            f"{name} fails on {what}: {type(error).__name__}: {sentence} (model, loss and data must fit together; "
            f"`prepare` of the task can change inputs on their way to the model)"
        ) from error


def _shape_of(inputs: Tensor) -> str:
    return f"shape {tuple(inputs.shape)}, {str(inputs.dtype).removeprefix('torch.')}"
