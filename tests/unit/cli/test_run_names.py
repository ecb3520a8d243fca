from __future__ import annotations

import pytest

from stayput.cli.run_names import find_run, folder_for
from stayput.errors import RunNotFound


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_run_is_found_by_path_and_by_name(make_run):
    path = make_run("first", [0.1])
    assert find_run(str(path)).path == path
    assert find_run("runs/first").path.resolve() == path
    assert find_run("first").path.resolve() == path


def test_a_run_that_is_not_there_is_guessed_at(make_run):
    make_run("mnist-2nn-1", [0.1])
    with pytest.raises(
        RunNotFound, match=r"mnist-2nn-2: no run .*did you mean 'mnist-2nn-1'\? runs/ holds mnist-2nn-1"
    ):
        find_run("mnist-2nn-2")


def test_where_there_are_no_runs_the_error_says_how_to_make_one(tmp_path):
    with pytest.raises(RunNotFound, match="runs/ holds none; `stayput run` makes one"):
        find_run("x")
    assert not (tmp_path / "runs").exists()


def test_a_new_run_takes_the_next_number(make_run, tmp_path):
    make_run("mnist-2nn-9", [0.1])
    make_run("mnist-2nn-old", [0.1])
    with folder_for("mnist-2nn", None) as folder:
        (folder / "spec.json").touch()
        assert str(folder) == "runs/mnist-2nn-10"
    with folder_for("mnist-2nn", None) as folder:
        assert str(folder) == "runs/mnist-2nn-11"


def test_two_runs_that_begin_together_get_folders_of_their_own():
    with folder_for("a", None) as first, folder_for("a", None) as second:
        assert first != second


def test_a_folder_that_no_run_came_of_is_gone_again(tmp_path):
    with pytest.raises(ZeroDivisionError), folder_for("a", None) as folder:
        1 / 0  # noqa: B018
    assert not folder.exists()


def test_a_wanted_folder_is_taken_as_it_is(tmp_path):
    with folder_for("a", tmp_path / "mine") as folder:
        assert folder == tmp_path / "mine"
    assert not folder.exists()
