"""The toy task as a fleet's file names it, for processes of their own: `fleet_tasks:toy`."""

from __future__ import annotations

from stayput.testing import toy_task

toy = toy_task()
