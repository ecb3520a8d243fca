"""Runs in TensorBoard, read back from their event files as TensorBoard reads them."""

from __future__ import annotations

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import stayput as sp
from stayput.errors import InvalidSetting
from stayput.testing import toy_clients, toy_examples, toy_task
from stayput.tracking.tracker import EVERY_ROUND, measures


def train(folder, *, rounds=4, **settings):
    settings = {"track": ["tensorboard"], "test": toy_examples(40, seed=1), "resume": True} | settings
    algorithm = sp.FedAvg(client_fraction=0.5, learning_rate=0.25)
    return sp.train(toy_task(), toy_clients(), algorithm, rounds=rounds, folder=folder, **settings)


def events(folder):
    everything = dict.fromkeys(("scalars", "histograms", "tensors"), 0)
    return EventAccumulator(str(folder / "tensorboard"), size_guidance=everything).Reload()


def test_every_measure_of_every_round_is_there_and_the_model(tmp_path):
    run = train(tmp_path)
    found = events(tmp_path)
    for report in run.history.reports:
        for name, value in measures(report).items():
            (event,) = [event for event in found.Scalars(name) if event.step == report.round_number]
            assert event.value == pytest.approx(value, rel=1e-6)
    assert {"model/hidden.weight", "model/output.bias"} <= set(found.Tags()["histograms"])
    (card,) = found.Tensors("model_card/text_summary")
    assert b"## Privacy" in card.tensor_proto.string_val[0]
    (outcome,) = found.Tensors("outcome/text_summary")
    assert run.model_sha256.encode() in outcome.tensor_proto.string_val[0]


def test_the_settings_are_there_as_hyperparameters(tmp_path):
    train(tmp_path)
    plugin = events(tmp_path).summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert b"algorithm.learning_rate" in plugin


def test_a_run_that_goes_on_has_every_round_once(tmp_path):
    train(tmp_path)
    train(tmp_path, rounds=7)
    run = train(tmp_path, rounds=9)
    scalars = events(tmp_path).Scalars(EVERY_ROUND)
    assert [event.step for event in scalars] == list(range(10))
    losses = [event.value for event in events(tmp_path).Scalars("test/loss")]
    assert losses == pytest.approx(list(run.curve("loss").values), rel=1e-6)


def test_a_file_that_a_kill_cut_off_is_gone_on_with(tmp_path):
    train(tmp_path, rounds=6)
    (file,) = (tmp_path / "tensorboard").iterdir()
    file.write_bytes(file.read_bytes()[: file.read_bytes().rindex(b"round/num_steps") + 3])  # in the middle of a round
    train(tmp_path, rounds=8)
    found = events(tmp_path)
    for name in (EVERY_ROUND, "round/num_steps", "test/accuracy"):
        assert [event.step for event in found.Scalars(name)] == list(range(9)), name


def test_without_a_folder_there_is_nowhere_to_write():
    with pytest.raises(InvalidSetting, match="needs a folder to write event files into"):
        train(None, resume=False)
