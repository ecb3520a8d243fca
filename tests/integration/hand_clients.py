"""Clients that are driven by hand, step by step: what a real client does, and what a bad one may try."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import numpy as np
from safetensors.torch import load

from stayput.deploy import messages as m
from stayput.deploy.chunks import Manifest, Transfer
from stayput.deploy.claims import sign_claim
from stayput.deploy.client_transport import Address, Connection
from stayput.deploy.demo_fleet import waiting
from stayput.deploy.identity import SigningKey, parse_token
from stayput.deploy.tensor_files import DTYPES, encode_tensors


def address_of(fleet):
    return Address(fleet.url, parse_token(fleet.status_token).fingerprint)


def wait_until_ready(fleet):
    """The coordinator has made its first model and takes changes."""
    for _ in waiting(60, "the coordinator does not get ready"):
        if fleet.status()["ready"]:
            break


@dataclass
class HandClient:
    """A client with a connection of its own and no engine."""

    connection: Connection
    key: SigningKey
    number: int = -1
    offer: m.TaskOffer | None = None
    chunks_sent: list[int] = field(default_factory=list)

    async def enrol(self, token):
        enrolled = await self.connection.ask(
            "POST", "/v1/enrol", m.Enrol(token, self.key.public_bytes.hex()), m.Enrolled
        )
        self.number = enrolled.number

    async def poll(self, *, num_examples=5, may_train=True):
        return await self.connection.ask(
            "POST", "/v1/poll", m.Poll(may_train, 30.0, num_examples), (m.TaskOffer, m.Wait), wait=30.0
        )

    async def task(self, *, num_examples=5, seconds=60):
        """Poll until there is one."""
        async with asyncio.timeout(seconds):
            while not isinstance(answer := await self.poll(num_examples=num_examples), m.TaskOffer):
                assert not answer.finished
                await asyncio.sleep(answer.retry_after_s)
        self.offer = answer
        return answer

    async def model(self):
        """The model that was offered, as tensors by name."""
        parts = [
            await self.connection.send("GET", f"/v1/chunks/{chunk}", limit=self.offer.model.chunk_size)
            for chunk in self.offer.model.chunks
        ]
        return load(b"".join(parts))

    def update(self, seed=0):
        """Bytes of an update that has the right form and made-up numbers."""
        return update_bytes(self.offer.schema, seed)

    def claim(self, content, *, key=None, task_id=None, num_examples=5, num_steps=3, train_loss=0.5):
        manifest = Manifest.of(content)
        task_id = task_id or self.offer.task_id
        claim = sign_claim(
            key or self.key, task_id=task_id, sha256=manifest.sha256, size=manifest.size, num_examples=num_examples,
            num_steps=num_steps, train_loss=train_loss,
        )  # fmt: skip
        return m.OfferUpdate(task_id, manifest, num_examples, num_steps, train_loss, claim.signature.hex())

    async def announce(self, claim):
        return await self.connection.ask("POST", f"/v1/tasks/{claim.task_id}/update", claim, (m.UploadState, m.Receipt))

    async def put(self, claim, index, content):
        size = claim.manifest.chunk_size
        self.chunks_sent.append(index)
        await self.connection.send("PUT", f"/v1/tasks/{claim.task_id}/chunks/{index}", content[index * size :][:size])

    async def finish(self, claim):
        return await self.connection.ask(
            "POST", f"/v1/tasks/{claim.task_id}/finish", m.FinishUpdate(claim.task_id, claim.manifest.sha256), m.Receipt
        )

    async def report(self, content, claim=None):
        """Announce, send what is missing, finish; the receipt."""
        claim = claim or self.claim(content)
        state = await self.announce(claim)
        if isinstance(state, m.Receipt):
            return state
        transfer = Transfer(claim.manifest, state.missing)
        while (index := transfer.next()) is not None:
            await self.put(claim, index, content)
            transfer.arrived(index)
        return await self.finish(claim)


def update_bytes(schema, seed=0, **replaced):
    """An update of a schema with made-up numbers; some tensors replaced by (spec, array), or left out (None)."""
    draw = np.random.default_rng(seed)
    tensors = {spec.name: (spec, draw.standard_normal(spec.shape).astype(DTYPES[spec.dtype]) * 0.01) for spec in schema}
    tensors.update(replaced)
    named = {spec.name: (spec, np.asarray(a)) for spec, a in (item for item in tensors.values() if item is not None)}
    return encode_tensors(named)


@contextlib.asynccontextmanager
async def hand_clients(fleet, numbers, *, address=None):
    """Enrolled clients, each with a connection."""
    await asyncio.to_thread(wait_until_ready, fleet)
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for number in numbers:
            key = SigningKey.generate()
            connection = await stack.enter_async_context(Connection(address or address_of(fleet), key))
            client = HandClient(connection, key)
            await client.enrol(fleet.tokens[number])
            found.append(client)
        yield found
