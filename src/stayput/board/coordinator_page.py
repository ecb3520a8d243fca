"""The page of a deployment's coordinator: its files, as routes that the coordinator's own server takes in.

The page itself knows nothing: it asks for a token that reads, keeps it in the browser's tab, and fetches `/v1/status`
with it. So whoever opens the address without a token sees a form and no more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from stayput.board.app import ASSETS, HEADERS

Handler = Callable[[Request], Awaitable[Response]]
_FILES = (
    "board.css",
    "charts.js",
    "coordinator.js",
    "stream.js",
    "theme.css",
    "uplot.min.css",
    "uplot.min.js",
    "words.js",
)


def coordinator_page_routes() -> list[tuple[str, str, Handler]]:
    """(method, path, handler) of the page at `/` and of the files that it is made of."""
    files = [("GET", f"/assets/{name}", _file(name)) for name in _FILES]
    return [("GET", "/", _file("coordinator.html")), *files]


def _file(name: str) -> Handler:
    content, kind = ASSETS[name]

    async def handle(request: Request) -> Response:  # noqa: ARG001 - the same for everybody
        return Response(content, media_type=kind, headers=HEADERS)

    return handle
