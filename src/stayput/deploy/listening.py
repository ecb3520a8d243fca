"""The sockets that a coordinator listens on, or a sentence why it cannot. Must not import torch."""

from __future__ import annotations

import errno
import socket

from stayput.errors import DeploymentError, InvalidSetting

NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""A name may stand for addresses that this machine lacks, such as IPv6's; one that it has is enough."""


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """A bound socket for each address of a host."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidSetting(f"host={host!r}: must be a name or an address of this machine ({reason})") from error
    sockets: list[socket.socket] = []
    refusal = None
    for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
        try:
            sockets.append(_bound(family, address))
        except OSError as error:
            refusal = error
            if error.errno not in NOT_HERE:
                for other in sockets:
                    other.close()
                raise DeploymentError(_sentence(host, port, error)) from error
    if not sockets:
        raise DeploymentError(_sentence(host, port, refusal)) from refusal
    return sockets


def _bound(family: int, address: tuple[str | int, ...] | tuple[int, bytes]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def _sentence(host: str, port: int, error: OSError | None) -> str:
    if error is not None and error.errno == errno.EADDRINUSE:
        return (
            f"port={port}: is in use on {host} (is this fleet served already? else set another port in [fleet]; 0 "
            "takes a free one)"
        )
    return (
        f"host={host!r}, port={port}: cannot be listened on ({error and error.strerror}) (host must be an address of "
        "this machine, or 0.0.0.0 for all of them)"
    )
