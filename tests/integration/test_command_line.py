"""The `stayput` command as its users meet it: real processes, real signals, real data.

Tests that train need MNIST, in the cache or from the network, and are marked so.
"""

from __future__ import annotations

import json
import os
import pty
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import pytest

STAYPUT = [sys.executable, "-m", "stayput"]
SECONDS = 240
"""No process of these tests may take longer."""

# FedSGD with one client a round: a round is one gradient step on 600 examples.
QUICK = ["run", "mnist-2nn", "--algorithm", "fed_sgd", "--client-fraction", "0", "--threads", "1"]


def stayput(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STAYPUT, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


class Started:
    """A process whose stderr is read line by line, with bounded waits."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [*STAYPUT, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def wait_for(self, beginning: str) -> None:
        while True:
            line = self._queue.get(timeout=SECONDS)
            assert line is not None, f"ended without a line {beginning!r}: {self.lines}"
            self.lines.append(line)
            if line.startswith(beginning):
                return

    def end(self) -> tuple[int, str]:
        """The exit code and all of stderr."""
        self.process.stdout.read()
        code = self.process.wait(timeout=SECONDS)
        while (line := self._queue.get(timeout=SECONDS)) is not None:
            self.lines.append(line)
        self._reader.join(timeout=SECONDS)
        self.process.stdout.close()
        self.process.stderr.close()
        return code, "\n".join(self.lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=SECONDS)


def test_the_command_is_there_as_a_module(tmp_path):
    ended = stayput("--version", folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("stayput ")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ["run", "mnist-2nn", "--client-fraction", "1.4"],
            2,
            "client_fraction=1.4: must be in [0, 1] (0 selects one client)",
        ),
        (["data", "verify", "mnist"], 3, "mnist: is not here (bring it with: stayput data fetch mnist)"),
        (["show", "nope"], 5, "nope: no run is there, nor in runs/ (runs/ holds none; `stayput run` makes one)"),
    ],
)
def test_a_refusal_is_one_line_on_stderr_and_an_exit_code(arguments, code, sentence, tmp_path):
    ended = stayput(*arguments, folder=tmp_path, STAYPUT_CACHE=str(tmp_path / "cache"), STAYPUT_DATA="")
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", f"error: {sentence}\n")
    assert not (tmp_path / "runs").exists()


def test_an_unknown_key_in_a_file_is_refused(tmp_path):
    (tmp_path / "my.toml").write_text('task = "mnist-2nn"\nlocal-epoch = 3\n', encoding="utf-8")
    ended = stayput("run", "my.toml", folder=tmp_path)
    assert ended.returncode == 2
    assert (
        "my.toml: setting='local-epoch': unknown; did you mean 'local_epochs'? known: algorithm, alpha" in ended.stderr
    )
    assert ended.stderr.count("\n") == 1


def test_ending_a_pipe_early_leaves_no_traceback(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        ended = subprocess.run(
            [*STAYPUT, "algorithms"],
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert "Traceback" not in ended.stderr


SIXTY_ROUNDS = (*QUICK, "--rounds", "60", "--evaluate-every", "2", "--checkpoint-every", "1000", "--no-report")


@pytest.fixture(scope="module")
def sixty_rounds(tmp_path_factory):
    """What a run that nobody interrupts tells."""
    ended = stayput(*SIXTY_ROUNDS, "--json", folder=tmp_path_factory.mktemp("whole"))
    assert ended.returncode == 0
    return json.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.network
class TestWithMnist:
    """Real runs, of few rounds."""

    def test_a_run_from_flags_tells_its_outcome(self, tmp_path):
        ended = stayput(
            *("run", "mnist-2nn", "--client-fraction", "0.1", "--local-epochs", "1", "--batch-size", "10"),
            *("--learning-rate", "0.1", "--partition", "iid", "--rounds", "2", "--target", "0.97", "--seed", "0"),
            folder=tmp_path,
        )
        assert ended.returncode == 0
        lines = ended.stdout.splitlines()
        assert lines[0] == "rounds to accuracy 97%   not reached   (paper: 87 (table 1), 92 (table 4))"
        assert lines[1].startswith("best accuracy")
        assert lines[-1].split() == ["run", "runs/mnist-2nn-1"]
        for name in ("curve.png", "curve.svg", "report.html", "spec.json", "history.jsonl", "result.json"):
            assert (tmp_path / "runs/mnist-2nn-1" / name).stat().st_size > 0
        progress = ended.stderr.splitlines()
        assert progress[-3].startswith("round 0 of 2   accuracy ")
        assert progress[-1].startswith("round 2 of 2   accuracy ")

        shown = stayput("show", "mnist-2nn-1", "--partition", folder=tmp_path)
        assert shown.returncode == 0
        assert "rounds to accuracy 97%   not reached   (paper: 87 (table 1), 92 (table 4))" in shown.stdout
        assert "100 clients, 60,000 examples, 10 labels" in shown.stdout

    def test_flags_win_over_a_file_and_json_is_all_of_stdout(self, tmp_path):
        (tmp_path / "my.toml").write_text(
            'task = "mnist-2nn"\npartition = "shards"\nlocal-epochs = {1 = 2, 2 = 1}\nbatch_size = "all"\n'
            'rounds = 50\nthreads = 1\nfolder = "mine"\n',
            encoding="utf-8",
        )
        ended = stayput("run", "my.toml", "--rounds", "2", "--json", "--quiet", "--no-report", folder=tmp_path)
        assert ended.returncode == 0
        assert ended.stdout.count("\n") == 1
        told = json.loads(ended.stdout)
        assert told["run"] == "mine"
        assert told["rounds"] == 2
        assert told["algorithm"]["local_epochs"] == {"1": 2, "2": 1}
        assert told["partition"] == {"name": "shards", "num_clients": 100, "shards_per_client": 2}
        assert told["figures"] == []
        assert len(told["model_sha256"]) == 64
        assert "round" not in ended.stderr

    def test_a_required_target_that_is_missed_ends_with_its_code(self, tmp_path):
        ended = stayput(*QUICK, "--rounds", "1", "--target", "0.97", "--require-target", "--no-report", folder=tmp_path)
        assert ended.returncode == 6
        last = ended.stderr.splitlines()[-1]
        assert last.startswith("error: target=0.97: missed, the best accuracy in 1 rounds is ")
        assert "stayput resume runs/mnist-2nn-1 --rounds N" in last

    def test_a_reached_target_ends_the_run(self, tmp_path):
        ended = stayput(
            *QUICK, "--rounds", "50", "--target", "0.05", "--require-target", "--json", "--no-report", folder=tmp_path
        )
        assert ended.returncode == 0
        assert json.loads(ended.stdout)["rounds"] == 0
        assert json.loads(ended.stdout)["rounds_to_target"] == 0

    @pytest.mark.parametrize(
        ("flags", "code", "sentence"),
        [
            (["--device", "tpu"], 2, "device='tpu': must be a device torch knows"),
            (["--num-clients", "60001"], 2, "num_clients=60001: must be at most the number of examples, 60000"),
            (["--algorithm", "one-shot", "--rounds", "3"], 2, "rounds=3: one_shot is 1 round by definition"),
            (["--partition", "by-key", "--key", "colour"], 2, "key='colour': unknown"),
        ],
    )
    def test_what_only_the_data_can_refuse_is_refused_as_well(self, flags, code, sentence, tmp_path):
        ended = stayput("run", "mnist-2nn", *flags, folder=tmp_path)
        assert ended.returncode == code
        assert ended.stderr.splitlines()[-1].startswith(f"error: {sentence}")
        assert "Traceback" not in ended.stderr
        assert list((tmp_path / "runs").iterdir()) == []

    def test_pooling_the_clients_says_that_the_partition_has_no_effect(self, tmp_path):
        flags = ["--algorithm", "central-sgd", "--partition", "shards", "--rounds", "1", "--no-report", "--quiet"]
        ended = stayput("run", "mnist-2nn", *flags, folder=tmp_path)
        assert ended.returncode == 0
        assert ended.stderr == "note: central_sgd pools all clients' data: the partition has no effect\n"

    def test_a_folder_that_holds_a_run_is_refused(self, tmp_path):
        assert stayput(*QUICK, "--rounds", "1", "--folder", "a", "--no-report", folder=tmp_path).returncode == 0
        again = stayput(*QUICK, "--rounds", "1", "--folder", "a", "--no-report", folder=tmp_path)
        assert again.returncode == 5
        assert again.stderr.splitlines()[-1].startswith("error: a: holds a run already")

    @pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_an_interrupted_run_goes_on_to_the_same_model(self, sent, code, sixty_rounds, tmp_path):
        with Started(*SIXTY_ROUNDS, "--folder", "broken", folder=tmp_path) as run:
            run.wait_for("round 2 of 60")
            run.process.send_signal(sent)
            ended, told = run.end()
        assert ended == code
        assert "Traceback" not in told
        sentence, _, way_out = told.splitlines()[-1].partition("; ")
        assert sentence.startswith("interrupted after round ")
        assert 2 <= int(sentence.split()[-1]) < 60
        assert way_out == "go on with: stayput resume broken"

        resumed = stayput(*way_out.split()[4:], "--json", "--no-report", folder=tmp_path)
        assert resumed.returncode == 0
        mine, theirs = json.loads(resumed.stdout), sixty_rounds
        assert mine["rounds"] == theirs["rounds"] == 60
        assert mine["model_sha256"] == theirs["model_sha256"]
        assert (mine["best"], mine["final"]) == (theirs["best"], theirs["final"])

    def test_a_run_that_has_ended_is_trained_on_to_the_same_model(self, tmp_path):
        flags = [*QUICK, "--no-report", "--json"]
        assert stayput(*flags, "--rounds", "3", "--folder", "a", folder=tmp_path).returncode == 0
        longer = stayput("resume", "a", "--rounds", "6", "--json", "--no-report", folder=tmp_path)
        whole = stayput(*flags, "--rounds", "6", "--folder", "b", folder=tmp_path)
        assert json.loads(longer.stdout)["rounds"] == 6
        assert json.loads(longer.stdout)["model_sha256"] == json.loads(whole.stdout)["model_sha256"]

        again = stayput("resume", "a", "--rounds", "6", "--json", "--no-report", folder=tmp_path)
        assert json.loads(again.stdout)["model_sha256"] == json.loads(whole.stdout)["model_sha256"]
        assert "note: the run has all of its 6 rounds already (train on with --rounds N)" in again.stderr

    def test_on_a_terminal_there_is_a_bar(self, tmp_path):
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}
        with subprocess.Popen(
            [*STAYPUT, *QUICK, "--rounds", "3", "--no-report"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        ) as process:
            os.close(theirs)
            shown = b""
            try:
                while block := os.read(ours, 4096):
                    shown += block
            except OSError:
                pass  # how Linux says that the other side has closed its terminal
            finally:
                os.close(ours)
            stdout = process.stdout.read()
        assert process.returncode == 0
        assert "round 3 of 3" in shown.decode()
        assert "best accuracy" in stdout

    def test_a_sweep_is_a_folder_of_runs_and_goes_on(self, tmp_path):
        grid = ["sweep", "mnist-2nn", "--learning-rate", "0.1,0.2", "--seed", "0,1", "--threads", "1", "--folder", "s"]
        short = stayput(*grid, "--rounds", "1", "--json", folder=tmp_path)
        assert short.returncode == 0, short.stderr
        assert len(json.loads(short.stdout)["members"]) == 4
        whole = stayput(*grid, "--rounds", "2", "--target", "0.2", "--keep-going", "--resume", folder=tmp_path)
        assert whole.returncode == 0, whole.stderr
        assert "best     learning_rate=" in whole.stdout
        assert (tmp_path / "s" / "curves.png").is_file()
        member = stayput("show", "s/learning_rate=0.2,seed=1", "--json", folder=tmp_path)
        assert json.loads(member.stdout)["spec"]["seed"] == 1
