from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from stayput.cli.beside_paper import paper_rounds
from stayput.cli.outcome import Outcome, json_line
from stayput.errors import TargetMissed
from stayput.report.wording import PublishedComparison
from stayput.runs.spec import RunSpec

SPEC = RunSpec(
    task="mnist-2nn",
    partition={"name": "iid", "num_clients": 100},
    algorithm={"name": "fed_avg", "client_fraction": 0.1, "local_epochs": 1, "batch_size": 10, "learning_rate": 0.1},
    rounds=200,
    target=0.97,
)
RESULT = {
    "rounds": 90,
    "metric": "accuracy",
    "final": 0.9705,
    "best": 0.9712,
    "target": 0.97,
    "rounds_to_target": 84.25,
    "train_seconds": 40.0,
    "evaluation_seconds": 2.0,
    "model_sha256": "ab" * 32,
}


def outcome(**changes):
    known = {
        "folder": Path("runs/mnist-2nn-1"),
        "spec": SPEC,
        "result": RESULT,
        "paper": paper_rounds(SPEC, 0.97),
        "figures": [Path("runs/mnist-2nn-1/curve.png")],
        "report": Path("runs/mnist-2nn-1/report.html"),
        "seconds": 45.5,
    }
    return Outcome(**{**known, **changes})


def test_the_lines_put_the_rounds_beside_the_papers():
    assert outcome().lines() == [
        "rounds to accuracy 97%   84.2   (paper: 87 (table 1), 92 (table 4))",
        "best accuracy            97.12%",
        "final accuracy           97.05%",
        "rounds                   90, 40.0 s of training and 2.00 s of evaluation",
        "figure                   runs/mnist-2nn-1/curve.png",
        "report                   runs/mnist-2nn-1/report.html",
        "run                      runs/mnist-2nn-1",
    ]


def test_the_lines_say_when_a_target_was_not_reached_and_nothing_of_one_there_was_not():
    missed = outcome(result={**RESULT, "rounds_to_target": None}, paper=())
    assert missed.lines()[0] == "rounds to accuracy 97%   not reached"
    without = outcome(spec=replace(SPEC, target=None), result={**RESULT, "rounds_to_target": None, "target": None})
    assert without.lines()[0].startswith("best accuracy")


def test_the_json_is_one_line_with_everything():
    line = json_line(outcome().to_json())
    assert "\n" not in line
    assert json.loads(line) == {
        "run": "runs/mnist-2nn-1",
        "task": "mnist-2nn",
        "algorithm": dict(SPEC.algorithm),
        "partition": dict(SPEC.partition),
        "seed": 0,
        "partition_seed": 0,
        "metric": "accuracy",
        "rounds": 90,
        "target": 0.97,
        "rounds_to_target": 84.25,
        "best": 0.9712,
        "final": 0.9705,
        "paper": [
            {"rounds": 87, "target": 0.97, "table": "table 1"},
            {"rounds": 92, "target": 0.97, "table": "table 4"},
        ],
        "model_sha256": "ab" * 32,
        "figures": ["runs/mnist-2nn-1/curve.png"],
        "report": "runs/mnist-2nn-1/report.html",
        "train_seconds": 40.0,
        "evaluation_seconds": 2.0,
        "seconds": 45.5,
    }


def test_json_has_null_for_what_is_not_a_finite_number():
    assert json_line({"a": [math.nan, 1.0], "b": math.inf}) == '{"a": [null, 1.0], "b": null}'


def test_a_missed_target_is_an_error_only_where_it_was_missed():
    outcome().require_target()
    with pytest.raises(TargetMissed, match=r"target=0\.97: missed, the best accuracy in 90 rounds is 97\.12%"):
        outcome(result={**RESULT, "rounds_to_target": None}).require_target()


def paper(target=0.97, **changes):
    return [(cell.rounds, cell.table) for cell in paper_rounds(replace(SPEC, **changes), target)]


def test_the_papers_rounds_are_found_for_its_settings():
    fed_sgd = {"name": "fed_sgd", "client_fraction": 0.1, "learning_rate": 0.1, "learning_rate_decay": 1.0}
    shards = {"name": "shards", "num_clients": 100, "shards_per_client": 2}
    assert paper() == [(87, "table 1"), (92, "table 4")]
    assert paper(algorithm=fed_sgd) == [(1474, "table 1"), (1468, "table 4")]
    assert paper(partition=shards) == [(664, "table 1"), (831, "table 4")]
    assert paper(algorithm={**SPEC.algorithm, "client_fraction": 0.5, "batch_size": "all"}) == [(None, "table 1")]
    assert paper(target=None) == paper()


@pytest.mark.parametrize(
    "changes",
    [
        {"partition": {"name": "iid", "num_clients": 10}},
        {"partition": {"name": "shards", "num_clients": 100, "shards_per_client": 3}},
        {"partition": {"name": "custom"}},
        {"algorithm": {**SPEC.algorithm, "local_epochs": {"1": 5, "20": 1}}},
        {"algorithm": {**SPEC.algorithm, "local_epochs": 3}},
        {"algorithm": {"name": "central_sgd", "batch_size": 100}},
        {"task": "custom"},
        {"target": 0.9},
    ],
)
def test_other_settings_and_targets_have_no_number_in_the_paper(changes):
    spec = replace(SPEC, **changes)
    assert paper_rounds(spec, spec.target) == []


def test_a_comparison_is_of_the_type_that_the_report_takes():
    assert all(isinstance(cell, PublishedComparison) for cell in paper_rounds(SPEC, 0.97))
