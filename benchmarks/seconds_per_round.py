"""Seconds per round of the `sequential` engine against a plain hand-written PyTorch loop, in one run.

The two take turns, round by round, on the same cohorts, so that whatever else the machine does meets both. What
counts is the ratio of the medians; it must be at most 1.05, and the command fails when it is more. With one thread
each: what a round costs, not how well torch splits small matrices.

    python benchmarks/seconds_per_round.py [--task mnist-2nn] [--output benchmarks/results/seconds_per_round.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from plain_loop import PlainFedAvg
from stayput.algorithms import FedAvg
from stayput.core.cohort import choose_cohort
from stayput.core.round import run_round
from stayput.data import mnist
from stayput.data.partitions import Iid
from stayput.engines import SequentialEngine
from stayput.runs.environment import machine, versions
from stayput.tasks.catalogue import named_task

ALLOWED_RATIO = 1.05
WORKLOADS = {"mnist-2nn": 15, "mnist-cnn": 5}
"""Tasks and how many rounds are timed; each with 100 clients of 600, cohorts of 10, E=1, B=10."""


def seconds(action: Callable[[], None]) -> float:
    """How long an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def measure(task_name: str, rounds: int) -> dict[str, Any]:
    """Time both on one workload, taking turns."""
    split = mnist.load()
    clients = split.train.partition(Iid(num_clients=100), seed=0)
    task = named_task(task_name).task
    engine = SequentialEngine(task, clients, device=torch.device("cpu"))
    algorithm = FedAvg(client_fraction=0.1, local_epochs=1, batch_size=10, learning_rate=0.1).algorithm()
    state = algorithm.init(engine.initial_model(0))
    plain = PlainFedAvg(
        task.model(),
        torch.from_numpy(split.train.inputs) / 255,
        torch.from_numpy(split.train.targets).long(),
        [torch.from_numpy(clients.rows(client)) for client in range(100)],
    )
    ours, theirs = [], []
    for number in range(rounds + 1):
        cohort = choose_cohort(100, 0.1, seed=0, round_number=number + 1).tolist()

        def our_round(t: int = number + 1) -> None:
            nonlocal state
            state, _ = run_round(state, t, algorithm=algorithm, engine=engine, num_clients=100, seed=0)

        def plain_round(cohort: list[int] = cohort) -> None:
            plain.round(cohort, local_epochs=1, batch_size=10, learning_rate=0.1)

        first, second = (our_round, plain_round) if number % 2 else (plain_round, our_round)
        times = {first: seconds(first), second: seconds(second)}
        if number > 0:  # the first round warms both up
            ours.append(times[our_round])
            theirs.append(times[plain_round])
    return {
        "workload": f"{task_name}, 100 clients of 600, cohort 10, E=1, B=10",
        "rounds": rounds,
        "sequential_seconds": median(ours),
        "plain_loop_seconds": median(theirs),
        "ratio": median(ours) / median(theirs),
    }


def main() -> int:
    """Measure, print, write, and fail when the engine is slower than allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "seconds_per_round.json")
    parser.add_argument("--task", choices=WORKLOADS, action="append", help="only this one")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = [measure(name, WORKLOADS[name]) for name in arguments.task or WORKLOADS]
    print(f"{'workload':58} {'sequential':>11} {'plain loop':>11} {'ratio':>6}")
    for row in results:
        print(
            f"{row['workload']:58} {row['sequential_seconds']:9.3f} s {row['plain_loop_seconds']:9.3f} s "
            f"{row['ratio']:6.2f}"
        )
    facts = {"machine": machine("cpu"), "versions": versions(), "threads": 1, "allowed_ratio": ALLOWED_RATIO}
    arguments.output.write_text(json.dumps({**facts, "results": results}, indent=2) + "\n", encoding="utf-8")
    slow = [row for row in results if row["ratio"] > ALLOWED_RATIO]
    if slow:
        print(f"slower than {ALLOWED_RATIO} times the plain loop: {', '.join(row['workload'] for row in slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
