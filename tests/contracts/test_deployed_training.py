"""What a client computes and what a coordinator sums: the simulator's model, to the last bit, for every algorithm."""

from __future__ import annotations

import dataclasses
import shutil

import pytest
import torch

import stayput as sp
from stayput.algorithms import ALGORITHMS
from stayput.core.cohort import choose_cohort
from stayput.core.named_settings import to_plain
from stayput.core.tensors import fingerprint
from stayput.data.federated_data import Examples
from stayput.deploy import wire_tensors
from stayput.deploy.blobs import Blobs
from stayput.deploy.chunks import Manifest
from stayput.deploy.client_memory import ClientMemory
from stayput.deploy.client_training import LocalTraining
from stayput.deploy.messages import TaskOffer
from stayput.deploy.round_sums import RoundSums
from stayput.deploy.tensor_files import TensorFile
from stayput.runs.spec import RunSpec
from stayput.testing import toy_clients, toy_task

TOY = toy_task()
ROUNDS = 3
FEDERATED = [name for name, cls in ALGORITHMS.items() if not cls().algorithm().pools_clients]


def spec_of(settings, rounds):
    return RunSpec("custom", {"name": "custom"}, to_plain(settings), rounds=rounds, seed=5)


def settings_of(name):
    cls = ALGORITHMS[name]
    fields = {field.name for field in dataclasses.fields(cls)}
    return cls(**{key: value for key, value in (("client_fraction", 0.7), ("local_epochs", 2)) if key in fields})


@pytest.fixture
def deployed(tmp_path, monkeypatch):
    """Train as a fleet does, without the network between: (settings, rounds) -> the last report."""
    clients = toy_clients()
    monkeypatch.setattr("stayput.deploy.round_sums.task_called", lambda name: TOY)

    def train(settings, rounds=ROUNDS):
        torch.set_num_threads(1)
        blobs = Blobs(tmp_path / "blobs")
        spec = spec_of(settings, rounds)
        plan = {"spec": spec.to_json(), "task": None, "evaluate": False}
        schema, result = RoundSums(plan, blobs).begin()
        own = {k: own_examples(clients, k) for k in range(clients.num_clients)}
        for number in range(1, rounds + 1):
            fraction = settings.algorithm().client_fraction
            updates = []
            for k in choose_cohort(clients.num_clients, fraction, seed=5, round_number=number).tolist():
                (tmp_path / f"client-{k}").mkdir(exist_ok=True)
                model = blobs.fetch(f"models/{result['sent_sha256']}").read_bytes()
                offer = TaskOffer(
                    f"r{number}-c{k}-1", number, k, 5, "toy", spec.algorithm, Manifest.of(model), schema, 1, 1.0, 1.0
                )
                memory = ClientMemory(tmp_path / f"client-{k}")
                update = LocalTraining(TOY, own[k], memory).train(offer, model)
                found = TensorFile(update.content).specs
                assert found == {entry.name: entry for entry in schema}, "an update is as its schema says"
                sha256 = Manifest.of(update.content).sha256
                if update.memory is not None:
                    memory.prepare(offer.task_id, sha256, update.memory)
                memory.decide(offer.task_id, sha256, counts=True)
                blobs.place(f"updates/{offer.task_id}/{sha256}").write_bytes(update.content)
                updates.append(
                    {
                        "client": k, "task": offer.task_id, "sha256": sha256, "scale": 1.0,
                        "num_examples": update.num_examples, "num_steps": update.num_steps,
                        "train_loss": update.train_loss,
                    }
                )  # fmt: skip
            # A coordinator that was started again: it knows what is stored and nothing else.
            result = RoundSums(plan, blobs).close(number, result["state_sha256"], updates, clients.num_examples)
        return result

    yield train
    shutil.rmtree(tmp_path, ignore_errors=True)


def own_examples(clients, k):
    rows = clients.rows(k)
    return Examples(clients.examples.inputs[rows], clients.examples.targets[rows])


@pytest.mark.parametrize("name", FEDERATED)
def test_a_deployed_model_is_the_simulated_one(deployed, name):
    settings = settings_of(name)
    rounds = settings.algorithm().only_rounds or ROUNDS
    run = sp.train(TOY, toy_clients(), settings, rounds=rounds, seed=5)
    assert deployed(settings, rounds)["report"]["model_sha256"] == run.model_sha256
    assert not deployed(settings, rounds)["report"]["evaluation"]


def test_the_last_round_is_the_last(deployed):
    assert deployed(sp.FedAvg(), 2)["finished"]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
def test_tensors_travel_as_they_are(dtype):
    tensor = (torch.arange(24).reshape(2, 3, 4) % 2).to(dtype)
    groups = {"weights": {"a": tensor, "b.c": tensor[1].t()}, "buffers": {"n": tensor[0, 0, 1]}}
    assert fingerprint(wire_tensors.from_bytes(wire_tensors.to_bytes(groups))) == fingerprint(groups)
