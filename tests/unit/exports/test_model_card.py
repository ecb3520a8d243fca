from __future__ import annotations

import json
import math

import pytest
import torch

from stayput.core.history import RoundReport
from stayput.exports.model_card import KINDS, model_card
from stayput.exports.model_files import export_model
from stayput.exports.trained_model import TrainedModel
from stayput.runs.spec import RunSpec
from stayput.tasks.catalogue import NAMED_TASKS

SPEC = RunSpec(
    task="mnist-2nn",
    partition={"name": "shards", "num_clients": 100, "shards_per_client": 2},
    algorithm={"name": "fed_avg", "client_fraction": 0.1, "local_epochs": {"1": 5, "20": 1}},
    rounds=200,
    track=["tensorboard"],
)
MODEL = TrainedModel(
    {"weights": {"w": torch.zeros(2, 3)}, "momentum": {"w": torch.zeros(2, 3)}},
    SPEC,
    RoundReport(143, evaluation={"loss": 0.0961, "accuracy": 0.9712}),
    {"num_clients": 100, "num_examples": 60000, "run_id": "ab12", "versions": {"torch": "2.13.0"}},
)


def test_the_card_states_data_algorithm_rounds_accuracy_and_privacy():
    card = model_card(MODEL)
    for line in (
        "| data set | mnist: 60,000 + 10,000 images of handwritten digits, 28 x 28 pixels in 10 classes |",
        "| clients (K) | 100 |",
        "| examples (n) | 60,000 |",
        "| partition: shards_per_client | 2 |",
        "| name | fed_avg |",
        '| local_epochs | {"1": 5, "20": 1} |',
        "| rounds | 143 (of at most 200) |",
        "| accuracy | 97.12% |",
        "## Privacy",
    ):
        assert f"\n{line}\n" in card, line
    assert "neither clipped nor noised" in card
    assert "A model of 6 parameters" in card, "the server's momentum is not the model's"


def test_hugging_face_reads_the_card():
    cards = pytest.importorskip("huggingface_hub").ModelCard
    data = cards(model_card(MODEL)).data
    assert data.library_name == "stayput"
    assert data.datasets == ["mnist"]
    assert data.pipeline_tag == "image-classification"
    assert {result.metric_type: result.metric_value for result in data.eval_results} == {
        "loss": 0.0961,
        "accuracy": 0.9712,
    }


def test_every_data_set_of_a_named_task_has_its_kind():
    assert {named.data_set for named in NAMED_TASKS.values()} <= set(KINDS)


def test_a_model_of_the_users_own_says_so_and_an_absent_measurement_too():
    spec = RunSpec("mine", {"name": "custom"}, {"name": "fed_avg"}, rounds=2)
    card = model_card(TrainedModel({"weights": {"w": torch.zeros(1)}}, spec, RoundReport(2)))
    assert "| data set | the user's own |" in card
    assert "Not measured: round 2 was not evaluated" in card
    assert 'sp.load_model(".", model=MyNet)' in card
    assert "datasets:" not in card


def test_a_named_task_on_the_users_own_data_claims_no_data_set():
    spec = RunSpec("mnist-2nn", {"name": "custom"}, {"name": "fed_avg"}, rounds=2)
    assert "the user's own" in model_card(TrainedModel({"weights": {"w": torch.zeros(1)}}, spec, RoundReport(2)))


def test_the_config_is_json_even_where_a_loss_is_no_number(tmp_path):
    model = TrainedModel(MODEL.state, SPEC, RoundReport(1, evaluation={"loss": math.nan, "accuracy": 0.1}))
    export_model(model, tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text(), parse_constant=pytest.fail)
    assert config["evaluation"] == {"loss": None, "accuracy": 0.1}
    assert config["architectures"] == ["TwoLayerNet"]
    assert config["spec"]["track"] == ["tensorboard"]
    assert config["privacy"] == {"clipping": None, "noise": None, "secure_summation": None, "epsilon": None}
