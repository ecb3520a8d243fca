"""What an update must be before it counts, from the cheapest question to the dearest.

    size → signature → ownership of the task → names → dtypes and shapes → all finite → example count → norm

A client may be broken or malicious; its update is numbers that go into everybody's model. The first four questions, and
the count, are asked when the update is announced, before a byte of it travels; all of them again over the bytes. What
fails is refused with its reason, which is recorded as a dropout, and can change no bit of the model. What passes can
still be a lie within these bounds: see docs/deploy.md. Pure. Must not import torch or a web framework.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from stayput.core.rules import require_count, require_positive
from stayput.deploy.claims import Claim
from stayput.deploy.identity import public_key_id
from stayput.deploy.strict_json import shown
from stayput.deploy.tensor_files import METADATA, Buffer, FileLimits, TensorFile, TensorSpec
from stayput.errors import InvalidSetting, MalformedMessage, UpdateRefused


class RefusalReason(StrEnum):
    """Why an update does not count, as it is recorded."""

    SIZE = "size"
    SIGNATURE = "signature"
    OWNERSHIP = "ownership"
    STALE = "stale"
    MALFORMED = "malformed"
    NAMES = "names"
    DTYPE = "dtype"
    SHAPE = "shape"
    NOT_FINITE = "not finite"
    EXAMPLES = "example count"
    NORM = "norm"


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """The bounds that a fleet's operator sets."""

    min_examples: int = 1
    max_examples: int = 10_000_000
    max_steps: int = 100_000_000
    max_norm: float | None = None
    """The largest L2 norm over all of an update's floating-point tensors together."""
    on_norm: Literal["clip", "reject"] = "reject"

    def __post_init__(self) -> None:
        require_count("min_examples", self.min_examples, "a client without examples has no weight")
        require_count("max_examples", self.max_examples, "and at least min_examples", least=self.min_examples)
        require_count("max_steps", self.max_steps, "the most local steps that a client may claim")
        if self.max_norm is not None:
            require_positive("max_norm", self.max_norm, "leave it out for no bound")
        if self.on_norm not in {"clip", "reject"}:
            raise InvalidSetting(f'on_norm={self.on_norm!r}: must be "clip" or "reject"')


@dataclass(frozen=True, slots=True)
class UpdateSchema:
    """What an update holds, exactly."""

    tensors: Mapping[str, TensorSpec]
    max_bytes: int
    """Of the whole file."""

    @classmethod
    def of(cls, specs: Sequence[TensorSpec]) -> UpdateSchema:
        """The schema of these tensors; a file may have a header of twice the plainest one's size."""
        header = sum(len(spec.name.encode("unicode_escape")) + 200 for spec in specs) + 1024
        return cls({spec.name: spec for spec in specs}, sum(spec.num_bytes for spec in specs) + 2 * header)

    @property
    def min_bytes(self) -> int:
        """What the tensors alone take."""
        return sum(spec.num_bytes for spec in self.tensors.values())


@dataclass(frozen=True, slots=True)
class OwnedTask:
    """What the coordinator knows of the task that an update is for."""

    task_id: str
    key_id: str
    """Whose task it is."""
    open: bool
    """Whether its round still takes updates."""


@dataclass(frozen=True, slots=True)
class AcceptedUpdate:
    """An update that counts."""

    tensors: TensorFile
    num_examples: int
    norm: float
    scale: float
    """Below 1 where the norm was clipped: what the tensors are multiplied with, in float64, before they are summed."""


def check_claim(
    claim: Claim, public_bytes: bytes, task: OwnedTask | None, schema: UpdateSchema, rules: UpdateRules
) -> None:
    """What can be asked before a byte of the update travels. `public_bytes` is the authenticated sender's key."""
    if not schema.min_bytes <= claim.size <= schema.max_bytes:
        raise UpdateRefused(
            RefusalReason.SIZE, f"size={claim.size}: must be in [{schema.min_bytes}, {schema.max_bytes}] for this model"
        )
    if not claim.signed_by(public_bytes):
        raise UpdateRefused(RefusalReason.SIGNATURE, "signature: does not hold over this claim")
    if task is None or task.task_id != claim.task_id:
        raise UpdateRefused(RefusalReason.OWNERSHIP, f"task {shown(claim.task_id)}: unknown")
    if public_key_id(public_bytes) != task.key_id:
        raise UpdateRefused(RefusalReason.OWNERSHIP, f"task {claim.task_id}: is another client's")
    if not task.open:
        raise UpdateRefused(RefusalReason.STALE, f"task {claim.task_id}: its round no longer takes updates")
    _check_counts(claim, rules)


def check_update(
    claim: Claim, public_bytes: bytes, task: OwnedTask | None, schema: UpdateSchema, rules: UpdateRules, content: Buffer
) -> AcceptedUpdate:
    """Everything, over the bytes that came (whose SHA-256 is the claim's). Raises `UpdateRefused` with the reason."""
    if len(content) != claim.size:
        raise UpdateRefused(RefusalReason.SIZE, f"{len(content)} bytes: must be {claim.size}, as was claimed")
    check_claim(claim, public_bytes, task, schema, rules)
    tensors = _read(content)
    _check_schema(tensors, schema)
    for name in tensors.specs:
        if not tensors.is_finite(name):
            raise UpdateRefused(RefusalReason.NOT_FINITE, f"tensor {shown(name)}: holds a NaN or an infinity")
    norm = update_norm(tensors)
    return AcceptedUpdate(tensors, claim.num_examples, norm, _scale(norm, rules))


def update_norm(tensors: TensorFile) -> float:
    """The L2 norm over all floating-point tensors together, in float64."""
    floating = sorted(name for name, spec in tensors.specs.items() if "F" in spec.dtype)
    squares = [tensors.square_sum(name) for name in floating]
    return math.sqrt(math.fsum(squares)) if all(map(math.isfinite, squares)) else math.inf


def _read(content: Buffer) -> TensorFile:
    try:
        tensors = TensorFile(content, FileLimits())
    except MalformedMessage as malformed:
        raise UpdateRefused(RefusalReason.MALFORMED, str(malformed)) from None
    if tensors.header.metadata:
        raise UpdateRefused(RefusalReason.MALFORMED, f"{METADATA}: an update must have none")
    return tensors


def _check_schema(tensors: TensorFile, schema: UpdateSchema) -> None:
    missing, extra = schema.tensors.keys() - tensors.specs.keys(), tensors.specs.keys() - schema.tensors.keys()
    if missing or extra:
        wrong = [f"{shown(min(missing))} is missing"] if missing else []
        wrong += [f"{shown(min(extra))} is not one of them"] if extra else []
        raise UpdateRefused(RefusalReason.NAMES, f"tensors: must be those of the model: {', '.join(wrong)}")
    for name, spec in tensors.specs.items():
        wanted = schema.tensors[name]
        if spec.dtype != wanted.dtype:
            raise UpdateRefused(RefusalReason.DTYPE, f"tensor {shown(name)}: {spec.dtype}: must be {wanted.dtype}")
        # Equal, not alike: a shape that would broadcast is another tensor.
        if spec.shape != wanted.shape:
            raise UpdateRefused(
                RefusalReason.SHAPE, f"tensor {shown(name)}: shape {list(spec.shape)}: must be {list(wanted.shape)}"
            )


def _check_counts(claim: Claim, rules: UpdateRules) -> None:
    bounds = (("num_examples", claim.num_examples, rules.min_examples, rules.max_examples),)
    for what, count, least, most in (*bounds, ("num_steps", claim.num_steps, 0, rules.max_steps)):
        if not least <= count <= most:
            raise UpdateRefused(RefusalReason.EXAMPLES, f"{what}={count}: must be in [{least}, {most}]")
    if not math.isfinite(claim.train_loss):
        raise UpdateRefused(RefusalReason.NOT_FINITE, f"train_loss={claim.train_loss}: must be a finite number")


def _scale(norm: float, rules: UpdateRules) -> float:
    if rules.max_norm is None or norm <= rules.max_norm:
        return 1.0
    # A norm too large for float64 cannot be clipped in one step, and no honest update has one.
    if rules.on_norm == "reject" or not math.isfinite(norm):
        raise UpdateRefused(RefusalReason.NORM, f"norm={norm:.6g}: must be at most {rules.max_norm:.6g}")
    return rules.max_norm / norm
