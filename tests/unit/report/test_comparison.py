"""Reports on several runs: sweeps, runs that cannot be read among others that can."""

import dataclasses
import json

import pytest

from stayput.errors import RunFolderError, RunNotFound
from stayput.report.comparison import Comparison
from stayput.report.html import file_name, write_report_on
from stayput.report.run_facts import read_all
from stayput.report.wording import PublishedComparison
from stayput.runs.durable_files import write_json
from stayput.runs.run_folder import RunFolder, runs_in

HIGH, LOW, MIDDLE = (0.1, 0.97, 0.98), (0.1, 0.5, 0.6), (0.1, 0.9, 0.99)


def setting(run, **algorithm):
    """The run, with other settings of its algorithm."""
    spec = run.spec.to_json()
    spec["algorithm"] = {"name": "fed_avg", "client_fraction": 0.1, **algorithm}
    write_json(run.path / "spec.json", spec)
    return RunFolder(run.path)


@pytest.fixture
def swept(make_run):
    rates = {0.1: LOW, 0.2: HIGH, 0.4: MIDDLE}
    return [setting(make_run(values, name=f"rate={rate}"), learning_rate=rate) for rate, values in rates.items()]


def comparison(runs, published=None):
    return Comparison(read_all([run.path for run in runs], published)[0])


def test_the_best_run_is_the_one_that_reached_the_target_in_the_fewest_rounds(swept):
    found = comparison(swept)
    assert found.best == 1
    assert [found.reached(place) for place in range(3)] == [None, 1.0, pytest.approx(1 + 0.07 / 0.09)]
    assert found.best_value(2) == 0.99


def test_the_response_to_the_learning_rate_is_by_its_value(swept):
    found = comparison([swept[2], swept[0], swept[1]])
    assert found.swept() == "learning_rate"
    rounds, best = (found.pictures()[name].chart for name in ("response-rounds", "response-best"))
    assert rounds.lines[0].x == best.lines[0].x == [0.1, 0.2, 0.4]
    assert rounds.lines[0].y[:2] == [None, 1.0]
    assert best.lines[0].y == [0.6, 0.98, 0.99]
    assert rounds.x_log
    assert found.verdict("learning_rate") == "best at 0.2"


def test_a_best_value_at_the_edge_of_the_grid_is_said(swept):
    assert "at the edge of the grid" in comparison([swept[1], swept[2], setting(swept[0], learning_rate=0.8)]).verdict(
        "learning_rate"
    )


def test_other_settings_that_differ_have_lines_of_their_own(make_run):
    runs = [
        setting(make_run(name=f"r{rate}-{epochs}"), learning_rate=rate, local_epochs=epochs)
        for rate in (0.1, 0.2, 0.4)
        for epochs in (1, 5)
    ]
    chart = comparison(runs).pictures()["response-best"].chart
    assert [line.label for line in chart.lines] == ["local_epochs=1", "local_epochs=5"]


def test_two_values_make_no_response(swept):
    assert comparison(swept[:2]).swept() is None


def test_one_page_has_the_sweep_and_its_best_run(swept, make_run, tmp_path):
    runs = [*swept, setting(make_run(LOW, name="rate=0.8"), learning_rate=0.8)]
    written = write_report_on([run.path for run in runs], tmp_path / "r.html", title="my sweep")
    text = written.path.read_text(encoding="utf-8")
    assert written.broken == []
    assert "<h1>my sweep</h1>" in text
    assert "Best at 0.2 (rate=0.2" in text
    assert text.count('<div class="run">') == 1
    assert "<h2>rate=0.2</h2>" in text
    assert text.count('class="best"') == 1


def test_the_papers_numbers_stand_in_the_table(swept):
    table = comparison(swept, lambda _spec: [PublishedComparison(87, 0.97, "table 1")])._table()
    assert "the paper" in table
    assert ">87<" in table
    assert "the paper" not in comparison(swept)._table()


def broken_runs(make_run):
    """One of every kind of folder that is no run, among them one that a newer version wrote."""
    newer, cut, torn, no_environment = (make_run(name=name) for name in ("newer", "cut", "torn", "no-environment"))
    write_json(newer.path / "spec.json", {**newer.spec.to_json(), "spec_version": 99})
    (cut.path / "spec.json").write_text('{"task": ')
    history = (torn.path / "history.jsonl").read_text().split("\n")
    (torn.path / "history.jsonl").write_text("\n".join([history[0], "\x00\x00", *history[1:]]))
    (no_environment.path / "environment.json").unlink()
    other = make_run(name="another-kind")
    write_json(other.path / "spec.json", {"spec_version": 1, "what": "a list of wishes"})
    (other.path.parent / "list").mkdir()
    (other.path.parent / "list" / "spec.json").write_text("[1, 2]")
    return {
        "newer": "this stayput reads versions up to 1",
        "cut": "cannot be read as JSON",
        "torn": "line 2: not a round's report",
        "no-environment": "cannot be read as JSON",
        "another-kind": "unknown",
        "list": "must be a JSON object",
    }


def test_runs_that_cannot_be_read_are_named_with_the_reason_and_the_rest_is_shown(make_run, tmp_path):
    good = make_run(name="good")
    reasons = broken_runs(make_run)
    written = write_report_on(list(runs_in(good.path.parent)), tmp_path / "r.html")
    assert {entry.name for entry in written.broken} == set(reasons)
    for entry in written.broken:
        assert reasons[entry.name] in entry.reason
    text = written.path.read_text(encoding="utf-8")
    assert "Not shown" in text
    assert all(f"<strong>{name}</strong>" in text for name in reasons)
    assert "<h2>good</h2>" in text


def test_only_broken_runs_are_an_error(make_run, tmp_path):
    run = make_run()
    (run.path / "spec.json").write_text("{")
    with pytest.raises(RunFolderError, match="nothing else to report"):
        write_report_on([run.path], tmp_path / "r.html")
    with pytest.raises(RunNotFound, match="nothing to report"):
        write_report_on([], tmp_path / "r.html")


def test_a_run_that_is_being_written_is_shown_as_far_as_it_is(make_run, tmp_path):
    run, other = make_run(ended=False, rounds=9, name="going"), make_run(name="ended")
    with (run.path / "history.jsonl").open("a") as file:
        file.write('{"round_number": 4, "coh')
    text = write_report_on([run.path, other.path], tmp_path / "r.html").path.read_text(encoding="utf-8")
    assert "1 of them have ended, 1 have not." in text
    assert "Not ended: 3 of 9 rounds done." in text


def test_a_member_that_diverged_says_so(make_run, tmp_path):
    run = make_run((0.1, 0.2), name="up", rounds=9)
    write_json(run.path / "result.json", {**run.result, "diverged": "round 2, client 1: loss nan"})
    text = write_report_on([run.path, make_run().path], tmp_path / "r.html").path.read_text(encoding="utf-8")
    assert "training diverged (round 2, client 1: loss nan)" in text
    assert ">diverged<" in text


@pytest.mark.slow
def test_every_figure_is_also_a_file(make_run, tmp_path):
    runs = [make_run(name=name).path for name in "ac"]
    write_report_on(runs, tmp_path / "r.html", figures=tmp_path / "f")
    files = {path.name for path in (tmp_path / "f").iterdir()}
    assert {"curves.png", "curves.svg", "a-metric.png", "c-partition.svg", "c-seconds.svg"} <= files
    assert file_name("../x y") == ".._x_y"


def test_a_report_keeps_its_size_with_many_runs(make_run, tmp_path):
    run = make_run([min(0.99, 0.01 * n) for n in range(300)], rounds=299)
    facts, _ = read_all([run.path])
    many = [dataclasses.replace(facts[0], name=f"run-{number}") for number in range(200)]
    chart = Comparison(many).pictures()["curves"].chart
    assert len(chart.lines) == 60
    assert len(json.dumps(chart.to_json())) < 400_000
