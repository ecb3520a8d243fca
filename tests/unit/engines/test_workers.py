"""Worker processes: the bits of the plain engine, whoever trains which client."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import stayput as sp
from stayput.core.algorithm import ClientProgram
from stayput.core.engine import RoundWork
from stayput.core.round import run_round
from stayput.core.tensors import fingerprint
from stayput.engines import SequentialEngine
from stayput.engines.worker_process import Failed, layout_of, raise_again, view_of, write
from stayput.engines.workers import WorkersEngine, usable_cores
from stayput.errors import InvalidSetting, ModelMisfit, TrainingError, UnknownName
from stayput.testing import CLASSES, FEATURES, toy_clients, toy_task

CPU = torch.device("cpu")
SEED = 5


def net():
    """Everything that has a state of its own: running statistics, a counter, dropout."""
    return nn.Sequential(
        nn.Linear(FEATURES, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.4), nn.Linear(20, CLASSES)
    )


def images():
    """A convolution whose weights lie channels last, which its kernels are chosen by."""
    net = nn.Sequential(nn.Unflatten(1, (2, 2, 1)), nn.Conv2d(2, 4, 2, padding=1), nn.Flatten(), nn.Linear(24, CLASSES))
    return net.to(memory_format=torch.channels_last)


TASKS = {
    "toy": toy_task(),
    "float64": toy_task(torch.float64),
    "state of its own": sp.Task(lambda: net(), sp.losses.cross_entropy),  # noqa: PLW0108 - what users write
    "channels last": sp.Task(images, sp.losses.cross_entropy),
}
UNEVEN = (8, 40, 12, 2, 22, 6, 30)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def fed_avg(**settings):
    return sp.FedAvg(**{"client_fraction": 1.0, "local_epochs": 2, "batch_size": 4, "learning_rate": 0.1, **settings})


def trained(engine, clients, settings, rounds=3):
    algorithm = settings.algorithm()
    state = algorithm.init(engine.initial_model(SEED))
    reports = []
    for t in range(1, rounds + 1):
        step = partial(run_round, state, t, algorithm=algorithm, engine=engine, num_clients=clients.num_clients)
        state, report = step(seed=SEED)
        reports.append(report)
    return fingerprint(state), reports


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


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("num_workers", [1, 3])
def test_the_bits_are_those_of_the_plain_engine(task, num_workers):
    clients = toy_clients(UNEVEN)
    plain = trained(SequentialEngine(task, clients, device=CPU), clients, fed_avg())
    with WorkersEngine(task, clients, device=CPU, num_workers=num_workers) as engine:
        assert trained(engine, clients, fed_avg()) == plain
        assert len(processes(engine)) == num_workers


def test_one_client_is_one_worker():
    clients = toy_clients(UNEVEN).pooled()
    settings = sp.CentralSgd(batch_size=7, learning_rate=0.2, updates_per_round=5)
    plain = trained(SequentialEngine(TASKS["state of its own"], clients, device=CPU), clients, settings)
    with WorkersEngine(TASKS["state of its own"], clients, device=CPU, num_workers=3) as engine:
        assert trained(engine, clients, settings) == plain
        assert len(processes(engine)) == 1


def test_several_works_at_once_are_each_as_if_alone():
    task, clients = TASKS["state of its own"], toy_clients(UNEVEN)
    plain = SequentialEngine(task, clients, device=CPU)
    works = [work_for(plain, clients, fed_avg(batch_size=2 * t), round_number=t) for t in (1, 2, 3, 4)]
    with WorkersEngine(task, clients, device=CPU, num_workers=2) as engine:
        same_results(engine.run(works[:1]), plain.run(works[:1]))
        same_results(engine.run(works), plain.run(works))  # more is sent than the first pool had memory for
        pool = engine._pool
        same_results(engine.run(works[1:3]), plain.run(works[1:3]))
        assert engine._pool is pool


def test_few_updates_wait_where_memory_is_short(monkeypatch):
    clients = toy_clients(UNEVEN)
    plain = SequentialEngine(toy_task(), clients, device=CPU)
    monkeypatch.setattr("stayput.engines.workers.WAITING_BYTES", 1)
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=1) as engine:
        work = work_for(engine, clients)
        # Stretches of four clients, the longest of each first.
        assert [update.client for update in engine.train(work)] == [1, 2, 0, 3, 6, 4, 5]
        same_results(engine.run([work]), plain.run([work]))


def test_the_longest_come_first():
    clients = toy_clients(UNEVEN)
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=1) as engine:
        order = [update.client for update in engine.train(work_for(engine, clients))]
    assert order == sorted(range(len(UNEVEN)), key=lambda client: -UNEVEN[client])


def test_an_update_is_the_callers_own():
    clients = toy_clients(UNEVEN)
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
        work = work_for(engine, clients)
        first = {update.client: update for update in engine.train(work)}
        before = {client: fingerprint(update.update) for client, update in first.items()}
        list(engine.train(work_for(engine, clients, round_number=2)))
        assert {client: fingerprint(update.update) for client, update in first.items()} == before


def test_an_update_may_be_anything():
    """Other groups than were sent, of other sizes and kinds, empty ones too, and far larger."""

    def finish(sent, local, facts):
        weights = local["weights"]["hidden.weight"]
        more = {"none": torch.empty(0, 3), "yes": weights > 0, "one": weights.sum(), "turned": weights.T}
        return {"weights": local["weights"], "more": more, "large": {"large": weights.sum() * torch.ones(9999)}}

    clients = toy_clients()
    program = replace(fed_avg().algorithm().client, finish=finish)
    plain = SequentialEngine(toy_task(), clients, device=CPU)
    work = work_for(plain, clients, program=program)
    expected = {update.client: fingerprint(update.update) for update in plain.train(work)}
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
        updates = list(engine.train(work))
        assert {update.client: fingerprint(update.update) for update in updates} == expected
        same_results(engine.run([work]), plain.run([work]))


def test_an_algorithm_that_comes_later_is_inherited_by_new_workers():
    clients = toy_clients()
    first = fed_avg().algorithm().client
    other = ClientProgram(first.start, first.step, lambda sent, local, facts: local)
    plain = SequentialEngine(toy_task(), clients, device=CPU)
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=2) as engine:
        for program in (first, other, first, other):
            work = work_for(engine, clients, program=program)
            same_results(engine.run([work]), plain.run([work]))
        pool = engine._pool
        same_results(engine.run([work_for(engine, clients)]), plain.run([work_for(plain, clients)]))
        assert engine._pool is pool, "it knows both by now"


def test_a_parent_that_has_used_threads_may_fork():
    torch.set_num_threads(2)
    square = torch.randn(600, 600, requires_grad=True)
    (square @ square).exp().sum().backward()
    assert len(list(Path("/proc/self/task").iterdir())) > 1
    wide = sp.Task(
        lambda: nn.Sequential(nn.Linear(FEATURES, 3000), nn.ReLU(), nn.Linear(3000, CLASSES)), sp.losses.cross_entropy
    )  # wide enough for torch to split it over threads, where it has them
    clients = toy_clients((300, 200))
    with WorkersEngine(wide, clients, device=CPU, num_workers=2) as engine:
        ours = trained(engine, clients, fed_avg(batch_size=100), rounds=1)
        assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert ours == trained(SequentialEngine(wide, clients, device=CPU), clients, fed_avg(batch_size=100), rounds=1)


def test_pythons_warning_of_threads_at_a_fork_is_answered(monkeypatch):
    fork = os.fork

    def warning_fork():
        sentence = "This process (pid=1) is multi-threaded, use of fork() may lead to deadlocks in the child."
        warnings.warn(sentence, DeprecationWarning, stacklevel=2)
        return fork()

    monkeypatch.setattr(os, "fork", warning_fork)
    clients = toy_clients()
    with WorkersEngine(toy_task(), clients, device=CPU, num_workers=1) as engine:
        assert len(list(engine.train(work_for(engine, clients)))) == clients.num_clients


class Stumbling(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        if len(x) == 1:
            raise KeyError("alone")
        return self.linear(x)


def test_a_model_that_fails_fails_as_it_does_without_workers(capfd):
    task, clients = sp.Task(Stumbling, sp.losses.cross_entropy), toy_clients((8, 4, 5, 12))
    plain = SequentialEngine(task, clients, device=CPU)
    with pytest.raises(ModelMisfit) as expected:
        plain.run([work_for(plain, clients)])
    with WorkersEngine(task, clients, device=CPU, num_workers=2) as engine:
        with pytest.raises(ModelMisfit) as error:
            engine.run([work_for(engine, clients)])
        assert type(error.value) is type(expected.value)
        assert str(error.value) == str(expected.value)
        good = replace(work_for(engine, clients), cohort=np.array([0, 1, 3]))
        same_results(engine.run([good]), plain.run([good]))
    assert capfd.readouterr() == ("", "")


class Picky(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("by nought"),
        KeyError("key"),
        Picky(1, 2),
        UnknownName("thing", "a", ["b"]),
        OSError(2, "no"),
        EOFError("end"),
    ],
)
def test_other_errors_come_back_as_they_are(error):
    def step(local, gradient_at, facts):
        raise error

    clients = toy_clients()
    program = replace(fed_avg().algorithm().client, step=step)
    engine = WorkersEngine(toy_task(), clients, device=CPU, num_workers=2)
    with pytest.raises(type(error)) as raised:
        engine.run([work_for(engine, clients, program=program)])
    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error)
    notes = getattr(raised.value, "__notes__", [])
    assert [("in step" in note) for note in notes] == ([] if isinstance(error, UnknownName) else [True])
    engine.close()


def test_an_error_of_an_unknown_class_is_told_in_words():
    with pytest.raises(TrainingError, match=r"a client's training raised f\.<locals>\.Odd: it is odd"):
        raise_again(Failed("somewhere", "f.<locals>.Odd", ("it is odd",), "it is odd", "traceback"))


def test_tensors_keep_the_order_they_lie_in():
    """Kernels are chosen by it, and with them how sums round."""
    turned = torch.arange(6.0).reshape(2, 3).T
    last = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    groups = {
        "a": {"turned": turned, "last": last, "none": torch.empty(0, 2)},
        "b": {},
        "c": {"number": torch.tensor(7)},
    }
    layout, size = layout_of(groups, 64)
    memory = torch.zeros(size, dtype=torch.uint8)
    write(groups, memory, layout)
    views = view_of(memory, layout)
    assert {group: list(tensors) for group, tensors in views.items()} == {
        "a": list(groups["a"]),
        "b": [],
        "c": ["number"],
    }
    assert fingerprint(views) == fingerprint(groups)
    for name, tensor in groups["a"].items():
        assert views["a"][name].stride() == tensor.stride(), name
        assert views["a"][name].storage_offset() * tensor.element_size() % 64 == 0


def test_an_engine_that_never_trained_has_no_processes():
    with WorkersEngine(toy_task(), toy_clients(), device=CPU) as engine:
        assert engine._pool is None
        assert engine.num_workers == usable_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("num_workers", [0, -1, 1.5, True])
def test_a_pool_has_at_least_one_worker(num_workers):
    with pytest.raises(InvalidSetting, match=f"num_workers={num_workers}: must be a whole number"):
        WorkersEngine(toy_task(), toy_clients(), device=CPU, num_workers=num_workers)


def test_it_is_refused_where_it_cannot_work(monkeypatch):
    with pytest.raises(InvalidSetting, match=r"device='meta': must be cpu .*engine='lanes'"):
        WorkersEngine(toy_task(), toy_clients(), device=torch.device("meta"))
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(InvalidSetting, match=r"must be able to fork.*engine='sequential'"):
        WorkersEngine(toy_task(), toy_clients(), device=CPU)
