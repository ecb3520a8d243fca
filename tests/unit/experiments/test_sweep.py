from __future__ import annotations

import pytest

import stayput as sp
from stayput.errors import InvalidSetting, UnknownName
from stayput.runs.run_folder import RunFolder
from stayput.testing import toy_clients, toy_examples, toy_task

BASE = sp.FedAvg(client_fraction=0.5, local_epochs=2, batch_size=4, learning_rate=0.2)
OVER = {"learning_rate": [0.05, 0.2, 0.8], "seed": [0, 3]}


def sweep(over=OVER, rounds=5, **settings):
    arguments = {"test": toy_examples(60, seed=3), **settings}
    return sp.sweep(toy_task(), toy_clients((9, 4, 12, 6)), BASE, over=over, rounds=rounds, **arguments)


def alone(rate, seed, **settings):
    algorithm = sp.FedAvg(client_fraction=0.5, local_epochs=2, batch_size=4, learning_rate=rate)
    clients, test = toy_clients((9, 4, 12, 6)), toy_examples(60, seed=3)
    return sp.train(toy_task(), clients, algorithm, rounds=5, seed=seed, test=test, **settings)


@pytest.mark.parametrize("engine", ["sequential", "lanes"])
def test_each_member_is_the_run_it_would_be_alone(engine):
    result = sweep(engine=engine)
    assert [dict(member.point) for member in result.members] == [
        {"learning_rate": rate, "seed": seed} for rate in OVER["learning_rate"] for seed in OVER["seed"]
    ]
    for member in result.members:
        run = alone(member.point["learning_rate"], member.point["seed"])
        ours = [report.evaluation["loss"] for report in member.run.history.reports]
        theirs = [report.evaluation["loss"] for report in run.history.reports]
        assert ours == pytest.approx(theirs, rel=1e-4)
        assert member.run.curve().values.tolist() == pytest.approx(run.curve().values.tolist(), abs=0.02)
    if engine == "sequential":
        assert result.runs[3].model_sha256 == alone(0.2, 3).model_sha256


def test_members_end_on_their_own():
    over = {"learning_rate": [0.02, 0.2, 1e30]}
    result = sweep(over, rounds=40, target=0.8, stop_at_target=True)
    slow, good, wild = result.members
    assert good.run.rounds_to(0.8) is not None
    assert good.run.history.last_round < 40
    assert slow.run.history.last_round > good.run.history.last_round
    assert "learning_rate=1e+30" in wild.diverged
    assert wild.run.history.last_round < 5
    assert result.best(0.8) is good
    # What its neighbours were spared: the good one learned as it does alone.
    calm = sweep({"learning_rate": [0.2]}, rounds=40, target=0.8, stop_at_target=True).members[0]
    assert good.run.history.last_round == calm.run.history.last_round


def test_every_member_has_a_folder_that_goes_on(tmp_path):
    whole = sweep(folder=tmp_path / "whole", engine="sequential")
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert names[0] == "learning_rate=0.05,seed=0"
    assert len(names) == 6
    outcome = RunFolder(tmp_path / "whole" / names[0]).result
    assert outcome["diverged"] is None
    sweep(folder=tmp_path / "broken", rounds=3, engine="sequential")
    gone_on = sweep(folder=tmp_path / "broken", resume=True, engine="sequential")
    assert [run.model_sha256 for run in gone_on.runs] == [run.model_sha256 for run in whole.runs]


def test_a_member_that_diverged_says_so_in_its_folder(tmp_path):
    sweep({"learning_rate": [1e30]}, folder=tmp_path)
    assert "learning_rate=1e+30" in RunFolder(tmp_path / "learning_rate=1e+30").result["diverged"]


def test_progress_names_the_member():
    heard = []
    sweep(rounds=2, on_round=lambda number, report, history: heard.append((number, report.round_number)))
    assert sorted(heard) == [(number, t) for number in range(6) for t in range(3)]


@pytest.mark.parametrize(
    ("over", "error", "sentence"),
    [
        ({"learning_rat": [1]}, UnknownName, "did you mean 'learning_rate'"),
        ({"learning_rate": []}, InvalidSetting, "must be one or more different values"),
        ({"learning_rate": [0.1, 0.1]}, InvalidSetting, "must be one or more different values"),
        ({"client_fraction": [0.5, 2]}, InvalidSetting, "client_fraction=2: must be in"),
    ],
)
def test_a_grid_that_is_none_is_refused(over, error, sentence):
    with pytest.raises(error, match=sentence):
        sweep(over)
