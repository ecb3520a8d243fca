"""A run's folder, and going on with it after anything may have happened to it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

import stayput as sp
from stayput.errors import InvalidSetting, RunExists, RunFolderError, RunLocked, RunNotFound
from stayput.runs.run_folder import RunFolder
from stayput.runs.run_writer import RunWriter
from stayput.testing import toy_clients, toy_examples, toy_task

SETTINGS = sp.FedAvg(client_fraction=0.5, local_epochs=2, batch_size=4, learning_rate=0.2)


def train(folder, rounds=9, **settings):
    arguments = {"test": toy_examples(60, seed=3), "checkpoint_every": 2, "seed": 5, **settings}
    return sp.train(toy_task(), toy_clients((9, 4, 12, 6)), SETTINGS, rounds=rounds, folder=folder, **arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing happened to."""
    return train(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def half(tmp_path):
    """A run of which five of nine rounds are done: checkpoints of rounds 4 and 5."""
    train(tmp_path / "run", rounds=5)
    return tmp_path / "run"


def test_a_folder_holds_what_is_needed_to_understand_the_run(whole):
    folder = RunFolder(whole.folder)
    assert folder.spec.rounds == 9
    assert folder.spec.algorithm["local_epochs"] == 2
    assert folder.environment["versions"].keys() == {"stayput", "python", "torch", "numpy", "safetensors"}
    assert folder.environment["partition_fingerprint"] == toy_clients((9, 4, 12, 6)).partition_fingerprint
    assert folder.history() == whole.history
    assert folder.curve().values.tolist() == whole.curve().values.tolist()
    assert sum(sum(row) for row in folder.label_counts) == 31
    assert folder.result["model_sha256"] == whole.model_sha256
    assert list(folder.checkpoint_paths()) == [9, 8]


def test_the_best_checkpoint_is_that_of_the_best_evaluation(whole):
    values = whole.curve().values.tolist()
    best = RunFolder(whole.folder).best_checkpoint()
    assert best.round_number == values.index(max(values))


def test_writing_to_disk_does_not_change_the_run(whole):
    assert train(None).model_sha256 == whole.model_sha256


def test_a_run_that_goes_on_ends_where_it_would_have(half, whole):
    resumed = train(half, resume=True)
    assert resumed.model_sha256 == whole.model_sha256
    ours, theirs = resumed.history.reports, whole.history.reports
    assert [r.evaluation for r in ours] == [r.evaluation for r in theirs]
    assert [r.train_loss for r in ours] == [r.train_loss for r in theirs]
    assert RunFolder(half).best_checkpoint().round_number == RunFolder(whole.folder).best_checkpoint().round_number


@pytest.mark.parametrize("damage", ["latest", "two", "all"])
def test_a_damaged_checkpoint_is_passed_over(half, whole, damage):
    paths = list(RunFolder(half).checkpoint_paths().values())
    for path in {"latest": paths[:1], "two": paths[:2], "all": paths}[damage]:
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
    with pytest.warns(UserWarning, match="the one before it is used"):
        again = train(half, resume=True)
    assert again.model_sha256 == whole.model_sha256


def test_a_history_cut_off_in_a_line_is_the_history_before_it(half, whole):
    with (half / "history.jsonl").open("a") as file:
        file.write('{"round_number": 6, "cohort_si')
    assert RunFolder(half).history().last_round == 5
    assert train(half, resume=True).model_sha256 == whole.model_sha256


def test_rounds_after_the_checkpoint_are_computed_again(half, whole):
    latest, *_ = RunFolder(half).checkpoint_paths().values()
    latest.unlink()
    resumed = train(half, resume=True)
    assert resumed.model_sha256 == whole.model_sha256
    assert [r.round_number for r in resumed.history.reports] == list(range(10))


def test_a_history_shorter_than_its_checkpoint_is_said_to_be(half):
    lines = (half / "history.jsonl").read_text().splitlines(keepends=True)
    (half / "history.jsonl").write_text("".join(lines[:3]))
    with pytest.raises(RunFolderError, match="ends before round 5"):
        train(half, resume=True)


def test_a_broken_line_in_the_middle_is_named(half):
    (half / "history.jsonl").write_text("nonsense\n")
    with pytest.raises(RunFolderError, match=r"history\.jsonl, line 1"):
        RunFolder(half).history()


def test_a_run_is_not_overwritten(half):
    with pytest.raises(RunExists, match="holds a run already"):
        train(half)


def test_resume_begins_a_run_where_there_is_none(tmp_path, whole):
    assert train(tmp_path / "new", resume=True).model_sha256 == whole.model_sha256


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seed": 6}, "seed=6: the run in .* has 5"),
        ({"evaluate_every": 3}, "evaluate_every=3: the run in .* has 1"),
    ],
)
def test_a_run_does_not_go_on_with_other_settings(half, changes, sentence):
    with pytest.raises(InvalidSetting, match=sentence):
        train(half, resume=True, **changes)


def test_a_run_does_not_go_on_with_other_data(half):
    with pytest.raises(InvalidSetting, match="the clients' data is not that of the run"):
        sp.train(
            toy_task(),
            toy_clients((9, 4, 12, 7)),
            SETTINGS,
            rounds=9,
            folder=half,
            resume=True,
            seed=5,
            checkpoint_every=2,
            test=toy_examples(60, seed=3),
        )


def test_a_longer_run_is_the_same_run_gone_on(half, whole):
    assert train(half, rounds=7, resume=True).model_sha256 != whole.model_sha256
    assert train(half, rounds=9, resume=True).model_sha256 == whole.model_sha256


def test_what_a_run_was_given_when_it_went_on_is_part_of_its_spec(half):
    train(half, rounds=7, resume=True, target=0.99)
    assert RunFolder(half).spec.rounds == 7
    assert RunFolder(half).spec.target == 0.99


def test_an_evaluation_that_is_no_number_does_not_keep_a_run_from_ending(tmp_path):
    test = toy_examples(60, seed=3)
    test.inputs[0] = float("nan")
    train(tmp_path / "run", test=test)
    outcome = RunFolder(tmp_path / "run").result
    assert 0 < outcome["final"] <= 1
    odd = sp.Metric("odd", lambda output, targets: output[:, 0])
    task = sp.Task(toy_task().model, sp.losses.cross_entropy, [odd])
    run = sp.train(task, toy_clients(), SETTINGS, rounds=2, test=test, folder=tmp_path / "odd")
    assert run.folder is not None
    assert RunFolder(run.folder).result["final"] is None
    assert RunFolder(run.folder).best_checkpoint() is None


def test_only_one_process_writes_a_run(half):
    script = "import fcntl, sys; f = open(sys.argv[1], 'ab'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(half / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        holder.stdout.readline()
        with pytest.raises(RunLocked, match="another process is writing this run"):
            train(half, resume=True)
        holder.kill()  # however the holder ends, its lock goes with it
        holder.wait()
    train(half, resume=True)


def test_an_empty_folder_and_one_that_is_not_there_hold_no_run(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(RunNotFound, match="holds no run"):
            RunFolder(path)


def test_a_spec_that_is_not_json_is_named(half):
    (half / "spec.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"spec\.json: cannot be read as JSON"):
        _ = RunFolder(half).spec


def test_a_checkpoint_copied_from_another_run_is_not_used(half, whole):
    latest, *_ = RunFolder(half).checkpoint_paths().values()
    stranger, *_ = RunFolder(whole.folder).checkpoint_paths().values()
    shutil.copy(stranger, latest)
    checkpoint, damaged = RunFolder(half).latest_checkpoint()
    assert checkpoint.round_number == 4
    assert "belongs to run" in str(damaged[0])


def test_other_versions_are_pointed_out(half):
    environment = json.loads((half / "environment.json").read_text())
    environment["versions"]["torch"] = "1.0"
    (half / "environment.json").write_text(json.dumps(environment))
    ours = {**environment, "versions": {**environment["versions"], "torch": "2.0"}}
    writer, _, _, notes = RunWriter.reopen(half, RunFolder(half).spec, ours)
    writer.close()
    assert notes == ["torch was 1.0 when the run began and is 2.0 now: its last bits may differ"]


def test_an_interruption_keeps_every_finished_round(tmp_path, whole):
    def interrupt(report, history):
        if report.round_number == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", on_round=interrupt)
    assert next(iter(RunFolder(tmp_path / "run").checkpoint_paths())) == 5
    assert train(tmp_path / "run", resume=True).model_sha256 == whole.model_sha256
