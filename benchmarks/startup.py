"""How long `stayput --help` takes, beside what Python and the command line's library take alone, in one run.

python benchmarks/startup.py [--output benchmarks/results/startup.json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from stayput.runs.environment import machine, versions

REPEATS = 15
COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "import typer": [sys.executable, "-c", "import typer"],
    "stayput --help": [sys.executable, "-m", "stayput", "--help"],
}


def seconds(command: list[str]) -> float:
    """How long a process takes from its start to its end."""
    started = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure, taking turns; print a line for each command, and write all to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="where to write the numbers as JSON")
    output = parser.parse_args().output
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    rows = [
        {
            "workload": name,
            "rounds": REPEATS,
            "median_seconds": round(median(taken), 3),
            "fastest": round(min(taken), 3),
        }
        for name, taken in times.items()
    ]
    for row in rows:
        print(f"{row['workload']:15} median {row['median_seconds']:.3f} s, fastest {row['fastest']:.3f} s")
    if output:
        text = json.dumps({"machine": machine("cpu"), "versions": versions(), "results": rows}, indent=2)
        output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
