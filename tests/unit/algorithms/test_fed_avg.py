from __future__ import annotations

import pytest

from stayput.algorithms import FedAvg
from stayput.errors import InvalidSetting


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"client_fraction": 1.4}, r"client_fraction=1\.4: must be in \[0, 1\] \(0 selects one client\)"),
        ({"local_epochs": 0}, r"local_epochs=0: must be a whole number of at least 1"),
        ({"local_epochs": 2.0}, r"local_epochs=2\.0: must be a whole number"),
        ({"local_epochs": {5: 1}}, r"local_epochs=\{5: 1\}: .* begin with round 1"),
        ({"local_epochs": {1: 5, 3: 0}}, r"local_epochs=0: must be a whole number of at least 1"),
        ({"batch_size": 0}, r"batch_size=0: must be a whole number of at least 1 \(or \"all\""),
        ({"batch_size": "some"}, r"batch_size='some'"),
        ({"batch_size": True}, r"batch_size=True"),
        ({"learning_rate": 0}, r"learning_rate=0: must be a positive number"),
        ({"learning_rate": float("nan")}, r"learning_rate=nan"),
        ({"learning_rate": float("inf")}, r"learning_rate=inf"),
        ({"learning_rate_decay": -1}, r"learning_rate_decay=-1: must be a positive number \(1 keeps"),
    ],
)
def test_a_wrong_value_is_refused_with_its_rule_and_a_way_out(settings, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        FedAvg(**settings)


def test_the_plan_of_a_round():
    settings = FedAvg(
        local_epochs={1: 20, 3: 5}, batch_size={1: 10, 2: "all"}, learning_rate=0.4, learning_rate_decay=0.5
    )
    plans = [settings.plan(t) for t in (1, 2, 3)]
    assert [p.learning_rate for p in plans] == [0.4, 0.2, 0.1]
    assert [p.local_epochs for p in plans] == [20, 20, 5]
    assert [p.batch_size for p in plans] == [10, "all", "all"]
