"""A disk that fills up while a run is trained: a sentence, nothing that is half, and the same model afterwards.

The limit is on the size of a file (RLIMIT_FSIZE), which needs no rights: beyond it the system refuses to write.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys

import pytest

import stayput as sp
from stayput.errors import RunNotWritten
from stayput.testing import toy_clients, toy_examples, toy_task


@pytest.fixture
def disk():
    """Takes files of at most so many bytes, as a disk with that much room would."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write itself fails

    def limit(num_bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (kept[0] if num_bytes is None else num_bytes, kept[1]))

    yield limit
    limit(None)
    signal.signal(signal.SIGXFSZ, handler)


def train(folder, *, algorithm=None, **settings):
    settings = {"rounds": 12, "checkpoint_every": 2, "test": toy_examples(60, seed=1), "resume": True} | settings
    algorithm = algorithm or sp.FedAvg(client_fraction=0.5)
    return sp.train(toy_task(), toy_clients(), algorithm, folder=folder, **settings)


@pytest.mark.parametrize("algorithm", [sp.FedAvg(client_fraction=0.5), sp.Scaffold(client_fraction=0.5)])
@pytest.mark.parametrize("room", [1500, 700, 200, 0])
def test_a_full_disk_is_a_sentence_and_the_run_goes_on_to_the_same_model(room, algorithm, disk, tmp_path):
    whole = train(None, algorithm=algorithm, resume=False)

    def fill(report, history):
        if report.round_number == 5:
            disk(room)

    with pytest.raises(RunNotWritten, match=r"cannot be written \(File too large; mend that, then go on with"):
        train(tmp_path / "run", algorithm=algorithm, on_round=fill)
    disk(None)
    assert train(tmp_path / "run", algorithm=algorithm).model_sha256 == whole.model_sha256
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_the_command_line_has_no_traceback_for_a_place_that_takes_no_files(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder of runs should be")
    ended = subprocess.run(
        [sys.executable, "-m", "stayput", "run", "mnist-2nn"],
        cwd=tmp_path,
        env={**os.environ, "STAYPUT_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (5, "")
    assert (
        ended.stderr
        == "error: runs: File exists (make room or choose another place, then run the same command again)\n"
    )
