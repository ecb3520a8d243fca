"""`stayput algorithms`: the algorithms and their settings."""

from __future__ import annotations

from stayput.cli import flags
from stayput.cli.listing import list_settings_classes


def algorithms(json: flags.AsJson = False) -> None:
    """List the algorithms, with their settings and defaults."""
    from stayput.algorithms import ALGORITHMS

    list_settings_classes(ALGORITHMS, as_json=json)
