"""Microseconds per client-step of the lanes engine, and its seconds per round against a plain loop, in one run.

Workloads: W1 MNIST CNN, W2 MNIST 2NN, each with 100 clients of 600 random images (what a pixel shows does not
change what it costs), cohorts of 10, E=1, B=10; alone, and as a grid of learning rates (11 rates, so 110 lanes) and
of rates and seeds (1,100 lanes). A client-step is one local step of one client; the time is that of whole rounds,
schedule, transfer and averaging included, without evaluation.

    python benchmarks/lanes.py --device cuda --precision tf32 --output benchmarks/results/lanes-h200.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from plain_loop import PlainFedAvg
from stayput.algorithms import FedAvg
from stayput.core.cohort import choose_cohort
from stayput.core.engine import Engine
from stayput.core.round import begin_round, end_round
from stayput.data.federated_data import Examples, FederatedData
from stayput.data.partitions import Iid
from stayput.engines import ENGINES
from stayput.engines.precision import PRECISIONS, use_precision
from stayput.runs.environment import machine, versions
from stayput.tasks.catalogue import named_task

RATES = [round(0.01 * 10 ** (k / 6), 4) for k in range(11)]
STEPS = 10 * 60
"""Client-steps of one round of one experiment."""


def population() -> FederatedData:
    """Images of the size of MNIST's."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(256, size=(60_000, 28, 28), dtype=np.uint8)
    labels = draw.integers(10, size=60_000, dtype=np.uint8)
    return Examples(pixels, labels).partition(Iid(num_clients=100), seed=0)


def seconds_per_round(engine: Engine, rates: list[float], seeds: int, rounds: int, device: torch.device) -> list[float]:
    """Rounds of all experiments together, the first two (warming up, capturing) left out."""
    members = [
        (FedAvg(client_fraction=0.1, batch_size=10, learning_rate=rate).algorithm(), seed)
        for rate in rates
        for seed in range(seeds)
    ]
    states = [algorithm.init(engine.initial_model(seed)) for algorithm, seed in members]
    times = []
    for t in range(1, rounds + 3):
        started = _now(device)
        works = [
            begin_round(state, t, algorithm=algorithm, num_clients=100, seed=seed)
            for state, (algorithm, seed) in zip(states, members, strict=True)
        ]
        results = engine.run(works)
        states = [
            end_round(state, work, result, algorithm=algorithm)[0]
            for state, work, result, (algorithm, _) in zip(states, works, results, members, strict=True)
        ]
        times.append(_now(device) - started)
    return times[2:]


def plain_seconds(task_name: str, clients: FederatedData, rounds: int, device: torch.device) -> list[float]:
    """The hand-written loop on the same device."""
    plain = PlainFedAvg(
        named_task(task_name).task.model().to(device),
        (torch.from_numpy(clients.examples.inputs) / 255).to(device),
        torch.from_numpy(clients.examples.targets).long().to(device),
        [torch.from_numpy(clients.rows(client)).to(device) for client in range(100)],
    )
    times = []
    for t in range(1, rounds + 2):
        started = _now(device)
        cohort = choose_cohort(100, 0.1, seed=0, round_number=t).tolist()
        plain.round(cohort, local_epochs=1, batch_size=10, learning_rate=0.1)
        times.append(_now(device) - started)
    return times[1:]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def row(workload: str, engine: str, lanes: int, times: list[float]) -> dict[str, Any]:
    """A line of the table; one experiment has ten lanes."""
    middle = median(times)
    per_step = middle / (STEPS * lanes / 10) * 1e6
    print(f"{workload:4} {engine:12} {lanes:6} lanes {middle:9.4f} s/round {per_step:9.2f} us/client-step", flush=True)
    return {
        "workload": workload,
        "engine": engine,
        "lanes": lanes,
        "rounds": len(times),
        "seconds_per_round": middle,
        "microseconds_per_client_step": per_step,
        "spread": [min(times), max(times)],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--engine", action="append", choices=sorted(ENGINES), help="default: all of them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    use_precision(arguments.precision)
    if device.type == "cpu":
        torch.set_num_threads(1)
    clients = population()
    rows = []
    for workload, task_name in (("W2", "mnist-2nn"), ("W1", "mnist-cnn")):
        rows.append(row(workload, "plain loop", 10, plain_seconds(task_name, clients, 2, device)))
        for name in arguments.engine or ENGINES:
            engine = ENGINES[name](named_task(task_name).task, clients, device=device)
            rows.append(row(workload, name, 10, seconds_per_round(engine, [0.1], 1, arguments.rounds, device)))
            if name != "sequential" and device.type == "cuda":
                times = seconds_per_round(engine, RATES, 1, arguments.rounds, device)
                rows.append(row(workload, name, 110, times))
                if workload == "W2":
                    times = seconds_per_round(engine, RATES, 10, 3, device)
                    rows.append(row(workload, name, 1100, times))
            del engine
    facts = {"machine": machine(arguments.device), "versions": versions(), "precision": arguments.precision}
    arguments.output.write_text(json.dumps({**facts, "results": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
