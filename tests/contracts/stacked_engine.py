"""A second engine, for the contract tests only: every client of a cohort is a row of stacked tensors.

It proves that the engine protocol and the algorithms' start / step / finish can be run as one tensor program over
all clients at once. It is as plain as that allows: padded minibatches with a mask, and rows that are done keep what
they have.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, grad_and_value, vmap

from stayput.core.algorithm import ClientFacts
from stayput.core.engine import ClientUpdate, RoundWork, summed
from stayput.core.local_work import passes
from stayput.core.tensors import Groups
from stayput.data.federated_data import Examples, FederatedData
from stayput.engines.sequential import SequentialEngine
from stayput.tasks.task import Task


class StackedEngine:
    def __init__(self, task: Task, clients: FederatedData, *, test: Examples | None = None, device: torch.device):
        self._task, self._clients = task, clients
        self._module = task.model()
        plain = SequentialEngine(task, clients, test=test, device=device)
        self.initial_model, self.evaluate, self.module_with = plain.initial_model, plain.evaluate, plain.module_with

    def run(self, works):
        return [summed(work, self.train(work)) for work in works]

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        lanes = [self._batches(client, work) for client in work.cohort.tolist()]
        sizes = [len(self._clients.rows(client)) for client in work.cohort.tolist()]
        facts = ClientFacts(
            learning_rate=torch.full((len(lanes),), work.plan.learning_rate, dtype=torch.float64),
            num_examples=torch.tensor(sizes),
            num_steps=torch.tensor([len(batches) for batches in lanes]),
        )
        given = [work.given(client) for client in work.cohort.tolist()]
        sent = {g: {n: torch.stack([one[g][n] for one in given]) for n in given[0][g]} for g in given[0]}
        if work.program.full_gradient:
            sent["full_gradient"] = self._full_gradients(work)
        local = vmap(lambda sent, facts: work.program.start(sent, ClientFacts(*facts)))(sent, _as_tuple(facts))
        losses: list[Tensor] = []
        for step in range(max(len(batches) for batches in lanes)):
            x, y, mask, busy = self._step_batch(lanes, step)
            stepped, loss = vmap(self._step_of(work))(local, x, y, mask, _as_tuple(facts))
            local = _where(busy, stepped, local)
            losses.append(torch.where(busy, loss, torch.zeros_like(loss)))
        update = vmap(lambda sent, local, facts: work.program.finish(sent, local, ClientFacts(*facts)))(
            sent, local, _as_tuple(facts)
        )
        mean_loss = torch.stack(losses).sum(0) / facts.num_steps
        for lane in reversed(range(len(lanes))):  # another order than the cohort's: it must not matter
            yield ClientUpdate(
                client=int(work.cohort[lane]),
                num_examples=sizes[lane],
                update={g: {n: t[lane] for n, t in tensors.items()} for g, tensors in update.items()},
                num_steps=len(lanes[lane]),
                train_loss=float(mean_loss[lane]),
            )

    def _full_gradients(self, work: RoundWork):
        """[lane, ...]: each client's whole data as one padded batch."""
        lanes = [[self._clients.rows(client)] for client in work.cohort.tolist()]
        x, y, mask, _ = self._step_batch(lanes, 0)
        weights = _stacked({"weights": work.sent["weights"]}, len(lanes))["weights"]
        return vmap(grad(self._loss_of))(weights, x, y, mask)

    def _loss_of(self, weights, x, y, mask):
        losses = self._task.loss(functional_call(self._module, weights, (x,)), y)
        return (losses * mask).sum() / mask.sum()

    def _step_of(self, work: RoundWork):
        def step(local, x, y, mask, facts):
            seen = []

            def gradient_at(weights):
                gradient, loss = grad_and_value(self._loss_of)(weights, x, y, mask)
                seen.append(loss)
                return gradient

            return work.program.step(local, gradient_at, ClientFacts(*facts)), seen[0]

        return step

    def _batches(self, client: int, work: RoundWork) -> list[np.ndarray]:
        rows = self._clients.rows(client)
        length = work.plan.batch_length(len(rows))
        key = {"seed": work.seed, "round_number": work.round_number, "client": client}
        return [
            rows[order[first : first + length]]
            for order in passes(work.plan, len(rows), **key)
            for first in range(0, len(order), length)
        ]

    def _step_batch(self, lanes: list[list[np.ndarray]], step: int):
        busy = torch.tensor([step < len(batches) for batches in lanes])
        rows = [batches[step] if step < len(batches) else batches[0][:1] for batches in lanes]
        width = max(len(row) for row in rows)
        padded = np.stack([np.pad(row, (0, width - len(row)), mode="edge") for row in rows])
        mask = torch.tensor(np.stack([np.arange(width) < len(row) for row in rows]))
        dtype = next(self._module.parameters()).dtype
        x = torch.from_numpy(self._clients.examples.inputs[padded]).to(dtype)
        return x, torch.from_numpy(self._clients.examples.targets[padded]), mask.to(dtype), busy


def _as_tuple(facts: ClientFacts):
    return facts.learning_rate, facts.num_examples, facts.num_steps


def _stacked(groups: Groups, lanes: int):
    return {g: {n: t.expand(lanes, *t.shape).clone() for n, t in tensors.items()} for g, tensors in groups.items()}


def _where(busy: Tensor, new: Groups, old: Groups):
    return {
        group: {
            name: torch.where(busy.reshape(-1, *[1] * (tensor.dim() - 1)), tensor, old[group][name])
            for name, tensor in tensors.items()
        }
        for group, tensors in new.items()
    }
