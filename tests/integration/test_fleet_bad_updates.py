"""What a bad client may send: all of it is refused, with its reason, and changes no bit of the model."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from hand_clients import hand_clients, update_bytes
from safetensors.torch import load
from toy_fleet import ENVIRONMENT, SETTINGS

from stayput.core.tensors import add_in_own_dtype, fingerprint, unflatten
from stayput.core.weighted_sum import WeightedSum
from stayput.deploy.claims import Claim
from stayput.deploy.database import sqlite_url
from stayput.deploy.demo_fleet import LocalFleet, waiting
from stayput.deploy.membership import Membership
from stayput.deploy.schemas import encode
from stayput.deploy.store import Store
from stayput.deploy.tensor_files import TensorSpec
from stayput.errors import DeploymentError
from stayput.testing import toy_clients

pytestmark = pytest.mark.slow

HONEST = 3
TOY = {"task": "toy", "heartbeat": 1.0, "lease": 60.0}
MORE = "round_deadline = 12.0\ntasks_per_client = 1\nminimum_share = 0.05\nmost_examples = 1000\nmax_norm = 100.0"


def spec(client, name):
    return next(each for each in client.offer.schema if each.name.endswith(name))


def replaced(client, name, dtype, array):
    old = spec(client, name)
    return update_bytes(client.offer.schema, **{old.name: (TensorSpec(old.name, dtype, array.shape), array)})


def filled(client, value):
    array = np.zeros(spec(client, "output.bias").shape, np.float32)
    array[-1] = value
    return replaced(client, "output.bias", "F32", array)


def without(client, name):
    return update_bytes(client.offer.schema, **{spec(client, name).name: None})


def with_one_more(client):
    extra = TensorSpec("weights/more", "F32", (1,))
    return update_bytes(client.offer.schema, more=(extra, np.zeros(1, np.float32)))


CONTENTS = {
    "not finite (NaN)": lambda c: filled(c, np.nan),
    "not finite (infinity)": lambda c: filled(c, np.inf),
    "shape (transposed)": lambda c: replaced(c, "hidden.weight", "F32", np.zeros((4, 5), np.float32)),
    "shape (broadcastable)": lambda c: replaced(c, "output.bias", "F32", np.zeros((1,), np.float32)),
    "shape (one more dimension)": lambda c: replaced(c, "output.bias", "F32", np.zeros((3, 1), np.float32)),
    "dtype (float64)": lambda c: replaced(c, "output.bias", "F64", np.zeros(3)),
    "dtype (integer)": lambda c: replaced(c, "output.bias", "I32", np.zeros(3, np.int32)),
    "names (one missing)": lambda c: without(c, "output.bias"),
    "names (one more)": with_one_more,
    "malformed (not a tensor file)": lambda c: bytes(len(c.update())),
    "malformed (bytes behind)": lambda c: c.update() + b"\0" * 8,
    "norm (too large)": lambda c: filled(c, 1e6),
    "size (huge)": lambda c: bytes(1 << 21),
    "size (tiny)": lambda c: b"x",
}
CLAIMS = {
    "example count (zero)": {"num_examples": 0},
    "example count (negative)": {"num_examples": -5},
    "example count (huge)": {"num_examples": 2**53 - 1},
    "example count (over the bound)": {"num_examples": 1001},
}
OTHERS = ("malformed (NaN for a count)", "signature (altered)", "ownership (another's task)", "ownership (stale round)")
KINDS = (*CONTENTS, *CLAIMS, *OTHERS)


async def misbehave(kind, client, victim):
    """Do the bad thing; the refusal's reason."""
    if kind in CONTENTS:
        receipt = await client.report(CONTENTS[kind](client))
    elif kind in CLAIMS:
        receipt = await client.report(client.update(), client.claim(client.update(), **CLAIMS[kind]))
    elif kind == "signature (altered)":
        receipt = await client.announce(client.claim(client.update(), key=victim.key))
    elif kind.startswith("ownership"):
        task = victim.offer.task_id if "another" in kind else f"r0-c{client.number}-1"
        receipt = await client.announce(client.claim(client.update(), task_id=task))
    else:
        fields = json.loads(encode(client.claim(client.update())))
        text = json.dumps({**fields, "num_examples": float("nan")})
        with pytest.raises(DeploymentError, match="NaN is not a number"):
            await client.connection.send("POST", f"/v1/tasks/{client.offer.task_id}/update", text.encode())
        return "malformed"
    assert not receipt.accepted
    return receipt.reason


def honest_only(model, honest, updates):
    """w + Σ n_k/m_t · u_k over the honest, by the simulator's own sum."""
    total = WeightedSum([client.number for client in honest])
    for client, content in zip(honest, updates, strict=True):
        total.add(client.number, unflatten(load(content)), weight=10 + client.number)
    return fingerprint(add_in_own_dtype(unflatten(model), total.mean()))


async def scenario(fleet):
    number = HONEST + len(KINDS)
    async with hand_clients(fleet, range(number)) as clients:
        await asyncio.gather(*(client.task() for client in clients))
        honest, bad = clients[:HONEST], clients[HONEST:]
        reasons = {kind: await misbehave(kind, client, honest[0]) for kind, client in zip(KINDS, bad, strict=True)}
        updates = [client.update(seed=client.number) for client in honest]
        for client, content in zip(honest, updates, strict=True):
            receipt = await client.report(content, client.claim(content, num_examples=10 + client.number))
            assert receipt.accepted, receipt
        return reasons, honest_only(await honest[0].model(), honest, updates)


def test_every_bad_update_is_refused_and_the_model_is_that_of_the_honest(tmp_path):
    number = HONEST + len(KINDS)
    with LocalFleet(tmp_path / "fleet", ENVIRONMENT) as fleet:
        settings = SETTINGS.format(clients=number, fraction=1.0, rounds=1, port=0, more=MORE, **TOY)
        fleet.prepare(settings, toy_clients((3,) * number))
        fleet.start_coordinator()
        reasons, expected = asyncio.run(scenario(fleet))
        for _ in waiting(40, "the round does not end", pause=0.2):
            status = fleet.status()
            if status["finished"]:
                break
        report = status["history"][-1]["report"]
        assert report["cohort_size"] == HONEST
        assert report["model_sha256"] == expected
        for kind, reason in reasons.items():
            assert kind.partition(" (")[0] in reason, (kind, reason)
        assert sum(entry["count"] for entry in status["dropouts"]) == len(KINDS), "each is a recorded dropout"
        audit(fleet)


def audit(fleet):
    """What each client claimed of an update that counts can be checked later, from what is stored."""
    store = Store(sqlite_url(fleet.folder / "fleet-state" / "fleet.db"))
    keys = {member.number: member.public_bytes for member in Membership(store).members()}
    rows = [row for row in store.task_rows(1) if row["state"] == "reported"]
    store.close()
    assert len(rows) == HONEST
    for row in rows:
        assert Claim.in_row(row).signed_by(keys[row["client"]])
        assert not Claim.in_row({**row, "num_examples": row["num_examples"] + 1}).signed_by(keys[row["client"]])
