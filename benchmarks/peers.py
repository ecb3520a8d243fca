"""stayput on a CPU beside Apple's pfl: seconds per round of W1 and W2, taking turns in one run.

pfl gets a virtual environment of its own (`benchmarks/.peers`, made at the first run) with the same torch. Everybody
runs in a process of its own with one thread for each process, on random images; the contestants of a workload take
turns, several times, and what counts is the ratio of the medians. `share` says what part of the machine's float32
matrix product, measured between the turns on as many threads as the contestant has processes, the round's arithmetic
amounts to.

    python benchmarks/peers.py [--rounds 5] [--turns 3] [--output benchmarks/results/peers-cpu.json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from lanes import population, seconds_per_round
from stayput.engines import ENGINES
from stayput.engines.precision import use_precision
from stayput.runs.environment import machine, versions
from stayput.tasks.catalogue import named_task

HERE = Path(__file__).parent
PEERS = HERE / ".peers"
REQUIREMENTS = ("pfl[pytorch]==0.6.0", f"torch=={torch.__version__.partition('+')[0]}")

TASKS = {"W1": "mnist-cnn", "W2": "mnist-2nn"}
OPERATIONS = {"W1": 0.73e9 * 600, "W2": 0.012e9 * 600}
"""Floating-point operations of a round of ten clients, 600 steps: benchmarks/README.md has the count."""


@dataclass(frozen=True)
class Contestant:
    """Somebody who runs rounds."""

    name: str
    command: tuple[str, ...]
    processes: int


def pfl(workload: str, rounds: int) -> list[Contestant]:
    """pfl with one process and with two."""
    python = str(PEERS / "bin" / "python")
    script = (str(HERE / "pfl_rounds.py"), workload, str(rounds))
    two = (python, "-m", "torch.distributed.run", "--nproc-per-node", "2", *script)
    return [Contestant("pfl", (python, *script), 1), Contestant("pfl, 2 processes", two, 2)]


def ours(workload: str, rounds: int) -> list[Contestant]:
    """Every engine, and the processes' one in bf16, too."""
    script = (sys.executable, str(Path(__file__)), "--alone", workload, str(rounds))
    each = [
        ("sequential", "float32", 1), ("lanes", "float32", 2), ("workers", "float32", 2), ("workers", "bf16", 2)
    ]  # fmt: skip
    return [Contestant(f"{engine}, {precision}", (*script, engine, precision), n) for engine, precision, n in each]


def alone(workload: str, rounds: int, engine_name: str, precision: str) -> None:
    """One of our engines in this process; prints the seconds of each round."""
    use_precision(precision)
    torch.set_num_threads(2 if engine_name == "lanes" else 1)
    device = torch.device("cpu")
    engine = ENGINES[engine_name](named_task(TASKS[workload]).task, population(), device=device)
    print(json.dumps(seconds_per_round(engine, [0.1], 1, rounds, device)))


def times_of(contestant: Contestant) -> list[float]:
    """What it printed last."""
    threads = {} if "lanes" in contestant.name else {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        contestant.command, env={**os.environ, **threads}, capture_output=True, text=True, timeout=900, check=False
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("[") and line.endswith("]")]
    if ended.returncode or not lines:
        sys.exit(f"{contestant.name} failed:\n{ended.stderr[-2000:]}")
    return [float(seconds) for seconds in json.loads(lines[-1])]


def product_rate(threads: int) -> float:
    """Operations a second of a float32 matrix product of 1024."""
    torch.set_num_threads(threads)
    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    rates = []
    for _ in range(8):
        started = time.perf_counter()
        torch.mm(a, b)
        rates.append(2 * 1024**3 / (time.perf_counter() - started))
    return median(rates[2:])


def measure(workload: str, rounds: int, turns: int) -> list[dict[str, Any]]:
    """The contestants of one workload, taking turns."""
    contestants = [*pfl(workload, rounds), *ours(workload, rounds)]
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(turns):
        for contestant in contestants:
            rates[contestant.processes].append(product_rate(contestant.processes))
            seconds[contestant.name].extend(times_of(contestant))
    reference = {contestant.name: median(seconds[contestant.name]) for contestant in contestants[:2]}
    rows = []
    for contestant in contestants:
        middle = median(seconds[contestant.name])
        row = {
            "workload": workload,
            "who": contestant.name,
            "processes": contestant.processes,
            "rounds": len(seconds[contestant.name]),
            "seconds_per_round": middle,
            "spread": [min(seconds[contestant.name]), max(seconds[contestant.name])],
            "share": OPERATIONS[workload] / middle / median(rates[contestant.processes]),
            **{f"faster_than_{name}": at / middle for name, at in reference.items()},
        }
        rows.append(row)
        print(
            f"{workload} {row['who']:20} {middle:8.4f} s/round, {row['share']:6.1%} of the matrix product, "
            + ", ".join(f"{at / middle:5.2f} x {name}" for name, at in reference.items()),
            flush=True,
        )
    return rows


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workload", choices=sorted(TASKS), action="append")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "peers-cpu.json")
    parser.add_argument("--alone", nargs=4, metavar=("WORKLOAD", "ROUNDS", "ENGINE", "PRECISION"))
    arguments = parser.parse_args()
    if arguments.alone:
        workload, rounds, engine, precision = arguments.alone
        alone(workload, int(rounds), engine, precision)
        return
    if not (PEERS / "bin" / "pip").exists():
        venv.create(PEERS, with_pip=True)
        subprocess.run([PEERS / "bin" / "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    rows = [
        row
        for workload in arguments.workload or ("W2", "W1")
        for row in measure(workload, arguments.rounds, arguments.turns)
    ]
    facts = {"machine": machine("cpu"), "versions": {**versions(), "pfl": "0.6.0"}, "precision": "as named"}
    arguments.output.write_text(json.dumps({**facts, "results": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
