"""Real signals to real workers and to their parent: nothing is lost, nothing is left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

import stayput as sp
from stayput.core.engine import RoundWork
from stayput.core.tensors import fingerprint
from stayput.engines import SequentialEngine
from stayput.engines.workers import WorkersEngine
from stayput.testing import toy_clients, toy_task

CPU = torch.device("cpu")
SECONDS_TO_END = 20
"""Far longer than it takes, on a machine that has other things to do."""

SCRIPT = """
import os, select, sys
import numpy as np, torch, stayput as sp
from dataclasses import replace
from stayput.core.engine import RoundWork
from stayput.engines.workers import WorkersEngine
from stayput.testing import toy_clients, toy_task

def start(sent, facts):
    if sys.argv[1] == "at work":
        os.write(1, f"{os.getpid()}\\n".encode())
        while True:
            torch.ones(9).sum()
    return dict(sent)

algorithm = sp.FedAvg(client_fraction=1.0).algorithm()
engine = WorkersEngine(toy_task(), toy_clients(), device=torch.device("cpu"), num_workers=2)
sent = algorithm.broadcast(algorithm.init(engine.initial_model(0)))
program = replace(algorithm.client, start=start)
try:
    engine.run([RoundWork(1, 0, np.arange(4), algorithm.plan(1), sent, program)])
    for worker in engine._pool._workers:
        print(worker.process.pid, flush=True)
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        pass  # a signal that comes just before a blocking call would not end it: look again, and again
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def start_training(when):
    """A process that trains for ever, or waits after a round; and its two workers, to be waited for."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, when],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return process, [os.pidfd_open(int(process.stdout.readline())) for _ in range(2)]


def have_ended(workers):
    """Whether they end within the time, one after another."""
    ended = [bool(select.select([worker], [], [], SECONDS_TO_END)[0]) for worker in workers]
    for worker in workers:
        os.close(worker)
    return ended == [True] * len(workers)


@pytest.mark.parametrize("when", ["at work", "waiting"])
def test_workers_end_when_their_parent_is_killed(when):
    process, workers = start_training(when)
    with process:
        assert not select.select(workers, [], [], 0)[0]
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert have_ended(workers)
        assert process.stderr.read() == ""


@pytest.mark.parametrize("when", ["at work", "waiting"])
def test_ctrl_c_ends_workers_without_a_word(when):
    process, workers = start_training(when)
    with process:
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait() == 0
        assert have_ended(workers)
        assert process.stderr.read() == ""


def test_a_round_survives_the_kill_of_a_worker(tmp_path):
    victim, marker = tmp_path / "victim", tmp_path / "marker"
    os.mkfifo(victim)

    def start(sent, facts):
        if facts.num_examples == 12 and not marker.exists():
            marker.touch()
            victim.write_text(str(os.getpid()))
            while True:
                torch.ones(9).sum()
        return dict(sent)

    clients = toy_clients((8, 40, 12, 2, 22, 6, 30))
    algorithm = sp.FedAvg(client_fraction=1.0, local_epochs=2, batch_size=4).algorithm()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    plain = SequentialEngine(toy_task(), clients, device=CPU)
    sent = algorithm.broadcast(algorithm.init(plain.initial_model(0)))
    work = RoundWork(1, 0, np.arange(7), algorithm.plan(1), sent, algorithm.client)
    (expected,) = plain.run([work])
    killer = threading.Thread(target=lambda: os.kill(int(victim.read_text()), signal.SIGKILL))
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
        killer.start()
        (result,) = engine.run([replace(work, program=replace(algorithm.client, start=start))])
        killer.join()
    torch.set_num_threads(threads)
    assert marker.exists()
    assert fingerprint(result.mean) == fingerprint(expected.mean)
    assert replace(result, mean={}) == replace(expected, mean={})
