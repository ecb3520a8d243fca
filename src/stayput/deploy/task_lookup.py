"""The task that a name stands for: a named task, or `package.module:attribute` of the user's own code."""

from __future__ import annotations

import importlib

from stayput.errors import InvalidSetting
from stayput.tasks.catalogue import named_task
from stayput.tasks.task import Task


def task_called(name: str) -> Task:
    """The task; only names that the machine's own operator wrote may come here, since modules are imported."""
    module_name, colon, attribute = name.partition(":")
    if not colon:
        return named_task(name).task
    try:
        task = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidSetting(f"task={name!r}: must be an importable package.module:attribute ({error})") from error
    if not isinstance(task, Task):
        raise InvalidSetting(f"task={name!r}: is a {type(task).__name__}: must be a stayput.Task")
    return task
