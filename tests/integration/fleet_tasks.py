"""Tasks as a fleet's file names them, for processes of their own: `fleet_tasks:toy`, and one that takes its time."""

from __future__ import annotations

import dataclasses
import time

from stayput.tasks.task import unchanged
from stayput.testing import toy_task


def slowly(inputs):
    """As they are, after a while: what a client on a slow machine takes for a minibatch."""
    time.sleep(0.7)
    return unchanged(inputs)


toy = toy_task()
slow = dataclasses.replace(toy, name="slow", prepare=slowly)
