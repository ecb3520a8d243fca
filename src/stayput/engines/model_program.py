"""A task's model as functions over named tensors, on one device: initialise, gradient, evaluate.

Engines that train one client at a time run it as it is. The weights of the client being trained are put into the
module itself, so that its layers run exactly as torch runs them, BatchNorm and dropout included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from stayput.core.seeds import Indices, Purpose, torch_stream
from stayput.core.tensor_streams import Draws, ExampleStreams, tensor_key
from stayput.core.tensors import BUFFERS, WEIGHTS, Groups, Tensors
from stayput.engines.masks import CountedDropout, MaskStream, exchange_dropout, stream_name
from stayput.engines.placed_examples import PlacedExamples
from stayput.engines.precision import autocast
from stayput.tasks.task import LOSS_NAME, Task

EVALUATION_ROWS = 1000
"""Examples in one forward pass of an evaluation."""


class ModelProgram:
    """One module, and what an engine does with it."""

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task, self.device = task, device
        self.masks = MaskStream(1, device)
        self.module = exchange_dropout(self._fresh_module(seed=0), self.masks).to(device)
        self._parameters = dict(self.module.named_parameters())
        self._buffers = dict(self.module.named_buffers())
        self._drops = any(isinstance(layer, CountedDropout) for layer in self.module.modules())
        self._filters: frozenset[str] = frozenset()
        self.begin_client(seed=0, round_number=0, client=0)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the model's weights."""
        return next((p.dtype for p in self._parameters.values()), torch.get_default_dtype())

    def initial_model(self, seed: int) -> Groups:
        """w_0: a fresh model, its initialisers running on the seed's own stream (on the CPU, for every device)."""
        fresh = self._fresh_module(seed)
        model = {WEIGHTS: {name: p.detach().to(self.device) for name, p in fresh.named_parameters()}}
        if self._buffers:
            model[BUFFERS] = {name: buffer.detach().to(self.device) for name, buffer in fresh.named_buffers()}
        return model

    def lay_out_filters(self, data: PlacedExamples) -> None:
        """On a CPU, run convolutions channels last where the model lets them: pooling then takes a tenth of the time.

        A model that cannot, because it calls `view` on what comes out of a convolution, is left as it is.
        """
        if self.device.type != "cpu":
            return
        filters = frozenset(
            f"{name}.weight" if name else "weight"
            for name, layer in self.module.named_modules()
            if type(layer) is nn.Conv2d
        )
        weights, buffers = {name: p.data for name, p in self._parameters.items()}, self.buffers()
        self._filters = filters & self._parameters.keys()
        self.module.train()
        try:
            self._set_weights(weights)
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                self.module(data.batch(slice(0, 2))[0])
        except Exception:  # noqa: BLE001 - if it is another error it comes again, where it can be said of which round
            self._filters = frozenset()
            self._set_weights(weights)
        for name, buffer in buffers.items():
            self._buffers[name].copy_(buffer)

    def load(self, model: Groups, *, training: bool) -> None:
        """Put a model into the module; buffers are copied, since a forward pass in training changes them."""
        self.module.train(training)
        self._set_weights(model[WEIGHTS])
        for name, buffer in model.get(BUFFERS, {}).items():
            self._buffers[name].copy_(buffer)

    def begin_client(self, seed: int, round_number: int, client: int, *, first_gradient: int = 0) -> None:
        """Name the dropout masks of the gradients to come."""
        if self._drops:
            name = torch.tensor([stream_name(seed, round_number, client)], device=self.device)
            self._mask_names = name, torch.tensor([first_gradient], device=self.device)

    def buffers(self) -> dict[str, Tensor]:
        """A copy of the module's buffers as they are now."""
        return {name: buffer.detach().clone() for name, buffer in self._buffers.items()}

    def loss_and_gradient(self, weights: Tensors, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensors]:
        """The mean loss over a minibatch and its gradient, in tensors that the caller owns.

        `backward` rather than `autograd.grad`: it copies gradients that share memory with anything else, so that
        what comes back may be written over (`core.tensors.descend` does).
        """
        self._set_weights(weights)
        if self._drops:
            self.masks.begin_forward(*self._mask_names)
        with autocast(self.device):
            output = self.module(inputs)
        loss = self.task.mean_loss(self._exact(output), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = {}
        for name, parameter in self._parameters.items():
            gradient, parameter.grad = parameter.grad, None
            # A weight that the loss does not depend on has a zero gradient, rather than none.
            gradients[name] = torch.zeros_like(parameter) if gradient is None else gradient
        if self._drops:
            self._mask_names[1].add_(1)
        return loss.detach(), gradients

    def predict(self, inputs: Tensor) -> Any:  # noqa: ANN401 - a tensor, once the fit check has passed
        """The output of the module as it stands, in evaluation mode."""
        return self.module.eval()(inputs)

    def evaluate(self, model: Groups, examples: PlacedExamples) -> Mapping[str, float]:
        """The mean loss and metrics over all examples."""
        self.load(model, training=False)
        measures = {LOSS_NAME: self.task.loss, **{metric.name: metric.per_example for metric in self.task.metrics}}
        sums, total_weight = dict.fromkeys(measures, 0.0), 0.0
        with torch.no_grad():
            for first in range(0, len(examples), EVALUATION_ROWS):
                inputs, targets = examples.batch(slice(first, first + EVALUATION_ROWS))
                output, weights = self.module(inputs), self.task.weights(targets)
                total_weight += len(targets) if weights is None else weights.double().sum().item()
                for name, measure in measures.items():
                    values = measure(output, targets).double()
                    sums[name] += (values if weights is None else values * weights).sum().item()
        return {name: total / total_weight for name, total in sums.items()}

    def module_with(self, model: Groups) -> nn.Module:
        """A module of its own that holds a model, in evaluation mode."""
        module = self._fresh_module(seed=0).to(self.device)
        state = {**model[WEIGHTS], **model.get(BUFFERS, {})}
        with torch.no_grad():
            for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
                tensor.copy_(state[name])
        return module.eval()

    def _fresh_module(self, seed: int) -> nn.Module:
        with torch_stream(seed, Purpose.INITIAL_WEIGHTS):  # the caller's own generators stay as they are
            return self.task.model()

    def _exact(self, output: Tensor) -> Tensor:
        """The output in the model's own dtype, if products were rounded: losses are not."""
        return output.to(self.dtype) if output.is_floating_point() else output

    def _set_weights(self, weights: Tensors) -> None:
        for name, parameter in self._parameters.items():
            # `.data` swaps the storage without a copy and without a trace in autograd; nobody writes into it.
            parameter.data = channels_last(weights[name]) if name in self._filters else weights[name]


def channels_last(filters: Tensor) -> Tensor:
    """A convolution's filters with channels last in memory, and its strides saying so.

    Filters of one channel look the same either way, and torch then goes by the strides.
    """
    _, channels, height, width = filters.shape
    strides = (channels * height * width, 1, channels * width, channels)
    if filters.stride() == strides:
        return filters
    if channels == 1:
        return filters.contiguous().as_strided(filters.shape, strides)
    return filters.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True, slots=True)
class AugmentationStreams:
    """The draws that augment the minibatches of a pass: a stream for each (seed, round, step of the client, row)."""

    seed: int
    round_number: int
    first_step: int
    """The step that the pass begins with."""

    def draws(self, rows: Tensor, steps: Tensor) -> Draws:
        """Draws for examples, each with the step since the beginning of the pass that trains on it."""
        key = tensor_key(self.seed, Purpose.AUGMENTATION)
        return ExampleStreams(key, (rows, steps + self.first_step, self.round_number))


def minibatches(
    data: PlacedExamples,
    rows: Indices,
    order: Indices,
    length: int,
    *,
    streams: AugmentationStreams | None = None,
    window_rows: int = 4096,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Cut a pass into minibatches, augmented where the task says so and `streams` are given.

    Rows are gathered and prepared a window at a time, many minibatches at once, which costs fewer and larger
    operations than one gather per step and never holds more than a window of any client.
    """
    window = max(length, window_rows // length * length)
    for first in range(0, len(order), window):
        chosen = torch.from_numpy(rows[order[first : first + window]])
        draws = None
        if streams is not None and data.augmented:
            placed = chosen.to(data.device)
            draws = streams.draws(placed, torch.arange(first, first + len(chosen), device=data.device) // length)
        inputs, targets = data.batch(chosen, draws)
        for begin in range(0, len(inputs), length):
            yield inputs[begin : begin + length], targets[begin : begin + length]
