"""A run of the toy task in a process of its own, for tests that kill it.

usage: toy_run.py FOLDER ROUNDS ALGORITHM [FAIL_POINT COUNT]

With a fail point the process kills itself, as `kill -9` would, when it comes there for the COUNT-th time.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import stayput as sp
from stayput.algorithms import ALGORITHMS
from stayput.runs import checkpoint, client_memory, durable_files, run_writer
from stayput.testing import toy_clients, toy_examples, toy_task


class Death:
    """`kill -9` of this process, when a step of writing is taken for the COUNT-th time."""

    def __init__(self, count):
        self.left = count

    def strikes(self):
        self.left -= 1
        return self.left == 0

    def before(self, step):
        def wrapped(*arguments):
            if self.strikes():
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*arguments)

        return wrapped

    def half_way(self, step, write_half):
        def wrapped(path, content):
            if self.strikes():
                write_half(path, content[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            step(path, content)

        return wrapped


def half_a_file(path, content):
    path.with_name(f".{path.name}.{os.getpid()}.tmp").write_bytes(content)


def half_a_row(file, content):
    file.write(content)


def half_a_line(path, line):
    with path.open("a") as file:
        file.write(line)


def plant(fail_point, count):
    death = Death(count)
    if fail_point == "half a file":
        dying = death.half_way(durable_files.write_whole, half_a_file)
        checkpoint.write_whole = run_writer.write_whole = durable_files.write_whole = dying
    elif fail_point == "half a line":
        run_writer.append_line = death.half_way(durable_files.append_line, half_a_line)
    elif fail_point == "half a row":
        client_memory._write_whole = death.half_way(client_memory._write_whole, half_a_row)
    elif fail_point == "before rename":
        Path.replace = death.before(Path.replace)
    elif fail_point == "before fsync":
        os.fsync = death.before(os.fsync)
    else:
        raise SystemExit(f"unknown fail point {fail_point}")


def main():
    folder, rounds, algorithm = sys.argv[1], int(sys.argv[2]), ALGORITHMS[sys.argv[3]]
    if len(sys.argv) > 4:
        plant(sys.argv[4], int(sys.argv[5]))
    run = sp.train(
        toy_task(),
        toy_clients((9, 4, 12, 6)),
        algorithm(client_fraction=0.5, local_epochs=2, batch_size=4, learning_rate=0.2),
        rounds=rounds,
        test=toy_examples(60, seed=3),
        folder=folder,
        resume=True,
        checkpoint_every=2,
        on_round=lambda report, history: say(report.round_number),
    )
    say(run.model_sha256)


def say(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
