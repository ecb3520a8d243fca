from __future__ import annotations

from pathlib import Path

from stayput.cli.sweep_progress import SweepProgress
from stayput.core.history import History, RoundReport
from stayput.runs.spec import RunSpec

SPEC = RunSpec(task="toy", partition={"name": "custom"}, algorithm={"name": "fed_avg"}, rounds=4)


def watched(capsys, *, quiet):
    ticks = iter(range(0, 10_000, 2))
    with SweepProgress(SPEC, 2, Path("here"), quiet=quiet, clock=lambda: float(next(ticks))) as progress:
        for t in range(3):
            for member, accuracy in enumerate([0.5, float("nan")]):
                report = RoundReport(t, num_steps=30 * t, evaluation={"accuracy": accuracy + t / 10})
                progress.on_round(member, report, History())
        standing = progress.standing()
    return standing, capsys.readouterr().err


def test_a_sweep_says_how_fast_how_good_and_how_long(capsys):
    standing, said = watched(capsys, quiet=False)
    assert "rounds/s" in standing
    assert "client-steps/s" in standing
    assert "best 70%" in standing
    assert "left" in standing
    first, *lines = said.splitlines()
    assert first == "sweep here: 2 runs of toy, up to 4 rounds each, engine sequential on cpu"
    assert lines
    assert all("of 8 rounds" in line for line in lines)


def test_quiet_is_quiet(capsys):
    assert watched(capsys, quiet=True)[1] == ""
