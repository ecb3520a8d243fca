"""What a lane holds of its client, and how a step changes it: for plain SGD, and for any other algorithm.

Plain SGD's step is taken in the backward pass (`layers.py`). Any other client program is mapped over the lanes by
`vmap`, as `core/algorithm.py` promises: it sees one client, with a tensor for each of the facts, and asks for
gradients, which are computed for all lanes at once.

Shape suffixes: L lane, J client that begins or ends, M member (an experiment).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import vmap

from stayput.core.algorithm import ClientFacts, ClientProgram
from stayput.core.tensors import FULL_GRADIENT, WEIGHTS, Groups, Tensors, flatten, unflatten
from stayput.engines import masks
from stayput.engines.lanes.layers import lane_layout
from stayput.engines.lanes.model_over_lanes import ModelOverLanes
from stayput.engines.lanes.objective import Minibatches

StackedGroups = Mapping[str, Mapping[str, Tensor]]


class Facts(NamedTuple):
    """`ClientFacts` of several clients, a tensor each."""

    learning_rate: Tensor
    num_examples: Tensor
    num_steps: Tensor

    def at(self, lanes: Tensor | slice) -> Facts:
        """Those of some lanes."""
        return Facts(*(fact[lanes] for fact in self))


class LaneProgram(Protocol):
    """What lanes hold, and how it changes."""

    first_gradient: int
    """What a client's gradients are counted from."""
    augments: bool
    """Whether it trains on its minibatches, so that they are augmented where the task says so."""
    repeats: bool
    """Whether a step does nothing but torch's operations, so that they may be recorded and replayed."""

    def begin(self, lanes_J: Tensor, given: StackedGroups, facts_J: Facts) -> None:
        """Clients begin in these lanes with what they are given, [J, ...]."""
        ...

    def step(self, width: int, minibatches: Minibatches) -> tuple[Tensor, int]:
        """A step of the first lanes: the sum of their losses before it, and how many gradients each has computed."""
        ...

    def update(self, lanes_J: Tensor, given: StackedGroups) -> StackedGroups:
        """What the clients in these lanes return, [J, ...]."""
        ...

    def tensors(self) -> list[Tensor]:
        """Everything that a step changes."""
        ...


class FusedSgd:
    """Plain SGD: a lane holds weights, and backward changes them."""

    first_gradient = 0
    augments = True

    def __init__(self, model: ModelOverLanes, like: Tensors, capacity: int) -> None:
        self._model, self.repeats = model, model.repeats
        self._weights = {name: _lanes_like(tensor, capacity) for name, tensor in like.items()}
        first = next(iter(like.values()))
        self._rate_L = torch.zeros(capacity, dtype=first.dtype, device=first.device)

    def begin(self, lanes_J: Tensor, given: StackedGroups, facts_J: Facts) -> None:
        """Take the model that was sent."""
        for name, weight in self._weights.items():
            weight.index_copy_(0, lanes_J, given[WEIGHTS][name])
        self._rate_L.index_copy_(0, lanes_J, facts_J.learning_rate.to(self._rate_L.dtype))

    def step(self, width: int, minibatches: Minibatches) -> tuple[Tensor, int]:
        """w <- w - η ∇ℓ(w; b), in every lane."""
        weights = {name: weight[:width] for name, weight in self._weights.items()}
        return self._model.descend(weights, self._rate_L[:width], minibatches), 1

    def update(self, lanes_J: Tensor, given: StackedGroups) -> StackedGroups:
        """The way from what was sent to where the client is."""
        return {
            WEIGHTS: {
                name: weight.index_select(0, lanes_J).sub_(given[WEIGHTS][name])
                for name, weight in self._weights.items()
            }
        }

    def tensors(self) -> list[Tensor]:
        """The weights."""
        return list(self._weights.values())


class MappedProgram:
    """Any client program, mapped over lanes: a lane holds the local state that the program makes."""

    first_gradient = 0
    augments = True

    def __init__(self, model: ModelOverLanes, program: ClientProgram, capacity: int, device: torch.device) -> None:
        self._model, self._program, self._capacity, self.repeats = model, program, capacity, model.repeats
        self._local: dict[str, Tensor] = {}  # flat: its groups are known when the first client begins
        zeros = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._facts_L = Facts(torch.zeros(capacity, dtype=torch.float64, device=device), zeros, zeros.clone())

    def begin(self, lanes_J: Tensor, given: StackedGroups, facts_J: Facts) -> None:
        """The program's `start`."""

        def start(given: Groups, facts: Facts) -> dict[str, Tensor]:
            return flatten(self._program.start(given, ClientFacts(*facts)))

        begun: dict[str, Tensor] = vmap(start)(_plain(given), facts_J)
        for name, tensor in begun.items():
            if name not in self._local:
                self._local[name] = _lanes_like(tensor[0], self._capacity)
            self._local[name].index_copy_(0, lanes_J, tensor)
        for kept_L, new_J in zip(self._facts_L, facts_J, strict=True):
            kept_L.index_copy_(0, lanes_J, new_J.to(kept_L.dtype))

    def step(self, width: int, minibatches: Minibatches) -> tuple[Tensor, int]:
        """The program's `step`."""
        gradient_of_lanes = self._model.gradient_of_lanes(minibatches)
        calls = 0

        def step(flat: dict[str, Tensor], facts: Facts, lane: Any) -> tuple[dict[str, Tensor], Tensor]:  # noqa: ANN401
            losses: list[Tensor] = []

            def gradient_at(weights: Tensors) -> Tensors:
                gradient, loss = gradient_of_lanes.at(lane, weights, len(losses))
                losses.append(loss)
                return gradient

            stepped = flatten(self._program.step(unflatten(flat), gradient_at, ClientFacts(*facts)))
            nonlocal calls
            calls = len(losses)
            return stepped, torch.stack(losses).sum()

        local = {name: tensor[:width] for name, tensor in self._local.items()}
        stepped, loss_L = vmap(step)(local, self._facts_L.at(slice(width)), gradient_of_lanes.mapped)
        for name, tensor in stepped.items():
            if tensor.data_ptr() != local[name].data_ptr():  # what a step leaves as it was need not be copied
                local[name].copy_(tensor)
        return loss_L, calls

    def update(self, lanes_J: Tensor, given: StackedGroups) -> StackedGroups:
        """The program's `finish`."""

        def finish(given: Groups, flat: dict[str, Tensor], facts: Facts) -> dict[str, Tensor]:
            return flatten(self._program.finish(given, unflatten(flat), ClientFacts(*facts)))

        local = {name: tensor.index_select(0, lanes_J) for name, tensor in self._local.items()}
        return unflatten(vmap(finish)(_plain(given), local, self._facts_L.at(lanes_J)))

    def tensors(self) -> list[Tensor]:
        """The local state."""
        return list(self._local.values())


class FullGradient:
    """∇F_k(w_t): minibatches in stored order, each weighted with its share of the client's examples."""

    first_gradient = masks.FULL_GRADIENT
    augments = False

    def __init__(self, model: ModelOverLanes, like: Tensors, capacity: int) -> None:
        self._model, self.repeats = model, model.repeats
        self._weights = {name: _lanes_like(tensor, capacity) for name, tensor in like.items()}
        self._total = {name: torch.zeros_like(weight) for name, weight in self._weights.items()}
        self._examples_L = torch.ones_like(next(iter(self._weights.values())).flatten(start_dim=1)[:, 0])

    def begin(self, lanes_J: Tensor, given: StackedGroups, facts_J: Facts) -> None:
        """Take the model that was sent, and nothing yet."""
        for name, weight in self._weights.items():
            weight.index_copy_(0, lanes_J, given[WEIGHTS][name])
            self._total[name].index_fill_(0, lanes_J, 0)
        self._examples_L.index_copy_(0, lanes_J, facts_J.num_examples.to(self._examples_L.dtype))

    def step(self, width: int, minibatches: Minibatches) -> tuple[Tensor, int]:
        """Add a minibatch's gradient."""
        gradient_of_lanes = self._model.gradient_of_lanes(minibatches)
        weights = {name: weight[:width] for name, weight in self._weights.items()}

        def gradient(weights: dict[str, Tensor], lane: Any) -> tuple[dict[str, Tensor], Tensor]:  # noqa: ANN401
            return gradient_of_lanes.at(lane, weights, 0)

        gradients, loss_L = vmap(gradient)(weights, gradient_of_lanes.mapped)
        share_L = minibatches.count_L / self._examples_L[:width]
        for name, part in gradients.items():
            self._total[name][:width].add_(part * share_L.reshape(-1, *[1] * (part.dim() - 1)))
        return loss_L, 1

    def update(self, lanes_J: Tensor, given: StackedGroups) -> StackedGroups:  # noqa: ARG002 - as all programs
        """The gradient."""
        return {FULL_GRADIENT: {name: total.index_select(0, lanes_J) for name, total in self._total.items()}}

    def tensors(self) -> list[Tensor]:
        """The sum."""
        return list(self._total.values())


def _plain(groups: StackedGroups) -> dict[str, dict[str, Tensor]]:
    """As dicts, which `vmap` looks into."""
    return {group: dict(tensors) for group, tensors in groups.items()}


def _lanes_like(tensor: Tensor, capacity: int) -> Tensor:
    return lane_layout(torch.zeros(capacity, *tensor.shape, dtype=tensor.dtype, device=tensor.device))
