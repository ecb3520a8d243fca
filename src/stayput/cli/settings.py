"""From flags and a settings file to a run's spec: what was given, checked, with defaults filled in.

Pure: reads no files. A setting is known by its flag's name with underscores, in a file also with dashes. What
a setting may be is left to the settings classes and the spec, whose sentences reach the user. Decided here is
which settings there are, which type a file must give them, and whether the chosen algorithm and partition
have them at all: a setting that would change nothing is an error, never ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stayput.core.named_settings import NAME, from_plain, to_plain
from stayput.core.schedules import parse_schedule
from stayput.errors import InvalidSetting, UnknownName
from stayput.runs.spec import POPULATION, RunSpec

DEFAULT_ROUNDS = 100
FLEET = "fleet"
"""The table of a settings file that says how it is deployed."""

OF_ALGORITHM = (
    "client_fraction",
    "local_epochs",
    "batch_size",
    "learning_rate",
    "learning_rate_decay",
    "updates_per_round",
    "server_learning_rate",
    "momentum",
    "beta1",
    "beta2",
    "tau",
    "mu",
)
OF_PARTITION = ("num_clients", "shards_per_client", "alpha", "key")
OF_FLEET = (
    "availability",
    "zone_correlation",
    "over_selection",
    "minimum_share",
    "round_deadline",
    "dropout",
    "seconds_per_step",
    "speed_spread",
    "uplink",
    "downlink",
    "buffer_size",
)
OF_SPEC = (
    "seed",
    "partition_seed",
    "evaluate_every",
    "checkpoint_every",
    "keep_checkpoints",
    "device",
    "threads",
    "precision",
)


@dataclass(frozen=True)
class Kind:
    """What a file must give a setting."""

    rule: str
    accepts: Callable[[object], bool]
    read: Callable[[Any], object] = lambda value: value


def _is(*types: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types) and (bool in types or not isinstance(value, bool))


TEXT = Kind('must be text in quotes, such as "fed_avg"', _is(str))
NUMBER = Kind("must be a number, such as 0.1", _is(int, float), float)
WHOLE = Kind("must be a whole number, such as 100", _is(int))
SWITCH = Kind("must be true or false", _is(bool))
FOLDER = Kind('must be a path in quotes, such as "runs/first"', _is(str), Path)


def _names(value: object) -> list[str]:
    """One name, names with commas between them, or a list of such."""
    entries = [value] if isinstance(value, str) else value
    return [name.strip() for entry in entries for name in str(entry).split(",")]  # type: ignore[attr-defined] # a list


NAMES = Kind(
    'must be a name in quotes, or a list of names, such as ["tensorboard", "mlflow"]',
    lambda value: isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value)),
    _names,
)
SCHEDULE = Kind(
    'must be a value, or values with the round each holds from, as "20,50:5" or {1 = 20, 50 = 5}',
    _is(int, str, dict),
)

SETTINGS: Mapping[str, Kind] = {
    "task": TEXT,
    "algorithm": TEXT,
    "client_fraction": NUMBER,
    "local_epochs": SCHEDULE,
    "batch_size": SCHEDULE,
    "learning_rate": NUMBER,
    "learning_rate_decay": NUMBER,
    "updates_per_round": WHOLE,
    "server_learning_rate": NUMBER,
    "momentum": NUMBER,
    "beta1": NUMBER,
    "beta2": NUMBER,
    "tau": NUMBER,
    "mu": NUMBER,
    "partition": TEXT,
    "num_clients": WHOLE,
    "shards_per_client": WHOLE,
    "alpha": NUMBER,
    "key": TEXT,
    "unbalanced": TEXT,
    "spread": NUMBER,
    "partition_seed": WHOLE,
    "population": FOLDER,
    "availability": TEXT,
    "zone_correlation": NUMBER,
    "over_selection": NUMBER,
    "minimum_share": NUMBER,
    "round_deadline": NUMBER,
    "dropout": NUMBER,
    "seconds_per_step": NUMBER,
    "speed_spread": NUMBER,
    "uplink": NUMBER,
    "downlink": NUMBER,
    "buffer_size": WHOLE,
    "rounds": WHOLE,
    "target": NUMBER,
    "stop_at_target": SWITCH,
    "seed": WHOLE,
    "evaluate_every": WHOLE,
    "checkpoint_every": WHOLE,
    "keep_checkpoints": WHOLE,
    "engine": TEXT,
    "ray_address": TEXT,
    "ray_workers": WHOLE,
    "device": TEXT,
    "threads": WHOLE,
    "precision": TEXT,
    "data_dir": FOLDER,
    "folder": FOLDER,
    "track": NAMES,
    "report": SWITCH,
    "require_target": SWITCH,
    "json": SWITCH,
    "quiet": SWITCH,
}
"""Every setting of a run by name."""


@dataclass(frozen=True)
class Request:
    """A run that was asked for: its spec, and what to do around it."""

    spec: RunSpec
    folder: Path | None = None
    """None for the next free one in runs/."""
    data_dir: Path | None = None
    report: bool = True
    require_target: bool = False
    json: bool = False
    quiet: bool = False
    ray_address: str | None = None
    """Of the cluster; None for RAY_ADDRESS, or this machine alone."""
    ray_workers: int | None = None
    """None for one for each core or GPU of the cluster."""

    def __post_init__(self) -> None:
        """Refuse to require a target that there is not, and to say where Ray is for another engine."""
        for name, value in (("ray_address", self.ray_address), ("ray_workers", self.ray_workers)):
            if value is not None and self.spec.engine != "ray":
                raise InvalidSetting(
                    f"{name}={value!r}: engine {self.spec.engine!r} does not use Ray (set engine to ray, or leave "
                    f"{name} out)"
                )
        if self.require_target and self.spec.target is None:
            raise InvalidSetting("require_target=True: needs a target to require (set target, such as 0.97)")


def from_file(content: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """A file's settings by their proper names, or an error that names the file; `source` is its path."""
    settings: dict[str, Any] = {}
    for written, value in content.items():
        if written == FLEET and isinstance(value, dict):
            continue  # how the same settings are deployed is for `stayput serve`
        name = written.replace("-", "_")
        if name not in SETTINGS:
            raise UnknownName(f"{source}: setting", written, SETTINGS)
        if name in settings:
            raise InvalidSetting(
                f"{source}: {name} is there twice, with dashes and with underscores: must be there once"
            )
        kind = SETTINGS[name]
        if not kind.accepts(value):
            raise InvalidSetting(f"{source}: {name}={value!r}: {kind.rule}")
        settings[name] = kind.read(value)
    return settings


def merged(flags: Mapping[str, Any], file: Mapping[str, Any]) -> dict[str, Any]:
    """What was given; where both speak, the flag wins."""
    return {**file, **{name: value for name, value in flags.items() if value is not None}}


def request(settings: Mapping[str, Any]) -> Request:
    """The run that these settings ask for."""
    spec = run_spec(settings)
    around = {field.name for field in dataclasses.fields(Request)} - {"spec"}
    return Request(spec, **{name: settings[name] for name in settings if name in around})


def run_spec(settings: Mapping[str, Any]) -> RunSpec:
    """The complete spec: every setting that was not given has its default."""
    from stayput.algorithms import ALGORITHMS
    from stayput.engines import ENGINES
    from stayput.engines.choice import AUTO, chosen_engine
    from stayput.tasks.catalogue import NAMED_TASKS

    task = NAMED_TASKS[known_name("task", settings["task"], NAMED_TASKS)].task
    algorithm = _algorithm(settings, ALGORITHMS)
    given = {name: settings[name] for name in OF_SPEC if name in settings}
    target = settings.get("target")
    engine = known_name("engine", settings.get("engine", "sequential"), {**ENGINES, AUTO: None})
    return RunSpec(
        task=task.name,
        partition=_partition(settings),
        algorithm=to_plain(algorithm),
        rounds=settings.get("rounds", algorithm.algorithm().only_rounds or DEFAULT_ROUNDS),
        target=target,
        stop_at_target=settings.get("stop_at_target", target is not None),
        engine=chosen_engine(engine, task, settings.get("device", "cpu")),
        metrics={metric.name: metric.higher_is_better for metric in task.metrics},
        fleet=_fleet(settings),
        track=trackers(settings.get("track") or ()),
        **given,
    )


def trackers(names: Sequence[str]) -> tuple[str, ...]:
    """The trackers that were named, each of them there."""
    from stayput.tracking import refuse_trackers

    found = tuple(_names(list(names)))
    refuse_trackers(found)
    return found


def known_name(kind: str, name: str, known: Mapping[str, object]) -> str:
    """The name as the table has it: `fed-avg` is `fed_avg`, `mnist_2nn` is `mnist-2nn`."""
    for candidate in known:
        if _undashed(candidate) == _undashed(name):
            return candidate
    raise UnknownName(kind, name, known)


def _undashed(name: str) -> str:
    return name.lower().replace("-", "_")


def _algorithm(settings: Mapping[str, Any], known: Mapping[str, type[Any]]) -> Any:  # noqa: ANN401 - any of them
    name = known_name("algorithm", settings.get("algorithm", "fed_avg"), known)
    given = {key: _read_schedule(key, settings[key]) for key in OF_ALGORITHM if key in settings}
    refuse_foreign("algorithm", name, given, known)
    return from_plain("algorithm", known, {NAME: name, **given})


def _read_schedule(name: str, value: object) -> object:
    scheduled = SETTINGS[name] is SCHEDULE and isinstance(value, str)
    return parse_schedule(name, str(value)) if scheduled else value


def _partition(settings: Mapping[str, Any]) -> dict[str, Any]:
    from stayput.data.partitions import PARTITIONS, Unbalanced

    if "population" in settings:
        return _population(settings)
    name = known_name("partition", settings.get("partition", "iid"), PARTITIONS)
    if name == Unbalanced.name:
        raise InvalidSetting(
            "partition='unbalanced': is made over another partition (set unbalanced to log_normal or "
            "power_law, and partition to the one whose examples are cut anew)"
        )
    given = {key: settings[key] for key in OF_PARTITION if key in settings}
    refuse_foreign("partition", name, given, PARTITIONS)
    partition = from_plain("partition", PARTITIONS, {NAME: name, **given})
    if "unbalanced" in settings:
        spread = {"spread": settings["spread"]} if "spread" in settings else {}
        partition = Unbalanced(over=partition, sizes=_undashed(settings["unbalanced"]), **spread)  # type: ignore[arg-type]
    elif "spread" in settings:
        raise InvalidSetting(
            f"spread={settings['spread']!r}: clients of even sizes have no spread (set unbalanced to "
            f"log_normal or power_law, or leave spread out)"
        )
    return to_plain(partition)


def _fleet(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The virtual fleet, if any of its settings was given."""
    from stayput.virtual_fleet.settings import VirtualFleet

    given = {name: settings[name] for name in OF_FLEET if name in settings}
    return VirtualFleet.from_plain(given).to_plain() if given else {}


def _population(settings: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("partition", *OF_PARTITION, "unbalanced", "spread", "partition_seed"):
        if name in settings:
            raise InvalidSetting(
                f"{name}={settings[name]!r}: the clients of a population hold what they hold (leave {name} or "
                f"population out)"
            )
    return {NAME: POPULATION, "folder": str(Path(settings["population"]).absolute())}


def refuse_foreign(kind: str, name: str, given: Mapping[str, Any], known: Mapping[str, type[Any]]) -> None:
    """Raise `InvalidSetting` for a setting that the chosen algorithm or partition does not have."""
    own = [field.name for field in dataclasses.fields(known[name])]
    for setting, value in given.items():
        if setting in own:
            continue
        others = [other for other in known if setting in {field.name for field in dataclasses.fields(known[other])}]
        raise InvalidSetting(
            f"{setting}={value!r}: {kind} {name} has no such setting (it has {', '.join(own)}; "
            f"{setting} is a setting of {', '.join(others)})"
        )
