"""What a round costs over 10^3 to 10^6 clients, and what opening so many costs.

    python benchmarks/population.py [FOLDER]            populations of K clients with 20 examples each
    python benchmarks/population.py build [GIGABYTES]   a table of that size, built with 1 GB of memory

Both write into benchmarks/results, with the machine. Each K is opened and trained on in a process of its own. Rounds of
all K take turns, so that whatever else the machine does meets all of them alike.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
EXAMPLES_EACH, FEATURES, COHORT, ROUNDS = 20, 32, 100, 30


def resident() -> dict[str, float]:
    """What this process has in memory, in MB: all of it, and what is not a map of a file."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return {name: int(lines[name].split()[0]) / 1000 for name in ("VmRSS", "RssAnon", "VmHWM")}


def make(folder: Path, num_clients: int) -> None:
    """Clients of three classes, written a block at a time."""
    from stayput.data.populations import CLIENTS, making

    draw = np.random.default_rng(0)
    total = num_clients * EXAMPLES_EACH
    offsets = np.sort(draw.choice(total - 1, num_clients - 1, replace=False) + 1)
    centres = np.eye(3, FEATURES, dtype=np.float32) * 3
    with making(folder, origin="made up, seed 0") as population:
        population.clients(np.concatenate([[0], offsets, [total]]), None)
        like = np.empty((0, FEATURES), dtype=np.float32), np.empty(0, dtype=np.int64)
        with population.examples(CLIENTS, *like, total) as append:
            for first in range(0, total, 1 << 18):
                targets = draw.integers(3, size=min(1 << 18, total - first))
                inputs = centres[targets] + draw.standard_normal((len(targets), FEATURES), dtype=np.float32)
                append(inputs, targets)


def live(folder: Path) -> None:
    """Open a population, then train a round for each line of stdin, and answer with what it cost."""
    import torch
    from torch import nn

    import stayput
    from stayput.core.cohort import choose_cohort
    from stayput.core.round import run_round
    from stayput.data import open_population
    from stayput.engines import SequentialEngine
    from stayput.experiments.fit_check import refuse_misfit

    torch.set_num_threads(1)
    before = resident()
    started = time.perf_counter()
    clients = open_population(folder).clients
    opened = time.perf_counter() - started
    task = stayput.Task(lambda: nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 3)),
                        stayput.losses.cross_entropy)  # fmt: skip
    refuse_misfit(task, clients, None)
    fraction = COHORT / clients.num_clients
    algorithm = stayput.FedAvg(client_fraction=fraction, batch_size=10, learning_rate=0.05).algorithm()
    engine = SequentialEngine(task, clients, device=torch.device("cpu"))
    state: Any = algorithm.init(engine.initial_model(0))
    ready = time.perf_counter() - started
    started = time.perf_counter()
    for number in range(100):
        choose_cohort(clients.num_clients, fraction, seed=1, round_number=number)
    cohort = (time.perf_counter() - started) / 100
    facts = {"num_clients": clients.num_clients, "num_examples": clients.num_examples, "open_seconds": opened,
             "ready_seconds": ready, "cohort_seconds": cohort, "before": before, "ready": resident()}  # fmt: skip
    print(json.dumps(facts), flush=True)
    for number, _ in enumerate(sys.stdin, start=1):
        started = time.perf_counter()
        state, report = run_round(
            state, number, algorithm=algorithm, engine=engine, num_clients=clients.num_clients, seed=0
        )
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "steps": report.num_steps, **resident()}), flush=True)


def measure(root: Path) -> dict[str, Any]:
    """All sizes, taking turns."""
    processes = []
    for num_clients in SIZES:
        folder = root / f"{num_clients}-clients"
        if not folder.exists():
            make(folder, num_clients)
        command = [sys.executable, __file__, "live", str(folder)]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def asked(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("round\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    facts = [json.loads(process.stdout.readline()) for process in processes if process.stdout is not None]
    rounds = [[asked(process) for process in processes] for _ in range(ROUNDS + 3)][3:]
    for process in processes:
        process.communicate()
    results = [_row(fact, [turn[number] for turn in rounds]) for number, fact in enumerate(facts)]
    return {"cohort": COHORT, "examples_each": EXAMPLES_EACH, "rounds": ROUNDS, "results": results}


def _row(fact: dict[str, Any], mine: list[dict[str, Any]]) -> dict[str, Any]:
    """One size's line."""
    return {
        "clients": fact["num_clients"],
        "examples": fact["num_examples"],
        "open, ms": 1e3 * fact["open_seconds"],
        "to first round, ms": 1e3 * fact["ready_seconds"],
        "cohort, ms": 1e3 * fact["cohort_seconds"],
        "round, ms": 1e3 * float(np.median([r["seconds"] for r in mine])),
        "a step of it, ms": 1e3 * float(np.median([r["seconds"] / r["steps"] for r in mine])),
        "RSS with torch alone, MB": fact["before"]["VmRSS"],
        "RSS before the first round, MB": fact["ready"]["VmRSS"],
        "of it not maps of files, MB": fact["ready"]["RssAnon"],
        "the same after the rounds, MB": mine[-1]["RssAnon"],
    }


def build(root: Path, gigabytes: float) -> dict[str, Any]:
    """A table in random order, built in a process of its own whose memory is watched."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pixels, clients = 784, 1_000_000
    rows = int(gigabytes * 1e9 / (pixels + 8 + 8))
    draw = np.random.default_rng(0)
    table = root / "table.parquet"
    schema = pa.schema({"who": pa.int64(), "image": pa.list_(pa.uint8(), pixels), "digit": pa.int64()})
    with pq.ParquetWriter(table, schema, compression="none") as writer:
        for first in range(0, rows, 1 << 16):
            count = min(1 << 16, rows - first)
            flat = pa.array(draw.integers(256, size=count * pixels, dtype=np.uint8))
            columns = [draw.integers(clients, size=count), pa.FixedSizeListArray.from_arrays(flat, pixels),
                       draw.integers(10, size=count)]  # fmt: skip
            writer.write_table(pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema))
    command = [sys.executable, __file__, "build-one", str(table), str(root / "built")]
    outcome: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {
        "results": [
            {"table, GB": table.stat().st_size / 1e9, "rows": rows, "memory allowed, MB": 2**30 / 1e6, **outcome}
        ]
    }


def build_one(table: Path, folder: Path) -> None:
    """Build, and say what it took."""
    from stayput.data import build_population

    highest, done = resident()["RssAnon"], threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.05):
            highest = max(highest, resident()["RssAnon"])

    watching = threading.Thread(target=watch)
    watching.start()
    started = time.perf_counter()
    population = build_population(table, folder, client="who", inputs="image", targets="digit", memory_bytes=2**30)
    seconds = time.perf_counter() - started
    done.set()
    watching.join()
    print(json.dumps({"clients": population.clients.num_clients, "seconds": seconds,
                      "most memory that is not maps of files, MB": highest}))  # fmt: skip


def main(arguments: list[str]) -> None:
    """What was asked for."""
    from stayput.runs.environment import machine, versions

    if arguments[:1] == ["live"]:
        live(Path(arguments[1]))
    elif arguments[:1] == ["build-one"]:
        build_one(Path(arguments[1]), Path(arguments[2]))
    else:
        building = arguments[:1] == ["build"]
        with tempfile.TemporaryDirectory(dir=None if building or not arguments else arguments[0]) as scratch:
            measured = (
                build(Path(scratch), float(arguments[1]) if arguments[1:] else 10.0)
                if building
                else measure(Path(scratch))
            )
        name = "population-build.json" if building else "population.json"
        measured = {**measured, "machine": machine("cpu"), "versions": versions()}
        (RESULTS / name).write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
