"""The task that a name stands for: a named task, or `package.module:attribute` of the user's own code.

Modules are looked for in the working folder first, as `python -m` does, whichever way stayput was started.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from stayput.errors import InvalidSetting
from stayput.tasks.catalogue import named_task
from stayput.tasks.task import Task


def task_called(name: str) -> Task:
    """The task; only names that the machine's own operator wrote may come here, since modules are imported."""
    module_name, colon, attribute = name.partition(":")
    if not colon:
        return named_task(name).task
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise InvalidSetting(f"task={name!r}: must be a task's name, or package.module:attribute for one's own")
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    try:
        task = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidSetting(
            f"task={name!r}: must be a package.module:attribute that can be imported here ({error}; modules are looked "
            "for in the working folder first)"
        ) from error
    if not isinstance(task, Task):
        raise InvalidSetting(f"task={name!r}: is a {type(task).__name__}: must be a stayput.Task")
    return task
