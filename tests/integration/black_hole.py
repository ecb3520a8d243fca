"""A way to the coordinator that can become a black hole: connections stay open, and nothing comes through any more."""

from __future__ import annotations

import socket
import threading


class BlackHole:
    """A forwarder of TCP on a port of its own, in threads."""

    def __init__(self, host, port):
        self._to = (host, port)
        self._open = threading.Event()
        self._open.set()
        self._ended = threading.Event()
        self._sockets = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.2)
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def swallow(self):
        """From now on nothing comes through, and no connection is closed."""
        self._open.clear()

    def close(self):
        self._ended.set()
        for each in [self._listener, *self._sockets]:
            each.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self):
        while not self._ended.is_set():
            try:
                here, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            there = socket.create_connection(self._to)
            self._sockets += [here, there]
            for source, target in ((here, there), (there, here)):
                thread = threading.Thread(target=self._forward, args=(source, target))
                self._threads.append(thread)
                thread.start()

    def _forward(self, source, target):
        source.settimeout(0.2)
        while not self._ended.is_set():
            try:
                content = source.recv(65536)
                if not content:
                    break
                if self._open.is_set():
                    target.sendall(content)
            except TimeoutError:
                continue
            except OSError:
                return
        if self._open.is_set():
            target.close()
