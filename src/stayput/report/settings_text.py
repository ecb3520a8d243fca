"""Runs' settings in words: what a run's curve is called, and what sets several runs apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stayput.report.wording import DASH
from stayput.runs.spec import RunSpec

OF_COMPUTE = ("engine", "device", "threads", "precision")
"""Settings that change the last bits at most."""
UNTOLD = ("metrics", "spec_version", "checkpoint_every", "keep_checkpoints", "rounds", "target", "stop_at_target")
"""Settings that do not change what is learned in a round; when a run ended is in every table anyway."""


def label_of(spec: RunSpec) -> str:
    """What a run's curve is called: its algorithm and what the paper's tables vary."""
    algorithm = spec.algorithm
    letters = {"client_fraction": "C", "local_epochs": "E", "batch_size": "B", "learning_rate": "η"}
    settings = [f"{letter}={short(algorithm[name])}" for name, letter in letters.items() if name in algorithm]
    return f"{algorithm['name']} {', '.join(settings)}, {partition_name(spec)}"


def partition_name(spec: RunSpec) -> str:
    """`iid`, or `unbalanced over iid`."""
    name = str(spec.partition["name"])
    return f"{name} over {spec.partition['over']['name']}" if "over" in spec.partition else name


def short(value: object) -> str:
    """A setting's value; a schedule as the command line writes it."""
    if not isinstance(value, dict):
        return str(value)
    entries = sorted((int(start), entry) for start, entry in value.items())
    return ",".join(str(entry) if start == 1 else f"{start}:{entry}" for start, entry in entries)


def common_target(specs: Sequence[RunSpec], metric: str) -> float | None:
    """The target, if the runs that have one for this metric have the same."""
    targets = {spec.target for spec in specs if spec.metric == metric} - {None}
    return targets.pop() if len(targets) == 1 else None


def differing(specs: Sequence[RunSpec]) -> dict[str, list[str]]:
    """The settings in which runs differ, each with every run's value; a dash where a run has no such one."""
    flat = [dict(flat_settings(spec)) for spec in specs]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    table = {name: [settings.get(name, DASH) for settings in flat] for name in names}
    return {name: values for name, values in table.items() if len(set(values)) > 1}


def told(settings: Mapping[str, Sequence[str]], position: int) -> list[str]:
    """What one of the runs trains differently, as `name=value`."""
    return [
        f"{name}={values[position]}"
        for name, values in settings.items()
        if name not in OF_COMPUTE and values[position] != DASH
    ]


def flat_settings(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """Settings that change what is learned, by short names: `algorithm.local_epochs` is called local_epochs."""
    yield from _flat(spec.to_json())


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """`algorithm.name` is called algorithm, `algorithm.local_epochs` local_epochs."""
    for name, value in settings.items():
        if name in UNTOLD:
            continue
        if isinstance(value, Mapping) and "name" in value:
            yield f"{prefix}{name}", str(value["name"])
            inner = {key: entry for key, entry in value.items() if key != "name"}
            yield from _flat(inner, "" if name in ("algorithm", "partition") else prefix)
        else:
            yield f"{prefix}{name}", short(value)
