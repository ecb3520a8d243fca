"""Commands on runs that are there already, and on none: inside this process, without data and without training."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from stayput._version import __version__
from stayput.algorithms import ALGORITHMS
from stayput.cli import doctor
from stayput.cli.interruption import where_it_stands
from stayput.data import DATA_SETS
from stayput.data.partitions import PARTITIONS
from stayput.report.settings_text import common_target, differing
from stayput.tasks.catalogue import NAMED_TASKS

CURVE = [0.1, 0.6, 0.98, 0.975]


def test_version(command):
    assert command("--version").out == f"stayput {__version__}\n"


def test_no_command_is_the_help(command):
    ended = command()
    assert ended.code == 2
    assert "Usage: stayput" in ended.out + ended.err


@pytest.mark.parametrize(
    ("name", "known"), [("algorithms", ALGORITHMS), ("partitions", PARTITIONS), ("tasks", NAMED_TASKS)]
)
def test_lists_have_every_name_for_people_and_for_programs(name, known, command):
    shown = command(name)
    assert shown.code == 0
    assert all(entry in shown.out for entry in known)
    assert "None" not in shown.out
    assert [entry["name"] for entry in json.loads(command(name, "--json").out)] == list(known)


def test_algorithms_list_settings_with_defaults_and_meaning(command):
    line = next(line for line in command("algorithms").out.splitlines() if "--client-fraction" in line)
    assert line.split(maxsplit=2) == [
        "--client-fraction",
        "0.1",
        "C, the share of clients in a round; 0 selects one client.",
    ]


def test_show_has_settings_curve_and_rounds_to_the_target_beside_the_papers(command, make_run):
    make_run("a", CURVE)
    ended = command("show", "a")
    assert ended.code == 0
    assert "runs/a: mnist-2nn, ended after round 3 of 3" in ended.out
    assert "fed_avg  client_fraction=0.1  local_epochs=1  batch_size=10" in ended.out
    assert "target 97%" in ended.out
    assert "rounds to accuracy 97%   2       (paper: 87 (table 1), 92 (table 4))" in ended.out
    assert "best accuracy            98%" in ended.out


def test_show_counts_rounds_to_other_targets_and_metrics(command, make_run):
    make_run("a", CURVE)
    out = command("show", "a", "--target", "0.5", "--target", "0.99").out
    assert "rounds to accuracy 50%   0.8" in out
    assert "rounds to accuracy 99%   not reached" in out
    out = command("show", "a", "--metric", "loss", "--target", "0.4").out
    assert "rounds to loss 0.4   1" in out


def test_show_draws_the_partition(command, make_run):
    path = make_run("a", CURVE)
    ended = command("show", "a", "--partition")
    assert "100 clients, 1,000 examples, 2 labels" in ended.out
    assert (path / "partition.png").stat().st_size > 1000


def test_show_says_that_a_run_has_not_ended_and_how_to_go_on(command, make_run):
    make_run("a", CURVE[:2], ended=False)
    assert "not ended, at round 1 of 3 (go on: stayput resume runs/a)" in command("show", "a").out


def test_show_of_a_run_without_rounds(command, make_run):
    make_run("a", [], ended=False, checkpoint=0)
    ended = command("show", "a")
    assert ended.code == 0
    assert "no evaluations yet" in ended.out


def test_show_as_json(command, make_run):
    make_run("a", CURVE)
    shown = json.loads(command("show", "a", "--json").out)
    assert shown["curve"] == {"rounds": [0, 1, 2, 3], "values": CURVE}
    assert shown["rounds_to"][0]["target"] == 0.97
    assert [cell["rounds"] for cell in shown["rounds_to"][0]["paper"]] == [87, 92]
    assert shown["spec"]["rounds"] == 3


def with_algorithm(spec, **changes):
    return type(spec)(**{**spec.to_json(), "algorithm": {**spec.algorithm, **changes}})


def test_compare_draws_one_figure_and_lists_what_differs(command, make_run, tmp_path, base_spec):
    make_run("a", CURVE)
    make_run("b", [0.1, 0.5, 0.6], with_algorithm(base_spec, local_epochs=5))
    ended = command("compare", "a", "b", "-o", "both.svg")
    assert ended.code == 0
    rows = [line.split() for line in ended.out.splitlines()[:3]]
    assert rows[0][:2] == ["run", "local_epochs"]
    assert rows[1][:-1] == ["a", "1", "2", "87", "or", "92", "98%", "3"]
    assert rows[2][:3] == ["b", "5", "—"]
    assert (tmp_path / "both.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_compare_draws_each_run_as_a_line_of_bars(command, make_run):
    make_run("a", CURVE)
    make_run("b", [0.1, 0.2])
    head, first, second, *_ = command("compare", "a", "b").out.splitlines()
    assert head.endswith("accuracy")
    assert first.rstrip()[-1] in "▇█"
    assert "▁" in second


def test_compare_as_json(command, make_run):
    make_run("a", CURVE)
    make_run("b", [0.1, 0.5, 0.6])
    compared = json.loads(command("compare", "a", "b", "--json", "--target", "0.5").out)
    assert compared["target"] == 0.5
    assert [run["rounds_to_target"] for run in compared["runs"]] == [0.8, 1.0]
    assert compared["runs"][0]["differs_in"] == {}


def test_what_differs_is_told_by_short_names(base_spec):
    unbalanced = {"name": "unbalanced", "over": base_spec.partition, "sizes": "log_normal", "spread": 1.0}
    other = type(base_spec)(**{**base_spec.to_json(), "partition": unbalanced, "seed": 1, "rounds": 9})
    told = differing([base_spec, other])
    assert told["seed"] == ["0", "1"]
    assert told["partition"] == ["iid", "unbalanced"]
    assert told["over"] == ["—", "iid"]
    assert "rounds" not in told


def test_a_target_is_common_where_runs_agree(base_spec):
    other = type(base_spec)(**{**base_spec.to_json(), "target": 0.5})
    without = type(base_spec)(**{**base_spec.to_json(), "target": None})
    assert common_target([base_spec, without], "accuracy") == 0.97
    assert common_target([base_spec, other], "accuracy") is None
    assert common_target([base_spec], "loss") is None


def test_report_writes_one_file(command, make_run, tmp_path):
    path = make_run("a", CURVE)
    assert command("report", "a").out == "runs/a/report.html\n"
    assert command("report", "a", "-o", "mine.html").out == "mine.html\n"
    assert "</html>" in (path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "mine.html").is_file()


def test_report_takes_a_sweeps_folder_and_says_what_is_not_shown(command, make_run, tmp_path):
    for name in ("sw/a", "sw/b", "sw/c"):
        make_run(name, CURVE)
    (tmp_path / "runs/sw/c/spec.json").write_text("{")
    ended = command("report", "sw")
    assert ended.out == "runs/sw/report.html\n"
    assert "note: not shown: " in ended.err
    assert "<h1>sw</h1>" in (tmp_path / "runs/sw/report.html").read_text(encoding="utf-8")


def test_report_on_runs_from_several_places_goes_into_the_current_folder(command, make_run, tmp_path):
    make_run("a", CURVE)
    make_run("sw/b", CURVE)
    assert command("report", "a", "sw").out == "report.html\n"
    assert command("report", "a", "nothing").code == 5


def test_resume_refuses_to_go_back(command, make_run):
    make_run("a", CURVE)
    ended = command("resume", "a", "--rounds", "2")
    assert ended.code == 2
    assert ended.err.startswith("error: rounds=2: the run in runs/a has 3 already")


def test_resume_refuses_a_run_of_somebodys_own_code(command, make_run, base_spec):
    make_run("a", CURVE, type(base_spec)(**{**base_spec.to_json(), "task": "custom"}))
    ended = command("resume", "a")
    assert ended.code == 2
    assert "was started from Python" in ended.err


def test_where_an_interrupted_run_stands(make_run, tmp_path):
    path = make_run("a", CURVE, ended=False)
    assert where_it_stands(path) == f"interrupted after round 3; go on with: stayput resume {path}"
    assert where_it_stands(tmp_path / "none") == "interrupted before round 1; nothing was trained yet"


def test_data_list_says_what_is_not_here_and_how_to_have_it(command):
    ended = command("data", "list")
    assert ended.code == 0
    lines = [re.sub(" {2,}", " ", line) for line in ended.out.splitlines()]
    assert any(line.startswith("mnist not here (20.3 MB: stayput data fetch mnist) 60,000 +") for line in lines)
    assert any(line.startswith("posts your own file (how: stayput data fetch posts) ") for line in lines)
    listed = json.loads(command("data", "list", "--json").out)
    assert [entry["name"] for entry in listed] == list(DATA_SETS)
    assert listed[0]["path"] is None


def test_data_verify_of_what_is_not_here(command):
    ended = command("data", "verify", "mnist")
    assert ended.code == 3
    assert ended.err == "error: mnist: is not here (bring it with: stayput data fetch mnist)\n"


def test_doctor_says_what_is_missing_and_what_to_do(command):
    ended = command("doctor")
    assert ended.code == 0
    assert "absent  data mnist" in ended.out
    assert "stayput data fetch mnist" in ended.out
    findings = {finding["name"]: finding for finding in json.loads(command("doctor", "--json").out)}
    assert findings["torch"]["state"] == "ok"
    assert findings["data mnist"]["state"] == "absent"


def test_doctor_looks_for_what_the_package_requires():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements):
        return [re.match(r"[\w-]+", requirement).group() for requirement in requirements]

    assert names(project["dependencies"]) == [*doctor.REQUIRED, *doctor.DISPENSABLE]
    extras = project["optional-dependencies"]
    assert {extra: names(extras[extra]) for extra in extras} == {k: list(v) for k, v in doctor.EXTRAS.items()}
    assert project["requires-python"] == ">=" + ".".join(map(str, doctor.OLDEST_PYTHON))


def test_doctor_fails_where_something_required_is_broken(command, monkeypatch):
    monkeypatch.setattr("stayput.cli.doctor.REQUIRED", ("torch", "no-such-package"))
    ended = command("doctor")
    assert ended.code == 1
    assert "broken  no-such-package" in ended.out
    assert "pip install no-such-package" in ended.out


def test_doctor_does_without_optional_packages(command, monkeypatch):
    monkeypatch.setattr("stayput.cli.doctor.EXTRAS", {"data": ("no-such-package",)})
    ended = command("doctor")
    assert ended.code == 0
    assert "pip install 'stayput[data]'" in ended.out


def test_doctor_finds_a_cache_that_cannot_be_written(command, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("STAYPUT_CACHE", str(tmp_path / "file" / "cache"))
    ended = command("doctor")
    assert ended.code == 1
    assert "broken  cache" in ended.out


WRONG = [
    (["run", "mnist-3nn"], 2, "task='mnist-3nn': unknown; did you mean"),
    (["run", "nothing.toml"], 2, "nothing.toml: cannot be read"),
    (
        ["run", "mnist-2nn", "--client-fraction", "1.4"],
        2,
        "client_fraction=1.4: must be in [0, 1] (0 selects one client)",
    ),
    (["run", "mnist-2nn", "--client-fraction", "nan"], 2, "client_fraction=nan: must be in [0, 1]"),
    (["run", "mnist-2nn", "--local-epochs", "0"], 2, "local_epochs=0: must be a whole number of at least 1"),
    (["run", "mnist-2nn", "--local-epochs", "2:3"], 2, "begin with round 1"),
    (["run", "mnist-2nn", "--batch-size", "some"], 2, "batch_size='some': must be one value, or values"),
    (["run", "mnist-2nn", "--learning-rate", "-1"], 2, "learning_rate=-1.0: must be a positive number"),
    (["run", "mnist-2nn", "--learning-rate-decay", "0"], 2, "learning_rate_decay=0.0: must be a positive number"),
    (["run", "mnist-2nn", "--algorithm", "fed_average"], 2, "algorithm='fed_average': unknown; did you mean"),
    (["run", "mnist-2nn", "--algorithm", "central-sgd", "--updates-per-round", "0"], 2, "updates_per_round=0: must be"),
    (["run", "mnist-2nn", "--algorithm", "fed-sgd", "--local-epochs", "2"], 2, "fed_sgd has no such setting"),
    (["run", "mnist-2nn", "--partition", "idd"], 2, "partition='idd': unknown; did you mean 'iid'"),
    (["run", "mnist-2nn", "--num-clients", "0"], 2, "num_clients=0: must be a whole number"),
    (["run", "mnist-2nn", "--partition", "shards", "--shards-per-client", "0"], 2, "shards_per_client=0: must be"),
    (["run", "mnist-2nn", "--partition", "dirichlet", "--alpha", "0"], 2, "alpha=0.0: must be a positive number"),
    (["run", "mnist-2nn", "--alpha", "1"], 2, "partition iid has no such setting"),
    (["run", "mnist-2nn", "--partition", "by-key", "--key", ""], 2, "key='': must be the name of a key"),
    (["run", "mnist-2nn", "--unbalanced", "normal"], 2, "sizes='normal': unknown"),
    (["run", "mnist-2nn", "--unbalanced", "log-normal", "--spread", "-1"], 2, "spread=-1.0: must be"),
    (["run", "mnist-2nn", "--partition-seed", "-1"], 2, "partition_seed=-1: must be"),
    (["run", "mnist-2nn", "--rounds", "-1"], 2, "rounds=-1: must be"),
    (["run", "mnist-2nn", "--target", "97"], 2, "target=97.0: an accuracy must be in (0, 1] (97% is 0.97)"),
    (["run", "mnist-2nn", "--stop-at-target"], 2, "needs a target to stop at"),
    (["run", "mnist-2nn", "--require-target"], 2, "needs a target to require"),
    (["run", "mnist-2nn", "--seed", "-1"], 2, "seed=-1: must be"),
    (["run", "mnist-2nn", "--evaluate-every", "0"], 2, "evaluate_every=0: must be"),
    (["run", "mnist-2nn", "--checkpoint-every", "0"], 2, "checkpoint_every=0: must be"),
    (["run", "mnist-2nn", "--keep-checkpoints", "0"], 2, "keep_checkpoints=0: must be"),
    (["run", "mnist-2nn", "--engine", "fast"], 2, "engine='fast': unknown"),
    (["run", "mnist-2nn", "--threads", "0"], 2, "threads=0: must be"),
    (["run", "mnist-2nn", "--data-dir", "nowhere"], 2, "data_dir='nowhere': must be an existing folder"),
    (["run", "mnist-2nn", "--rounds", "x"], 2, "Invalid value for '--rounds'"),
    (["run", "mnist-2nn", "--rouns", "3"], 2, "No such option: --rouns"),
    (["run"], 2, "Missing argument"),
    (["resume", "nope"], 5, "nope: no run is there, nor in runs/"),
    (["show", "nope"], 5, "nope: no run is there, nor in runs/"),
    (["report", "nope"], 5, "nope: no run is there, nor in runs/"),
    (["compare", "nope"], 5, "nope: no run is there, nor in runs/"),
    (["compare"], 2, "Missing argument"),
    (["show", "there", "--metric", "f1"], 2, "metric='f1': unknown; known: accuracy, loss"),
    (["show", "there", "--target", "x"], 2, "Invalid value for '--target'"),
    (["compare", "there", "-o", "x.gif"], 2, "path='x.gif': a picture must end in .png or .svg"),
    (["compare", "there", "--metric", "f1"], 2, "metric='f1': unknown"),
    (["resume", "there", "--require-target", "--target", "2"], 2, "target=2.0: an accuracy must be in (0, 1]"),
    (["data", "fetch", "mnits"], 2, "data set='mnits': unknown; did you mean 'mnist'"),
    (["data", "verify", "mnits"], 2, "data set='mnits': unknown"),
    (["data", "list", "--data-dir", "nowhere"], 2, "data_dir='nowhere': must be an existing folder"),
    (["nonsense"], 2, "No such command 'nonsense'"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_wrong_value_is_a_sentence_and_an_exit_code(arguments, code, sentence, command, make_run, tmp_path):
    make_run("there", CURVE)
    ended = command(*arguments)
    assert ended.code == code
    assert sentence in ended.err
    assert "Traceback" not in ended.err
    assert not ended.out
    if not ended.err.startswith("Usage:"):
        assert ended.err.startswith("error: ")
        assert ended.err.count("\n") == 1
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["there"]
