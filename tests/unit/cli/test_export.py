from __future__ import annotations

import json

import pytest
import torch

import stayput as sp
from stayput.testing import ToyNet, toy_clients, toy_examples, toy_task


@pytest.fixture
def trained(command):
    """A run in runs/toy of the current folder, which is the command's."""
    return sp.train(toy_task(), toy_clients(), sp.FedAvg(), rounds=3, test=toy_examples(40, seed=1), folder="runs/toy")


def test_a_folder_for_others_and_one_file(command, trained, tmp_path):
    ended = command("export", "toy", "--to", "model")
    assert ended.code == 0
    assert ended.out.split() == ["model/model.safetensors", "model/config.json", "model/README.md"]
    inputs = torch.from_numpy(toy_examples(20, seed=5).inputs)
    assert torch.equal(sp.load_model("model", model=ToyNet)(inputs), trained.model(inputs))
    told = json.loads(command("export", "toy", "--to", "deep/er/model.safetensors", "--best", "--json").out)
    assert told["written"] == ["deep/er/model.safetensors"]
    best = max(trained.history.reports, key=lambda report: report.evaluation["accuracy"])
    assert trained.history.reports[told["round"]].evaluation["accuracy"] == best.evaluation["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["toy", "--to", "runs"], 2, "to='runs': is there already and must be new, or an empty folder"),
        (["tyo", "--to", "x"], 5, "tyo: no run is there, nor in runs/ (did you mean 'toy'?"),
        (["toy"], 2, "Missing option '--to'"),
        (["toy", "--to", "runs/toy/spec.json/x"], 2, "to='runs/toy/spec.json/x': cannot be written"),
    ],
)
def test_what_cannot_be_exported_is_said(arguments, code, sentence, command, trained):
    ended = command("export", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert sentence in ended.err


def test_a_damaged_checkpoint_is_named(command, trained):
    for path in (trained.folder / "checkpoints").glob("round-000003*"):
        path.write_bytes(b"")
    ended = command("export", "toy", "--to", "model", "--json")
    assert json.loads(ended.out)["round"] == 0
    assert "note: runs/toy/checkpoints/round-000003.safetensors: not a whole safetensors file" in ended.err
