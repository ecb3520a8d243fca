"""A run in all of its trackers.

A tracker that fails ends no run, and is not silent either: there is one sentence when it happens, and one at the end
if the rest could not be brought.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stayput.core.history import History, RoundReport
from stayput.errors import InvalidSetting, StayputError
from stayput.exports.model_files import export_model
from stayput.exports.trained_model import TrainedModel
from stayput.tracking import open_tracker
from stayput.tracking.courier import Courier
from stayput.tracking.secrets import without_secrets
from stayput.tracking.tracker import RunFacts, Status

OnNote = Callable[[str], None]


class TrackedRun:
    """Use it in a `with` block: its end, good or bad, reaches the trackers."""

    def __init__(self, names: Sequence[str], run: RunFacts, on_note: OnNote) -> None:
        self._run, self._on_note = run, on_note
        self._couriers: list[Courier] = []
        self._said: set[str] = set()
        self._finished = self._diverged = False
        for name in names:
            try:
                courier = Courier(name, partial(open_tracker, name, run))
            except StayputError:
                self._close("failed")
                raise
            except Exception as error:  # noqa: BLE001 - whatever a tracker raises
                self._close("failed")
                raise InvalidSetting(
                    f"track={name!r}: cannot be reached ({_sentence(error)}; mend that, or leave {name} out)"
                ) from None  # its own traceback may hold an address with a password
            self._couriers.append(courier)
            if courier.note is not None:
                on_note(courier.note)

    def add_round(self, report: RoundReport) -> None:
        """A round has ended."""
        for courier in self._couriers:
            courier.put(report)
            if courier.failure is not None and courier.name not in self._said:
                self._said.add(courier.name)
                self._on_note(f"{courier.name} fails ({_sentence(courier.failure)}); training goes on without it")

    def catch_up(self, history: History) -> None:
        """The rounds of a run that goes on, as far as they have not arrived yet."""
        for report in history.reports:
            self.add_round(report)

    def finish(self, history: History, outcome: Mapping[str, Any], model: TrainedModel) -> None:
        """The run has ended: its outcome and its model go where its rounds went."""
        self._finished, self._diverged = True, bool(outcome.get("diverged"))
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "model"
            export_model(model, files)
            for courier in self._couriers:
                try:
                    courier.finish(history.reports, outcome, files)
                except Exception as error:  # noqa: BLE001 - whatever a tracker raises, the run itself is unharmed
                    self._tell_unfinished(courier.name, error)

    def __enter__(self) -> Self:
        """Track."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tell how it ended."""
        if kind is None and self._finished:
            self._close("failed" if self._diverged else "finished")
        else:
            self._close("failed" if kind is not None and issubclass(kind, Exception) else "interrupted")

    def _close(self, status: Status) -> None:
        for courier in self._couriers:
            try:
                courier.close(status)
            except Exception as error:  # noqa: BLE001 - the same
                if courier.failure is None:
                    self._tell_unfinished(courier.name, error)

    def _tell_unfinished(self, name: str, error: Exception) -> None:
        again = "" if self._run.folder is None else f"; `stayput resume {self._run.folder} --track {name}` brings it"
        self._on_note(f"{name} has not got the whole run ({_sentence(error)}){again}")


def _sentence(error: Exception) -> str:
    """An error of a tracker on one line, without what nobody should read."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return without_secrets(f"{type(error).__name__}: {first}" if first else type(error).__name__)[:300]
