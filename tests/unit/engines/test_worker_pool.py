"""How workers live and die: replaced when they are killed, gone when nobody wants them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import stayput as sp
from stayput.core.engine import RoundWork
from stayput.core.tensors import fingerprint
from stayput.engines import SequentialEngine
from stayput.engines.workers import WorkersEngine
from stayput.errors import TrainingError
from stayput.testing import toy_clients, toy_task

CPU = torch.device("cpu")
SEED = 5
UNEVEN = (8, 40, 12, 2, 22, 6, 30)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def fed_avg(**settings):
    return sp.FedAvg(**{"client_fraction": 1.0, "local_epochs": 2, "batch_size": 4, "learning_rate": 0.1, **settings})


def work_for(engine, clients, settings=None, round_number=1, program=None):
    algorithm = (settings or fed_avg()).algorithm()
    sent = algorithm.broadcast(algorithm.init(engine.initial_model(SEED + round_number)))
    cohort = np.arange(clients.num_clients, dtype=np.int64)
    return RoundWork(round_number, SEED, cohort, algorithm.plan(round_number), sent, program or algorithm.client)


def same_results(ours, theirs):
    assert [fingerprint(result.mean) for result in ours] == [fingerprint(result.mean) for result in theirs]
    assert [replace(result, mean={}) for result in ours] == [replace(result, mean={}) for result in theirs]


def processes(engine):
    return [worker.process for worker in engine._pool._workers]


def test_workers_that_were_killed_between_rounds_are_nobodys_fault():
    clients = toy_clients(UNEVEN)
    plain = SequentialEngine(toy_task(), clients, device=CPU)
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=3) as engine:
        work = work_for(engine, clients)
        engine.run([work])
        assert len(processes(engine)) == 3
        for process in processes(engine):
            os.kill(process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        one = replace(work, cohort=np.array([3]))  # three deaths over one client would be the end of the round
        same_results(engine.run([one]), plain.run([one]))
        same_results(engine.run([work]), plain.run([work]))


def test_workers_leave_ctrl_c_to_their_parent():
    clients = toy_clients(UNEVEN)
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
        work = work_for(engine, clients)
        engine.run([work])
        before = [process.pid for process in processes(engine)]
        for pid in before:
            os.kill(pid, signal.SIGINT)
        engine.run([work])
        assert [process.pid for process in processes(engine)] == before


def dying(marker, victim_size, times):
    """A client program that kills its own process, `times` times, when it comes to the client of that size."""

    def start(sent, facts):
        if facts.num_examples == victim_size and len(marker.read_text()) < times:
            with marker.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return dict(sent)

    return start


@pytest.mark.parametrize("deaths", [1, 2])
def test_the_client_of_a_worker_that_dies_is_trained_again(tmp_path, deaths):
    clients = toy_clients(UNEVEN)
    marker = tmp_path / "deaths"
    marker.write_text("")
    plain = SequentialEngine(toy_task(), clients, device=CPU)
    program = replace(fed_avg().algorithm().client, start=dying(marker, 12, deaths))
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
        results = engine.run([work_for(engine, clients, program=program)])
        same_results(results, plain.run([work_for(plain, clients)]))
    assert marker.read_text() == "x" * deaths


def test_a_client_that_kills_three_workers_is_named(tmp_path):
    clients = toy_clients(UNEVEN)
    marker = tmp_path / "deaths"
    marker.write_text("")
    program = replace(fed_avg().algorithm().client, start=dying(marker, 12, 99))
    engine = WorkersEngine(toy_task(), clients, device=CPU, num_workers=2)
    with pytest.raises(TrainingError, match=r"round 1, client 2: 3 worker processes died .* by SIGKILL"):
        engine.run([work_for(engine, clients, program=program)])
    assert len(engine.run([work_for(engine, clients)])) == 1, "the engine goes on"
    engine.close()


def test_rounds_that_overlap_or_are_given_up_disturb_no_other():
    clients = toy_clients(UNEVEN)
    plain = SequentialEngine(toy_task(), clients, device=CPU)
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
        slow = engine.train(work_for(engine, clients))
        seen = [next(slow).client]
        other = work_for(engine, clients, round_number=2)
        same_results(engine.run([other]), plain.run([other]))
        seen += [update.client for update in slow]
        assert sorted(seen) == list(range(len(UNEVEN)))
        given_up = engine.train(work_for(engine, clients))
        next(given_up)
        given_up.close()
        same_results(engine.run([other]), plain.run([other]))


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("end", ["close", "with", "collected"])
def test_no_worker_outlives_its_engine(end):
    clients = toy_clients()
    engine = WorkersEngine(toy_task(), clients, device=CPU, num_workers=2)
    engine.run([work_for(engine, clients)])
    pids = [process.pid for process in processes(engine)]
    if end == "close":
        engine.close()
        engine.close()
    elif end == "with":
        with engine:
            pass
    else:
        del engine
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_workers_let_go_of_their_parents_files(tmp_path):
    """Or they would hold the lock of a run's folder for as long as they live."""
    import fcntl

    clients = toy_clients()
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
        with (tmp_path / "lock").open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            engine.run([work_for(engine, clients)])
        with (tmp_path / "lock").open("ab") as ours:
            fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for process in processes(engine):
            files = {link.readlink() for link in Path(f"/proc/{process.pid}/fd").iterdir() if int(link.name) > 2}
            assert tmp_path / "lock" not in files


def test_a_process_that_ends_without_closing_ends_quietly():
    script = """
import numpy as np, torch, stayput as sp
from stayput.core.engine import RoundWork
from stayput.engines.workers import WorkersEngine
from stayput.testing import toy_clients, toy_task
algorithm = sp.FedAvg(client_fraction=1.0).algorithm()
engine = WorkersEngine(toy_task(), toy_clients(), device=torch.device("cpu"), num_workers=2)
sent = algorithm.broadcast(algorithm.init(engine.initial_model(0)))
engine.run([RoundWork(1, 0, np.arange(4), algorithm.plan(1), sent, algorithm.client)])
print(*[worker.process.pid for worker in engine._pool._workers])
"""
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) == 2
    assert all(gone(int(pid)) for pid in done.stdout.split())
