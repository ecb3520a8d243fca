"""A cell that was interrupted: every live rate's model and curve, in one file that is there whole or not at all.

So a cell goes on after Ctrl-C, a spent budget or a `kill -9`, to the curves that it would have had: all that a run's
next round needs is its model and its round, since every random choice is named by its round. One safetensors file with
its own SHA-256; damage is noticed, and the cell begins anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from stayput.core.tensors import Groups, fingerprint, flatten, unflatten
from stayput.paper.dropping import Standing, Verdict
from stayput.runs.durable_files import write_whole

FORMAT = "stayput-unfinished-cell-1"


@dataclass
class Member:
    """One rate, where it is."""

    standing: Standing
    round_number: int
    state: Groups | None
    """None once it has ended."""
    verdict: Verdict | None = None
    model_sha256: str = ""


@dataclass
class Unfinished:
    """All rates of a cell."""

    members: dict[int, Member]
    seconds: float = 0.0
    """Spent so far."""
    example_passes: int = 0


def write_unfinished(path: Path, cell: Unfinished) -> None:
    """Write it whole, or leave what was there."""
    tensors: dict[str, Tensor] = {}
    facts = {}
    for exponent, member in cell.members.items():
        standing = member.standing
        facts[str(exponent)] = {
            "rounds": standing.rounds,
            "values": [repr(value) for value in standing.values],
            "higher_is_better": standing.higher_is_better,
            "round_number": member.round_number,
            "ended": None if member.verdict is None else [member.verdict.ended, member.verdict.why],
            "model_sha256": fingerprint(member.state) if member.state is not None else member.model_sha256,
        }
        if member.state is not None:
            for name, tensor in flatten(member.state).items():
                tensors[f"{exponent}/{name}"] = tensor.detach().cpu().contiguous()
    said = json.dumps({"members": facts, "seconds": cell.seconds, "example_passes": cell.example_passes})
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"format": FORMAT, "said": said, "sha256": hashlib.sha256(said.encode()).hexdigest()}
    write_whole(path, save(tensors, metadata=metadata))


def read_unfinished(path: Path) -> Unfinished | None:
    """Read it back; None where there is none, or it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, ValueError):
        return None
    said = metadata.get("said", "")
    if metadata.get("format") != FORMAT or hashlib.sha256(said.encode()).hexdigest() != metadata.get("sha256"):
        return None
    found = json.loads(said)
    members: dict[int, Member] = {}
    for exponent, facts in found["members"].items():
        state = _state_of(tensors, exponent)
        if state is not None and fingerprint(state) != facts["model_sha256"]:
            return None
        standing = Standing(facts["rounds"], [float(v) for v in facts["values"]], facts["higher_is_better"])
        verdict = None if facts["ended"] is None else Verdict(*facts["ended"])
        members[int(exponent)] = Member(standing, facts["round_number"], state, verdict, facts["model_sha256"])
    return Unfinished(members, found["seconds"], found["example_passes"])


def _state_of(tensors: Mapping[str, Tensor], exponent: str) -> Groups | None:
    mine = {name.removeprefix(f"{exponent}/"): t for name, t in tensors.items() if name.startswith(f"{exponent}/")}
    return unflatten(mine) if mine else None
