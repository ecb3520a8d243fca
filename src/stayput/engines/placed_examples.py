"""Examples where an engine computes: on the device, or beside it where they are more than its memory should hold.

Examples that stay beside a device are sent to it as they are needed, through pinned memory, which a GPU reads on its
own: a batch at a time to engines that train one client after another, and to lanes, whose program is captured with the
addresses that it reads, a window of the schedule at a time into one fixed place (`StagedExamples`).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from stayput.core.tensor_streams import Draws
from stayput.data.federated_data import Array, Examples
from stayput.tasks.task import Task

logger = logging.getLogger("stayput")

Prepared = Callable[[Tensor, Tensor, Draws | None], tuple[Tensor, Tensor]]
"""From rows as they are stored, and draws, to what a model takes."""

RESIDENT_SHARE = 0.5
"""Of a GPU's free memory that examples may fill; models and what they compute need the rest."""


class PlacedExamples:
    """Examples for a device; `batch` gathers rows and prepares them for the model."""

    def __init__(self, examples: Examples, task: Task, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.resident = fits_on(device, examples)
        """Whether they are on the device."""
        place = device if self.resident else torch.device("cpu")
        self._inputs = _placed(examples.inputs, place)
        self._targets = _placed(examples.targets, place)
        self._prepare, self._augment, self._dtype = task.prepare, task.augment, dtype

    def __len__(self) -> int:
        """The number of examples."""
        return len(self._inputs)

    @property
    def augmented(self) -> bool:
        """Whether a batch to train on needs draws."""
        return self._augment is not None

    def batch(self, rows: Tensor | slice, draws: Draws | None = None) -> tuple[Tensor, Tensor]:
        """Inputs, in the model's dtype where they are not whole numbers, and targets; with draws, to train on."""
        return self._prepared(*self.stored(rows), draws)

    def stored(self, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Rows of inputs and targets as they are stored, on the device."""
        if self.resident:
            if isinstance(rows, Tensor):  # copies rows; an index would copy value by value
                return self._inputs.index_select(0, rows), self._targets.index_select(0, rows)
            return self._inputs[rows], self._targets[rows]
        here = rows.cpu() if isinstance(rows, Tensor) else rows
        return _sent(self._inputs[here], self.device), _sent(self._targets[here], self.device)

    def staged(self, num_rows: int) -> StagedExamples:
        """Room on the device for some rows at a time."""
        return StagedExamples(self, num_rows, self._prepared)

    @property
    def row_bytes(self) -> int:
        """The size of an example as it is stored."""
        return sum(column[0].numel() * column.element_size() for column in (self._inputs, self._targets))

    def _prepared(self, stored: Tensor, targets: Tensor, draws: Draws | None) -> tuple[Tensor, Tensor]:
        inputs = self._prepare(stored) if draws is None or self._augment is None else self._augment(stored, draws)
        if inputs.is_floating_point():
            inputs = inputs.to(self._dtype)
        if targets.is_floating_point():
            targets = targets.to(self._dtype)
        elif targets.dtype != torch.int64:
            targets = targets.long()
        return inputs, targets


class StagedExamples:
    """Some rows at a fixed place on the device, in the order of their numbers."""

    def __init__(self, data: PlacedExamples, num_rows: int, prepared: Prepared) -> None:
        self._data, self._prepared = data, prepared
        first_input, first_target = data.stored(slice(0, 1))
        self._inputs = first_input.expand(num_rows, *first_input.shape[1:]).clone()
        self._targets = first_target.expand(num_rows, *first_target.shape[1:]).clone()

    def take(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Bring rows here, and say where each is now."""
        different, places = np.unique(rows, return_inverse=True)
        for here, column in zip(
            (self._inputs, self._targets), self._data.stored(torch.from_numpy(different)), strict=True
        ):
            here[: len(different)].copy_(column, non_blocking=True)
        return places.reshape(rows.shape).astype(np.int32)

    def batch(self, places: Tensor, draws: Draws | None = None) -> tuple[Tensor, Tensor]:
        """As `PlacedExamples.batch`, from where rows are now."""
        return self._prepared(self._inputs.index_select(0, places), self._targets.index_select(0, places), draws)


def fits_on(device: torch.device, examples: Examples) -> bool:
    """Whether examples may be on the device as a whole; on a CPU they are where they are, without a copy."""
    if device.type != "cuda":
        return True
    needed = examples.inputs.nbytes + examples.targets.nbytes
    free, _ = torch.cuda.mem_get_info(device)
    if needed <= RESIDENT_SHARE * free:
        return True
    logger.warning(
        "%.1f GB of examples are more than %.0f%% of the device's free memory (%.1f GB): they are sent as they are "
        "needed", needed / 1e9, 100 * RESIDENT_SHARE, free / 1e9,
    )  # fmt: skip
    return False


def sendable(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor in memory that a GPU reads on its own, so that sending it does not wait for what runs there."""
    return tensor.pin_memory() if device.type == "cuda" else tensor


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    return sendable(tensor, device).to(device, non_blocking=True)


def _placed(column: Array, device: torch.device) -> Tensor:
    """A column as a tensor: on the CPU the same memory, not a copy of it."""
    with warnings.catch_warnings():
        # torch warns of memory it may not write to; nothing here writes, and a read-only map must stay one.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.asarray(column)).to(device)
