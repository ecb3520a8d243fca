"""Bytes that clients receive and send, from the model's size and the cohorts.

No bytes travel in a simulation; these are what its rounds would send: every client of a cohort receives what the
algorithm broadcasts and returns its update, as tensors in their own dtype, without compression and without what a
protocol adds. Which tensors those are is asked of the algorithm itself, on tensors without content (torch's "meta"
device), so that control variates and momentum count where they travel, and state that stays at the server does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stayput.core.history import RoundReport
from stayput.errors import StayputError
from stayput.runs.run_folder import BEST, RunFolder

if TYPE_CHECKING:
    from stayput.core.tensors import Groups

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
"""torch's names of the dtypes in a safetensors file."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The size of a model, and of what one client receives and sends in a round."""

    parameters: int
    model_bytes: int
    """Weights and buffers."""
    down: int
    up: int

    def down_in(self, report: RoundReport) -> int:
        """Bytes that a round's cohort received."""
        return self.down * report.cohort_size

    def up_in(self, report: RoundReport) -> int:
        """Bytes that a round's cohort sent."""
        return self.up * report.cohort_size


def traffic_of(run: RunFolder) -> Traffic | None:
    """A run's sizes; None where there is no checkpoint yet, or where the algorithm is not one by name."""
    from safetensors import SafetensorError

    paths = [*run.checkpoint_paths().values(), run.path / BEST]
    for path in paths:
        try:
            return _traffic(run, str(path))
        except (OSError, SafetensorError):  # gone while we looked, or damaged: another may do
            continue
        except (StayputError, KeyError, TypeError, ValueError, RuntimeError):
            return None  # an algorithm of the user's own, whose messages only its code knows
    return None


def _traffic(run: RunFolder, path: str) -> Traffic | None:
    import torch
    from safetensors import safe_open

    from stayput.algorithms import ALGORITHMS
    from stayput.core.algorithm import ClientFacts
    from stayput.core.named_settings import from_plain
    from stayput.core.tensors import BUFFERS, FULL_GRADIENT, MEMORY, WEIGHTS, unflatten

    with safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        state = unflatten(
            {
                name: torch.empty(entry.get_shape(), dtype=getattr(torch, _DTYPES[entry.get_dtype()]), device="meta")
                for name, entry in slices.items()
            }
        )
    algorithm = from_plain("algorithm", ALGORITHMS, run.spec.algorithm).algorithm()
    if algorithm.pools_clients:
        return None  # nothing is federated: there are no messages
    sent = algorithm.broadcast(state)
    program, known = algorithm.client, dict(sent)
    if program.full_gradient:
        known[FULL_GRADIENT] = state[WEIGHTS]
    if program.memory is not None:
        known[MEMORY] = program.memory(sent)
    facts = ClientFacts(learning_rate=1.0, num_examples=1, num_steps=1)
    finished = program.finish(known, program.start(known, facts), facts)
    update = {group: tensors for group, tensors in finished.items() if group != MEMORY}  # that stays at the client
    model = {group: tensors for group, tensors in state.items() if group in (WEIGHTS, BUFFERS)}
    parameters = sum(tensor.numel() for tensor in state[WEIGHTS].values())
    return Traffic(parameters, _num_bytes(model), _num_bytes(sent), _num_bytes(update))


def _num_bytes(groups: Groups) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensors in groups.values() for tensor in tensors.values())
