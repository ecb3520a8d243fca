"""A cell that is killed in the middle goes on to the curves that it would have had."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_workshop import ToyWorkshop

from stayput.paper.cells import Cell, fed_avg
from stayput.paper.measuring import Measurer
from stayput.paper.results import Results

CELL = Cell("toy", {"name": "iid", "num_clients": 8}, fed_avg(0.5, 1, 4), rounds=120, centre=-9)
SCRIPT = """
import sys, time
from pathlib import Path
from test_reproduce_kills import CELL, measurer
measurer(Path(sys.argv[1]), slowly=True).measure(CELL, 0)
"""


def measurer(folder, *, slowly=False):
    def breathe(_):
        if slowly:
            time.sleep(0.01)  # so that a kill finds it at work; nothing waits for it

    return Measurer(Results(folder), ToyWorkshop(), grid=2, seconds_between_saves=0.0, on_standings=breathe)


@pytest.mark.slow
def test_a_killed_cell_goes_on_to_the_same_curves(tmp_path):
    measurer(tmp_path / "whole").measure(CELL, 0)
    here = Path(__file__)
    folders = (here.parent, here.parents[1] / "contracts", here.parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_NUM_THREADS": "1"}
    states = tmp_path / "cut" / "unfinished"
    seen: set[tuple[str, int]] = set()
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "cut")], env=environment)
        deadline = time.monotonic() + 60
        before = set(seen)
        while len(seen - before) < 3:  # three saves further than where it was
            assert process.poll() is None, "the cell ended before it could be killed"
            assert time.monotonic() < deadline
            seen |= {(path.name, path.stat().st_mtime_ns) for path in states.glob("*.safetensors") if path.exists()}
        process.send_signal(signal.SIGKILL)
        process.wait()
    measurer(tmp_path / "cut").measure(CELL, 0)
    cut, whole = (Results(tmp_path / name).curves(CELL, 0) for name in ("cut", "whole"))
    assert {k: (c.ended, c.curve.values.tolist(), c.model_sha256) for k, c in cut.items()} == {
        k: (c.ended, c.curve.values.tolist(), c.model_sha256) for k, c in whole.items()
    }
