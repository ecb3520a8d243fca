"""What a step of the LSTM does beside its matrix product, as one kernel forward and one backward.

Written with plain tensor operations a step is some twenty launches forward and some thirty backward, each over a few
hundred kilobytes: over 80 steps and two layers that is seven thousand, whose time is that of launching. Run on the CPU
by Triton's interpreter (TRITON_INTERPRET=1) in the tests. Not used unless `lstm.use_fused_steps` says so: it has not
been measured on a GPU.

Tensors are as in `lstm.py`, and a view of one time step comes with its strides; H varies fastest everywhere.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


def forward_step(
    product_LBG: Tensor,
    peepholes_LPH: Tensor,
    before_LBH: Tensor,
    gates_LBG: Tensor,
    cell_LBH: Tensor,
    hidden_LBH: Tensor,
) -> None:
    """From the sum of what drives the gates to the activated gates, the cell and the hidden state, at their places."""
    lanes, examples, size = cell_LBH.shape
    count = lanes * examples * size
    _forward[(triton.cdiv(count, BLOCK),)](
        product_LBG, peepholes_LPH, before_LBH, gates_LBG, cell_LBH, hidden_LBH, count, examples, size,
        *product_LBG.stride()[:2], *before_LBH.stride()[:2], *gates_LBG.stride()[:2], *cell_LBH.stride()[:2],
        *hidden_LBH.stride()[:2], BLOCK,
    )  # fmt: skip


def backward_step(
    gy_LBH: Tensor, ghidden_LBH: Tensor, gcell_LBH: Tensor, gates_LBG: Tensor, cell_LBH: Tensor, before_LBH: Tensor,
    peepholes_LPH: Tensor, ggates_LBG: Tensor,
) -> None:  # fmt: skip
    """The gradient of the gates at its place; that of the cell becomes that of the cell before."""
    lanes, examples, size = cell_LBH.shape
    count = lanes * examples * size
    _backward[(triton.cdiv(count, BLOCK),)](
        gy_LBH, ghidden_LBH, gcell_LBH, gates_LBG, cell_LBH, before_LBH, peepholes_LPH, ggates_LBG, count, examples,
        size, *gy_LBH.stride()[:2], *ghidden_LBH.stride()[:2], *gcell_LBH.stride()[:2], *gates_LBG.stride()[:2],
        *cell_LBH.stride()[:2], *before_LBH.stride()[:2], *ggates_LBG.stride()[:2], BLOCK,
    )  # fmt: skip


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tanh(x):
    return 2 / (1 + tl.exp(-2 * x)) - 1


@triton.jit
def _forward(
    product, peepholes, before, gates, cell, hidden, count, examples, size,
    product_l, product_b, before_l, before_b, gates_l, gates_b, cell_l, cell_b, hidden_l, hidden_b,
    block: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    unit = at % size
    example = (at // size) % examples
    lane = at // (size * examples)
    driven = product + lane * product_l + example * product_b + unit
    peep = peepholes + lane * 3 * size + unit
    old = tl.load(before + lane * before_l + example * before_b + unit, mask=inside, other=0.0)
    i = _sigmoid(tl.load(driven, mask=inside, other=0.0) + tl.load(peep, mask=inside, other=0.0) * old)
    f = _sigmoid(tl.load(driven + size, mask=inside, other=0.0) + tl.load(peep + size, mask=inside, other=0.0) * old)
    g = _tanh(tl.load(driven + 2 * size, mask=inside, other=0.0))
    new = f * old + i * g
    o = _sigmoid(
        tl.load(driven + 3 * size, mask=inside, other=0.0) + tl.load(peep + 2 * size, mask=inside, other=0.0) * new
    )
    kept = gates + lane * gates_l + example * gates_b + unit
    tl.store(kept, i, mask=inside)
    tl.store(kept + size, f, mask=inside)
    tl.store(kept + 2 * size, g, mask=inside)
    tl.store(kept + 3 * size, o, mask=inside)
    tl.store(cell + lane * cell_l + example * cell_b + unit, new, mask=inside)
    tl.store(hidden + lane * hidden_l + example * hidden_b + unit, o * _tanh(new), mask=inside)


@triton.jit
def _backward(
    gy, ghidden, gcell, gates, cell, before, peepholes, ggates, count, examples, size,
    gy_l, gy_b, ghidden_l, ghidden_b, gcell_l, gcell_b, gates_l, gates_b, cell_l, cell_b, before_l, before_b,
    ggates_l, ggates_b, block: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    unit = at % size
    example = (at // size) % examples
    lane = at // (size * examples)
    kept = gates + lane * gates_l + example * gates_b + unit
    i = tl.load(kept, mask=inside, other=0.0)
    f = tl.load(kept + size, mask=inside, other=0.0)
    g = tl.load(kept + 2 * size, mask=inside, other=0.0)
    o = tl.load(kept + 3 * size, mask=inside, other=0.0)
    squashed = _tanh(tl.load(cell + lane * cell_l + example * cell_b + unit, mask=inside, other=0.0))
    old = tl.load(before + lane * before_l + example * before_b + unit, mask=inside, other=0.0)
    gh = tl.load(gy + lane * gy_l + example * gy_b + unit, mask=inside, other=0.0)
    gh += tl.load(ghidden + lane * ghidden_l + example * ghidden_b + unit, mask=inside, other=0.0)
    of_cell = gcell + lane * gcell_l + example * gcell_b + unit
    peep = peepholes + lane * 3 * size + unit
    go = gh * squashed * o * (1 - o)
    gc = tl.load(of_cell, mask=inside, other=0.0) + gh * o * (1 - squashed * squashed)
    gc += go * tl.load(peep + 2 * size, mask=inside, other=0.0)
    gi = gc * g * i * (1 - i)
    gf = gc * old * f * (1 - f)
    into = ggates + lane * ggates_l + example * ggates_b + unit
    tl.store(into, gi, mask=inside)
    tl.store(into + size, gf, mask=inside)
    tl.store(into + 2 * size, gc * i * (1 - g * g), mask=inside)
    tl.store(into + 3 * size, go, mask=inside)
    gc = gc * f + gi * tl.load(peep, mask=inside, other=0.0) + gf * tl.load(peep + size, mask=inside, other=0.0)
    tl.store(of_cell, gc, mask=inside)


def run(driven_LBTG: Tensor, weight_LGH: Tensor, peepholes_LPH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`lstm.run`, a product and a kernel for each step."""
    lanes, examples, steps, _ = driven_LBTG.shape
    size = weight_LGH.shape[2]
    cells = driven_LBTG.new_empty(lanes, examples, steps, size)
    hiddens = torch.empty_like(cells)
    hidden = cell = cells.new_zeros(lanes, examples, size)
    weight_LHG, peepholes = weight_LGH.transpose(1, 2), peepholes_LPH.contiguous()
    for step in range(steps):
        gates = driven_LBTG[:, :, step]
        product = torch.baddbmm(gates, hidden, weight_LHG)
        forward_step(product, peepholes, cell, gates, cells[:, :, step], hiddens[:, :, step])
        cell, hidden = cells[:, :, step], hiddens[:, :, step]
    return driven_LBTG, cells, hiddens


def run_back(
    gy_LBTH: Tensor, gates_LBTG: Tensor, cells_LBTH: Tensor, weight_LGH: Tensor, peepholes_LPH: Tensor
) -> Tensor:
    """`lstm.run_back`, a kernel and a product for each step."""
    ggates_LBTG = torch.empty_like(gates_LBTG)
    peepholes = peepholes_LPH.contiguous()
    ghidden, gcell, nothing = (torch.zeros_like(cells_LBTH[:, :, 0]).contiguous() for _ in range(3))
    for step in reversed(range(gy_LBTH.shape[2])):
        before = cells_LBTH[:, :, step - 1] if step else nothing
        ggates = ggates_LBTG[:, :, step]
        backward_step(
            gy_LBTH[:, :, step],
            ghidden,
            gcell,
            gates_LBTG[:, :, step],
            cells_LBTH[:, :, step],
            before,
            peepholes,
            ggates,
        )
        ghidden = torch.bmm(ggates, weight_LGH)
    return ggates_LBTG
