"""The Ray cluster that a command's run is computed on, if it is."""

from __future__ import annotations

from stayput.cli.settings import Request


def connect_if_asked(asked: Request) -> None:
    """Connect to the cluster, or start Ray here, before anything is written."""
    if asked.spec.engine == "ray":
        from stayput.engines.cluster.connection import connect

        connect(asked.ray_address, num_workers=asked.ray_workers)
