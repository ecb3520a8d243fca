"""Every error that stayput raises on purpose, in one tree.

    StayputError                      exit code
    ├── InvalidSetting (ValueError)       2   a value breaks its rule
    │   ├── UnknownName                       nothing goes by that name
    │   └── SpecTooNew                        written by a newer stayput
    ├── DataError                         3
    │   ├── DataUnavailable                   no source could deliver a data set
    │   ├── CorruptData                       bytes are not the ones that were promised
    │   ├── EmptyClient                       a client holds no examples
    │   └── LabelOutOfRange                   a target the model has no output for
    ├── TrainingError                     4
    │   ├── ModelMisfit                       model, loss and data do not fit together
    │   └── TrainingDiverged                  a loss or a weight is no longer a finite number
    ├── RunFolderError                    5
    │   ├── RunNotFound                       there is no run there
    │   ├── RunExists                         there is one already
    │   ├── RunLocked                         another process is writing it
    │   ├── RunNotWritten                     the disk is full, or does not take a run's files
    │   └── CorruptCheckpoint                 a checkpoint or an exported model is not what was written
    ├── TargetMissed                      6   only under --require-target
    ├── BudgetSpent                       7   only under --budget
    └── DeploymentError                   8
        ├── ProtocolMismatch                  the other side speaks an older or a newer protocol
        ├── MalformedMessage                  bytes that are not the message, file or manifest they should be
        ├── AccessDenied                      a request whose sender may not make it
        ├── UpdateRefused                     an update that must not count
        ├── TransferFailed                    a transfer that did not bring the bytes it promised
        ├── CertificateMismatch               the other side's certificate is not the expected one
        ├── Away                              the coordinator cannot be reached, or takes nothing now
        └── StoreFailed                       the fleet's database or files do not take or give what they should

Each message is one sentence with the value, the rule and the way out. The command line prints it without a
traceback and ends with the exit code; anything that is not a StayputError is a bug in stayput or in the user's
own model, and keeps its traceback. Errors that never leave the layer that raises them (a body that is too large, a
coordinator that cannot take a change now) are defined in it. This module imports nothing of the project: everything
may import it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class StayputError(Exception):
    """Root of the tree: `except StayputError` catches whatever stayput refuses, and no bugs."""

    exit_code: ClassVar[int] = 1


class InvalidSetting(StayputError, ValueError):
    """A value breaks its rule, such as `client_fraction=1.4`."""

    exit_code = 2


class UnknownName(InvalidSetting):
    """Nothing goes by that name; the message lists what there is."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = sorted(known)
        close = difflib.get_close_matches(str(name), known, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        super().__init__(f"{kind}={name!r}: unknown; {guess}known: {', '.join(known)}")


class SpecTooNew(InvalidSetting):
    """A spec, run or store was written by a newer stayput than this one."""


class DataError(StayputError):
    """Something is wrong with the data."""

    exit_code = 3


class DataUnavailable(DataError):
    """No source could deliver a data set; the message lists what was tried and how to bring the files."""


class CorruptData(DataError):
    """The bytes are not the ones that were promised."""


class EmptyClient(DataError):
    """A client holds no examples, so it has no weight in the average."""


class LabelOutOfRange(DataError):
    """A target the model has no output for."""


class TrainingError(StayputError):
    """Training cannot start or go on."""

    exit_code = 4


class ModelMisfit(TrainingError):
    """Model, loss and data do not fit together."""


class TrainingDiverged(TrainingError):
    """A loss or a weight is no longer a finite number."""


class RunFolderError(StayputError):
    """Something is wrong with a run's folder."""

    exit_code = 5


class RunNotFound(RunFolderError):
    """There is no run there."""


class RunExists(RunFolderError):
    """There is a run already, and nobody asked to go on with it."""


class RunLocked(RunFolderError):
    """Another process is writing the run."""


class RunNotWritten(RunFolderError):
    """The disk is full, or does not take a run's files."""


class CorruptCheckpoint(RunFolderError):
    """A checkpoint or an exported model is not what was written."""


class TargetMissed(StayputError):
    """The run ended below a target that was required."""

    exit_code = 6


class BudgetSpent(StayputError):
    """The time that was given is spent before everything was measured; what was measured is kept."""

    exit_code = 7


class DeploymentError(StayputError):
    """Something is wrong between a coordinator and its clients."""

    exit_code = 8


class ProtocolMismatch(DeploymentError):
    """The other side speaks an older or a newer protocol; the message says which side to upgrade."""


class MalformedMessage(DeploymentError):
    """Bytes are not the message, the tensor file or the manifest they should be."""


class AccessDenied(DeploymentError):
    """A request whose sender may not make it. The code is for programs, the message for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UpdateRefused(DeploymentError):
    """An update that must not count. The reason is recorded with the dropout."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TransferFailed(DeploymentError):
    """A transfer did not bring the bytes it promised."""


class CertificateMismatch(DeploymentError):
    """The other side's certificate is not the expected one."""


class Away(DeploymentError):
    """The coordinator cannot be reached, or cannot take requests now; come back."""

    def __init__(self, sentence: str, retry_after: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class StoreFailed(DeploymentError):
    """A fleet's database or files do not take or give what they should: the disk is full, or something is damaged."""
