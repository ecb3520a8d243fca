"""FedNova (Wang et al. 2020, "Tackling the Objective Inconsistency Problem"): moves per step, not moves.

Where clients take different numbers of steps, FedAvg weighs those who take more steps more, and converges to the
minimum of another objective. FedNova averages what each client moved in one step, and goes as far along that mean as
the cohort's mean number of steps:

    w_{t+1} <- w_t + τ_eff · Σ n_k/m_t · (w^k - w_t)/u_k,    τ_eff = Σ n_k/m_t · u_k

Both sums are weighted means over the cohort, so the number of steps u_k travels in the update as a group of its own.
Clients run plain SGD, for which the paper's ‖a_k‖₁ is u_k. Where all u_k are equal this is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from stayput.algorithms import local_sgd
from stayput.algorithms.fed_avg import FedAvg
from stayput.core.algorithm import Algorithm, ClientFacts, ClientProgram
from stayput.core.tensors import WEIGHTS, Groups, add_in_own_dtype, per_lane

STEPS = "steps"
"""The group of an update that holds u_k, under the name "taken"."""


@dataclass(frozen=True)
class FedNova(FedAvg):
    """Federated averaging of normalised moves, for clients that take different numbers of steps."""

    name: ClassVar[str] = "fed_nova"

    def algorithm(self) -> Algorithm:
        """The record of functions."""
        return replace(
            super().algorithm(),
            client=ClientProgram(local_sgd.start, local_sgd.step, finish),
            server_update=average_per_step,
        )


def finish(sent: Groups, local: Groups, facts: ClientFacts) -> Groups:
    """The client's move per step, and how many steps it took."""
    moved = local_sgd.finish(sent, local, facts)
    per_step = {name: move / per_lane(facts.num_steps, move) for name, move in moved[WEIGHTS].items()}
    like = next(iter(per_step.values()))
    return {**moved, WEIGHTS: per_step, STEPS: {"taken": torch.as_tensor(facts.num_steps, device=like.device)}}


def average_per_step(state: Groups, mean: Groups) -> Groups:
    """w_{t+1} <- w_t + τ_eff · mean of moves per step."""
    effective = mean[STEPS]["taken"]
    return add_in_own_dtype(state, {**mean, WEIGHTS: {name: effective * move for name, move in mean[WEIGHTS].items()}})
