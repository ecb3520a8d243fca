from __future__ import annotations

from pathlib import Path

import pytest

from stayput.cli.settings import SETTINGS, from_file, known_name, merged, request, run_spec
from stayput.errors import InvalidSetting, UnknownName


def spec_of(**settings):
    return run_spec({"task": "mnist-2nn", **settings})


def test_defaults_are_the_settings_classes_own():
    spec = spec_of()
    assert spec.algorithm == {
        "name": "fed_avg",
        "client_fraction": 0.1,
        "local_epochs": 1,
        "batch_size": 10,
        "learning_rate": 0.1,
        "learning_rate_decay": 1.0,
    }
    assert spec.partition == {"name": "iid", "num_clients": 100}
    assert (spec.rounds, spec.target, spec.stop_at_target, spec.seed) == (100, None, False, 0)
    assert spec.metrics == {"accuracy": True}


def test_flags_win_over_the_file_and_flags_not_given_do_not():
    settings = merged({"rounds": 7, "seed": None, "report": False}, {"rounds": 3, "seed": 5, "report": True})
    assert settings == {"rounds": 7, "seed": 5, "report": False}


def test_dashes_and_underscores_are_the_same_in_a_file():
    assert from_file({"client-fraction": 1, "batch_size": "all"}, source="my.toml") == {
        "client_fraction": 1.0,
        "batch_size": "all",
    }


@pytest.mark.parametrize(
    "written", ["tensorboard,mlflow", ["tensorboard", "mlflow"], "tensorboard, mlflow", ["tensorboard,mlflow"]]
)
def test_trackers_are_a_list_or_names_with_commas(written):
    assert spec_of(**from_file({"track": written}, source="my.toml")).track == ("tensorboard", "mlflow")
    with pytest.raises(UnknownName, match="track='w&b': unknown"):
        spec_of(track=["w&b"])
    with pytest.raises(InvalidSetting, match="must be a name in quotes, or a list of names"):
        from_file({"track": [1]}, source="my.toml")


def test_a_setting_given_twice_in_a_file_is_refused():
    with pytest.raises(InvalidSetting, match="client_fraction is there twice"):
        from_file({"client-fraction": 1, "client_fraction": 0.5}, source="my.toml")


def test_an_unknown_key_is_refused_with_a_guess_and_the_known_ones():
    with pytest.raises(
        UnknownName, match=r"my\.toml: setting='client_fractoin': unknown; did you mean 'client_fraction'\?"
    ) as error:
        from_file({"client_fractoin": 0.1}, source="my.toml")
    assert all(name in str(error.value) for name in SETTINGS)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("rounds", "many", "must be a whole number"),
        ("rounds", 1.5, "must be a whole number"),
        ("rounds", True, "must be a whole number"),
        ("learning_rate", "0.1", "must be a number"),
        ("learning_rate", False, "must be a number"),
        ("task", 3, "must be text in quotes"),
        ("report", 1, "must be true or false"),
        ("folder", 1, "must be a path in quotes"),
        ("local_epochs", 1.5, "must be a value, or values with the round"),
        ("batch_size", [10], "must be a value, or values with the round"),
        ("client_fraction", {"1": 0.1}, "must be a number"),
    ],
)
def test_a_wrong_type_in_a_file_is_refused_with_its_rule(name, value, rule):
    with pytest.raises(InvalidSetting, match=rf"my\.toml: {name}=.*{rule}"):
        from_file({name: value}, source="my.toml")


@pytest.mark.parametrize("written", ["20,50:5,100:1", {"1": 20, "50": 5, "100": 1}])
def test_schedules_are_read_from_text_and_from_tables(written):
    settings = from_file({"local_epochs": written}, source="my.toml")
    assert spec_of(**settings).algorithm["local_epochs"] == {"1": 20, "50": 5, "100": 1}


def test_a_batch_size_is_a_number_or_all_on_the_command_line():
    assert spec_of(batch_size="all").algorithm["batch_size"] == "all"
    assert spec_of(batch_size="50").algorithm["batch_size"] == 50
    assert spec_of(batch_size="10,20:all").algorithm["batch_size"] == {"1": 10, "20": "all"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"alpha": 0.3},
            r"alpha=0\.3: partition iid has no such setting \(it has num_clients; alpha is a setting of dirichlet",
        ),
        ({"algorithm": "fed_sgd", "local_epochs": "5"}, "local_epochs=5: algorithm fed_sgd has no such setting"),
        ({"algorithm": "central_sgd", "client_fraction": 0.5}, "algorithm central_sgd has no such setting"),
        ({"updates_per_round": 3}, "algorithm fed_avg has no such setting .* setting of central_sgd"),
        ({"partition": "by_key", "num_clients": 10}, "partition by_key has no such setting"),
        ({"spread": 2.0}, r"spread=2\.0: clients of even sizes have no spread"),
        ({"partition": "unbalanced"}, "is made over another partition"),
    ],
)
def test_a_setting_that_would_change_nothing_is_refused(settings, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        spec_of(**settings)


@pytest.mark.parametrize(
    ("given", "proper"),
    [("fed_avg", "fed_avg"), ("fed-avg", "fed_avg"), ("Fed-Avg", "fed_avg"), ("one-shot", "one_shot")],
)
def test_algorithms_are_known_with_dashes_too(given, proper):
    assert spec_of(algorithm=given).algorithm["name"] == proper


def test_other_names_are_known_with_dashes_or_underscores_too():
    assert run_spec({"task": "mnist_2nn"}).task == "mnist-2nn"
    assert spec_of(partition="by-key").partition == {"name": "by_key", "key": "writer"}
    assert spec_of(unbalanced="power-law").partition["sizes"] == "power_law"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        UnknownName, match=r"task='mnist-2n': unknown; did you mean 'mnist-2nn'\? known: mnist-2nn, mnist-cnn"
    ):
        known_name("task", "mnist-2n", {"mnist-2nn": 1, "mnist-cnn": 2})


def test_unbalanced_wraps_the_partition():
    spec = spec_of(partition="shards", num_clients=10, unbalanced="log_normal", spread=0.5)
    over = {"name": "shards", "num_clients": 10, "shards_per_client": 2}
    assert spec.partition == {"name": "unbalanced", "over": over, "sizes": "log_normal", "spread": 0.5}


def test_a_target_stops_the_run_unless_told_otherwise():
    assert spec_of(target=0.97).stop_at_target
    assert not spec_of(target=0.97, stop_at_target=False).stop_at_target
    with pytest.raises(InvalidSetting, match="needs a target to stop at"):
        spec_of(stop_at_target=True)


def test_one_shot_is_one_round_by_default():
    assert spec_of(algorithm="one_shot").rounds == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"client_fraction": 1.4}, r"client_fraction=1\.4: must be in \[0, 1\]"),
        ({"local_epochs": "0"}, "local_epochs=0: must be a whole number of at least 1"),
        ({"local_epochs": "5,x:3"}, "local_epochs='5,x:3': must be one value, or values with the round"),
        ({"local_epochs": {"5": 2}}, "local_epochs=.* begin with round 1"),
        ({"local_epochs": {"soon": 2}}, "local_epochs=.* must map round numbers"),
        ({"batch_size": "-1"}, "batch_size=-1: must be a whole number"),
        ({"learning_rate": 0.0}, r"learning_rate=0\.0: must be a positive number"),
        ({"target": 97.0}, "97% is 0.97"),
        ({"rounds": -1}, "rounds=-1: must be a whole number"),
        ({"threads": 0}, "threads=0: must be a whole number"),
        ({"unbalanced": "normal"}, "sizes='normal': unknown; did you mean 'log_normal'"),
        ({"engine": "lane"}, "engine='lane': unknown"),
    ],
)
def test_wrong_values_are_refused_by_the_settings_classes(settings, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        spec_of(**settings)


def test_what_is_around_a_run_reaches_the_request():
    asked = request({"task": "mnist-2nn", "folder": Path("here"), "report": False, "json": True, "quiet": True})
    assert (asked.folder, asked.report, asked.json, asked.quiet) == (Path("here"), False, True, True)
    assert request({"task": "mnist-2nn"}).report


def test_requiring_a_target_needs_one():
    with pytest.raises(InvalidSetting, match="needs a target to require"):
        request({"task": "mnist-2nn", "require_target": True})
