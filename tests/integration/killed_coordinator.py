"""`stayput serve` that kills itself, as `kill -9` would: killed_coordinator.py POINT COUNT FLEET.toml READY_FILE.

A point is a place around a commit: before or after a transaction of one kind of change, before or after a blob is put
where it belongs, after the answer of the process that sums. It is reached COUNT times before the process dies of it.
"""

from __future__ import annotations

import os
import signal
import sys

from stayput.cli.main import main
from stayput.deploy import closer_process, partial_blobs, store


class Death:
    """`kill -9` of this process, when a point is come to for the COUNT-th time."""

    def __init__(self, point, count):
        self.point, self.left = point, count

    def at(self, point):
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def plant(death):
    """Put the points where they belong."""
    apply, finish, ask = store.Store.apply, partial_blobs.PartialBlob.finish, closer_process.CloserProcess.order

    def applied(self, changes, **arguments):
        kinds = {type(change).__name__ for change in changes}
        for kind in kinds:
            death.at(f"before {kind}")
        version = apply(self, changes, **arguments)
        for kind in kinds:
            death.at(f"after {kind}")
        return version

    def carried_out(change, connection, now, *, before=store._carry_out):
        death.at(f"inside {type(change).__name__}")
        before(change, connection, now)

    def finished(self, folder):
        death.at("before the update is in its place")
        path = finish(self, folder)
        death.at("after the update is in its place")
        return path

    async def ordered(self, order):
        answer = await ask(self, order)
        death.at(f"after the sum of {order['do']}")
        return answer

    store.Store.apply, store._carry_out = applied, carried_out
    partial_blobs.PartialBlob.finish = finished
    closer_process.CloserProcess.order = ordered


if __name__ == "__main__":
    _, point, count, fleet_toml, ready_file = sys.argv
    plant(Death(point, int(count)))
    main(["serve", fleet_toml, "--ready-file", ready_file])
