"""Runs in real trackers, from real processes: killed, resumed, and left alone by a server that went away."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb_files import history, written

import stayput as sp
from stayput.testing import toy_clients, toy_examples, toy_task

TOY_RUN = Path(__file__).with_name("tracked_toy_run.py")


@contextlib.contextmanager
def mlflow_server(folder, port):
    """MLflow's own server on 127.0.0.1, with its store in a folder."""
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "files")]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("a") as log:
        server = subprocess.Popen(
            [*command, *store], stdout=log, stderr=log, env=environment, cwd=folder, start_new_session=True
        )
        try:
            deadline = time.monotonic() + 120
            while not answers(f"http://127.0.0.1:{port}/health"):
                assert server.poll() is None, (folder / "server.log").read_text()
                assert time.monotonic() < deadline, (folder / "server.log").read_text()
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # the server and its workers: a session of their own
            server.wait()


class Way:
    """A way to a server's port, through a port of its own, that can be cut: the server is then gone."""

    def __init__(self, to):
        self._to, self._sockets = to, []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._let_in, daemon=True).start()

    def cut(self):
        for end in (self._door, *self._sockets):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes whoever waits on it
            end.close()

    def _let_in(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._door.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    @staticmethod
    def _carry(source, destination):
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                destination.sendall(content)
            destination.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def way_to(port):
    way = Way(port)
    try:
        yield way
    finally:
        way.cut()


def answers(address):
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:  # noqa: S310 - 127.0.0.1, from this file
            return reply.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory, port):
    with mlflow_server(tmp_path_factory.mktemp("mlflow"), port) as address:
        yield address


def toy_run(folder, rounds, kill_after, *trackers, **environment):
    own = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    return subprocess.run(
        [sys.executable, str(TOY_RUN), str(folder), str(rounds), str(kill_after), *trackers],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder.parent,
        env={**own, "HOME": str(folder.parent), "WANDB_MODE": "offline", **environment},
    )


def client(address):
    from mlflow.tracking import MlflowClient

    return MlflowClient(address)


def only_run(address, name):
    """The one run of a name on the server."""
    found = client(address)
    experiment = found.get_experiment_by_name("stayput").experiment_id
    (run,) = found.search_runs([experiment], f"attributes.run_name = '{name}'")
    return run


def steps_and_values(address, run, metric):
    points = client(address).get_metric_history(run.info.run_id, metric)
    return [(point.step, point.value) for point in sorted(points, key=lambda point: point.step)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_a_run_that_was_killed_goes_on_in_all_trackers_with_every_round_once(tmp_path, server):
    trackers = ("tensorboard", "mlflow", "wandb")
    killed = toy_run(tmp_path / "killed", 14, 10, *trackers, MLFLOW_TRACKING_URI=server)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert only_run(server, "killed").info.status == "RUNNING"
    done = toy_run(tmp_path / "killed", 14, 0, *trackers, MLFLOW_TRACKING_URI=server)
    assert done.returncode == 0, done.stderr
    whole = toy_run(tmp_path / "whole", 14, 0)
    assert done.stdout == whole.stdout, "the same model, bit for bit"

    expected = list(range(15))
    scalars = EventAccumulator(str(tmp_path / "killed" / "tensorboard")).Reload().Scalars("test/accuracy")
    assert [event.step for event in scalars] == expected
    assert [row["_step"] for row in history(written(tmp_path / "killed")) if "test/accuracy" in row] == expected
    run = only_run(server, "killed")
    there = steps_and_values(server, run, "test/accuracy")
    assert [step for step, _ in there] == expected
    assert [value for _, value in there] == pytest.approx([event.value for event in scalars])
    assert run.info.status == "FINISHED"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the same
def test_settings_outcome_and_model_arrive_at_an_mlflow_server(tmp_path, server, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    data = {"test": toy_examples(60, seed=3), "folder": tmp_path / "arrives", "track": ["mlflow"], "resume": True}
    algorithm = sp.FedAvg(client_fraction=0.5, learning_rate=0.2)
    trained = sp.train(toy_task(), toy_clients(), algorithm, rounds=3, target=0.5, **data)
    run = only_run(server, "arrives")
    assert run.data.params["algorithm.learning_rate"] == "0.2"
    assert run.data.params["rounds"] == "3"
    assert run.data.tags["stayput.model_sha256"] == trained.model_sha256
    assert run.data.metrics["outcome/best"] == trained.curve().best_so_far()[-1]
    monkeypatch.chdir(tmp_path)
    folder = client(server).download_artifacts(run.info.run_id, "model", str(tmp_path))
    weights = sp.load_model(folder, model=toy_task().model).state_dict()
    assert all((weights[name] == value).all() for name, value in trained.model.state_dict().items())
    sp.train(toy_task(), toy_clients(), algorithm, rounds=5, target=0.5, **data)
    again = only_run(server, "arrives")
    assert again.data.params["rounds"] == "3"
    assert again.data.tags["stayput.now.rounds"] == "5"
    assert [step for step, _ in steps_and_values(server, again, "round/seconds")] == list(range(6))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the same
def test_a_server_that_goes_away_ends_no_run_and_gets_the_rest_later(tmp_path, server, port, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    notes = []
    monkeypatch.setattr("stayput.experiments.training.warn", notes.append)
    data = {"test": toy_examples(60, seed=3), "folder": tmp_path / "left", "track": ["mlflow"], "resume": True}
    with way_to(port) as way:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:hunter2@127.0.0.1:{way.port}")

        def cut(report, history):
            if report.round_number == 3:
                way.cut()

        run = sp.train(toy_task(), toy_clients(), sp.FedAvg(), rounds=40, on_round=cut, **data)
    assert run.history.last_round == 40
    assert any("has not got the whole run" in note for note in notes)
    with pytest.raises(sp.errors.InvalidSetting, match="track='mlflow': cannot be reached") as refused:
        sp.train(toy_task(), toy_clients(), sp.FedAvg(), rounds=40, **data)
    assert "hunter2" not in f"{refused.value}{notes}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    sp.train(toy_task(), toy_clients(), sp.FedAvg(), rounds=40, **data)
    there = steps_and_values(server, only_run(server, "left"), "round/cohort_size")
    assert [step for step, _ in there] == list(range(41))
