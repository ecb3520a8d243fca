from __future__ import annotations

import dataclasses
import inspect
import re

from stayput.algorithms import ALGORITHMS
from stayput.cli.run import run
from stayput.cli.settings import DEFAULT_ROUNDS, OF_ALGORITHM, OF_FLEET, OF_PARTITION, OF_SPEC, SETTINGS, run_spec
from stayput.data.partitions import PARTITIONS
from stayput.virtual_fleet.settings import VirtualFleet

FLAGS = {
    name: parameter.annotation.__metadata__[0]
    for name, parameter in inspect.signature(run, eval_str=True).parameters.items()
}


def test_every_setting_has_a_flag_and_every_flag_a_setting():
    assert set(FLAGS) - {"task_or_toml"} == set(SETTINGS) - {"task"}


def test_every_setting_of_an_algorithm_or_partition_has_a_flag():
    fields = {field.name for known in ALGORITHMS.values() for field in dataclasses.fields(known)}
    assert fields == set(OF_ALGORITHM)
    fields = {f.name for name, known in PARTITIONS.items() if name != "unbalanced" for f in dataclasses.fields(known)}
    assert fields == set(OF_PARTITION)


def defaults_in_help(name):
    """`(default 10; one_shot: 50)` as {"": "10", "one_shot": "50"}."""
    found = re.search(r"\(default ([^)]*)\)", FLAGS[name].help)
    first, _, rest = found.group(1).partition("; ")
    others = dict(entry.split(": ") for entry in rest.split(", ")) if rest else {}
    return {"": first, **others}


def test_the_defaults_in_the_help_are_the_settings_classes_own():
    for names, known in ((OF_ALGORITHM, ALGORITHMS), (OF_PARTITION, PARTITIONS)):
        for name in names:
            said = defaults_in_help(name)
            for class_name, settings_class in known.items():
                field = next((f for f in dataclasses.fields(settings_class) if f.name == name), None)
                if field is not None:
                    assert str(field.default) == said.get(class_name, said[""]), (class_name, name)


def test_the_defaults_in_the_help_are_the_specs_own():
    spec = run_spec({"task": "mnist-2nn"})
    for name in (*OF_SPEC, "engine"):
        if name != "threads":
            assert str(getattr(spec, name)) == defaults_in_help(name)[""]
    assert defaults_in_help("rounds") == {"": str(DEFAULT_ROUNDS), "one_shot": "1"}
    assert defaults_in_help("algorithm")[""] == spec.algorithm["name"]
    assert defaults_in_help("partition")[""] == spec.partition["name"]


def test_the_settings_of_a_virtual_fleet_have_flags_with_its_defaults():
    defaults = {field.name: field.default for field in dataclasses.fields(VirtualFleet)}
    assert set(defaults) == set(OF_FLEET)
    for name, default in defaults.items():
        assert defaults_in_help(name)[""] == ("none" if default is None else str(default)), name
