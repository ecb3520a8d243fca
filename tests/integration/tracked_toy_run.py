"""A tracked run of the toy task in a process of its own, for tests that kill it.

usage: tracked_toy_run.py FOLDER ROUNDS KILL_AFTER TRACKER...

The process kills itself, as `kill -9` would, when round KILL_AFTER is over; 0 for never.
"""

from __future__ import annotations

import os
import signal
import sys

import stayput as sp
from stayput.testing import toy_clients, toy_examples, toy_task


def main():
    folder, rounds, kill_after, *trackers = sys.argv[1:]

    def on_round(report, history):
        if report.round_number == int(kill_after) > 0:
            os.kill(os.getpid(), signal.SIGKILL)

    run = sp.train(
        toy_task(),
        toy_clients((9, 4, 12, 6)),
        sp.FedAvg(client_fraction=0.5, learning_rate=0.2),
        rounds=int(rounds),
        test=toy_examples(60, seed=3),
        folder=folder,
        resume=True,
        checkpoint_every=4,
        on_round=on_round,
        track=trackers,
    )
    sys.stdout.write(run.model_sha256)


if __name__ == "__main__":
    main()
