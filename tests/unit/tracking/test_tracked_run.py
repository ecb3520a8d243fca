"""How a run treats its trackers, whatever they do: with trackers made here, which fail on demand."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

import stayput as sp
from stayput.errors import InvalidSetting, TrainingDiverged, UnknownName
from stayput.testing import toy_clients, toy_examples, toy_task
from stayput.tracking import TRACKERS, courier, tracked_run
from stayput.tracking.tracker import EVERY_ROUND, RunFacts, flat, measures


class Store:
    """What a tracker keeps, of all runs, and when it is out of order."""

    def __init__(self):
        self.rounds, self.outcomes, self.models, self.ends, self.begun = {}, {}, {}, {}, 0
        self.fails_from, self.fails_until_begun = None, 1
        self.unreachable = None
        self.failed = threading.Event()

    def wait_for_failure(self, report, history):
        """For `on_round`: training is slower than a tracker that fails at once."""
        assert report.round_number < 10 or self.failed.wait(30)

    def open(self, name, run):
        self.begun += 1
        if self.unreachable is not None:
            raise self.unreachable
        return StoredRun(self, run)


class StoredRun:
    note = None

    def __init__(self, store, run):
        self.store, self.id, self.facts = store, run.run_id, run
        store.rounds.setdefault(run.run_id, [])

    def last_round(self):
        return max((number for number, _ in self.store.rounds[self.id]), default=None)

    def add_rounds(self, reports):
        for report in reports:
            broken = self.store.fails_from is not None and report.round_number >= self.store.fails_from
            if broken and self.store.begun <= self.store.fails_until_begun:
                self.store.failed.set()
                raise ConnectionError("the store at http://me:secret@host is gone")
            self.store.rounds[self.id].append((report.round_number, measures(report)))

    def finish(self, outcome, model):
        self.store.outcomes[self.id] = dict(outcome)
        self.store.models[self.id] = sorted(path.name for path in model.iterdir())

    def close(self, status):
        self.store.ends[self.id] = status


@pytest.fixture
def store(monkeypatch):
    made = Store()
    monkeypatch.setattr(tracked_run, "open_tracker", made.open)
    return made


def train(folder=None, *, rounds=6, **settings):
    settings = {"track": ["tensorboard"], "test": toy_examples(40, seed=1), "folder": folder} | settings
    algorithm = settings.pop("algorithm", sp.FedAvg(client_fraction=0.5))
    return sp.train(toy_task(), toy_clients(), algorithm, rounds=rounds, **settings)


def rounds_of(store):
    (rounds,) = store.rounds.values()
    return [number for number, _ in rounds]


def test_every_round_arrives_once_in_order_with_the_outcome_the_model_and_the_end(store, tmp_path):
    run = train(tmp_path / "run")
    ((run_id, rounds),) = store.rounds.items()
    assert [number for number, _ in rounds] == list(range(7))
    assert [m["test/accuracy"] for _, m in rounds] == list(run.curve().values)
    assert rounds[0][1].keys() == rounds[1][1].keys() - {"train/loss"}
    assert store.outcomes[run_id]["model_sha256"] == run.model_sha256
    assert store.models[run_id] == ["README.md", "config.json", "model.safetensors"]
    assert store.ends == {run_id: "finished"}


def test_a_tracked_run_is_the_run_it_would_have_been(store, tmp_path):
    assert train().model_sha256 == train(track=()).model_sha256


def test_a_run_that_goes_on_is_the_same_run_there_and_no_round_is_sent_twice(store, tmp_path):
    def interrupt(report, history):
        if report.round_number == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", checkpoint_every=2, on_round=interrupt)
    assert list(store.ends.values()) == ["interrupted"]
    for path in (tmp_path / "run" / "checkpoints").glob("round-000005*"):
        path.unlink()  # as after a kill: round 5 is computed again
    train(tmp_path / "run", rounds=8, resume=True)
    assert rounds_of(store) == list(range(9))
    train(tmp_path / "run", rounds=8, resume=True)
    assert rounds_of(store) == list(range(9))


def test_a_run_that_was_not_tracked_is_brought_there_later(store, tmp_path):
    train(tmp_path / "run", track=())
    train(tmp_path / "run", resume=True)
    assert rounds_of(store) == list(range(7))


def test_a_tracker_that_cannot_be_begun_ends_the_run_before_it_begins(store, tmp_path):
    store.unreachable = ConnectionError("no route to http://me:secret@host\nTraceback ...")
    with pytest.raises(InvalidSetting, match="cannot be reached") as caught:
        train(tmp_path / "run")
    assert "http://***@host" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tracker_that_fails_is_said_once_and_brought_up_to_date_at_the_end(store, tmp_path):
    store.fails_from = 3
    with pytest.warns(UserWarning, match="tensorboard fails") as said:
        run = train(tmp_path / "run", rounds=60, on_round=store.wait_for_failure)
    assert run.history.last_round == 60
    assert len(said) == 1
    assert "secret" not in str(said[0].message)
    assert "training goes on without it" in str(said[0].message)
    assert rounds_of(store) == list(range(61)), "it was whole again at the end"


def test_a_tracker_that_stays_broken_is_said_again_at_the_end_with_the_way_out(store, tmp_path):
    store.fails_from, store.fails_until_begun = 3, 99
    with pytest.warns(UserWarning, match="tensorboard") as said:
        run = train(tmp_path / "run", rounds=60, on_round=store.wait_for_failure)
    assert run.model_sha256 == train(track=(), rounds=60).model_sha256
    assert [str(note.message).split(" (")[0] for note in said] == [
        "tensorboard fails",
        "tensorboard has not got the whole run",
    ]
    assert f"`stayput resume {tmp_path / 'run'} --track tensorboard` brings it" in str(said[-1].message)
    store.fails_from = None
    train(tmp_path / "run", rounds=60, resume=True)
    assert rounds_of(store) == list(range(61))


def test_one_broken_tracker_does_not_hold_back_another(tmp_path, monkeypatch):
    stores = {"mlflow": Store(), "tensorboard": Store()}
    stores["mlflow"].fails_from, stores["mlflow"].fails_until_begun = 0, 99
    monkeypatch.setattr(tracked_run, "open_tracker", lambda name, run: stores[name].open(name, run))
    with pytest.warns(UserWarning, match="mlflow"):
        train(track=["mlflow", "tensorboard"])
    assert rounds_of(stores["tensorboard"]) == list(range(7))


def test_a_tracker_that_hangs_does_not_hold_back_training_nor_its_end(store, monkeypatch):
    monkeypatch.setattr(courier, "PATIENCE_SECONDS", 0.2)
    release, add = threading.Event(), StoredRun.add_rounds

    def hang(self, reports):
        if self.store.begun == 1:
            release.wait(30)
        else:
            add(self, reports)

    monkeypatch.setattr(StoredRun, "add_rounds", hang)
    run = train()
    release.set()
    assert run.history.last_round == 6
    assert rounds_of(store) == list(range(7)), "by the second try"


def test_a_run_that_diverges_is_a_failed_run_there(store):
    with pytest.raises(TrainingDiverged):
        train(algorithm=sp.FedAvg(client_fraction=1.0, learning_rate=1e30), rounds=9)
    assert list(store.ends.values()) == ["failed"]


def test_every_member_of_a_sweep_is_a_run_there_and_a_diverged_one_has_failed(store, tmp_path):
    found = sp.sweep(
        toy_task(),
        toy_clients(),
        sp.FedAvg(client_fraction=1.0),
        over={"learning_rate": [0.1, 1e30]},
        rounds=3,
        engine="sequential",
        test=toy_examples(40, seed=1),
        folder=tmp_path / "grid",
        track=["tensorboard"],
    )
    assert found.members[1].diverged is not None
    assert sorted(store.ends.values()) == ["failed", "finished"]
    assert [len(rounds) for rounds in store.rounds.values()] == [4, found.runs[1].history.last_round + 1]


def test_settings_reach_trackers_flat_and_without_the_trackers_own(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(tracked_run, "open_tracker", lambda name, run: seen.append(run) or StoredRun(Store(), run))
    train(tmp_path / "run")
    assert isinstance(seen[0], RunFacts)
    assert seen[0].name == "run"
    assert seen[0].parameters["algorithm.client_fraction"] == 0.5
    assert seen[0].parameters["num_clients"] == 4
    assert "track" not in seen[0].parameters
    assert flat({"a": {"b": None, "c": [1]}, "d": True}) == {"a.b": "None", "a.c": "[1]", "d": True}


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_one_sentence(name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(
        InvalidSetting, match=rf"track='{name}': needs the package {name}.*pip install 'stayput\[track\]'"
    ):
        train(track=[name])


def test_a_folder_that_is_called_like_a_package_is_no_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: SimpleNamespace(origin=None))
    with pytest.raises(InvalidSetting, match="not installed"):
        train(track=["wandb"])


def test_wrong_names_and_repeated_names_are_refused():
    with pytest.raises(UnknownName, match="track='tensorbord': unknown; did you mean 'tensorboard'"):
        train(track=["tensorbord"])
    with pytest.raises(InvalidSetting, match="must name each tracker once"):
        train(track=["mlflow", "mlflow"])


def test_every_round_has_the_measure_that_tells_rounds_apart():
    run = train(track=(), test=None, rounds=2)
    assert all(EVERY_ROUND in measures(report) for report in run.history.reports)


def test_training_and_every_tracker_but_the_one_asked_for_stay_unimported():
    program = (
        "import sys, stayput as sp; from stayput.testing import *; "
        "sp.train(toy_task(), toy_clients(), sp.FedAvg(), rounds=1); "
        "sys.exit(sum(name in sys.modules for name in ('tensorboard', 'mlflow', 'wandb')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
