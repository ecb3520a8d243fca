"""What a task's name stands for, at a coordinator and at a client."""

from __future__ import annotations

import sys

import pytest

from stayput.deploy.client import is_meant
from stayput.deploy.task_lookup import task_called
from stayput.errors import InvalidSetting
from stayput.tasks.catalogue import NAMED_TASKS

MODULE = "from stayput.testing import toy_task\ntask = toy_task()\nnothing = 3\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with a module of the user's own; modules are looked for as an installed command does."""
    (tmp_path / "lookup_shapes.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    yield tmp_path
    sys.modules.pop("lookup_shapes", None)


@pytest.mark.usefixtures("folder")
def test_a_module_in_the_working_folder_is_found_however_stayput_was_started():
    assert task_called("lookup_shapes:task").name == "toy"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("lookup_shapes:other", "no attribute"),
        ("no_such_shapes:task", "No module named"),
        ("lookup_shapes:nothing", "is a int: must be a stayput.Task"),
        ("lookup_shapes", "unknown"),
        (":task", "must be"),
        ("lookup_shapes:", "must be"),
        ("..x:task", "must be"),
    ],
)
def test_names_that_stand_for_no_task_are_refused_in_a_sentence(name, why):
    with pytest.raises(InvalidSetting, match=why):
        task_called(name)


def test_a_named_task_needs_no_module():
    name = next(iter(NAMED_TASKS))
    assert task_called(name) is NAMED_TASKS[name].task


@pytest.mark.parametrize(
    ("asked", "own", "meant"),
    [
        ("shapes:task", "custom", True),
        ("shapes:task", "task", True),
        ("shapes:task", "shapes:task", True),
        ("shapes:task", "toy", False),
        ("mnist-2nn", "mnist-2nn", True),
        ("mnist-2nn", "custom", False),
    ],
)
def test_a_client_trains_the_task_it_was_given_and_no_other(asked, own, meant):
    assert is_meant(asked, own) is meant
