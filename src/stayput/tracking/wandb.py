"""A run in Weights & Biases: online where the user has logged in or says so, else offline, in files to sync later.

What wandb would collect unasked is turned off: console output, git state, code, host and command line.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import wandb

from stayput.core.history import RoundReport
from stayput.tracking.tracker import PROJECT, RunFacts, Status, measures

EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 130}


class WandbTracker:
    """One run in Weights & Biases."""

    def __init__(self, run: RunFacts) -> None:
        earlier = [] if run.folder is None else list(run.folder.glob(f"wandb/offline-run-*-{run.run_id}*"))
        self._run = wandb.init(
            id=run.run_id,
            name=run.name,
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            config=dict(run.parameters),
            allow_val_change=True,
            resume="allow",
            reinit="create_new",  # a sweep has many at once
            mode=_mode(),
            dir=None if run.folder is None else str(run.folder),
            settings=wandb.Settings(
                console="off",
                disable_git=True,
                save_code=False,
                silent=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
        )
        if self._run.offline:
            for folder in earlier:  # what it holds comes again, all of it
                shutil.rmtree(folder, ignore_errors=True)

    @property
    def note(self) -> str | None:
        """Where the run is if nobody said that it should be there."""
        if not self._run.offline or os.environ.get("WANDB_MODE"):
            return None
        folder = Path(self._run.dir).parent
        return (
            f"wandb has no key, so it writes to files (wandb login, then: wandb sync {folder}; or WANDB_MODE=offline)"
        )

    def last_round(self) -> int | None:
        """Online, what the server has; offline, nothing.

        The files of a killed process lack what wandb had not flushed, so a run that goes on is written anew, whole.
        """
        return self._run.step - 1 if self._run.step else None

    def add_rounds(self, reports: Sequence[RoundReport]) -> None:
        """The step is the round; wandb drops a step that it has already."""
        for report in reports:
            self._run.log(measures(report), step=report.round_number, commit=True)

    def finish(self, outcome: Mapping[str, Any], model: Path) -> None:
        """The outcome as the summary, the model as an artifact."""
        for name, value in outcome.items():
            self._run.summary[f"outcome/{name}"] = value
        artifact = wandb.Artifact(f"model-{self._run.id}", type="model", metadata={"round": outcome["rounds"]})
        for file in sorted(model.iterdir()):  # one by one: adding a folder would be said on stderr
            artifact.add_file(str(file))
        self._run.log_artifact(artifact)

    def close(self, status: Status) -> None:
        """How it ended; waits for what is on its way."""
        self._run.finish(exit_code=EXIT_CODES[status])


def _mode() -> Literal["online", "offline"] | None:
    """None, so that wandb reads it, where the user says WANDB_MODE; else online where there is a key."""
    if os.environ.get("WANDB_MODE"):
        return None
    return "online" if wandb.login(prompt=False, verify=False) else "offline"
