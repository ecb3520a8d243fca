"""Runs in Weights & Biases' offline mode, read back from the files that `wandb sync` would send."""

from __future__ import annotations

import json

import pytest
from wandb_files import history, synced

import stayput as sp
from stayput.testing import toy_clients, toy_examples, toy_task


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """No key, no settings of whoever runs the tests."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "home" / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "home" / "wandb"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "staging"))


def train(folder, *, rounds=4, **settings):
    settings = {"track": ["wandb"], "test": toy_examples(40, seed=1), "resume": True} | settings
    algorithm = sp.FedAvg(client_fraction=0.5, learning_rate=0.25)
    return sp.train(toy_task(), toy_clients(), algorithm, rounds=rounds, folder=folder, **settings)


def test_settings_rounds_outcome_and_model_are_in_the_offline_files(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = train(tmp_path / "run")
    rows = history(synced(tmp_path / "run"))
    assert [row["_step"] for row in rows] == list(range(5))
    assert [row["test/accuracy"] for row in rows] == list(run.curve().values)
    everything = synced(tmp_path / "run")
    (begun,) = [record.run for record in everything if record.WhichOneof("record_type") == "run"]
    config = {item.key: json.loads(item.value_json) for item in begun.config.update}
    assert config["algorithm.learning_rate"] == 0.25
    assert begun.project == "stayput"
    summary = {
        item.key or "/".join(item.nested_key): item.value_json
        for record in everything
        if record.WhichOneof("record_type") == "summary"
        for item in record.summary.update
    }
    assert json.loads(summary["outcome/model_sha256"]) == run.model_sha256
    (artifact,) = [
        record.request.log_artifact.artifact if record.WhichOneof("record_type") == "request" else record.artifact
        for record in everything
        if record.WhichOneof("record_type") == "artifact" or record.request.WhichOneof("request_type") == "log_artifact"
    ]
    assert {entry.path for entry in artifact.manifest.contents} == {"README.md", "config.json", "model.safetensors"}


def test_a_run_that_goes_on_is_the_same_run_with_every_round_once(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    train(tmp_path / "run")
    train(tmp_path / "run", rounds=7)
    assert [row["_step"] for row in history(synced(tmp_path / "run"))] == list(range(8))
    ids = {record.run.run_id for record in synced(tmp_path / "run") if record.WhichOneof("record_type") == "run"}
    assert len(ids) == 1


def test_without_a_key_it_is_offline_and_says_how_to_send_it(tmp_path):
    with pytest.warns(UserWarning, match="wandb has no key, so it writes to files.*wandb sync"):
        train(tmp_path / "run", rounds=1)
    assert len(history(synced(tmp_path / "run"))) == 2


def test_nothing_is_collected_that_was_not_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    train(tmp_path / "run", rounds=1)
    kinds = {record.WhichOneof("record_type") for record in synced(tmp_path / "run")}
    assert not kinds & {"output", "output_raw", "stats", "environment"}
    files = {path.name for path in (tmp_path / "run").rglob("*")}
    assert not files & {"requirements.txt", "wandb-metadata.json", "output.log", "diff.patch"}
