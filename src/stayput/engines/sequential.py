"""The plain engine: one client after another, one minibatch after another. The oracle of every other engine.

The paper's ClientUpdate can be followed here line by line; nothing is batched across clients, and any model that
torch can run and differentiate works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from stayput.core.algorithm import ClientFacts
from stayput.core.engine import ClientUpdate, CohortResult, RoundWork, summed
from stayput.core.local_work import passes
from stayput.core.seeds import Purpose, torch_stream
from stayput.core.tensors import BUFFERS, FULL_GRADIENT, WEIGHTS, Groups, Tensors
from stayput.data.federated_data import Examples, FederatedData
from stayput.engines import masks
from stayput.engines.model_program import AugmentationStreams, ModelProgram, minibatches
from stayput.engines.placed_examples import PlacedExamples
from stayput.errors import ModelMisfit
from stayput.tasks.task import Task


class SequentialEngine:
    """Trains the clients of a round one after another on one device."""

    def __init__(
        self, task: Task, clients: FederatedData, *, test: Examples | None = None, device: torch.device
    ) -> None:
        self._clients = clients
        self._program = ModelProgram(task, device)
        self._data = PlacedExamples(clients.examples, task, device, self._program.dtype)
        self._program.lay_out_filters(self._data)
        self._test = None if test is None else PlacedExamples(test, task, device, self._program.dtype)
        self.initial_model = self._program.initial_model
        self.module_with = self._program.module_with

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        """Each client of the cohort in turn."""
        for client in work.cohort.tolist():
            yield self._train_client(client, work)

    def run(self, works: Sequence[RoundWork]) -> list[CohortResult]:
        """Each cohort in turn."""
        return [summed(work, self.train(work)) for work in works]

    def evaluate(self, model: Groups) -> Mapping[str, float]:
        """The loss and the metrics of a model on the test examples; empty if there are none."""
        return {} if self._test is None else self._program.evaluate(model, self._test)

    def _train_client(self, client: int, work: RoundWork) -> ClientUpdate:
        rows = self._clients.rows(client)
        length = work.plan.batch_length(len(rows))
        num_steps = work.plan.num_steps(len(rows))
        facts = ClientFacts(work.plan.learning_rate, len(rows), num_steps)
        losses: list[Tensor] = []
        given = work.given(client)
        if work.program.full_gradient:
            given[FULL_GRADIENT] = self._full_gradient(client, work)
        self._program.load(work.sent, training=True)
        self._program.begin_client(work.seed, work.round_number, client)
        local = work.program.start(given, facts)
        with torch_stream(
            work.seed,
            Purpose.LOCAL_TRAINING,
            round_number=work.round_number,
            client=client,
            device=self._program.device,
        ):
            for order in passes(work.plan, len(rows), seed=work.seed, round_number=work.round_number, client=client):
                streams = AugmentationStreams(work.seed, work.round_number, first_step=len(losses))
                for inputs, targets in minibatches(self._data, rows, order, length, streams=streams):

                    def gradient_at(weights: Tensors, x: Tensor = inputs, y: Tensor = targets) -> Tensors:
                        with _said_where(work, client, x):
                            loss, gradient = self._program.loss_and_gradient(weights, x, y)
                        losses.append(loss)
                        return gradient

                    local = work.program.step(local, gradient_at, facts)
        if BUFFERS in work.sent:
            local = {**local, BUFFERS: self._program.buffers()}
        return ClientUpdate(
            client=client,
            num_examples=len(rows),
            update=work.program.finish(given, local, facts),
            num_steps=num_steps,
            train_loss=float(torch.stack(losses).mean()),
        )

    def _full_gradient(self, client: int, work: RoundWork) -> Tensors:
        """∇F_k(w_t): minibatches in stored order, each weighted with its share of the client's examples."""
        rows = self._clients.rows(client)
        self._program.load(work.sent, training=True)
        self._program.begin_client(work.seed, work.round_number, client, first_gradient=masks.FULL_GRADIENT)
        total: dict[str, Tensor] = {}
        order = np.arange(len(rows), dtype=np.int64)
        with torch_stream(
            work.seed, Purpose.FULL_GRADIENT, round_number=work.round_number, client=client, device=self._program.device
        ):
            for inputs, targets in minibatches(self._data, rows, order, work.plan.batch_length(len(rows))):
                with _said_where(work, client, inputs):
                    _, gradient = self._program.loss_and_gradient(work.sent[WEIGHTS], inputs, targets)
                share = len(inputs) / len(rows)
                for name, part in gradient.items():
                    total[name] = part.mul_(share) if name not in total else total[name].add_(part, alpha=share)
        return total


@contextmanager
def _said_where(work: RoundWork, client: int, inputs: Tensor) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        sentence = " ".join(str(error).split())
        raise ModelMisfit(
            f"round {work.round_number}, client {client}: the model fails on a minibatch of {len(inputs)} (shape "
            f"{tuple(inputs.shape)}): {type(error).__name__}: {sentence} (the last minibatch of a client may "
            f"be smaller than B, down to one example)"
        ) from error
