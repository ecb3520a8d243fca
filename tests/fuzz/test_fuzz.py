"""Every parser under atheris for a short while; `make fuzz` takes longer. And that the fuzzer finds what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from targets import TARGETS, examples  # noqa: E402 - beside this file


@pytest.mark.parametrize("target", TARGETS)
def test_good_inputs_are_good_for_every_target(target):
    for content in examples():
        TARGETS[target](content)


def fuzz(target, folder, seconds=2):
    # By way of a shell that forks: a process's peak of memory, which the fuzzer looks at, begins with its parent's.
    command = ["sh", "-c", '"$@"; exit $?', "sh"]
    command += [sys.executable, str(HERE / "fuzz.py"), target, str(seconds), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)


@pytest.mark.slow
def test_nothing_is_found(tmp_path):
    outcome = fuzz("everything", tmp_path, seconds=4)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", outcome.stderr)
    assert executed, outcome.stderr[-3000:]
    assert int(executed[1]) > 100


@pytest.mark.slow
def test_a_planted_fault_is_found(tmp_path):
    outcome = fuzz("planted", tmp_path)
    assert outcome.returncode != 0
    assert list(tmp_path.glob("planted-crash-*")), "the input that does it is kept"
