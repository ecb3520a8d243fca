"""A client: it keeps its data, asks its coordinator for work, trains, and reports; and comes back for ever.

    client = sp.Client(data=..., task=task, url="https://host:8443", token="...", folder="my-client")
    client.run()

It only calls out. Training runs in a thread beside the loop that says every few seconds that the client lives. Whatever
goes wrong between the two (the coordinator is away, the connection is cut, an answer is lost) it comes back in its own
slot of time and goes on: chunks that have come are not sent again, and a report that counted counts once. What only
people can put right ends it: an unknown or revoked key, another protocol, the wrong certificate.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stayput._version import __version__
from stayput.deploy import messages as m
from stayput.deploy.chunks import Manifest, Transfer
from stayput.deploy.claims import sign_claim
from stayput.deploy.client_memory import ClientMemory
from stayput.deploy.client_transport import Address, Connection
from stayput.deploy.identity import SigningKey, parse_token
from stayput.deploy.signed_requests import WINDOW_SECONDS
from stayput.errors import AccessDenied, Away, CertificateMismatch, DeploymentError, ProtocolMismatch, TransferFailed
from stayput.runs.durable_files import write_json
from stayput.runs.spec import CUSTOM

if TYPE_CHECKING:
    from stayput.data.federated_data import Examples
    from stayput.deploy.client_training import LocalTraining, TrainedUpdate
    from stayput.tasks.task import Task

logger = logging.getLogger("stayput.deploy.client")

T = TypeVar("T")
MayTrain = Callable[[], bool | str]
"""Whether the client may train now: True, or False, or why not (on battery, on a metered network)."""

HOLD_SECONDS = 60.0
"""How long a client is willing to wait for an answer to its poll; the coordinator decides how long it is."""
FIRST_RETRY = 1.0
"""Before the coordinator has said when to come back."""


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What a client remembers of its fleet."""

    url: str
    fingerprint: str | None
    name: str
    number: int
    """k."""


class Client:
    """One client of a fleet."""

    def __init__(
        self,
        data: Examples | Callable[[], Examples] | tuple[Any, Any],
        task: Task | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        folder: str | Path = "stayput-client",
        may_train: MayTrain = lambda: True,
        ca_file: str | Path | None = None,
        identity: str | Path | None = None,
        on_event: Callable[[str], None] = lambda event: None,  # noqa: ARG005 - says nothing unless asked to
    ) -> None:
        """`data` is examples, a pair (x, y), or a function that gives them anew before every round it takes part in.

        `task` is what the client is willing to train; None for any named task that its coordinator asks for.
        """
        self._data, self._task, self._may_train, self._on_event = data, task, may_train, on_event
        self._url, self._token, self._folder = url, token, Path(folder)
        self._ca_file = None if ca_file is None else Path(ca_file)
        self._identity = None if identity is None else Path(identity)
        self._reconnect_in = FIRST_RETRY
        self._memory = ClientMemory(self._folder)
        self._training: LocalTraining | None = None
        self._trained_task: str | None = None
        self._examples: Examples | None = None

    def run(self) -> None:
        """Take part until training has ended."""
        asyncio.run(self.take_part())

    async def take_part(self) -> None:
        """`run`, inside a loop of one's own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        key = self._own_key()
        enrolment = self._remembered()
        address = Address(
            self._url or enrolment.url, self._fingerprint(enrolment), self._ca_file, self._identity
        ) if enrolment is not None else Address(
            self._needed_url(), self._fingerprint(None), self._ca_file, self._identity
        )  # fmt: skip
        while True:
            try:
                async with Connection(address, key) as connection:
                    if enrolment is None:
                        enrolment = await self._enrol(connection, key, address)
                    if await self._serve(connection, key):
                        return
            except (AccessDenied, ProtocolMismatch, CertificateMismatch):
                raise
            except DeploymentError as error:
                wait = error.retry_after if isinstance(error, Away) and error.retry_after else self._reconnect_in
                self._on_event(f"away: {error}; back in {wait:.1f} s")
                logger.info("coming back in %.1f s: %s", wait, error)
                await asyncio.sleep(wait)

    async def _serve(self, connection: Connection, key: SigningKey) -> bool:
        """Poll and work until the training has ended."""
        await connection.hello()
        if abs(connection.clock_offset) > WINDOW_SECONDS:
            where = "behind" if connection.clock_offset > 0 else "ahead of"
            self._on_event(
                f"clock: {abs(connection.clock_offset):.0f} s {where} the coordinator's, which is what counts here"
            )
        while True:
            may, why = self._permission()
            examples = self._current_examples()
            poll = m.Poll(
                may, HOLD_SECONDS, len(examples), why, "" if self._task is None else self._task.name, __version__
            )
            answer: m.TaskOffer | m.Wait = await connection.ask(
                "POST", "/v1/poll", poll, (m.TaskOffer, m.Wait), wait=HOLD_SECONDS
            )
            self._reconnect_in = max(answer.reconnect_in_s, 0.05)
            if isinstance(answer, m.TaskOffer):
                await self._work(connection, key, answer)
            elif answer.finished:
                self._on_event("finished")
                return True
            else:
                await asyncio.sleep(answer.retry_after_s)

    async def _work(self, connection: Connection, key: SigningKey, offer: m.TaskOffer) -> None:
        """One task: fetch the model, train, report; saying all the while that this client lives."""
        self._on_event(f"task {offer.task_id}")
        working = asyncio.ensure_future(self._train_and_report(connection, key, offer))
        living = asyncio.ensure_future(self._say_that_it_lives(connection, offer))
        try:
            await asyncio.wait({working, living}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            else:
                self._on_event(f"let go of {offer.task_id}: {living.result()}")
        finally:
            for each in (working, living):
                each.cancel()
            await asyncio.gather(working, living, return_exceptions=True)

    async def _say_that_it_lives(self, connection: Connection, offer: m.TaskOffer) -> str:
        """Heartbeats until the task is not wanted any more, and why."""
        pause = offer.heartbeat_s
        while True:
            await asyncio.sleep(pause)
            target = f"/v1/tasks/{offer.task_id}/heartbeat"
            try:
                lease = await connection.ask("POST", target, m.Heartbeat(offer.task_id), m.Lease)
            except Away:
                continue  # it may be back before the update is ready
            self._reconnect_in, pause = max(lease.reconnect_in_s, 0.05), lease.next_s
            if lease.cancelled:
                return lease.why

    async def _train_and_report(self, connection: Connection, key: SigningKey, offer: m.TaskOffer) -> None:
        try:
            await self._settle_memory(connection, offer.task_id)
            training = await asyncio.to_thread(self._trainer, offer)
            model = await self._fetch(connection, offer.model)
            update = await asyncio.to_thread(training.train, offer, model)
        except (AccessDenied, ProtocolMismatch, CertificateMismatch, Away):
            raise
        except Exception as error:
            logger.exception("task %s failed here", offer.task_id)
            self._on_event(f"failed: {error}")
            reason = f"{type(error).__name__}: {error}"[:1000]
            decline = m.Decline(offer.task_id, reason)
            await connection.ask("POST", f"/v1/tasks/{offer.task_id}/decline", decline, m.Wait)
            await asyncio.sleep(self._reconnect_in)
            return
        receipt = await self._report(connection, key, offer, update)
        self._reconnect_in = max(receipt.reconnect_in_s, 0.05)
        if receipt.accepted:
            self._on_event(f"reported {offer.task_id}")
        else:
            self._on_event(f"not counted: {offer.task_id}: {receipt.reason}")
            await asyncio.sleep(receipt.retry_after_s)

    async def _settle_memory(self, connection: Connection, task: str) -> None:
        """Learn what became of updates before this task that had no receipt: training goes on from their memory."""
        for before, sha256 in self._memory.undecided():
            if before != task:
                finish = m.FinishUpdate(before, sha256)
                receipt = await connection.ask("POST", f"/v1/tasks/{before}/finish", finish, m.Receipt)
                self._memory.decide(before, sha256, counts=receipt.accepted)

    async def _fetch(self, connection: Connection, manifest: Manifest) -> bytes:
        """The model, chunk by chunk, each one held to its hash."""
        manifest.check(max_size=1 << 40)
        parts: dict[int, bytes] = {}
        transfer = Transfer(manifest)
        while (index := transfer.next()) is not None:
            target = f"/v1/chunks/{manifest.chunks[index]}"
            once = partial(connection.send, "GET", target, limit=manifest.length_of(index))
            content = await self._again_while_away(once)
            manifest.check_chunk(index, content)
            parts[index] = content
            transfer.arrived(index)
        return b"".join(parts[index] for index in range(len(manifest.chunks)))

    async def _report(
        self, connection: Connection, key: SigningKey, offer: m.TaskOffer, update: TrainedUpdate
    ) -> m.Receipt:
        """Send the update, as often as it takes for the coordinator to say what became of it."""
        manifest = await asyncio.to_thread(Manifest.of, update.content)
        claim = sign_claim(
            key, task_id=offer.task_id, sha256=manifest.sha256, size=manifest.size, num_examples=update.num_examples,
            num_steps=update.num_steps, train_loss=update.train_loss,
        )  # fmt: skip
        message = m.OfferUpdate(
            offer.task_id, manifest, claim.num_examples, claim.num_steps, claim.train_loss, claim.signature.hex()
        )
        base = f"/v1/tasks/{offer.task_id}"
        if update.memory is not None:
            await asyncio.to_thread(self._memory.prepare, offer.task_id, manifest.sha256, update.memory)

        async def once() -> m.Receipt:
            state: m.UploadState | m.Receipt = await connection.ask(
                "POST", f"{base}/update", message, (m.UploadState, m.Receipt)
            )
            if isinstance(state, m.Receipt):
                return state
            transfer = Transfer(manifest, state.missing)
            view = memoryview(update.content)
            while (index := transfer.next()) is not None:
                start = index * manifest.chunk_size
                chunk = bytes(view[start : start + manifest.length_of(index)])
                await connection.send("PUT", f"{base}/chunks/{index}", chunk)
                transfer.arrived(index)
            finish = m.FinishUpdate(offer.task_id, manifest.sha256)
            return await connection.ask("POST", f"{base}/finish", finish, m.Receipt)

        receipt = await self._again_while_away(once)
        self._memory.decide(offer.task_id, manifest.sha256, counts=receipt.accepted)
        return receipt

    async def _again_while_away(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it until it is done; the heartbeats say when it is not wanted any more."""
        while True:
            try:
                return await work()
            except (Away, TransferFailed) as error:
                wait = error.retry_after if isinstance(error, Away) and error.retry_after else self._reconnect_in
                self._on_event(f"away: {error}; again in {wait:.1f} s")
                await asyncio.sleep(wait)

    # What the client has

    def _permission(self) -> tuple[bool, str]:
        answer = self._may_train()
        return (True, "") if answer is True else (False, answer if isinstance(answer, str) else "not now")

    def _current_examples(self) -> Examples:
        from stayput.data.columns import from_arrays
        from stayput.data.federated_data import Examples

        if callable(self._data):
            data: Any = self._data()
        elif self._examples is not None:
            return self._examples
        else:
            data = self._data
        examples = data if isinstance(data, Examples) else from_arrays(*data)
        if self._examples is None or examples is not self._examples:
            self._examples, self._training = examples, None
        return examples

    def _trainer(self, offer: m.TaskOffer) -> LocalTraining:
        """The engine for a task, kept from round to round while task and examples stay."""
        from stayput.deploy.client_training import LocalTraining
        from stayput.tasks.catalogue import named_task

        if self._task is not None and not is_meant(offer.task, self._task.name):
            raise DeploymentError(f"task={offer.task!r}: this client trains {self._task.name!r} and nothing else")
        if self._training is None or self._trained_task != offer.task:
            task = self._task or named_task(offer.task).task
            self._training = LocalTraining(task, self._current_examples(), self._memory)
            self._trained_task = offer.task
        return self._training

    # Who the client is

    async def _enrol(self, connection: Connection, key: SigningKey, address: Address) -> Enrolment:
        message = m.Enrol(self._token or "", key.public_bytes.hex())
        enrolled = await connection.ask("POST", "/v1/enrol", message, m.Enrolled)
        enrolment = Enrolment(address.url, address.fingerprint, enrolled.name, enrolled.number)
        write_json(
            self._folder / "enrolment.json",
            {
                "url": enrolment.url,
                "fingerprint": enrolment.fingerprint,
                "name": enrolment.name,
                "number": enrolment.number,
            },
        )
        self._on_event(f"enrolled as {enrolled.name}, client {enrolled.number}")
        return enrolment

    def _own_key(self) -> SigningKey:
        path = self._folder / "key.pem"
        if not path.exists():
            SigningKey.generate().save(path)
        return SigningKey.load(path)

    def _remembered(self) -> Enrolment | None:
        path = self._folder / "enrolment.json"
        if not path.is_file():
            if self._token is None:
                raise DeploymentError(
                    f"{self._folder}: is not enrolled (give the token that `stayput token new` printed with --token)"
                )
            return None
        return Enrolment(**json.loads(path.read_text(encoding="utf-8")))

    def _fingerprint(self, enrolment: Enrolment | None) -> str | None:
        if self._ca_file is not None:
            return None
        if self._token is not None:
            return parse_token(self._token).fingerprint
        return None if enrolment is None else enrolment.fingerprint

    def _needed_url(self) -> str:
        if self._url is None:
            raise DeploymentError("url=None: must say where the coordinator is, such as https://host:8443")
        return self._url


def is_meant(asked: str, own: str) -> bool:
    """Whether a coordinator's task is the one that a client was given; one without a name is any task of one's own."""
    _, colon, attribute = asked.rpartition(":")
    return own in (asked, attribute) or (own == CUSTOM and bool(colon))
