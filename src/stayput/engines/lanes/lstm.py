"""The LSTM with peepholes over stacked weights: each lane's sequences through its own cell.

What no step waits for is one product for all time steps: the inputs' part of the gates before, and the gradients of
the weights after, which are added (times a factor, see `layers.py`) where they belong without being written. What is
left is a product with the recurrent weights and a few pointwise operations for each step.

Shape suffixes: L lane, B example of a lane, T time step, I inputs, H hidden, G = 4*H gates (i, f, g, o), P the three
peepholes (i, f, o).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from stayput.engines.lanes.layers import Context, LayerWeights

_fused_steps = False


def use_fused_steps(use: bool) -> None:
    """Whether a step on CUDA is a product and one kernel. Not unless asked for: it has not been measured there."""
    global _fused_steps  # noqa: PLW0603 - a switch for a whole process, as torch's own are
    _fused_steps = use


class States(NamedTuple):
    """What the steps leave behind for the way back."""

    gates_LBTG: Tensor
    """After their nonlinearities."""
    cells_LBTH: Tensor
    hidden_LBTH: Tensor


class LaneLstm(torch.autograd.Function):
    """The hidden state after every step, [N, T, H], of sequences [N, T, I]."""

    @staticmethod
    def forward(
        ctx: Context,
        x_NTI: Tensor,
        spark: Tensor,  # noqa: ARG004 - it is there to be differentiated
        weights: LayerWeights,
    ) -> Tensor:
        """All lanes' sequences through their lane's cell."""
        with torch.autocast(x_NTI.device.type, enabled=False):  # a state that is rounded 80 times is none
            weight_LGI, bias_LG = weights.of["weight_ih"], weights.of["bias"]
            lanes, steps = len(weight_LGI), x_NTI.shape[1]
            x_LMI = x_NTI.to(weight_LGI.dtype).reshape(lanes, -1, x_NTI.shape[2])
            driven = torch.baddbmm(bias_LG.unsqueeze(1), x_LMI, weight_LGI.transpose(1, 2))
            states = run(driven.view(lanes, -1, steps, driven.shape[-1]), *_recurrent(weights))
            ctx.save_for_backward(x_LMI, *states)
            ctx.weights, ctx.shape = weights, x_NTI.shape
            return states.hidden_LBTH.flatten(end_dim=1)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the inputs, then that of the weights."""
        x_LMI, *kept = ctx.saved_tensors
        states = States(*kept)
        weights = ctx.weights
        gy_LBTH = gradients[0].to(x_LMI.dtype).reshape(states.hidden_LBTH.shape)
        ggates_LBTG = run_back(gy_LBTH, states, *_recurrent(weights))
        ggates_LMG = ggates_LBTG.flatten(start_dim=1, end_dim=2)
        gx = torch.bmm(ggates_LMG, weights.of["weight_ih"]).view(ctx.shape) if ctx.needs_input_grad[0] else None
        _learn(weights, ggates_LBTG, states, x_LMI)
        return gx, None, None


def run(driven_LBTG: Tensor, weight_LGH: Tensor, peepholes_LPH: Tensor) -> States:
    """All steps, from gates that hold the inputs' part and the bias; these are written over."""
    if _fused_steps and driven_LBTG.is_cuda:
        from stayput.engines.lanes import lstm_triton

        return States(*lstm_triton.run(driven_LBTG, weight_LGH, peepholes_LPH))
    lanes, examples, steps, _ = driven_LBTG.shape
    size = weight_LGH.shape[2]
    cells = driven_LBTG.new_empty(lanes, examples, steps, size)
    hiddens = torch.empty_like(cells)
    hidden = cell = cells.new_zeros(lanes, examples, size)
    weight_LHG = weight_LGH.transpose(1, 2)
    peep_i, peep_f, peep_o = peepholes_LPH[:, :, None].unbind(dim=1)
    for step in range(steps):
        gates = driven_LBTG[:, :, step]  # a view: the activated gates are kept in place of what drives them
        i, f, g, o = torch.baddbmm(gates, hidden, weight_LHG).chunk(4, dim=2)
        i, f, g = torch.sigmoid(i + peep_i * cell), torch.sigmoid(f + peep_f * cell), torch.tanh(g)
        cell = f * cell + i * g
        o = torch.sigmoid(o + peep_o * cell)
        hidden = o * torch.tanh(cell)
        gates.copy_(torch.cat([i, f, g, o], dim=2))
        cells[:, :, step], hiddens[:, :, step] = cell, hidden
    return States(driven_LBTG, cells, hiddens)


def run_back(gy_LBTH: Tensor, states: States, weight_LGH: Tensor, peepholes_LPH: Tensor) -> Tensor:
    """The gradient of the gates before their nonlinearities, [L, B, T, G]."""
    if _fused_steps and gy_LBTH.is_cuda:
        from stayput.engines.lanes import lstm_triton

        gates_LBTG, cells_LBTH, _ = states
        return lstm_triton.run_back(gy_LBTH, gates_LBTG, cells_LBTH, weight_LGH, peepholes_LPH)
    ggates_LBTG = torch.empty_like(states.gates_LBTG)
    peep_i, peep_f, peep_o = peepholes_LPH[:, :, None].unbind(dim=1)
    ghidden = gcell = torch.zeros_like(gy_LBTH[:, :, 0])
    for step in reversed(range(gy_LBTH.shape[2])):
        i, f, g, o = states.gates_LBTG[:, :, step].chunk(4, dim=2)
        cell = states.cells_LBTH[:, :, step]
        before = states.cells_LBTH[:, :, step - 1] if step else torch.zeros_like(cell)
        squashed = torch.tanh(cell)
        ghidden = ghidden + gy_LBTH[:, :, step]
        go = ghidden * squashed * o * (1 - o)
        gcell = gcell + ghidden * o * (1 - squashed * squashed) + go * peep_o
        gi = gcell * g * i * (1 - i)
        gf = gcell * before * f * (1 - f)
        gg = gcell * i * (1 - g * g)
        gcell = gcell * f + gi * peep_i + gf * peep_f
        gates = torch.cat([gi, gf, gg, go], dim=2)
        ggates_LBTG[:, :, step] = gates
        ghidden = torch.bmm(gates, weight_LGH)
    return ggates_LBTG


def _recurrent(weights: LayerWeights) -> tuple[Tensor, Tensor]:
    return weights.of["weight_hh"], weights.of["peepholes"]


def _learn(weights: LayerWeights, ggates_LBTG: Tensor, states: States, x_LMI: Tensor) -> None:
    """Add the gradients of the weights, each as one product or sum over all steps."""
    lanes, _, _, width = ggates_LBTG.shape
    size = width // 4
    before = torch.zeros_like(states.cells_LBTH)
    before[:, :, 1:] = states.cells_LBTH[:, :, :-1]
    gi, gf, _, go = ggates_LBTG.chunk(4, dim=3)
    peepholes = [(gi * before), (gf * before), (go * states.cells_LBTH)]
    gpeepholes = torch.stack([product.sum(dim=(1, 2)) for product in peepholes], dim=1)
    hidden_before = before  # its memory serves twice
    hidden_before[:, :, 1:] = states.hidden_LBTH[:, :, :-1]
    scaled_LMG = weights.scaled(ggates_LBTG).view(lanes, -1, width)
    weights.into["weight_ih"].baddbmm_(scaled_LMG.transpose(1, 2), x_LMI)
    weights.into["weight_hh"].baddbmm_(scaled_LMG.transpose(1, 2), hidden_before.view(lanes, -1, size))
    weights.into["bias"].add_(scaled_LMG.sum(dim=1))
    weights.into["peepholes"].add_(weights.scaled(gpeepholes))
