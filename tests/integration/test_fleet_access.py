"""Who may do what: every address of a coordinator against every kind of credential, over real sockets and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time

import aiohttp
import pytest
from hand_clients import address_of, hand_clients
from toy_fleet import ready, toy_fleet

from stayput.deploy import messages as m
from stayput.deploy.client_transport import Connection, connector_to
from stayput.deploy.fleet_file import read_fleet_file
from stayput.deploy.identity import SigningKey
from stayput.deploy.membership import Membership, new_client_token
from stayput.deploy.schemas import encode
from stayput.deploy.serving import Coordinating
from stayput.deploy.signed_requests import new_boot, sign_request
from stayput.errors import AccessDenied, DeploymentError, TransferFailed

pytestmark = pytest.mark.slow

OPEN, TOKEN, NEWCOMER, SIGNED = "open", "status token", "newcomer", "signed"
PAGE = (
    "board.css", "charts.js", "coordinator.js", "stream.js", "theme.css", "uplot.min.css", "uplot.min.js", "words.js",
)  # fmt: skip
"""The files of the coordinator's page, which know nothing of the fleet until they are given a token."""
MATRIX = {
    ("GET", "/"): OPEN,
    **{("GET", f"/assets/{name}"): OPEN for name in PAGE},
    ("GET", "/v1/hello"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/metrics"): OPEN,
    ("GET", "/v1/status"): TOKEN,
    ("POST", "/v1/enrol"): NEWCOMER,
    ("POST", "/v1/poll"): SIGNED,
    ("GET", "/v1/chunks/{sha256}"): SIGNED,
    ("POST", "/v1/tasks/{task}/heartbeat"): SIGNED,
    ("POST", "/v1/tasks/{task}/update"): SIGNED,
    ("PUT", "/v1/tasks/{task}/chunks/{index:int}"): SIGNED,
    ("POST", "/v1/tasks/{task}/finish"): SIGNED,
    ("POST", "/v1/tasks/{task}/decline"): SIGNED,
}
"""Every address, and who may use it."""


@pytest.fixture
def fleet(tmp_path):
    with toy_fleet(tmp_path / "fleet", 4, rounds=2, more="start_with = 2") as running:
        running.start_coordinator()
        ready(running)
        yield running


def test_no_address_is_missing_from_the_matrix(tmp_path):
    with toy_fleet(tmp_path / "fleet", 1, rounds=1) as prepared:
        state = read_fleet_file(prepared.file).state
        app = Coordinating(state, state.open_store()).app
    found = {(method, route.path) for route in app.routes for method in route.methods - {"HEAD"}}
    assert found == set(MATRIX), "a new address needs a line in the matrix, and so a decision who may use it"


class Caller:
    """Requests that are made by hand, byte for byte."""

    def __init__(self, fleet, session, boot):
        self.fleet, self.session, self.boot = fleet, session, boot

    async def send(self, method, target, body, headers):
        async with self.session.request(
            method, self.fleet.url + target, data=body or None, headers=headers, timeout=aiohttp.ClientTimeout(20)
        ) as answer:
            content = await answer.read()
            return answer.status, json.loads(content).get("code") if content else None

    def signed(self, key, method, target, body, **changes):
        digest = hashlib.sha256(body).hexdigest()
        return sign_request(key, method, target, digest, **{"boot": self.boot, "now": self.now(), **changes})

    def now(self):
        return time.time()


def bad_credentials(caller, method, target, body, good, revoked):
    """(what is wrong, headers, body, the code that must come back)."""
    sign = caller.signed
    stranger = SigningKey.generate()
    yield "none", {}, body, "no-credentials"
    yield "a status token", {"authorization": f"Bearer {caller.fleet.status_token}"}, body, "no-credentials"
    yield "unknown key", sign(stranger, method, target, body), body, "unknown-key"
    yield "revoked key", sign(revoked.key, method, target, body), body, "revoked-key"
    yield (
        "another's id",
        {**sign(stranger, method, target, body), "stayput-key": good.key.key_id},
        body,
        "bad-signature",
    )
    yield "another method", sign(good.key, "PATCH", target, body), body, "bad-signature"
    yield "another path", sign(good.key, method, target + "x", body), body, "bad-signature"
    yield "another query", sign(good.key, method, target + "?a=b", body), body, "bad-signature"
    yield "an old time", sign(good.key, method, target, body, now=caller.now() - 3600), body, "clock-skew"
    yield "a time to come", sign(good.key, method, target, body, now=caller.now() + 3600), body, "clock-skew"
    yield "another process", sign(good.key, method, target, body, boot=new_boot()), body, "stale-boot"
    altered = sign(good.key, method, target, body)
    yield "altered time", {**altered, "stayput-time": str(int(altered["stayput-time"]) + 1)}, body, "bad-signature"
    if body:
        yield "altered body", sign(good.key, method, target, body), body[:-1] + b" ", "altered-body"


def targets(task, content):
    """The body of a good request to each address that wants a signature, for a client with this task and update."""
    nobodys = "r9-c9-9"  # a good request to decline would end the task that the others are about
    return {
        "/v1/poll": encode(m.Poll(may_train=True, wait_s=0.0, num_examples=5)),
        "/v1/chunks/" + "0" * 64: b"",
        f"/v1/tasks/{task}/heartbeat": encode(m.Heartbeat(task)),
        f"/v1/tasks/{task}/update": encode(m.Heartbeat(task)),
        f"/v1/tasks/{task}/chunks/0": content,
        f"/v1/tasks/{task}/finish": encode(m.FinishUpdate(task, "0" * 64)),
        f"/v1/tasks/{nobodys}/decline": encode(m.Decline(nobodys, "no")),
    }


def signed_requests(task, content):
    """(method, target, body), one for each address that wants a signature."""
    methods = {}
    for (method, path), who in MATRIX.items():
        if who == SIGNED:
            methods[path.rpartition("/")[2] if "chunks" not in path else path.partition("/chunks")[0]] = method
    for target, body in targets(task, content).items():
        last = "/v1" if target.startswith("/v1/chunks") else "/v1/tasks/{task}"
        yield methods[target.rpartition("/")[2] if "chunks" not in target else last], target, body


async def revoke(fleet, client):
    """What `stayput clients revoke` does; the coordinator looks twice a second."""
    membership = Membership(read_fleet_file(fleet.file).state.open_store())
    membership.revoke(f"client-{client.number}", now=time.time())
    async with asyncio.timeout(10):
        with contextlib.suppress(AccessDenied):
            while True:
                await client.poll(may_train=False)


async def try_everything(fleet, good, revoked, content):
    """Every address with every bad credential, then a good one, then that one again; how many were tried."""
    tried = 0
    async with aiohttp.ClientSession(connector=connector_to(address_of(fleet))) as session:
        caller = Caller(fleet, session, (await good.connection.hello()).boot)
        requests = list(signed_requests(good.offer.task_id, content))
        assert len(requests) == list(MATRIX.values()).count(SIGNED)
        for method, target, body in requests:
            for what, headers, sent, code in bad_credentials(caller, method, target, body, good, revoked):
                status, got = await caller.send(method, target, sent, headers)
                assert status in {401, 403}, (method, target, what, status, got)
                assert got == code, (method, target, what)
                tried += 1
            headers = caller.signed(good.key, method, target, body)
            first, got = await caller.send(method, target, body, headers)
            assert first not in {401, 403}, (target, first, got)
            assert await caller.send(method, target, body, headers) == (401, "replayed-nonce"), target
            tried += 1
    return tried


async def act_on_anothers_task(other, victim, content):
    """An enrolled client, with good signatures, about a task that is not its own."""
    task = victim.offer.task_id
    lease = await other.connection.ask("POST", f"/v1/tasks/{task}/heartbeat", m.Heartbeat(task), m.Lease)
    assert lease.cancelled
    claim = other.claim(content, task_id=task)
    receipt = await other.announce(claim)
    assert not receipt.accepted
    with pytest.raises(TransferFailed, match="no upload of yours"):
        await other.put(claim, 0, content)
    with contextlib.suppress(DeploymentError):
        assert not (await other.finish(claim)).accepted
    await other.connection.ask("POST", f"/v1/tasks/{task}/decline", m.Decline(task, "mischief"), m.Wait)


async def scenario(fleet):
    async with hand_clients(fleet, (0, 1, 2)) as (good, other, revoked):
        await revoke(fleet, revoked)
        await asyncio.gather(good.task(), other.task())
        content = good.update()
        claim = good.claim(content)
        await good.announce(claim)
        tried = await try_everything(fleet, good, revoked, content)
        await act_on_anothers_task(other, good, content)
        receipt = await good.report(content, claim)
        assert receipt.accepted, f"the task is still its owner's: {receipt}"
        return tried


def test_only_the_authorised_act(fleet):
    assert asyncio.run(scenario(fleet)) == 7 * 14 - 1  # a model's chunk has no body that could be altered


async def enrolments(fleet):
    """Tokens that do not let in, each with a key of its own, and the code that comes back."""
    address = address_of(fleet)
    good = fleet.tokens[3]
    broken = good[:25] + ("A" if good[25] != "A" else "B") + good[26:]
    state = read_fleet_file(fleet.file).state
    expired, _ = new_client_token(state, "too-late", expires_at=time.time() - 1)
    first = SigningKey.generate()
    async with Connection(address, first) as connection:
        await connection.ask("POST", "/v1/enrol", m.Enrol(fleet.tokens[0], first.public_bytes.hex()), m.Enrolled)
    attempts = {
        "stayput": "bad-token",
        broken: "bad-token",
        expired: "expired-token",
        fleet.status_token: "bad-token",
        fleet.tokens[0]: "used-token",
    }
    for token, code in attempts.items():
        key = SigningKey.generate()
        async with Connection(address, key) as connection:
            with pytest.raises(AccessDenied) as refusal:
                await connection.ask("POST", "/v1/enrol", m.Enrol(token, key.public_bytes.hex()), m.Enrolled)
            assert refusal.value.code == code
            with pytest.raises(AccessDenied):
                await connection.ask("POST", "/v1/poll", m.Poll(may_train=True, wait_s=0.0), m.Wait)
            # Another's key in the body: the request would have to be signed with it.
            body = m.Enrol(good, SigningKey.generate().public_bytes.hex())
            with pytest.raises(AccessDenied) as refusal:
                await connection.ask("POST", "/v1/enrol", body, m.Enrolled)
            assert refusal.value.code == "bad-signature"


def test_only_an_unused_token_lets_in_and_only_its_own_key(fleet):
    asyncio.run(enrolments(fleet))


async def looks(fleet):
    headers = [{}, {"authorization": "Bearer x"}, {"authorization": f"Basic {fleet.status_token}"}]
    headers += [{"authorization": f"Bearer {fleet.tokens[3]}"}]
    async with aiohttp.ClientSession(connector=connector_to(address_of(fleet))) as session:
        for each in headers:
            async with session.get(fleet.url + "/v1/status", headers=each) as answer:
                assert answer.status in {401, 403}, each
        for (method, path), who in MATRIX.items():
            if who == OPEN:
                async with session.request(method, fleet.url + path) as answer:
                    text = await answer.text()
                    assert answer.status == 200
                    assert not any(f"client-{number}" in text for number in range(4)), "open addresses name nobody"


def test_the_status_is_for_who_may_read_it_and_what_is_open_names_nobody(fleet):
    asyncio.run(looks(fleet))
