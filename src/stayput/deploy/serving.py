"""A coordinator's process: state folder, database, certificate, routes and uvicorn. Must not import torch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import uvicorn

from stayput.board.coordinator_page import coordinator_page_routes
from stayput.deploy.app import Authority, make_app, steady_clock
from stayput.deploy.client_routes import ClientRoutes
from stayput.deploy.fleet_state import FleetState
from stayput.deploy.guarded_connections import GuardedConnection
from stayput.deploy.listening import listening_sockets
from stayput.deploy.membership import Membership
from stayput.deploy.observing import ObservingRoutes
from stayput.deploy.records import Revoked
from stayput.deploy.service import Service, Unavailable
from stayput.deploy.signed_requests import new_boot
from stayput.deploy.store import Store
from stayput.errors import InvalidSetting, StoreFailed

logger = logging.getLogger("stayput.deploy")

MEMBERS_SECONDS = 0.5
"""Between two looks at who was revoked or came to the fleet through another coordinator."""


def take_plan(store: Store, plan: Mapping[str, Any]) -> None:
    """What is to be learned: stored on first start, and the same ever after."""
    known = store.head()["plan"]
    if known is None:
        store.set_plan(plan)
    elif known["file_sha256"] != plan["file_sha256"]:
        raise InvalidSetting(
            "the settings of the training have changed since this fleet began: must stay as they are (give another "
            "state folder to begin anew; the table [fleet] may change)"
        )


class Coordinating:
    """A coordinator process, from start to stop."""

    def __init__(self, state: FleetState, store: Store) -> None:
        self.state, self.store = state, store
        settings = state.settings
        self.authority = Authority(new_boot(), steady_clock())
        self.service = Service(settings, store, state.open_blobs())
        membership = Membership(store)
        self.clients = ClientRoutes(self.service, membership, self.authority)
        self.observing = ObservingRoutes(self.service, membership, self.authority, self.clients.uploads)
        self.service.on_change = self.observing.metrics.count
        self.app = make_app(
            self.authority, [*self.clients.routes(), *self.observing.routes(), *coordinator_page_routes()]
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The machine runs inside."""
        await self.service.start()
        watching = asyncio.get_running_loop().create_task(self._watch_members())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self.service.stop()

    async def _watch_members(self) -> None:
        """Who is revoked on the command line is out here within a moment."""
        while True:
            await asyncio.sleep(MEMBERS_SECONDS)
            with contextlib.suppress(StoreFailed, Unavailable):
                for member in await asyncio.to_thread(self.clients.refresh):
                    await self.service.submit(Revoked(member.number))
            with contextlib.suppress(OSError):  # what cannot be removed now is removed the next time
                self.clients.sweep()


def serve(state: FleetState, plan: Mapping[str, Any], *, ready_file: Path | None = None) -> None:
    """Serve until a signal ends the process; whatever was acknowledged is there after it."""
    store = state.open_store()
    take_plan(store, plan)
    coordinating = Coordinating(state, store)
    settings = state.settings
    context = state.tls()
    sockets = listening_sockets(settings.host, settings.port)
    config = uvicorn.Config(
        coordinating.app,
        http=GuardedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        ssl_context_factory=lambda config, default: context,  # noqa: ARG005 - as uvicorn calls it
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(coordinating, uvicorn.Server(config), sockets, ready_file))


async def _serve(
    coordinating: Coordinating, server: uvicorn.Server, sockets: list[socket.socket], ready_file: Path | None
) -> None:
    async with coordinating.running():
        serving = asyncio.get_running_loop().create_task(server.serve(sockets))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            port = server.servers[0].sockets[0].getsockname()[1]
            logger.info("listening on https://%s:%d", coordinating.state.settings.host, port)
            if ready_file is not None:
                ready_file.write_text(f"https://{coordinating.state.settings.host}:{port}\n", encoding="utf-8")
        await serving
