"""`kill -9` of a real process, anywhere: the run that goes on ends in the same model, to the last bit."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).parent / "toy_run.py")
ROUNDS = 8


def start(folder, *fail_point, algorithm="fed_avg"):
    command = [sys.executable, SCRIPT, str(folder), str(ROUNDS), algorithm, *map(str, fail_point)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(folder, algorithm="fed_avg"):
    with start(folder, algorithm=algorithm) as process:
        *_, sha = process.stdout.read().split()
        assert process.wait() == 0
    return sha


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return finish(tmp_path_factory.mktemp("undisturbed") / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fail_point", "count"),
    [
        ("half a file", 2),  # the spec, before the folder is a run
        ("half a file", 4),  # the first checkpoint
        ("half a file", 7),  # a later checkpoint
        ("half a file", 8),
        ("before rename", 5),
        ("before rename", 9),
        ("before fsync", 12),
        ("before fsync", 25),
        ("half a line", 1),
        ("half a line", 6),
    ],
)
def test_killed_in_the_middle_of_a_write(tmp_path, undisturbed, fail_point, count):
    with start(tmp_path / "run", fail_point, count) as process:
        process.stdout.read()
        assert process.wait() == -signal.SIGKILL, "the fail point was never reached"
    assert finish(tmp_path / "run") == undisturbed


@pytest.mark.slow
def test_killed_again_and_again(tmp_path, undisturbed):
    folder = tmp_path / "run"
    for rounds_before_the_kill in (1, 2, 1, 3):
        with start(folder) as process:
            for _ in range(rounds_before_the_kill):
                if not process.stdout.readline():
                    break
            process.kill()
            process.wait()
    assert finish(folder) == undisturbed


@pytest.fixture(scope="module")
def undisturbed_scaffold(tmp_path_factory):
    return finish(tmp_path_factory.mktemp("undisturbed") / "run", "scaffold")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fail_point", "count"),
    [
        ("half a row", 13),  # a client's second time, which must leave the first one's memory alone
        ("half a row", 22),
        ("before fsync", 23),
    ],
)
def test_what_clients_keep_survives_a_kill_too(tmp_path, undisturbed_scaffold, fail_point, count):
    with start(tmp_path / "run", fail_point, count, algorithm="scaffold") as process:
        process.stdout.read()
        assert process.wait() == -signal.SIGKILL, "the fail point was never reached"
    assert finish(tmp_path / "run", "scaffold") == undisturbed_scaffold
