"""How many lanes a device's free memory holds, by an estimate of what a lane needs.

A lane needs its copies of the weights and, during a step, what the model keeps of its minibatch for the way back. The
latter is counted on one minibatch through the plain module: what autograd saves, and for each convolution the windows
that lanes gather. It is an estimate: should the memory not hold what it promised, the engine goes on with half.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from stayput.core.tensors import WEIGHTS
from stayput.engines.model_program import ModelProgram
from stayput.engines.placed_examples import PlacedExamples

LANES_SHARE = 0.8
"""Of the free memory that lanes may fill; the schedule and the sums of finished clients need some, too."""
FUSED_COPIES = 3
"""Of the weights in a lane of plain SGD: its own, what it begins with, and its move when it ends."""
MAPPED_COPIES = 8
"""Of the weights in a lane of any other client program: local state before and after a step, gradients, and the
same three."""


def lanes_that_fit(free: int, lane_bytes: int) -> int:
    """How many lanes that much free memory holds; at least one."""
    return max(1, int(LANES_SHARE * free) // lane_bytes)


def free_bytes(device: torch.device) -> int | None:
    """What a GPU has left for us, what torch keeps for reuse counted in; None on a CPU, where no job need wait."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def bytes_of_a_lane(program: ModelProgram, data: PlacedExamples, batch_length: int, *, fused: bool) -> int:
    """What a lane needs, roughly: weights, and what a step keeps, once as it is and once as its gradient."""
    weights = [parameter.numel() * parameter.element_size() for parameter in program.module.parameters()]
    copies = FUSED_COPIES if fused else MAPPED_COPIES
    return copies * sum(weights) + 2 * _kept_by_a_step(program, data, batch_length)


def _kept_by_a_step(program: ModelProgram, data: PlacedExamples, batch_length: int) -> int:
    model = program.initial_model(0)
    program.load(model, training=True)
    own = {parameter.data_ptr() for parameter in program.module.parameters()}
    kept: dict[int, int] = {}
    windows: list[int] = []

    def saved(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def convolved(layer: nn.Module, _: object, output: Tensor) -> None:
        assert isinstance(layer, nn.Conv2d)  # noqa: S101 - hooked into no other
        values_of_a_window = layer.weight[0].numel()
        windows.append(output.numel() // layer.out_channels * values_of_a_window * output.element_size())

    hooks = [
        layer.register_forward_hook(convolved) for layer in program.module.modules() if isinstance(layer, nn.Conv2d)
    ]
    try:
        rows = torch.arange(batch_length, device=program.device) % len(data)
        with torch.autograd.graph.saved_tensors_hooks(saved, lambda tensor: tensor):
            program.loss_and_gradient(model[WEIGHTS], *data.batch(rows))
    finally:
        for hook in hooks:
            hook.remove()
    return sum(kept.values()) + sum(windows)
