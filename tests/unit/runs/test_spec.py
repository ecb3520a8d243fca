from __future__ import annotations

import json

import pytest

from stayput.algorithms import ALGORITHMS, FedAvg
from stayput.core.named_settings import from_plain, to_plain
from stayput.data.partitions import PARTITIONS, Iid, Unbalanced
from stayput.errors import InvalidSetting, SpecTooNew, UnknownName
from stayput.runs.spec import RunSpec


def spec(**changes):
    algorithm = to_plain(FedAvg(local_epochs={1: 20, 50: 5}, batch_size="all"))
    return RunSpec(task="toy", partition={"name": "custom"}, algorithm=algorithm, rounds=5, **changes)


def test_a_spec_goes_through_json_unchanged():
    through = RunSpec.from_json(json.loads(json.dumps(spec(seed=3).to_json())), source="here")
    assert through == spec(seed=3)
    assert from_plain("algorithm", ALGORITHMS, through.algorithm) == FedAvg(
        local_epochs={1: 20, 50: 5}, batch_size="all"
    )


def test_a_partition_over_another_goes_through_json_unchanged():
    partition = Unbalanced(over=Iid(num_clients=7), spread=0.5)
    assert from_plain("partition", PARTITIONS, json.loads(json.dumps(to_plain(partition)))) == partition


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seed": -1}, "seed=-1: must be a whole number of at least 0"),
        ({"evaluate_every": 0}, "evaluate_every=0"),
        ({"checkpoint_every": 0}, "checkpoint_every=0"),
        ({"keep_checkpoints": 0}, "keep_checkpoints=0"),
        ({"threads": 0}, "threads=0"),
        ({"target": 97}, r"target=97: an accuracy must be in \(0, 1\] \(97% is 0\.97\)"),
        ({"stop_at_target": True}, "stop_at_target=True: needs a target"),
    ],
)
def test_a_wrong_value_is_refused(changes, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        spec(**changes)


def test_a_spec_of_a_newer_version_is_refused_with_a_way_out():
    with pytest.raises(SpecTooNew, match=r"x\.json: spec_version=99: this stayput reads versions up to 1 \(upgrade"):
        RunSpec.from_json({**spec().to_json(), "spec_version": 99, "what_is_this": 1}, source="x.json")


def test_unknown_and_missing_fields_are_named():
    with pytest.raises(UnknownName, match="'round': unknown; did you mean 'rounds'"):
        RunSpec.from_json({**spec().to_json(), "round": 1}, source="x.json")
    with pytest.raises(InvalidSetting, match=r"x\.json: .*rounds"):
        RunSpec.from_json({k: v for k, v in spec().to_json().items() if k != "rounds"}, source="x.json")
    with pytest.raises(InvalidSetting, match="spec_version=None"):
        RunSpec.from_json({}, source="x.json")


def test_unknown_settings_and_names_list_the_known_ones():
    with pytest.raises(UnknownName, match="algorithm='fed_agv': unknown; did you mean 'fed_avg'"):
        from_plain("algorithm", ALGORITHMS, {"name": "fed_agv"})
    with pytest.raises(UnknownName, match="setting of algorithm fed_sgd='local_epochs': unknown"):
        from_plain("algorithm", ALGORITHMS, {"name": "fed_sgd", "local_epochs": 3})
    with pytest.raises(UnknownName, match="metric='acc'"):
        spec().higher_is_better("acc")
