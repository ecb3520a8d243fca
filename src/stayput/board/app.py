"""The pages, the data behind them, and the stream of events that keeps them up to date.

    /                  the page
    /assets/NAME       what it is made of: the bundled files, and no others
    /api/runs          every row
    /api/run           one run's files: spec, environment, outcome, clients
    /api/series        curves of some runs, or the points after a round
    /events            rows as they change (server-sent events)

All of it only reads. The folder is looked at only while somebody watches. A page that comes back after an
interruption says which change it heard of last, and is sent what it missed. Only requests that name this machine as
their host are answered, so that no page from elsewhere can read along by a name of its own (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stayput.board.answers import Answer, json_text, number_in
from stayput.board.index import RunsIndex
from stayput.errors import StayputError
from stayput.runs.run_folder import RunFolder

SECONDS_BETWEEN_LOOKS = 1.0
_BEAT = 2.0
"""Seconds after which a page hears that nothing has happened: silence means a lost connection."""
_LEAST_REST = 40
"""Times as long as a look took does it rest: however many runs there are, looking takes little of a core."""
LOCAL_HOSTS = ("127.0.0.1", "localhost")
"""Names by which this machine may be asked."""
_MOST_AT_ONCE = 64
"""Runs whose curves one request may ask for."""

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""What every answer says: nothing from elsewhere is loaded, nothing is guessed, nothing is kept."""
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}


def _assets() -> dict[str, tuple[bytes, str]]:
    """Every file that may be served, by name: the board's own, and the charts it shares with the report."""
    found = {}
    for package in ("stayput.report", "stayput.board"):
        for entry in files(package).joinpath("assets").iterdir():
            kind = _TYPES.get("." + entry.name.rpartition(".")[2])
            if kind is not None:
                found[entry.name] = (entry.read_bytes(), kind)
    return found


ASSETS = _assets()


class SafeHeaders:
    """Adds `HEADERS` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add them."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class Watch:
    """Looks at the folder while somebody listens, and tells them."""

    def __init__(self, index: RunsIndex, seconds: float = SECONDS_BETWEEN_LOOKS) -> None:
        self.index, self._seconds = index, seconds
        self.boot = secrets.token_hex(4)
        """Tells this server's changes from those of one before it."""
        self._listeners = 0
        self._looked = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None

    async def look(self) -> None:
        """Look once, now."""
        await run_in_threadpool(self.index.refresh)

    async def _keep_looking(self) -> None:
        while self._listeners:
            started = time.monotonic()
            await self.look()
            took = time.monotonic() - started
            async with self._looked:
                self._looked.notify_all()
            await asyncio.sleep(max(self._seconds, _LEAST_REST * took))

    async def _news_after(self, since: int) -> int:
        async with self._looked:
            await self._looked.wait_for(lambda: self.index.change > since)
        return self.index.change

    async def changes(self) -> AsyncIterator[tuple[int, bool]]:
        """The number of the latest change, and whether it is news: at once, with each change, every few seconds."""
        self._listeners += 1
        try:
            if self._looking is None or self._looking.done():
                await self.look()
                self._looking = asyncio.create_task(self._keep_looking())
            since = self.index.change
            yield since, True
            while True:
                try:
                    since = await asyncio.wait_for(self._news_after(since), _BEAT)
                except TimeoutError:
                    yield since, False
                else:
                    yield since, True
        finally:
            self._listeners -= 1


def board_app(
    index: RunsIndex, *, seconds: float = SECONDS_BETWEEN_LOOKS, hosts: tuple[str, ...] = LOCAL_HOSTS
) -> Starlette:
    """The application for the runs in an index."""
    watch = Watch(index, seconds)

    async def runs(_request: Request) -> Response:
        await watch.look()
        return Answer(_news(watch, 0))

    async def run(request: Request) -> Response:
        found = await run_in_threadpool(_run_facts, index, request.query_params.get("run", ""))
        return _missing() if found is None else Answer(found)

    async def series(request: Request) -> Response:
        asked = request.query_params.getlist("run")[:_MOST_AT_ONCE]
        after = [number_in(text) for text in request.query_params.getlist("after")]
        after += [None] * (len(asked) - len(after))
        found = await run_in_threadpool(
            lambda: {name: index.series(name, last) for name, last in zip(asked, after, strict=False)}
        )
        return Answer({name: entry for name, entry in found.items() if entry is not None})

    async def events(request: Request) -> Response:
        boot, _, number = request.headers.get("last-event-id", "").partition(":")
        since = (number_in(number) or 0) if boot == watch.boot else 0
        return StreamingResponse(_events(watch, since), media_type="text/event-stream")

    routes = [
        Route("/", page("board.html")),
        Route("/assets/{name}", asset),
        Route("/api/runs", runs),
        Route("/api/run", run),
        Route("/api/series", series),
        Route("/events", events),
    ]
    middleware = [Middleware(SafeHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))]
    return Starlette(routes=routes, middleware=middleware)


def page(name: str) -> Any:  # noqa: ANN401 - an endpoint, as Starlette takes it
    """An endpoint that answers with a bundled page."""
    content, kind = ASSETS[name]

    async def endpoint(_request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint


async def asset(request: Request) -> Response:
    """A bundled file."""
    found = ASSETS.get(request.path_params["name"])
    return _missing() if found is None else Response(found[0], media_type=found[1])


def _missing() -> Response:
    return Answer({"error": "not here"}, status_code=404)


def event(name: str, data: Mapping[str, Any], *, number: str = "") -> bytes:
    """A server-sent event; its data is one line of JSON."""
    identity = f"id: {number}\n" if number else ""
    return f"{identity}event: {name}\ndata: {json_text(data)}\n\n".encode()


def _news(watch: Watch, since: int) -> dict[str, Any]:
    index = watch.index
    return {
        "folder": str(index.folder),
        "exists": index.folder.is_dir(),
        "now": time.time(),
        "whole": since == 0,
        "rows": index.rows(since),
        "removed": index.removed(since),
    }


async def _events(watch: Watch, since: int) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    async for change, news in watch.changes():
        number = f"{watch.boot}:{change}"
        if news:
            yield event("runs", await run_in_threadpool(_news, watch, since), number=number)
            since = change
        else:
            yield event("beat", {"now": time.time()})


def _run_facts(index: RunsIndex, name: str) -> dict[str, Any] | None:
    """A run's files, and its clients in numbers."""
    facts = index.details(name)
    if facts is None:
        return None
    facts["clients"] = {}
    from stayput.report.client_statistics import statistics_of

    try:
        folder = RunFolder(index.folder / name)
        facts["clients"] = statistics_of(folder.spec, folder.environment, folder.history(), folder.label_counts)
    except (StayputError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        facts["problem"] = str(error)
    return facts
