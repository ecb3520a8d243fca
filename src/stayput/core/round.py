"""One round of federated training: the server's side of the paper's Algorithm 1, for any algorithm.

ClientUpdate(k, w) is the algorithm's client program (`algorithms/local_sgd.py` for FedAvg), run by an engine.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from stayput.core.algorithm import Algorithm
from stayput.core.cohort import choose_cohort
from stayput.core.engine import CohortResult, Engine, KeptByClients, RoundWork
from stayput.core.history import RoundReport
from stayput.core.local_work import LocalPlan
from stayput.core.seeds import Indices
from stayput.core.tensors import Groups, all_finite
from stayput.errors import InvalidSetting, TrainingDiverged


def run_round(
    state: Groups, round_number: int, *, algorithm: Algorithm, engine: Engine, num_clients: int, seed: int
) -> tuple[Groups, RoundReport]:
    """From the server's state before round t to its state after it, and the report of the round."""
    work = begin_round(state, round_number, algorithm=algorithm, num_clients=num_clients, seed=seed)
    (result,) = engine.run([work])  # for each client k in S_t, in parallel as far as the engine can
    return end_round(state, work, result, algorithm=algorithm)


def begin_round(
    state: Groups,
    round_number: int,
    *,
    algorithm: Algorithm,
    num_clients: int,
    seed: int,
    memory: KeptByClients | None = None,
) -> RoundWork:
    """Choose the cohort, and decide what it is sent and asked to do."""
    # S_t <- random set of m = max(C·K, 1) clients

    def asked(t: int) -> tuple[Indices, LocalPlan]:
        return choose_cohort(num_clients, algorithm.client_fraction, seed=seed, round_number=t), algorithm.plan(t)

    cohort, plan = asked(round_number)
    following = partial(asked, round_number + 1)
    return RoundWork(
        round_number, seed, cohort, plan, algorithm.broadcast(state), algorithm.client, memory or {}, following
    )


def end_round(
    state: Groups, work: RoundWork, result: CohortResult, *, algorithm: Algorithm, num_examples: int | None = None
) -> tuple[Groups, RoundReport]:
    """The server's next state, and the report. `num_examples` is n, for algorithms with means over all clients."""
    _refuse_if_diverged(work, result)
    m_t = sum(result.num_examples)
    mean = result.mean if not algorithm.over_population else _over_all(result.mean, algorithm, m_t, num_examples)
    # w_{t+1} <- sum over k in S_t of n_k/m_t · w_{t+1}^k, in the form w_t + sum of n_k/m_t · (w_{t+1}^k - w_t)
    new_state = algorithm.server_update(state, mean)
    return new_state, RoundReport(
        round_number=work.round_number,
        cohort_size=len(work.cohort),
        num_examples=m_t,
        num_steps=sum(result.num_steps),
        learning_rate=work.plan.learning_rate,
        train_loss=float(np.dot(result.train_losses, result.num_examples)) / m_t,
    )


def _over_all(mean: Groups, algorithm: Algorithm, cohort_examples: int, num_examples: int | None) -> Groups:
    """The mean, some groups of it over all clients: Σ n_k/n is m_t/n · Σ n_k/m_t, since others add zeros."""
    if num_examples is None:
        raise InvalidSetting(
            f"num_examples=None: {algorithm.name} takes means over all clients (pass n, the examples of all of them)"
        )
    return {
        group: {name: tensor * (cohort_examples / num_examples) for name, tensor in tensors.items()}
        if group in algorithm.over_population
        else tensors
        for group, tensors in mean.items()
    }


def _refuse_if_diverged(work: RoundWork, result: CohortResult) -> None:
    for client, loss, finite in zip(work.cohort.tolist(), result.train_losses, result.finite, strict=True):
        if not (math.isfinite(loss) and finite):
            what = "weights that are not finite" if math.isfinite(loss) else f"loss {loss}"
            raise _diverged(work, f"client {client}", what)
    if not (all_finite(result.mean) if result.finite_mean is None else result.finite_mean):
        raise _diverged(work, "its clients together", "weights that are not finite")


def _diverged(work: RoundWork, who: str, what: str) -> TrainingDiverged:
    return TrainingDiverged(
        f"round {work.round_number}, {who}: training gave {what} at "
        f"learning_rate={work.plan.learning_rate:g}; a loss must stay a finite number (lower the learning rate, or "
        f"look for NaN in the client's data)"
    )
