"""Drives the coordinator: events from requests and timers in, changes into the store, answers out.

One task takes all events that are waiting, lets the machine handle them one after another, and stores the changes of
all of them in one transaction; only then does anybody get an answer. So a burst of a hundred reports costs one flush of
the disk, and what was answered is durable. If the store refuses, the machine is thrown away, everybody is told to come
back, and it is loaded again when the store takes changes again. Must not import torch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stayput.deploy import records as r
from stayput.deploy.blobs import Blobs
from stayput.deploy.chunks import Manifest
from stayput.deploy.closer_process import CloserFailed, CloserProcess
from stayput.deploy.coordinator import Coordinator
from stayput.deploy.fleet_settings import FleetSettings
from stayput.deploy.leadership import Leadership
from stayput.deploy.store import Conflict, Store
from stayput.errors import DeploymentError, StoreFailed

logger = logging.getLogger("stayput.deploy")

RETRY_SECONDS = 0.5
"""Between two attempts to load from a store that fails."""


class Unavailable(DeploymentError):
    """The coordinator cannot take changes now; the client is to come back."""


@dataclass(frozen=True, slots=True)
class Model:
    """What the clients of the open round are sent."""

    sha256: str
    manifest: Manifest


@dataclass(slots=True)
class Waiting:
    """An event on its way through the machine, and who waits for its answer."""

    event: r.Event
    answer: asyncio.Future[tuple[r.Action, ...]]


class Service:
    """One coordinator process's part of a fleet."""

    def __init__(
        self,
        settings: FleetSettings,
        store: Store,
        blobs: Blobs,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.store, self.blobs = settings, store, blobs
        self.machine: Coordinator | None = None
        self.model: Model | None = None
        self.schema: list[dict[str, Any]] = []
        self.plan: Mapping[str, Any] = {}
        self.trouble: str | None = "starting"
        """Why no changes can be taken, if that is so."""
        self.failure: str | None = None
        """Why training cannot go on, if that is so."""
        self.monotonic, self._leadership = monotonic, Leadership(store.engine)
        self.on_change: Callable[[r.Change], None] = lambda change: None  # noqa: ARG005 - nobody counts yet
        self._version = 0
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self._polls: dict[int, asyncio.Future[r.Offer | r.Rest]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closer: CloserProcess | None = None
        self._client_fraction = 0.0

    async def start(self) -> None:
        """Load the fleet, make the first model if there is none, and begin to take events."""
        head = await self._stored(self.store.head)
        self.plan = head["plan"]
        self._client_fraction = float(self.plan["spec"]["algorithm"].get("client_fraction", 1.0))
        self._closer = CloserProcess(self.plan, self.blobs.folder, self.settings.blobs)
        self._spawn(self._run())

    async def stop(self) -> None:
        """Stop taking events; nothing is lost by it."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._closer is not None:
            await self._closer.stop()
        self._leadership.release()

    async def submit(self, event: r.Event) -> tuple[r.Action, ...]:
        """What the machine says to an event, once that is durable."""
        if self.machine is None:
            raise Unavailable(f"the coordinator cannot take changes now: {self.trouble}")
        waiting = Waiting(event, asyncio.get_running_loop().create_future())
        self._queue.put_nowait(waiting)
        return await waiting.answer

    async def poll(self, event: r.Polled) -> r.Offer | r.Rest:
        """A task for a client, or that it should come back later; held while there is nothing to do."""
        held: asyncio.Future[r.Offer | r.Rest] = asyncio.get_running_loop().create_future()
        before = self._polls.pop(event.client, None)
        if before is not None and not before.done():  # the client has a new connection; nobody reads the old one
            before.set_result(r.Rest(event.client, 0.0, "another poll came"))
        self._polls[event.client] = held
        try:
            await self.submit(event)
            return await held
        except asyncio.CancelledError:
            if self._polls.get(event.client) is held:
                del self._polls[event.client]
                with contextlib.suppress(Unavailable):
                    self._spawn(self._hang_up(event.client))
            raise
        finally:
            if self._polls.get(event.client) is held:
                del self._polls[event.client]

    async def _hang_up(self, client: int) -> None:
        with contextlib.suppress(Unavailable):
            await self.submit(r.HungUp(client))

    # The loop

    async def _run(self) -> None:
        while True:
            if self.machine is None and not await self._load():
                await asyncio.sleep(RETRY_SECONDS)
                continue
            batch = await self._next_batch()
            try:
                await self._handle(batch)
            except Exception as error:  # a bug: what is in memory cannot be trusted, what is stored can
                logger.exception("a bug in the coordinator")
                self._give_up(StoreFailed(f"{type(error).__name__}: {error}"), batch)

    async def _next_batch(self) -> list[Waiting]:
        """All events that are waiting; a tick when something is due first."""
        assert self.machine is not None  # noqa: S101 - the loop loads it
        due = self.machine.next_time_out()
        patience = None if due is None else max(due - self.monotonic(), 0.0)
        batch = []
        if self._queue.empty():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    batch.append(await self._queue.get())
        while not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch or [Waiting(r.Tick(), asyncio.get_running_loop().create_future())]

    async def _handle(self, batch: list[Waiting]) -> None:
        if self.machine is None:
            for waiting in batch:
                _fail(waiting, self.trouble)
            return
        now = self.monotonic()
        handled = [(waiting, self.machine.handle(waiting.event, now)) for waiting in batch]
        changes = [
            change for _, actions in handled for a in actions if isinstance(a, r.Changes) for change in a.changes
        ]
        if changes:
            try:
                self._version = await self._stored(self._apply, changes)
            except StoreFailed as error:
                self._give_up(error, [waiting for waiting, _ in handled])
                return
            for change in changes:
                logger.info("%s", change, extra={"change": change})
                self.on_change(change)
            if any(isinstance(change, r.RoundClosed) for change in changes):
                await self._take_model()
        for waiting, actions in handled:
            if not waiting.answer.done():
                waiting.answer.set_result(actions)
            for action in actions:
                self._carry_out(action)

    def _apply(self, changes: list[r.Change]) -> int:
        return self.store.apply(changes, version=self._version)

    def _carry_out(self, action: r.Action) -> None:
        if isinstance(action, r.Offer | r.Rest):
            held = self._polls.pop(action.client, None)
            if held is not None and not held.done():
                held.set_result(action)
        elif isinstance(action, r.SumRound):
            self._spawn(self._sum(action))

    def _give_up(self, error: StoreFailed, waiting: list[Waiting]) -> None:
        """The store has not taken a change: what is in memory is wrong from here on."""
        self.machine, self.trouble = None, str(error)
        if not isinstance(error, Conflict):
            logger.error("no changes can be taken: %s", error)
        while not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        for each in waiting:
            _fail(each, self.trouble)
        for held in self._polls.values():
            if not held.done():
                held.set_exception(Unavailable(f"the coordinator cannot take changes now: {self.trouble}"))
        self._polls.clear()

    # Loading and summing

    async def _load(self) -> bool:
        """The machine as the store has it; False where the store does not answer or nothing can be learned."""
        try:
            if self.failure is not None:
                self.trouble = f"training has failed: {self.failure}"
                return False
            if not await self._stored(self._leadership.acquire):
                self.trouble = "another coordinator leads"
                return False
            if (await self._stored(self.store.head))["state_sha256"] is None:
                await self._begin()
            snapshot, self._version = await self._stored(self.store.snapshot)
            await self._take_model()
        except StoreFailed as error:
            self.trouble = str(error)
            return False
        except CloserFailed as error:
            self.failure = str(error)
            logger.critical("training cannot begin: %s", error)
            return False
        self.machine = Coordinator(
            self.settings,
            seed=int(self.plan["spec"]["seed"]),
            client_fraction=self._client_fraction,
            snapshot=snapshot,
            now=self.monotonic(),
        )
        self.trouble = None
        self._queue.put_nowait(Waiting(r.Tick(), asyncio.get_running_loop().create_future()))
        return True

    async def _begin(self) -> None:
        assert self._closer is not None  # noqa: S101 - start() made it
        answer = await self._closer.order({"do": "begin"})
        await self._stored(self.store.begin, answer["schema"], r.RoundResult(**answer["result"]))

    async def _take_model(self) -> None:
        head = await self._stored(self.store.head)
        self.schema = head["schema"]
        self.failure = head["failure"]
        if self.model is None or self.model.sha256 != head["sent_sha256"]:
            path = self.blobs.fetch(f"models/{head['sent_sha256']}")
            self.model = Model(head["sent_sha256"], await asyncio.to_thread(Manifest.of_file, path))

    async def _sum(self, order: r.SumRound) -> None:
        assert self._closer is not None  # noqa: S101 - start() made it
        assert self.machine is not None  # noqa: S101 - it gave the order
        number = order.round_number
        tasks = {
            task.client: task.task for task in (self.machine.round.reported.values() if self.machine.round else ())
        }
        head = await self._stored(self.store.head)
        updates = [
            {
                "client": client, "task": tasks[client], "sha256": update.sha256, "scale": update.scale,
                "num_examples": update.num_examples, "num_steps": update.num_steps, "train_loss": update.train_loss,
            }
            for client, update in order.updates
        ]  # fmt: skip
        try:
            answer = await self._order_until_stored(
                {
                    "do": "close", "round": number, "state_sha256": head["state_sha256"], "updates": updates,
                    "num_examples": self.machine.examples_known(),
                }
            )  # fmt: skip
        except CloserFailed as error:
            self.failure = str(error)
            logger.critical("round %d cannot be closed: %s", number, error)
            self.machine, self.trouble = None, f"training has failed: {self.failure}"
            await self._stored(self.store.fail, self.failure)
            return
        with contextlib.suppress(Unavailable):  # then it is summed again after the machine was loaded again
            if "damaged" in answer:
                logger.error("round %d: updates of clients %s are damaged", number, answer["damaged"])
                await self.submit(r.UpdatesDamaged(number, tuple(answer["damaged"])))
                return
            await self.submit(r.RoundSummed(number, r.RoundResult(**answer["result"])))
            self._spawn(self._forget(tasks.values(), head))

    async def _order_until_stored(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Have a round summed, as often as it takes: clients wait, and whoever asks is told what for."""
        assert self._closer is not None  # noqa: S101 - start() made it
        trouble = None
        while True:
            try:
                answer = await self._closer.order(order)
            except StoreFailed as error:
                if trouble is None:
                    logger.error("round %d cannot be closed yet: %s", order["round"], error)  # noqa: TRY400 - no bug
                self.trouble = trouble = f"round {order['round']} cannot be closed yet: {error}"
                await asyncio.sleep(RETRY_SECONDS)
            else:
                if self.trouble == trouble:
                    self.trouble = None
                return answer

    async def _forget(self, tasks: Any, before: Mapping[str, Any]) -> None:  # noqa: ANN401 - names of tasks
        """Remove the updates of a round that is over, and models that nobody needs any more."""
        for task in list(tasks):
            await asyncio.to_thread(self.blobs.remove, f"updates/{task}")
        rows = await self._stored(self.store.round_rows)
        closed = [row for row in rows if row["state_sha256"]]
        needed = {
            name for row in closed[-self.settings.keep_models :] for name in (row["state_sha256"], row["sent_sha256"])
        }
        needed |= {before["sent_sha256"]}  # a client may still be fetching it
        for name in {name for row in closed for name in (row["state_sha256"], row["sent_sha256"])} - needed:
            await asyncio.to_thread(self.blobs.remove, f"models/{name}")

    def _spawn(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a bug, or a store that failed twice: %s", error, exc_info=error)
            self.machine, self.trouble = None, f"{type(error).__name__}: {error}"

    async def _stored(self, work: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - any of the store's
        return await asyncio.to_thread(work, *arguments)


def _fail(waiting: Waiting, trouble: str | None) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(Unavailable(f"the coordinator cannot take changes now: {trouble}"))
        waiting.answer.exception()  # looked at, so that nobody is warned of an answer that nobody waits for
