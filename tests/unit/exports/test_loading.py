from __future__ import annotations

import json
import pickletools

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import stayput as sp
from stayput.core.history import RoundReport
from stayput.core.tensors import WEIGHTS
from stayput.errors import CorruptCheckpoint, InvalidSetting, ModelMisfit, SpecTooNew
from stayput.exports.model_files import METADATA_KEY, export_model
from stayput.exports.trained_model import TrainedModel
from stayput.models import MnistCnn, TwoLayerNet
from stayput.runs.run_folder import RunFolder
from stayput.runs.spec import RunSpec
from stayput.testing import ToyNet, toy_examples, toy_task

INPUTS = torch.from_numpy(toy_examples(50, seed=9).inputs)


class Normalised(nn.Module):
    """With buffers, a counter among them, and dropout."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.output = nn.Linear(4, 3)

    def forward(self, inputs):
        return self.output(self.drop(self.norm(inputs)))


class Tied(nn.Module):
    """Two layers that share a weight."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.output = nn.Linear(4, 3)

    def forward(self, inputs):
        return self.output(self.second(self.first(inputs)))


def doubled():
    return ToyNet(torch.float64)


@pytest.mark.parametrize("model", [ToyNet, doubled, Normalised, Tied])
@pytest.mark.parametrize("to", ["exported", "model.safetensors"])
def test_a_model_comes_back_with_the_same_predictions_bit_for_bit(model, to, train, tmp_path):
    task = sp.Task(model, sp.losses.cross_entropy, [sp.metrics.accuracy])
    run = train(task)
    run.export(tmp_path / to)
    loaded = sp.load_model(tmp_path / to, model=model)
    assert not loaded.training
    inputs = INPUTS.to(next(loaded.parameters()).dtype)
    assert torch.equal(loaded(inputs), run.model(inputs))


def test_a_runs_folder_is_exported_with_its_last_or_its_best_model(train, tmp_path):
    run = train(folder="run", rounds=12, evaluate_every=5)
    folder = RunFolder(run.folder)
    last, notes = TrainedModel.of_run(folder)
    assert notes == []
    assert last.report.round_number == 12
    export_model(last, tmp_path / "last")
    assert torch.equal(sp.load_model(tmp_path / "last", model=ToyNet)(INPUTS), run.model(INPUTS))
    best, _ = TrainedModel.of_run(folder, best=True)
    assert best.report == next(
        r for r in run.history.reports if r.round_number == folder.best_checkpoint().round_number
    )


def test_a_damaged_last_checkpoint_is_passed_over_and_named(train):
    run = train(folder="run", rounds=12)
    path = RunFolder(run.folder).checkpoint_paths()[12]
    path.write_bytes(path.read_bytes()[:-3])
    model, (note,) = TrainedModel.of_run(RunFolder(run.folder))
    assert model.report.round_number == 10
    assert "round-000012.safetensors" in note


def test_a_run_without_a_sound_checkpoint_has_nothing_to_export(train):
    run = train(folder="run", rounds=1)
    for path in RunFolder(run.folder).checkpoint_paths().values():
        path.unlink()
    with pytest.raises(sp.errors.RunFolderError, match="has no sound checkpoint"):
        TrainedModel.of_run(RunFolder(run.folder))


def test_named_tasks_need_no_class(tmp_path):
    net = TwoLayerNet()
    spec = RunSpec("mnist-2nn", {"name": "iid", "num_clients": 100}, {"name": "fed_avg"}, rounds=5)
    state = {WEIGHTS: {name: p.detach() for name, p in net.named_parameters()}}
    export_model(TrainedModel(state, spec, RoundReport(5)), tmp_path / "model")
    images = torch.rand(7, 28, 28)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    assert torch.equal(sp.load_model(tmp_path / "model")(images), net(images))
    assert torch.equal(torch.random.get_rng_state(), before)
    with pytest.raises(ModelMisfit, match="does not fit MnistCnn"):
        sp.load_model(tmp_path / "model", model=MnistCnn)


def test_there_is_no_pickle_in_an_export(train, tmp_path):
    for path in train().export(tmp_path / "model"):
        content = path.read_bytes()
        assert path.suffix in (".safetensors", ".json", ".md")
        with pytest.raises((ValueError, IndexError)):
            list(pickletools.genops(content))


def test_what_is_there_is_never_written_over(train, tmp_path):
    run = train()
    (tmp_path / "mine").mkdir()
    run.export(tmp_path / "mine")  # empty: nothing is lost
    for taken in ("mine", "mine/model.safetensors"):
        with pytest.raises(InvalidSetting, match="is there already and must be new"):
            run.export(tmp_path / taken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_an_export_that_fails_leaves_nothing(train, tmp_path, monkeypatch):
    run = train()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stayput.exports.model_files.write_json", full)
    with pytest.raises(InvalidSetting, match=r"cannot be written \(No space left on device"):
        run.export(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def rewritten(path, **changes):
    with safe_open(path, framework="pt") as file:
        config = json.loads(file.metadata()[METADATA_KEY])
    save_file(load_file(path), path, metadata={"format": "pt", METADATA_KEY: json.dumps(config | changes)})


def test_a_changed_number_is_detected(train, tmp_path):
    (path,) = train().export(tmp_path / "model.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpoint, match="sha256 differs"):
        sp.load_model(path, model=ToyNet)


def test_half_a_file_other_files_and_no_file_are_refused(train, tmp_path):
    (path,) = train().export(tmp_path / "model.safetensors")
    with pytest.raises(InvalidSetting, match="code is the user's own"):
        sp.load_model(path)
    rewritten(path, format_version=2)
    with pytest.raises(SpecTooNew, match="reads versions up to 1"):
        sp.load_model(path, model=ToyNet)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CorruptCheckpoint, match="not a whole exported model"):
        sp.load_model(path, model=ToyNet)
    save_file({"w": torch.zeros(1)}, path)
    with pytest.raises(InvalidSetting, match="must be 'stayput-model'"):
        sp.load_model(path, model=ToyNet)
    with pytest.raises(InvalidSetting, match="holds no exported model"):
        sp.load_model(tmp_path / "nothing")


def test_another_class_is_refused_with_what_differs(train, tmp_path):
    train(toy_task(torch.float64)).export(tmp_path / "model")
    with pytest.raises(ModelMisfit, match=r"hidden.weight is float64 \[5, 4\], in ToyNet it is float32 \[5, 4\]"):
        sp.load_model(tmp_path / "model", model=ToyNet)
