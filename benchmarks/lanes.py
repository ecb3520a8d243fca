"""Microseconds per client-step of the lanes engine beside a plain loop and `sequential`, on the workloads W1 to W4.

One command is a whole session on a GPU: every workload alone and as a grid, the whole of pfl's CIFAR-10 benchmark with
its evaluations (beside pfl where it is installed), a profile, a table with what is asked for, and a file that is
written anew after every measurement, so that what was measured is kept if something fails.

    python benchmarks/lanes.py --device cuda --precision tf32 --whole --output benchmarks/results/lanes-h200.json

with `--profile FILE` for where the time goes, and `--pfl-python PYTHON` where pfl has a Python of its own.

A client-step is one local step of one client; the time is that of whole rounds, schedule, transfer and averaging
included, without evaluation but for the whole benchmark. It ends with 1 if something that is asked for is missed, on a
GPU; `--tiny` runs all of it at sizes for a test, where nothing is asked for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from plain_loop import PlainFedAvg
from stayput.algorithms import FedAvg
from stayput.core.cohort import choose_cohort
from stayput.core.engine import Engine
from stayput.core.round import begin_round, end_round
from stayput.data.federated_data import FederatedData
from stayput.engines import ENGINES, LanesEngine
from stayput.engines.lanes.lstm import use_fused_steps
from stayput.engines.precision import PRECISIONS, use_precision
from stayput.runs.environment import machine, versions
from workloads import EVALUATE_EVERY, GRID_AT_MOST, WHOLE_ASKED, WHOLE_ROUNDS, WORKLOADS, Workload, tiny

RATES = [round(0.01 * 10 ** (k / 6), 4) for k in range(11)]
HERE = Path(__file__).parent


def seconds_per_round(
    engine: Engine, settings: Sequence[FedAvg], seeds: int, rounds: int, num_clients: int, *, warm_up: int = 2
) -> list[float]:
    """Rounds of all experiments together, but for those that warm up and capture."""
    members = [(each.algorithm(), seed) for each in settings for seed in range(seeds)]
    states = [algorithm.init(engine.initial_model(seed)) for algorithm, seed in members]
    times = []
    for t in range(1, rounds + warm_up + 1):
        started = _now()
        works = [
            begin_round(state, t, algorithm=algorithm, num_clients=num_clients, seed=seed)
            for state, (algorithm, seed) in zip(states, members, strict=True)
        ]
        results = engine.run(works)
        states = [
            end_round(state, work, result, algorithm=algorithm)[0]
            for state, work, result, (algorithm, _) in zip(states, works, results, members, strict=True)
        ]
        times.append(_now() - started)
    return times[warm_up:]


def whole_seconds(engine: Engine, workload: Workload, rounds: int) -> float:
    """All rounds of one experiment with its evaluations, from the first to the last."""
    algorithm = workload.algorithm(workload.rate).algorithm()
    state = algorithm.init(engine.initial_model(0))
    started = _now()
    for t in range(1, rounds + 1):
        work = begin_round(state, t, algorithm=algorithm, num_clients=workload.num_clients, seed=0)
        (result,) = engine.run([work])
        state, _ = end_round(state, work, result, algorithm=algorithm)
        if t % EVALUATE_EVERY == 0:
            engine.evaluate(state)
    return _now() - started


def plain_seconds(workload: Workload, clients: FederatedData, rounds: int, device: torch.device) -> list[float]:
    """The hand-written loop on the same device."""
    inputs = workload.task.prepare(torch.from_numpy(clients.examples.inputs).to(device))
    plain = PlainFedAvg(
        workload.task.model().to(device),
        inputs,
        torch.from_numpy(clients.examples.targets).long().to(device),
        [torch.from_numpy(clients.rows(client)).to(device) for client in range(workload.num_clients)],
    )
    times = []
    for t in range(1, rounds + 2):
        started = _now()
        fraction = workload.cohort / workload.num_clients
        cohort = choose_cohort(workload.num_clients, fraction, seed=0, round_number=t).tolist()
        plain.round(cohort, local_epochs=1, batch_size=workload.batch_size, learning_rate=workload.rate)
        times.append(_now() - started)
    return times[1:]


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Session:
    """What was measured, kept in a file from the first number on."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.device = arguments, torch.device(arguments.device)
        self.rows: list[dict[str, Any]] = []
        self.missed: list[str] = []
        self.failed: list[str] = []

    def attempt(self, what: str, measure: Callable[[], None]) -> None:
        """Measure; what fails is said and leaves the rest."""
        try:
            measure()
        except Exception:  # noqa: BLE001 - whatever it is, a session on a borrowed machine goes on
            self.failed.append(what)
            traceback.print_exc()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def add(self, workload: Workload, who: str, grid: str, times: Sequence[float], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - columns
        """A row of the table; the times are those of whole rounds."""
        rates, seeds = workload.grids[grid]
        lanes = workload.cohort * rates * seeds
        middle = median(times)
        per_step = middle / (workload.client_steps * rates * seeds) * 1e6
        asked = workload.asked.get(grid) if who == "lanes" and self.device.type == "cuda" else None
        row = {
            "workload": workload.name,
            "engine": who,
            "experiments": grid,
            "lanes": lanes,
            "rounds": len(times),
            "seconds_per_round": middle,
            "microseconds_per_client_step": per_step,
            "asked": asked,
            "spread": [min(times), max(times)],
            **more,
        }
        self.rows.append(row)
        verdict = "" if asked is None else f"   asked {asked:g}: {'reached' if per_step <= asked else 'MISSED'}"
        if asked is not None and per_step > asked:
            self.missed.append(f"{workload.name}, {grid}: {per_step:.2f} us a client-step, asked {asked:g}")
        print(
            f"{workload.name:3} {who:12} {grid:20} {lanes:5} lanes {middle:9.4f} s/round {per_step:9.2f} us/client-step"
            f"{verdict}",
            flush=True,
        )
        self.write()
        return row

    def write(self) -> None:
        """The file, as it stands."""
        facts = {
            "machine": machine(self.arguments.device),
            "versions": versions(),
            "precision": self.arguments.precision,
            "missed": self.missed,
            "failed": self.failed,
        }
        text = json.dumps({**facts, "results": self.rows}, indent=2)
        self.arguments.output.write_text(text + "\n", encoding="utf-8")


def measure(session: Session, workload: Workload) -> None:
    """A workload: the plain loop, `sequential`, and lanes alone and as grids."""
    clients, device, rounds = workload.clients(), session.device, session.arguments.rounds
    plain: list[float] = []

    def loop() -> None:
        plain.extend(plain_seconds(workload, clients, min(2, rounds), device))
        session.add(workload, "plain loop", "one run", plain)

    def engine(name: str) -> Engine:
        made: Engine = ENGINES[name](workload.task, clients, device=device)
        return made

    def alone() -> None:
        one = [workload.algorithm(workload.rate)]
        times = seconds_per_round(engine("sequential"), one, 1, min(2, rounds), workload.num_clients)
        session.add(workload, "sequential", "one run", times)

    session.attempt(f"{workload.name}, plain loop", loop)
    session.attempt(f"{workload.name}, sequential", alone)
    lanes = LanesEngine(workload.task, clients, device=device)
    single: list[float] = []
    for grid, (rates, seeds) in workload.grids.items():

        def together(grid: str = grid, rates: int = rates, seeds: int = seeds) -> None:
            chosen = [workload.rate] if rates == 1 else RATES[:rates]
            settings = [workload.algorithm(rate) for rate in chosen]
            times = seconds_per_round(lanes, settings, seeds, rounds, workload.num_clients)
            single.append(median(times))
            ratios = {"occupancy": lanes.occupancy, "times_a_single_run": median(times) / single[0]}
            if plain:
                ratios["times_the_plain_loop"] = median(plain) * rates * seeds / median(times)
            session.add(workload, "lanes", grid, times, **ratios)

        session.attempt(f"{workload.name}, lanes, {grid}", together)
    if workload.name == "W4":
        session.attempt("W4, fused steps", lambda: measure_fused_steps(session, workload, clients))
    if workload.name == "W1" and len(single) > 1 and device.type == "cuda" and single[1] > GRID_AT_MOST * single[0]:
        session.missed.append(f"W1, 11 rates: {single[1] / single[0]:.1f} times a single run, asked {GRID_AT_MOST:g}")


def measure_fused_steps(session: Session, workload: Workload, clients: FederatedData) -> None:
    """W4 with the kernels of the LSTM's steps, which are not the default until they have been measured."""
    use_fused_steps(True)
    try:
        engine = ENGINES["lanes"](workload.task, clients, device=session.device)
        settings, rounds = [workload.algorithm(workload.rate)], session.arguments.rounds
        times = seconds_per_round(engine, settings, 1, rounds, workload.num_clients)
        session.add(workload, "lanes, fused steps", "one run", times)
    finally:
        use_fused_steps(False)


def measure_whole(session: Session, workload: Workload, rounds: int) -> None:
    """pfl's benchmark from its first round to its last, beside pfl where it is installed."""
    ours = whole_seconds(
        ENGINES["lanes"](workload.task, workload.clients(), test=workload.test(), device=session.device),
        workload,
        rounds,
    )
    row = session.add(workload, "lanes, whole", "one run", [ours / rounds], whole_seconds=ours, whole_rounds=rounds)
    for who, processes in (("pfl", 1), ("pfl, 5 processes", 5)):
        theirs = _pfl_seconds(session.arguments, processes)
        if theirs is None:
            continue
        row[f"times_{who}"] = theirs * rounds / ours
        session.add(workload, f"{who}, whole", "one run", [theirs], whole_seconds=theirs * rounds)
        if session.device.type == "cuda" and row[f"times_{who}"] < WHOLE_ASKED[who]:
            session.missed.append(f"W3, whole: {row[f'times_{who}']:.1f} times {who}, asked {WHOLE_ASKED[who]:g}")


def _pfl_seconds(arguments: argparse.Namespace, processes: int) -> float | None:
    """Seconds per round of pfl, evaluations included, from a stretch of rounds; None where it is not installed."""
    python = str(arguments.pfl_python or sys.executable)
    if subprocess.run([python, "-c", "import pfl"], capture_output=True, check=False).returncode:
        print(f"pfl is not installed for {python}: left out", flush=True)
        return None
    launch = [python] if processes == 1 else [
        python, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)
    ]  # fmt: skip
    script = [str(HERE / "pfl_rounds.py"), "W3", str(arguments.pfl_rounds), "--device", arguments.device]
    if arguments.tiny:
        script.append("--tiny")
    ended = subprocess.run([*launch, *script], capture_output=True, text=True, check=False, timeout=500)
    found = [line for line in ended.stdout.splitlines() if line.startswith("[") and line.endswith("]")]
    if ended.returncode or not found:
        raise RuntimeError(f"pfl failed: {ended.stderr[-2000:]}")
    times = [float(seconds) for seconds in json.loads(found[-1])]
    return sum(times) / len(times)


def write_profile(session: Session, workloads: Mapping[str, Workload]) -> None:
    """Where the time of a round of each workload goes, on the device and on the host."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if session.device.type == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    parts = []
    for workload in workloads.values():
        grid, (rates, seeds) = list(workload.grids.items())[
            -1 if workload.name == "W1" else min(1, len(workload.grids) - 1)
        ]
        settings = [workload.algorithm(rate) for rate in RATES[:rates]]
        engine = ENGINES["lanes"](workload.task, workload.clients(), device=session.device)
        seconds_per_round(engine, settings, seeds, 1, workload.num_clients)
        with torch.profiler.profile(activities=kinds) as profile:
            times = seconds_per_round(engine, settings, seeds, 2, workload.num_clients, warm_up=0)
        table = profile.key_averages().table(
            sort_by=f"self_{session.device.type}_time_total", row_limit=25, max_name_column_width=60
        )
        parts.append(f"{workload.name}, {grid}: two rounds, {sum(times):.4f} s with the profiler on\n{table}\n")
        session.arguments.profile.write_text("\n".join(parts), encoding="utf-8")


def arguments_of(line: Sequence[str] | None) -> argparse.Namespace:
    """What is asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS), help="default: all of them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--whole", action="store_true", help="also W3 from its first round to its last")
    parser.add_argument("--pfl-python", type=Path, help="a Python that has pfl; default: this one")
    parser.add_argument("--pfl-rounds", type=int, default=100, help="of pfl; its whole benchmark is extrapolated")
    parser.add_argument("--profile", type=Path, help="write where the time goes to this file")
    parser.add_argument("--tiny", action="store_true", help="sizes for a test")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args(line)


def main(line: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    arguments = arguments_of(line)
    use_precision(arguments.precision)
    if arguments.device == "cpu":
        torch.set_num_threads(1)
    chosen = {name: WORKLOADS[name] for name in arguments.workload or WORKLOADS}
    if arguments.tiny:
        chosen = {name: tiny(workload) for name, workload in chosen.items()}
    session = Session(arguments)
    for name, workload in chosen.items():
        session.attempt(name, lambda workload=workload: measure(session, workload))
    if arguments.whole and "W3" in chosen:
        rounds = EVALUATE_EVERY if arguments.tiny else WHOLE_ROUNDS
        session.attempt("W3, whole", lambda: measure_whole(session, chosen["W3"], rounds))
    if arguments.profile:
        session.attempt("profile", lambda: write_profile(session, chosen))
    session.write()
    for sentence in (*(f"missed: {each}" for each in session.missed), *(f"failed: {each}" for each in session.failed)):
        print(sentence)
    return 1 if session.missed or session.failed else 0


if __name__ == "__main__":
    sys.exit(main())
