"""`python -m stayput.cli.fleet_spec FILE`: the spec that a fleet's file stands for, as a line of JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from stayput.cli.settings import run_spec
from stayput.cli.settings_file import read_settings
from stayput.cli.wording import answer
from stayput.deploy.fleet_file import read_fleet_file
from stayput.deploy.task_lookup import task_called
from stayput.errors import InvalidSetting, StayputError
from stayput.runs.spec import CUSTOM, RunSpec
from stayput.tasks.catalogue import NAMED_TASKS


def spec_in(path: Path, own_task: str | None, settings: dict[str, Any]) -> RunSpec:
    """The spec of a fleet's training, for a named task or one of the user's own."""
    if own_task is None:
        if "task" not in settings:
            raise InvalidSetting(f'{path}: has no task (add a line such as task = "mnist-2nn"; see `stayput tasks`)')
        return run_spec(settings)
    if "task" in settings:
        raise InvalidSetting(f"{path}: task and fleet.task: must be one of the two")
    task = task_called(own_task)
    metrics = {metric.name: metric.higher_is_better for metric in task.metrics}
    stand_in = next(iter(NAMED_TASKS))  # any: what it would say is replaced
    return dataclasses.replace(run_spec({**settings, "task": stand_in}), task=CUSTOM, metrics=metrics)


def main() -> None:
    """Print the spec, or what is wrong with the file."""
    path = Path(sys.argv[1])
    try:
        settings = read_settings(path)
        spec = spec_in(path, read_fleet_file(path).settings.task, settings)
        data_dir: Path | None = settings.get("data_dir")
        answer(json.dumps({"spec": spec.to_json(), "data_dir": None if data_dir is None else str(data_dir)}))
    except StayputError as error:
        answer(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
