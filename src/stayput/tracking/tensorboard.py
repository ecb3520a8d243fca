"""A run in TensorBoard: event files in the run's own folder, which `tensorboard --logdir runs` reads.

The model is there as histograms of its weights, and its card as text; TensorBoard keeps no models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from stayput.core.history import RoundReport
from stayput.errors import InvalidSetting
from stayput.exports.model_files import CARD, MODEL
from stayput.tracking.tracker import EVERY_ROUND, RunFacts, Status, measures

FOLDER = "tensorboard"
"""Where the event files are, in the run's folder."""


class TensorBoardTracker:
    """One run's event files."""

    note = None

    def __init__(self, run: RunFacts) -> None:
        if run.folder is None:
            raise InvalidSetting(
                "track='tensorboard': needs a folder to write event files into (pass folder=, such as 'runs/first')"
            )
        folder = run.folder / FOLDER
        written = _last_round_in(folder)
        # A kill may have cut the last round short. Readers drop what is at the step to purge or beyond it, in files
        # written earlier; that round is written again.
        self._last = None if written is None else written - 1
        self._writer = SummaryWriter(str(folder), purge_step=written)
        if written is None:
            self._add_parameters(run)

    def last_round(self) -> int | None:
        """The last whole round in the files of before."""
        return None if self._last is None or self._last < 0 else self._last

    def add_rounds(self, reports: Sequence[RoundReport]) -> None:
        """Into the file, and to the disk."""
        for report in reports:
            for name, value in sorted(measures(report).items(), key=lambda entry: entry[0] == EVERY_ROUND):
                self._writer.add_scalar(name, value, report.round_number)  # the one that every round has comes last
        self._writer.flush()

    def finish(self, outcome: Mapping[str, Any], model: Path) -> None:
        """Text and histograms at the last round."""
        step = int(outcome["rounds"])
        self._writer.add_text("outcome", "\n".join(f"    {name}: {value}" for name, value in outcome.items()), step)
        self._writer.add_text("model_card", (model / CARD).read_text(encoding="utf-8"), step)
        for name, tensor in load_file(model / MODEL).items():
            if tensor.numel() and tensor.isfinite().all():
                self._writer.add_histogram(f"model/{name}", tensor.float().numpy(), step)
        self._writer.flush()

    def _add_parameters(self, run: RunFacts) -> None:
        """As `add_hparams` does, which would put them into a folder of their own."""
        writer = self._writer._get_file_writer()  # type: ignore[no-untyped-call] # noqa: SLF001 - torch's only way
        for summary in hparams(dict(run.parameters), {EVERY_ROUND: 0}):  # type: ignore[no-untyped-call] # torch's
            writer.add_summary(summary)
        self._writer.flush()

    def close(self, status: Status) -> None:  # noqa: ARG002 - event files have no word for it
        """Close the file."""
        self._writer.close()


def _last_round_in(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    files = EventAccumulator(str(folder), size_guidance={SCALARS: 1}).Reload()
    rounds = [event.step for event in files.Scalars(EVERY_ROUND)] if EVERY_ROUND in files.Tags()[SCALARS] else []
    return max(rounds, default=None)
