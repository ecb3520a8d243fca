"""`stayput run FILE.toml`: a run's settings in a file, one key per flag.

task = "mnist-2nn"
client_fraction = 0.1
local_epochs = "20,50:5"     # or {1 = 20, 50 = 5}
rounds = 200
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from stayput.cli.settings import from_file
from stayput.errors import InvalidSetting


def task_or_file(argument: str) -> dict[str, Any]:
    """The settings that the first argument of `stayput run` stands for: a task, or all that a file says."""
    path = Path(argument)
    if path.suffix != ".toml" and not path.is_file():
        return {"task": argument}
    settings = read_settings(path)
    if "task" not in settings:
        raise InvalidSetting(f'{path}: has no task (add a line such as task = "mnist-2nn"; see `stayput tasks`)')
    return settings


def read_settings(path: Path) -> dict[str, Any]:
    """A file's settings, checked."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSetting(f"{path}: cannot be read ({error.strerror}; give a task or a file of settings)") from error
    except ValueError as error:
        place = str(error).replace("(", "").replace(")", "")
        raise InvalidSetting(
            f'{path}: is not TOML: {place} (a line per setting, text in quotes, such as task = "mnist-2nn")'
        ) from error
    return from_file(content, source=str(path))
