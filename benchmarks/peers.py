"""stayput on a CPU beside Apple's pfl, FedJAX and a sketch in plain JAX: seconds per round of W1 and W2.

The others get virtual environments of their own (`benchmarks/.peers` with the same torch, `benchmarks/.peers-jax`),
made at the first run; who does not install is said and left out. Everybody runs in processes of its own, with one
thread each or, where there is one process, two; on random images. The contestants of a workload take turns, several
times, and what counts is the ratio of the medians; `fastest` is the fastest round of each. `share` says what part of
the machine's float32 matrix product, measured between the turns on as many threads as the contestant uses cores, the
round's arithmetic amounts to. `processor` is the processor time of a round over all processes of a contestant, from two
runs of different length: it hardly depends on what else the machine does, and divided by the cores it is what a round
would take if nobody waited; a thread that spins while it waits counts. A workload that is not measured keeps the rows
that the file has, and `--more` adds further turns to those in the file.

    python benchmarks/peers.py [--workload W2] [--rounds 5] [--turns 3] [--output benchmarks/results/peers-cpu.json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from lanes import seconds_per_round
from stayput.engines import ENGINES
from stayput.engines.precision import use_precision
from stayput.runs.environment import machine, versions
from workloads import WORKLOADS

HERE = Path(__file__).parent
PEERS, PEERS_JAX = HERE / ".peers", HERE / ".peers-jax"
REQUIREMENTS = {
    PEERS: ("pfl[pytorch]==0.6.0", f"torch=={torch.__version__.partition('+')[0]}"),
    # FedJAX 0.0.17 calls `jax.tree_map`, which later versions of JAX do not have.
    PEERS_JAX: ("fedjax==0.0.17", "jax==0.4.25", "jaxlib==0.4.25", "dm-haiku==0.0.12", "numpy<2", "scipy<1.13"),
}

OPERATIONS = {"W1": 0.73e9 * 600, "W2": 0.0088e9 * 600}
"""Floating-point operations of a round of ten clients, 600 steps: benchmarks/README.md has the count."""


@dataclass(frozen=True)
class Contestant:
    """Somebody who runs rounds."""

    name: str
    command: tuple[str, ...]
    cores: int
    one_thread: bool = True
    """Whether each of its processes has one thread; else there is one process, with as many as it likes."""


def pfl(workload: str, rounds: int) -> list[Contestant]:
    """pfl with one process and with two."""
    python = str(PEERS / "bin" / "python")
    script = (str(HERE / "pfl_rounds.py"), workload, str(rounds))
    two = (python, "-m", "torch.distributed.run", "--nproc-per-node", "2", *script)
    return [Contestant("pfl", (python, *script), 1), Contestant("pfl, 2 processes", two, 2)]


def jax(workload: str, rounds: int) -> list[Contestant]:
    """FedJAX; and the sketch, but for convolutions, which `vmap` makes grouped ones of, a hundred times slower here."""
    script = (str(PEERS_JAX / "bin" / "python"), str(HERE / "jax_rounds.py"))
    who = [Contestant("FedJAX", (*script, "fedjax", workload, str(rounds)), 2, one_thread=False)]
    if workload == "W2":
        who.append(Contestant("JAX sketch", (*script, "sketch", workload, str(rounds)), 2, one_thread=False))
    return who


def ours(workload: str, rounds: int) -> list[Contestant]:
    """Every engine, and the processes' one in bf16, too."""
    script = (sys.executable, str(Path(__file__)), "--alone", workload, str(rounds))
    each = [
        ("sequential", "float32", 1), ("lanes", "float32", 2), ("workers", "float32", 2),
        ("lane_workers", "float32", 2), ("workers", "bf16", 2)
    ]  # fmt: skip
    return [
        Contestant(f"{engine}, {precision}", (*script, engine, precision), cores, one_thread=engine != "lanes")
        for engine, precision, cores in each
    ]


def alone(workload: str, rounds: int, engine_name: str, precision: str) -> None:
    """One of our engines in this process; prints the seconds of each round."""
    use_precision(precision)
    torch.set_num_threads(2 if engine_name == "lanes" else 1)
    chosen = WORKLOADS[workload]
    engine = ENGINES[engine_name](chosen.task, chosen.clients(), device=torch.device("cpu"))
    print(json.dumps(seconds_per_round(engine, [chosen.algorithm(chosen.rate)], 1, rounds, chosen.num_clients)))


def processor_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def times_of(contestant: Contestant, attempts: int = 3) -> tuple[list[float], float]:
    """What it printed last, and its processor time.

    pfl's processes abort now and then, where the first of them ends before the others.
    """
    before = processor_seconds()
    threads = {"OMP_NUM_THREADS": "1"} if contestant.one_thread else {}
    ended = subprocess.run(
        contestant.command, env={**os.environ, **threads}, capture_output=True, text=True, timeout=900, check=False
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("[") and line.endswith("]")]
    if not lines and attempts > 1:
        return times_of(contestant, attempts - 1)
    if not lines:
        sys.exit(f"{contestant.name} failed:\n{ended.stderr[-2000:]}")
    return [float(seconds) for seconds in json.loads(lines[-1])], processor_seconds() - before


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


def installed(place: Path) -> bool:
    """Whether somebody is there, after an attempt to install them."""
    if not (place / "bin" / "python").exists():
        venv.create(place, with_pip=True)
        ended = subprocess.run([place / "bin" / "pip", "install", "--quiet", *REQUIREMENTS[place]], check=False)
        if ended.returncode:
            (place / "failed").touch()
    if (place / "failed").exists():
        print(f"{REQUIREMENTS[place][0]} does not install here: left out (remove {place.name} to try again)")
    return not (place / "failed").exists()


def all_of(workload: str, rounds: int) -> list[Contestant]:
    """Whoever is here."""
    return [
        *(pfl(workload, rounds) if installed(PEERS) else []),
        *(jax(workload, rounds) if installed(PEERS_JAX) else []),
        *ours(workload, rounds),
    ]


def measure(
    workload: str, rounds: int, turns: int, *, before: Sequence[Mapping[str, Any]], without: Sequence[str]
) -> list[dict[str, Any]]:
    """The contestants of one workload, taking turns; `before` is what was measured in earlier turns."""
    contestants, short = (
        [each for each in all_of(workload, count) if each.name not in without] for count in (rounds + 1, 1)
    )
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    processor: dict[str, list[float]] = {row["who"]: list(row["processor_seconds"]) for row in before}
    rates: dict[int, list[float]] = {1: [], 2: []}
    rates_of: dict[str, list[float]] = {row["who"]: list(row["product_rates"]) for row in before}
    for row in before:
        seconds.setdefault(row["who"], []).extend(row["all_seconds"])
        rates[row["cores"]].extend(row["product_rates"])
    for _ in range(turns):
        for contestant, shorter in zip(contestants, short, strict=True):
            rate = product_rate(contestant.cores)
            rates[contestant.cores].append(rate)
            rates_of.setdefault(contestant.name, []).append(rate)
            _, used_by_one = times_of(shorter)
            taken, used_by_all = times_of(contestant)
            seconds[contestant.name].extend(taken)
            used = (used_by_all - used_by_one) / rounds
            processor.setdefault(contestant.name, []).append(used)
            print(f"{workload} {contestant.name:24} {median(taken):8.4f} s/round, processor {used:8.4f} s", flush=True)
    reference = {
        contestant.name: median(seconds[contestant.name])
        for contestant in contestants
        if contestant.name.startswith(("pfl", "FedJAX"))
    }
    rows = []
    for contestant in contestants:
        middle = median(seconds[contestant.name])
        row = {
            "workload": workload,
            "who": contestant.name,
            "cores": contestant.cores,
            "rounds": len(seconds[contestant.name]),
            "seconds_per_round": middle,
            "spread": [min(seconds[contestant.name]), max(seconds[contestant.name])],
            "fastest": min(seconds[contestant.name]),
            "processor": median(processor[contestant.name]),
            "share": OPERATIONS[workload] / middle / median(rates[contestant.cores]),
            "all_seconds": seconds[contestant.name],
            "processor_seconds": processor[contestant.name],
            "product_rates": rates_of[contestant.name],
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
    parser.add_argument("--workload", choices=sorted(OPERATIONS), action="append")
    parser.add_argument("--without", action="append", default=[], help="the name of a contestant to leave out")
    parser.add_argument("--more", action="store_true", help="add to the turns in the file")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "peers-cpu.json")
    parser.add_argument("--alone", nargs=4, metavar=("WORKLOAD", "ROUNDS", "ENGINE", "PRECISION"))
    arguments = parser.parse_args()
    if arguments.alone:
        workload, rounds, engine, precision = arguments.alone
        alone(workload, int(rounds), engine, precision)
        return
    workloads = arguments.workload or ["W2", "W1"]
    kept = json.loads(arguments.output.read_text(encoding="utf-8"))["results"] if arguments.output.exists() else []
    rows = [row for row in kept if row["workload"] not in workloads]
    for workload in workloads:
        before = [row for row in kept if row["workload"] == workload] if arguments.more else []
        rows += measure(workload, arguments.rounds, arguments.turns, before=before, without=arguments.without)
    others = {"pfl": "0.6.0", "fedjax": "0.0.17", "jax": "0.4.25"}
    facts = {"machine": machine("cpu"), "versions": {**versions(), **others}, "precision": "as named"}
    arguments.output.write_text(json.dumps({**facts, "results": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
