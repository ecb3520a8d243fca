"""What clients may ask of a coordinator: enrol, poll, fetch the model, say that they live, report. See `messages.py`.

Must not import torch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from stayput._version import __version__
from stayput.deploy import messages as m
from stayput.deploy import records as r
from stayput.deploy.app import Authority, Handler, read_body, signed_body
from stayput.deploy.claims import Claim
from stayput.deploy.identity import KnownKey, Role, check_token, parse_token
from stayput.deploy.membership import Member, Membership
from stayput.deploy.nonces import NonceMemory
from stayput.deploy.round_in_progress import Task
from stayput.deploy.schemas import OLDEST_PROTOCOL, PROTOCOL, decode, encode, read_record
from stayput.deploy.service import Service, Unavailable
from stayput.deploy.signed_requests import WINDOW_SECONDS, Caller, RequestVerifier
from stayput.deploy.tensor_files import TensorSpec
from stayput.deploy.update_checks import OwnedTask, UpdateRules, UpdateSchema, check_claim
from stayput.deploy.uploads import Uploads, checked
from stayput.errors import AccessDenied, MalformedMessage, TransferFailed, UpdateRefused

ENROL_BYTES = 4 << 10
"""Read from strangers, before it is known who they are."""


class ClientRoutes:
    """The handlers, over one service."""

    def __init__(self, service: Service, membership: Membership, authority: Authority) -> None:
        self._service, self._membership, self._authority = service, membership, authority
        settings = service.settings
        self._members: dict[str, Member] = {}
        self._key_ids: dict[int, str] = {}
        self._verifier = RequestVerifier(
            authority.boot, self._known_key, authority.clock, NonceMemory(WINDOW_SECONDS), WINDOW_SECONDS
        )
        self._rules = UpdateRules(
            settings.least_examples, settings.most_examples, max_norm=settings.max_norm, on_norm=settings.on_norm
        )
        self.uploads = Uploads(service.blobs, settings.upload_slots, silence=settings.lease)
        self._checking = asyncio.Semaphore(settings.checking_slots)
        self._schema: UpdateSchema | None = None
        self.refresh()

    def routes(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler) of each."""
        return [
            ("GET", "/v1/hello", self.hello),
            ("POST", "/v1/enrol", self.enrol),
            ("POST", "/v1/poll", self.poll),
            ("GET", "/v1/chunks/{sha256}", self.chunk),
            ("POST", "/v1/tasks/{task}/heartbeat", self.heartbeat),
            ("POST", "/v1/tasks/{task}/update", self.offer_update),
            ("PUT", "/v1/tasks/{task}/chunks/{index:int}", self.put_chunk),
            ("POST", "/v1/tasks/{task}/finish", self.finish_update),
            ("POST", "/v1/tasks/{task}/decline", self.decline),
        ]

    def refresh(self) -> list[Member]:
        """Look again who belongs to the fleet; those that were revoked since."""
        before = self._members
        self._members = {member.key_id: member for member in self._membership.members() if member.key_id}
        self._key_ids = {member.number: key_id for key_id, member in self._members.items()}
        return [
            member
            for key_id, member in self._members.items()
            if member.revoked_at is not None and (key_id not in before or before[key_id].revoked_at is None)
        ]

    def sweep(self) -> None:
        """Let go of uploads whose tasks are over."""
        machine = self._service.machine
        if machine is not None:
            self.uploads.sweep(
                lambda task: (found := machine.task(task)) is not None and found.state is r.TaskState.OPEN
            )

    # Who calls

    def _known_key(self, key_id: str) -> KnownKey | None:
        member = self._members.get(key_id)
        return None if member is None else member.key

    def _caller(self, request: Request, roles: Sequence[Role] = (Role.CLIENT,)) -> tuple[Caller, Member]:
        caller = self._verifier.verify(request.method, _target(request), request.headers, roles=roles)
        return caller, self._members[caller.key_id]

    # Handlers

    async def hello(self, request: Request) -> Response:  # noqa: ARG002 - anybody may ask
        """Who this is."""
        authority = self._authority
        return _answer(m.Hello(f"stayput/{__version__}", authority.boot, authority.clock(), OLDEST_PROTOCOL, PROTOCOL))

    async def enrol(self, request: Request) -> Response:
        """A client's key, for a token."""
        body = await read_body(request, ENROL_BYTES)
        message = decode(m.Enrol, body)
        public_bytes = bytes.fromhex(message.public_key)
        caller = self._verifier.verify_newcomer("POST", _target(request), request.headers, public_bytes)
        caller.check_body(_digest(body))
        token, now = parse_token(message.token), self._authority.clock()
        found = await asyncio.to_thread(self._membership.token, token.token_id)
        stored, client, _ = found or (None, None, None)
        check_token(token, stored, now)
        if client is None:
            raise AccessDenied("bad-token", "token: reads the status; a client needs one of its own")
        member = await asyncio.to_thread(
            lambda: self._membership.enrol(token.token_id, caller.key_id, public_bytes, now=now)
        )
        self._members[caller.key_id], self._key_ids[member.number] = member, caller.key_id
        await self._service.submit(r.Enrolled(member.number))
        return _answer(m.Enrolled(caller.key_id, member.name, member.number))

    async def poll(self, request: Request) -> Response:
        """Work, or when to come back."""
        caller, member = self._caller(request)
        message = decode(m.Poll, await signed_body(request, caller))
        if message.num_examples != member.num_examples:
            await asyncio.to_thread(self._service.store.remember_examples, member.number, message.num_examples)
            self._members[caller.key_id] = _with_examples(member, message.num_examples)
        event = r.Polled(member.number, message.may_train, message.num_examples)
        answer = await _while_connected(request, self._service.poll(event))
        if answer is None:
            return Response(status_code=400)
        if isinstance(answer, r.Offer):
            return _answer(self._offer(answer))
        return _answer(self._wait(member, answer.seconds, answer.reason, finished=answer.finished))

    async def chunk(self, request: Request) -> Response:
        """A piece of the model; the same for all, so that any cache may keep it."""
        caller, _ = self._caller(request)
        caller.check_body(_digest(b""))
        model, name = self._service.model, request.path_params["sha256"]
        if model is None or name not in model.manifest.chunks:
            raise TransferFailed(f"chunk {name[:64]}: is not of the present model")
        index = model.manifest.chunks.index(name)
        path = self._service.blobs.fetch(f"models/{model.sha256}")
        content = await asyncio.to_thread(
            _piece, path, index * model.manifest.chunk_size, model.manifest.length_of(index)
        )
        return Response(
            content,
            headers={"Cache-Control": "private, max-age=31536000, immutable", "ETag": f'"{name}"'},
            media_type="application/octet-stream",
        )

    async def heartbeat(self, request: Request) -> Response:
        """Whether to go on."""
        caller, member = self._caller(request)
        message = decode(m.Heartbeat, await signed_body(request, caller))
        task = _same_task(request, message.task_id)
        actions = await self._service.submit(r.HeardFrom(member.number, task))
        (renewal,) = (a for a in actions if isinstance(a, r.Renew) and a.client == member.number)
        settings = self._service.settings
        return _answer(
            m.Lease(task, not renewal.wanted, settings.heartbeat, renewal.why, self._reconnect_in(member.number))
        )

    async def offer_update(self, request: Request) -> Response:
        """What of an update is to be sent; it is refused here where that can be known."""
        caller, member = self._caller(request)
        message = decode(m.OfferUpdate, await signed_body(request, caller))
        task = _same_task(request, message.task_id)
        claim = Claim.in_message(message)
        schema = self._update_schema()
        try:
            check_claim(claim, caller.public_bytes, self._owned(task), schema, self._rules)
            message.manifest.check(max_size=schema.max_bytes)
        except (UpdateRefused, MalformedMessage) as error:
            return await self._refused(member, task, error, claim)
        upload = await asyncio.to_thread(self.uploads.open, claim, message.manifest)
        return _answer(m.UploadState(task, upload.partial.missing))

    async def put_chunk(self, request: Request) -> Response:
        """A piece of an update."""
        caller, member = self._caller(request)
        task, index = request.path_params["task"], request.path_params["index"]
        owner = self._owned(task)
        upload = self.uploads.find(task)
        if owner is None or owner.key_id != caller.key_id or upload is None:
            raise TransferFailed(f"task {task[:64]}: has no upload of yours under way (offer the update first)")
        if not 0 <= index < len(upload.manifest.chunks):
            raise TransferFailed(f"chunk {index}: must be in [0, {len(upload.manifest.chunks) - 1}]")
        body = await signed_body(request, caller, upload.manifest.length_of(index))
        await asyncio.to_thread(upload.partial.put, index, body)
        await self._service.submit(r.HeardFrom(member.number, task))
        return Response(status_code=204)

    async def finish_update(self, request: Request) -> Response:
        """The update counts, or why not. The answer leaves when that is durable."""
        caller, member = self._caller(request)
        message = decode(m.FinishUpdate, await signed_body(request, caller))
        task = _same_task(request, message.task_id)
        upload = self.uploads.find(task)
        owner = self._owned(task)
        if owner is None or owner.key_id != caller.key_id:
            given_up = r.TaskGivenUp(member.number, task, "its round is over")
            return await self._receipt(member, given_up, message.sha256)
        if upload is None or not owner.open:
            return await self._without_upload(member, task, message.sha256)
        if upload.claim.sha256 != message.sha256 or upload.partial.missing:
            raise TransferFailed(f"update {message.sha256}: chunks of it are missing (offer it again)")
        await asyncio.to_thread(self.uploads.finish, task)
        try:
            async with self._checking:
                update = await asyncio.to_thread(
                    checked, self._service.blobs, upload.claim, caller.public_bytes, owner,
                    self._update_schema(), self._rules,
                )  # fmt: skip
        except UpdateRefused as error:
            await asyncio.to_thread(self._service.blobs.remove, f"updates/{task}")
            return await self._refused(member, task, error, upload.claim)
        return await self._receipt(member, r.UpdateChecked(member.number, task, update), update.sha256)

    async def decline(self, request: Request) -> Response:
        """A client gives a task up."""
        caller, member = self._caller(request)
        message = decode(m.Decline, await signed_body(request, caller))
        task = _same_task(request, message.task_id)
        owner = self._owned(task)
        if owner is not None and owner.key_id == caller.key_id:
            self.uploads.discard(task)
            await self._service.submit(r.TaskGivenUp(member.number, task, f"declined: {message.reason[:200]}"))
        return _answer(self._wait(member, 0.0, "declined"))

    # What answers are made of

    def _offer(self, offer: r.Offer) -> m.TaskOffer:
        service, machine, model = self._service, self._service.machine, self._service.model
        if machine is None or machine.round is None or model is None:
            raise Unavailable("the coordinator cannot give tasks now")
        spec: dict[str, Any] = service.plan["spec"]
        deadline = machine.deadline()
        left = service.settings.round_deadline if deadline is None else deadline - service.monotonic()
        schema = self._update_schema()
        return m.TaskOffer(
            task_id=offer.task,
            round_number=machine.round.number,
            client=offer.client,
            seed=int(spec["seed"]),
            task=service.plan.get("task") or spec["task"],
            algorithm=spec["algorithm"],
            model=model.manifest,
            schema=tuple(schema.tensors.values()),
            max_upload_bytes=schema.max_bytes,
            deadline_s=max(left, 0.0),
            heartbeat_s=service.settings.heartbeat,
            reconnect_in_s=self._reconnect_in(offer.client),
            threads=spec["threads"],
        )

    def _wait(self, member: Member, seconds: float, reason: str, *, finished: bool = False) -> m.Wait:
        return m.Wait(seconds, self._reconnect_in(member.number), reason, finished)

    def _reconnect_in(self, client: int) -> float:
        machine = self._service.machine
        return self._service.settings.hold if machine is None else machine.reconnect_in(client)

    def _update_schema(self) -> UpdateSchema:
        if self._schema is None:
            if not self._service.schema:
                raise Unavailable("the first model is being made")
            specs = [read_record(TensorSpec, dict(entry), "schema") for entry in self._service.schema]
            self._schema = UpdateSchema.of(specs)
        return self._schema

    def _task(self, task: r.TaskId) -> Task | None:
        machine = self._service.machine
        if machine is None:
            raise Unavailable(f"the coordinator cannot take changes now: {self._service.trouble}")
        return machine.task(task)

    def _owned(self, task: r.TaskId) -> OwnedTask | None:
        found = self._task(task)
        if found is None:
            return None
        return OwnedTask(task, self._key_ids.get(found.client, ""), found.state is r.TaskState.OPEN)

    async def _refused(self, member: Member, task: r.TaskId, error: Exception, claim: Claim) -> Response:
        found = self._task(task)
        if found is not None and found.client == member.number and found.state is not r.TaskState.OPEN:
            return await self._without_upload(member, task, claim.sha256)
        reason = f"{error.reason}: {error}" if isinstance(error, UpdateRefused) else f"malformed: {error}"
        self.uploads.discard(task) if found is not None and found.client == member.number else None
        given_up = r.TaskGivenUp(member.number, task, f"refused: {reason[:300]}")
        return await self._receipt(member, given_up, claim.sha256)

    async def _without_upload(self, member: Member, task: r.TaskId, sha256: str) -> Response:
        """A report that comes again: the machine knows what became of the first."""
        found = self._task(task)
        if found is not None and found.state is r.TaskState.OPEN:
            raise TransferFailed(f"task {task}: has no upload under way (offer the update first)")
        checked_before = r.UpdateChecked(member.number, task, r.Update(sha256, 0, 0, 0.0))
        return await self._receipt(member, checked_before, sha256)

    async def _receipt(self, member: Member, event: r.UpdateChecked | r.TaskGivenUp, sha256: str) -> Response:
        """What became of an update; of one whose round is over, as the store has it."""
        task, number = event.task, member.number
        actions = await self._service.submit(event)
        (receipt,) = (a for a in actions if isinstance(a, r.Receipt) and a.client == number)
        accepted, reason = receipt.accepted, receipt.reason
        if (
            not accepted
            and self._task(task) is None
            and await asyncio.to_thread(self._service.store.counts, task, number, sha256)
        ):
            accepted, reason = True, ""
        return _answer(m.Receipt(task, accepted, reason, 0.0, self._reconnect_in(number)))


def _answer(message: Any) -> Response:  # noqa: ANN401 - any message
    return Response(encode(message), media_type="application/json")


def _target(request: Request) -> str:
    raw = request.scope["raw_path"].decode("ascii", "replace")
    query = request.scope["query_string"].decode("ascii", "replace")
    return f"{raw}?{query}" if query else raw


def _same_task(request: Request, task: r.TaskId) -> r.TaskId:
    if request.path_params["task"] != task:
        raise MalformedMessage(f"task_id={task}: must be that of the path")
    return task


def _digest(body: bytes) -> str:
    from hashlib import sha256

    return sha256(body).hexdigest()


def _piece(path: Any, start: int, length: int) -> bytes:  # noqa: ANN401 - a Path
    with path.open("rb") as file:
        file.seek(start)
        content: bytes = file.read(length)
    return content


def _with_examples(member: Member, num_examples: int) -> Member:
    import dataclasses

    return dataclasses.replace(member, num_examples=num_examples)


async def _while_connected(request: Request, work: Any) -> Any:  # noqa: ANN401 - a coroutine and its result
    """The result of work, or None where the client hung up before; then the work is cancelled."""
    working = asyncio.ensure_future(work)
    hearing = asyncio.ensure_future(request.receive())  # the body was read; what comes next is a disconnect
    try:
        await asyncio.wait({working, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        working.cancel()
        return None
    finally:
        hearing.cancel()
        if not working.done():
            working.cancel()
