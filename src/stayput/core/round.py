"""One round of federated training: the server's side of the paper's Algorithm 1, for any algorithm.

ClientUpdate(k, w) is the algorithm's client program (`algorithms/local_sgd.py` for FedAvg), run by an engine.
"""

from __future__ import annotations

import math
import time

import numpy as np
import numpy.typing as npt

from stayput.core.algorithm import Algorithm
from stayput.core.cohort import choose_cohort
from stayput.core.engine import ClientUpdate, Engine, RoundWork
from stayput.core.history import RoundReport
from stayput.core.tensors import Groups, all_finite
from stayput.core.weighted_sum import WeightedSum
from stayput.errors import TrainingDiverged


def run_round(
    state: Groups,
    round_number: int,
    *,
    algorithm: Algorithm,
    engine: Engine,
    num_clients: int,
    seed: int,
) -> tuple[Groups, RoundReport]:
    """From the server's state before round t to its state after it, and the report of the round."""
    started = time.perf_counter()
    # S_t <- random set of m = max(C·K, 1) clients
    cohort = choose_cohort(num_clients, algorithm.client_fraction, seed=seed, round_number=round_number)
    plan = algorithm.plan(round_number)
    work = RoundWork(round_number, seed, cohort, plan, algorithm.broadcast(state), algorithm.client)

    total = WeightedSum(cohort)
    updates = []
    for update in engine.train(work):  # for each client k in S_t, in parallel as far as the engine can
        _refuse_if_diverged(update, work)
        total.add(update.client, update.update, weight=update.num_examples)  # n_k
        updates.append((update.client, update.num_examples, update.num_steps, update.train_loss))

    # w_{t+1} <- sum over k in S_t of n_k/m_t · w_{t+1}^k, in the form w_t + sum of n_k/m_t · (w_{t+1}^k - w_t)
    new_state = algorithm.server_update(state, total.mean())
    updates.sort()  # by client, so that the report too does not depend on the order of arrival
    _, examples, steps, losses = zip(*updates, strict=True)
    return new_state, RoundReport(
        round_number=round_number,
        cohort_size=len(updates),
        num_examples=sum(examples),  # m_t
        num_steps=sum(steps),
        learning_rate=plan.learning_rate,
        train_loss=_weighted_mean(np.array(losses), np.array(examples)),
        seconds=time.perf_counter() - started,
    )


def _refuse_if_diverged(update: ClientUpdate, work: RoundWork) -> None:
    if math.isfinite(update.train_loss) and all_finite(update.update):
        return
    what = f"loss {update.train_loss}" if not math.isfinite(update.train_loss) else "weights that are not finite"
    raise TrainingDiverged(
        f"round {work.round_number}, client {update.client}: training gave {what} at "
        f"learning_rate={work.plan.learning_rate:g}; a loss must stay a finite number (lower the learning rate, "
        f"or look for NaN in the client's data)"
    )


def _weighted_mean(values: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]) -> float:
    return float((values * weights).sum() / weights.sum())
