"""`stayput join` that kills itself, as `kill -9` would: killed_client.py POINT COUNT join ARGUMENTS.

POINT is "before finish" (its memory is written, the coordinator was not asked to count the update) or "after receipt"
(the coordinator has said that it counts, and nothing was made of that yet), come to for the COUNT-th time.
"""

from __future__ import annotations

import os
import signal
import sys

from stayput.cli.main import main
from stayput.deploy.client_memory import ClientMemory

METHODS = {"before finish": "prepare", "after receipt": "decide"}


def plant(point, count):
    """Put the point where it belongs."""
    name = METHODS[point]
    whole = getattr(ClientMemory, name)
    times = iter(range(1, 1_000_000))

    def doomed(self, *arguments, **named):
        if point == "after receipt" and next(times) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        whole(self, *arguments, **named)
        if point == "before finish" and next(times) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(ClientMemory, name, doomed)


if __name__ == "__main__":
    plant(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[3:])
