"""One local step of all lanes: gather minibatches, forward, backward with the step of SGD in it.

Everything a step reads or writes is at a fixed place in memory, so that on CUDA it is captured once per width in a
CUDA graph and replayed with a single launch; elsewhere it runs as it is written. The schedule's rows are on the
device; a counter there says which step it is.

Shape suffixes: S step of a window, L lane, B example of a minibatch, N = L*B, J client, 4 words of a stream's name.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from stayput.core.tensor_streams import ExampleStreams
from stayput.engines.lanes.folding import FoldedModule
from stayput.engines.lanes.layers import Descent, lane_layout
from stayput.engines.model_program import PlacedExamples
from stayput.tasks.task import Task

WINDOW_ENTRIES = 2**24
"""Rows of the schedule that are on the device at a time, over all steps and lanes of a window."""


class Lanes:
    """Stacked models, and the step that advances them."""

    def __init__(
        self,
        task: Task,
        folded: FoldedModule,
        data: PlacedExamples,
        like: Mapping[str, Tensor],
        *,
        capacity: int,
        batch_length: int,
    ) -> None:
        device = next(iter(like.values())).device
        self._task, self._folded, self._data, self._device = task, folded, data, device
        self.capacity, self.batch_length = capacity, batch_length
        self.window_steps = max(1, WINDOW_ENTRIES // (capacity * batch_length))
        self.weights = {
            name: lane_layout(torch.zeros(capacity, *tensor.shape, dtype=tensor.dtype, device=device))
            for name, tensor in like.items()
        }
        dtype = next(iter(like.values())).dtype
        self.rate_L = torch.zeros(capacity, dtype=dtype, device=device)
        self.loss_sum_L = torch.zeros(capacity, dtype=dtype, device=device)
        self._name_4L = torch.zeros(4, capacity, dtype=torch.int64, device=device)
        self._spark = torch.zeros((), dtype=dtype, device=device, requires_grad=True)
        self._rows_SLB = torch.zeros(0, capacity, batch_length, dtype=torch.int32, device=device)
        self._count_SL = torch.zeros(0, capacity, dtype=torch.int32, device=device)
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._position_B = torch.arange(batch_length, device=device)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def open_window(self, rows_SLB: npt.NDArray[np.int32], count_SL: npt.NDArray[np.int32]) -> None:
        """Put a window of the schedule on the device: the next step is its first."""
        steps = len(rows_SLB)
        if steps > len(self._rows_SLB):  # rare: graphs know the old place, so they are captured anew
            self._rows_SLB = torch.zeros(
                steps, self.capacity, self.batch_length, dtype=torch.int32, device=self._device
            )
            self._count_SL = torch.zeros(steps, self.capacity, dtype=torch.int32, device=self._device)
            self._graphs.clear()
        self._rows_SLB[:steps].copy_(torch.from_numpy(rows_SLB))
        self._count_SL[:steps].copy_(torch.from_numpy(count_SL))
        self._step.zero_()

    def load(self, lanes: Tensor, sent: Mapping[str, Tensor], members: Tensor, rates: Tensor, names_4J: Tensor) -> None:
        """Begin clients: lanes take the model that their member of `sent` ([member, ...]) was sent.

        `names_4J` names each client's streams of augmentation: two words of key, step 0, round.
        """
        for name, weight in self.weights.items():
            weight.index_copy_(0, lanes, sent[name].index_select(0, members))
        self.rate_L.index_copy_(0, lanes, rates)
        self.loss_sum_L.index_fill_(0, lanes, 0)
        self._name_4L.index_copy_(1, lanes, names_4J)

    def advance(self, width: int, steps: int) -> None:
        """Take steps on the first `width` lanes."""
        if self._device.type != "cuda":
            for _ in range(steps):
                self._take_step(width)
            return
        if width not in self._graphs:
            self._graphs[width] = self._captured(width)
        for _ in range(steps):
            self._graphs[width].replay()

    def _take_step(self, width: int) -> None:
        rows_LB = self._rows_SLB[:, :width].index_select(0, self._step)[0]
        count_L = self._count_SL[:, :width].index_select(0, self._step)[0]
        inputs, targets = self._data.batch(rows_LB.reshape(-1), self._draws(rows_LB, width))
        weights = {name: weight[:width] for name, weight in self.weights.items()}
        model = self._folded.bind(weights, Descent(self.rate_L[:width], self._spark))
        losses_LB = self._task.loss(model(inputs), targets).reshape(width, self.batch_length)
        # A smaller last minibatch is padded; what is padding counts nothing, in the loss and so in the gradient.
        used_LB = (self._position_B < count_L[:, None]).to(losses_LB.dtype)
        weight_N = self._task.weights(targets)
        if weight_N is None:
            loss_L = (losses_LB * used_LB / count_L.clamp(min=1)[:, None]).sum(dim=1)
        else:
            used_LB = used_LB * weight_N.reshape(width, self.batch_length)
            loss_L = (losses_LB * used_LB / used_LB.sum(dim=1).clamp(min=1)[:, None]).sum(dim=1)
        loss_L.sum().backward()  # type: ignore[no-untyped-call]
        self._spark.grad = None
        self.loss_sum_L[:width] += loss_L.detach()
        self._step += 1
        self._name_4L[2, :width] += 1

    def _draws(self, rows_LB: Tensor, width: int) -> ExampleStreams | None:
        """The streams of (seed, round, step of the client, row) that augment a minibatch, if the task does."""
        if not self._data.augmented:
            return None
        each = (word_L[:width].repeat_interleave(self.batch_length) for word_L in self._name_4L)
        key0, key1, steps, rounds = each
        return ExampleStreams((key0, key1), (rows_LB.reshape(-1).long(), steps, rounds))

    def _captured(self, width: int) -> torch.cuda.CUDAGraph:
        """The step as a CUDA graph. Warming up and capturing must not count as steps, so their traces are undone."""
        kept = {name: weight.clone() for name, weight in self.weights.items()}
        kept_rate, kept_loss, kept_step = self.rate_L.clone(), self.loss_sum_L.clone(), self._step.clone()
        kept_name = self._name_4L.clone()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step.zero_()
                self._take_step(width)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._take_step(width)
        for name, weight in self.weights.items():
            weight.copy_(kept[name])
        self.rate_L.copy_(kept_rate)
        self.loss_sum_L.copy_(kept_loss)
        self._step.copy_(kept_step)
        self._name_4L.copy_(kept_name)
        return graph
