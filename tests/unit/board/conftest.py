"""Folders of runs, written as training writes them."""

import asyncio
import contextlib
import json
import os
import threading
import time

import pytest
import uvicorn

from stayput.board.serve import bound
from stayput.core.history import RoundReport
from stayput.runs.durable_files import append_line, write_json
from stayput.runs.run_folder import report_line
from stayput.runs.run_writer import RunWriter
from stayput.runs.spec import RunSpec


def spec_of(**changes):
    settings = {
        "task": "toy",
        "partition": {"name": "iid", "num_clients": 10},
        "algorithm": {"name": "fed_avg", "client_fraction": 0.2, "learning_rate": 0.1},
        "rounds": 100,
        "target": 0.9,
    }
    return RunSpec(**{**settings, **changes})


def report_of(number, value=None):
    evaluation = {} if value is None else {"accuracy": value, "loss": 1 - value}
    return RoundReport(
        number, cohort_size=2, train_loss=None if number == 0 else 1 / number, seconds=0.5, evaluation=evaluation
    )


class Runs:
    """A folder of runs."""

    def __init__(self, folder):
        self.folder = folder
        self.spec_of, self.report_of = spec_of, report_of

    def write(self, name, values=(0.1, 0.5), *, spec=None, result=None, age=0.0):
        """A run that nobody writes any more; with a result it has ended."""
        path = self.folder / name
        with RunWriter.create(
            path, spec or spec_of(), {"num_clients": 10, "num_examples": 100}, [[5, 5]] * 10
        ) as writer:
            # At once: `add_report` sees every line to the disk, and tests write thousands.
            lines = [f"{report_line(report_of(number, value))}\n" for number, value in enumerate(values)]
            (path / "history.jsonl").write_text("".join(lines))
            if result is not None:
                writer.finish({"rounds": len(values) - 1, "diverged": None, "rounds_to_target": None, **result})
        for file in path.iterdir():
            if file.is_file():
                os.utime(file, (time.time() - age,) * 2)
        return path

    def add(self, name, number, value):
        """Another round, as training adds it."""
        append_line(self.folder / name / "history.jsonl", report_line(report_of(number, value)))

    def spec(self, name, **changes):
        """Change a run's spec.json."""
        path = self.folder / name / "spec.json"
        write_json(path, {**json.loads(path.read_text()), **changes})


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


@pytest.fixture
def serving():
    """Serves an application on a free port of this machine, in a `with` block."""

    @contextlib.contextmanager
    def serve(app):
        listener = bound(0)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(10)
            listener.close()

    return serve
