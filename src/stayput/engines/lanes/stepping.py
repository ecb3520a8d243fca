"""One local step of all lanes: gather minibatches, and have the lanes' program take its step on them.

Everything a step reads or writes is at a fixed place in memory, so that on CUDA it is captured once per width in a
CUDA graph and replayed with a single launch, and on a CPU its operations are recorded and replayed (`replaying.py`)
where that gives the same. The schedule's rows are on the device; a counter there says which step it is.

Shape suffixes: S step of a window, L lane, B example of a minibatch, N = L*B, J client that begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from stayput.core.tensor_streams import ExampleStreams
from stayput.engines.lanes.objective import Minibatches, shares
from stayput.engines.lanes.programs import Facts, LaneProgram, StackedGroups
from stayput.engines.lanes.replaying import Call, Recorder, replay
from stayput.engines.placed_examples import PlacedExamples, StagedExamples, sendable
from stayput.tasks.task import Task

WINDOW_ENTRIES = 2**24
"""Rows of the schedule that are on the device at a time, over all steps and lanes of a window."""

STAGED_BYTES = 2**30
"""Memory for the examples of a window, where not all examples are on the device."""


class Names(NamedTuple):
    """What names the random choices of clients."""

    augmentation_J4: Tensor
    """Two words of key, step 0, round."""
    masks_J4: Tensor
    """`masks.stream_name`."""


class Lanes:
    """The lanes of one program, and the step that advances them."""

    def __init__(
        self, task: Task, data: PlacedExamples, program: LaneProgram, dtype: torch.dtype, *, capacity: int,
        batch_length: int,
    ) -> None:  # fmt: skip
        self._task, self._data, self.program, self.device, self._dtype = task, data, program, data.device, dtype
        self.capacity, self.batch_length = capacity, batch_length
        entries = WINDOW_ENTRIES if data.resident else min(WINDOW_ENTRIES, STAGED_BYTES // data.row_bytes)
        self.window_steps = max(1, entries // (capacity * batch_length))
        self._staged: StagedExamples | None = None
        if not data.resident:
            self._staged = data.staged(self.window_steps * capacity * batch_length)
        self._loss_sum_L = torch.zeros(capacity, dtype=dtype, device=self.device)
        self._gradients_L = torch.zeros(capacity, dtype=torch.int64, device=self.device)
        self._augmentation_4L = torch.zeros(4, capacity, dtype=torch.int64, device=self.device)
        self._mask_name_L4 = torch.zeros(capacity, 4, dtype=torch.int64, device=self.device)
        self._step = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._make_room(0)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._recordings: dict[int, Sequence[Call]] = {}
        self._unverified: dict[int, Sequence[Call]] = {}
        self._records = program.repeats and self._staged is None and self.device.type != "cuda"

    def open_window(self, rows_SLB: npt.NDArray[np.int32], count_SL: npt.NDArray[np.int32]) -> None:
        """Put a window of the schedule on the device: the next step is its first."""
        steps = len(rows_SLB)
        if steps > len(self._rows_SLB):  # rare: graphs know the old place, so they are captured anew
            self._make_room(steps)
            self._graphs.clear()
            self._recordings.clear()
            self._unverified.clear()
        self._send(rows_SLB, self._rows_SLB)
        self._send(count_SL, self._count_SL)
        if self._staged is not None:
            self._send(self._staged.take(rows_SLB), self._places_SLB)
        self._step.zero_()

    def begin(self, lanes_J: Tensor, given: StackedGroups, facts_J: Facts, names: Names) -> None:
        """Clients begin in these lanes."""
        self.program.begin(lanes_J, given, facts_J)
        self._loss_sum_L.index_fill_(0, lanes_J, 0)
        self._gradients_L.index_fill_(0, lanes_J, self.program.first_gradient)
        self._augmentation_4L.index_copy_(1, lanes_J, names.augmentation_J4.T)
        self._mask_name_L4.index_copy_(0, lanes_J, names.masks_J4)

    def mean_losses(self, lanes_J: Tensor) -> Tensor:
        """The mean over the gradients of each client."""
        return self._loss_sum_L.index_select(0, lanes_J) / self._gradients_L.index_select(0, lanes_J)

    def advance(self, width: int, steps: int) -> None:
        """Take steps on the first `width` lanes."""
        if self.device.type != "cuda":
            for _ in range(steps):
                self._take_step_on_cpu(width)
            return
        if width not in self._graphs:
            self._graphs[width] = self._captured(width)
        for _ in range(steps):
            self._graphs[width].replay()

    def _take_step_on_cpu(self, width: int) -> None:
        """As it is written, recorded; as it is written, which the recording must foretell; then from the recording."""
        if width in self._recordings:
            replay(self._recordings[width])
        elif not self._records:
            self._take_step(width)
        elif width in self._unverified:
            self._verify(width)
        else:
            with Recorder() as recorder:
                self._take_step(width)
            calls = recorder.calls()
            self._records = calls is not None
            if calls is not None:
                self._unverified[width] = calls

    def _verify(self, width: int) -> None:
        changed, calls = self._changed(), self._unverified.pop(width)
        before = [tensor.clone() for tensor in changed]
        replay(calls)
        foretold = [tensor.clone() for tensor in changed]
        for tensor, was in zip(changed, before, strict=True):
            tensor.copy_(was)
        self._take_step(width)
        if all(_same(tensor, other) for tensor, other in zip(changed, foretold, strict=True)):
            self._recordings[width] = calls
        else:  # it does something that is not torch's operations: let it, every time
            self._records = False
            self._recordings.clear()

    def _changed(self) -> list[Tensor]:
        """What a step changes."""
        return [*self.program.tensors(), self._loss_sum_L, self._gradients_L, self._step, self._augmentation_4L]

    def _make_room(self, steps: int) -> None:
        shape = (steps, self.capacity, self.batch_length)
        self._rows_SLB = torch.zeros(shape, dtype=torch.int32, device=self.device)
        self._count_SL = torch.zeros(shape[:2], dtype=torch.int32, device=self.device)
        if self._staged is not None:
            self._places_SLB = torch.zeros_like(self._rows_SLB)

    def _send(self, array: npt.NDArray[np.int32], there: Tensor) -> None:
        there[: len(array)].copy_(sendable(torch.from_numpy(array), self.device), non_blocking=True)

    def _take_step(self, width: int) -> None:
        loss_L, gradients = self.program.step(width, self._minibatches(width))
        self._loss_sum_L[:width] += loss_L
        self._gradients_L[:width] += gradients
        self._step += 1
        self._augmentation_4L[2, :width] += 1

    def _minibatches(self, width: int) -> Minibatches:
        rows_LB = self._rows_SLB[:, :width].index_select(0, self._step)[0]
        count_L = self._count_SL[:, :width].index_select(0, self._step)[0]
        draws = self._draws(rows_LB, width)
        if self._staged is None:
            inputs, targets = self._data.batch(rows_LB.reshape(-1), draws)
        else:
            places_LB = self._places_SLB[:, :width].index_select(0, self._step)[0]
            inputs, targets = self._staged.batch(places_LB.reshape(-1), draws)
        share_LB = shares(self._task, targets, count_L, self.batch_length, self._dtype)
        return Minibatches(inputs, targets, count_L, share_LB, self._mask_name_L4[:width], self._gradients_L[:width])

    def _draws(self, rows_LB: Tensor, width: int) -> ExampleStreams | None:
        """The streams of (seed, round, step of the client, row) that augment a minibatch, if the task does."""
        if not self._data.augmented or not self.program.augments:
            return None
        each = (word_L[:width].repeat_interleave(self.batch_length) for word_L in self._augmentation_4L)
        key0, key1, steps, rounds = each
        return ExampleStreams((key0, key1), (rows_LB.reshape(-1).long(), steps, rounds))

    def _captured(self, width: int) -> torch.cuda.CUDAGraph:
        """The step as a CUDA graph. Warming up and capturing must not count as steps, so their traces are undone."""
        changed = self._changed()
        kept = [tensor.clone() for tensor in changed]
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
        for tensor, before in zip(changed, kept, strict=True):
            tensor.copy_(before)
        return graph


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, and what is none at the same places."""
    return bool(((one == other) | ((one != one) & (other != other))).all())  # noqa: PLR0124 - a NaN is not itself
