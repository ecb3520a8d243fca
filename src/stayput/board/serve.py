"""The board's server: on this machine's own address, until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from stayput.board.app import board_app
from stayput.board.index import RunsIndex
from stayput.errors import InvalidSetting

HOST = "127.0.0.1"


def bound(port: int) -> socket.socket:
    """A socket that listens on this machine alone; port 0 takes a free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InvalidSetting(
            f"port={port}: cannot be listened on ({error}); is another board running? (--port 0 takes a free one)"
        ) from error
    return listener


def serve_board(folder: Path, port: int, *, on_ready: Callable[[str], None]) -> None:
    """Serve the page for a folder of runs; `on_ready` is told its address."""
    with bound(port) as listener:
        app = board_app(RunsIndex(folder))
        # A page that is open would otherwise keep the server from ending.
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, lifespan="off")
        on_ready(f"http://{HOST}:{listener.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listener])
