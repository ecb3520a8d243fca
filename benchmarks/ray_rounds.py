"""What Ray adds to a round: the same rounds on the `workers` engine and on Ray, taking turns, two workers each.

    python benchmarks/ray_rounds.py
    python benchmarks/ray_rounds.py memory      what this process and the workers hold over 1,000 rounds

`workers` has the same processes on the same cores without Ray between them, so the difference is what Ray costs. Also
measured: that both have the bits of `sequential`. Written into benchmarks/results/ray.json and
ray-memory.json, with the machine.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import stayput
from stayput.core.round import run_round
from stayput.core.tensors import fingerprint
from stayput.data import Assignment, Examples, FederatedData
from stayput.engines import RayEngine, SequentialEngine, WorkersEngine
from stayput.engines.cluster.connection import connect, disconnect
from stayput.models import TwoLayerNet
from stayput.runs.environment import machine, versions

RESULTS = Path(__file__).resolve().parent / "results"
ROUNDS, WARM = 30, 5


def population(num_clients: int, examples_each: int) -> FederatedData:
    """Pictures of noise."""
    draw = np.random.default_rng(0)
    total = num_clients * examples_each
    examples = Examples(draw.random((total, 784), dtype=np.float32), draw.integers(10, size=total))
    return FederatedData(examples, Assignment(None, np.arange(num_clients + 1) * examples_each))


def resident(pid: int | str) -> float:
    """What a process has in memory, in MB, beside maps of files and what it shares."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000


def memory() -> None:
    """Rounds of ten clients with updates of 0.8 MB."""
    torch.set_num_threads(1)
    connect(num_workers=2)
    clients = population(100, 20)
    engine = RayEngine(stayput.Task(TwoLayerNet, stayput.losses.cross_entropy), clients, device=torch.device("cpu"))
    algorithm = stayput.FedAvg(client_fraction=0.1, batch_size=20).algorithm()
    state: Any = algorithm.init(engine.initial_model(0))
    rows = []
    for number in range(1, 1001):
        state, _ = run_round(state, number, algorithm=algorithm, engine=engine, num_clients=100, seed=0)
        if number in (50, 100, 200, 500, 1000):
            pids = [worker.pid for worker in engine._pool.workers]  # noqa: SLF001 - there is no other way to them
            held = ["self", *pids]
            rows.append({"round": number, **dict(zip(("this process, MB", "worker 1, MB", "worker 2, MB"),
                                                     map(resident, held), strict=True))})  # fmt: skip
    disconnect()
    write("ray-memory", rows)


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Into a file of results."""
    measured = {"rounds": ROUNDS, "results": rows, "machine": machine("cpu"), "versions": versions()}
    (RESULTS / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Take turns."""
    torch.set_num_threads(1)
    connect(num_workers=2)
    rows = []
    cases = {"tiny": (lambda: nn.Linear(784, 10), 100, 20), "2NN": (TwoLayerNet, 100, 100)}
    for name, (model, num_clients, each) in cases.items():
        clients = population(num_clients, each)
        task = stayput.Task(model, stayput.losses.cross_entropy)
        algorithm = stayput.FedAvg(client_fraction=0.1, batch_size=10).algorithm()
        kinds = {"sequential": SequentialEngine, "workers": partial(WorkersEngine, num_workers=2), "ray": RayEngine}
        engines = {kind: make(task, clients, device=torch.device("cpu")) for kind, make in kinds.items()}
        states = {kind: algorithm.init(engine.initial_model(0)) for kind, engine in engines.items()}
        seconds: dict[str, list[float]] = {kind: [] for kind in engines}
        for number in range(1, WARM + ROUNDS + 1):
            for kind, engine in engines.items():
                started = time.perf_counter()
                states[kind], _ = run_round(
                    states[kind], number, algorithm=algorithm, engine=engine, num_clients=num_clients, seed=0
                )
                if number > WARM:
                    seconds[kind].append(time.perf_counter() - started)
        assert len({fingerprint(state) for state in states.values()}) == 1
        medians = {kind: 1e3 * float(np.median(taken)) for kind, taken in seconds.items()}
        over = 1e3 * (np.array(seconds["ray"]) - np.array(seconds["workers"]))
        rows.append(
            {
                "model": name,
                "clients a round": num_clients // 10,
                "update, MB": sum(p.numel() for p in model().parameters()) * 4 / 1e6,
                **{f"{kind}, ms": median for kind, median in medians.items()},
                "Ray over workers, ms": float(np.median(over)),
                "same bits": "yes",
            }
        )
        print(rows[-1], flush=True)
    disconnect()
    write("ray", rows)


if __name__ == "__main__":
    memory() if sys.argv[1:] == ["memory"] else main()
