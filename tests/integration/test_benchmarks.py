"""The benchmark of a session on a GPU runs from end to end, at tiny sizes on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_the_benchmark_of_lanes_measures_every_workload_and_writes_what_it_found(tmp_path):
    output, profile = tmp_path / "lanes.json", tmp_path / "profile.txt"
    command = [sys.executable, str(BENCHMARKS / "lanes.py"), "--tiny", "--whole", "--rounds", "1",
               "--profile", str(profile), "--output", str(output)]  # fmt: skip
    ended = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
                           check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["failed"] == found["missed"] == []
    assert {row["workload"] for row in found["results"]} == {"W1", "W2", "W3", "W4"}
    engines = {(row["workload"], row["engine"]) for row in found["results"]}
    for workload in ("W1", "W2", "W3", "W4"):
        assert {(workload, who) for who in ("plain loop", "sequential", "lanes")} <= engines
    assert ("W3", "lanes, whole") in engines
    assert all(row["microseconds_per_client_step"] > 0 for row in found["results"])
    text = profile.read_text(encoding="utf-8")
    assert all(f"{workload}, " in text for workload in ("W1", "W2", "W3", "W4"))
