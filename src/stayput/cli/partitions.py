"""`stayput partitions`: the partitions and their settings."""

from __future__ import annotations

from stayput.cli import flags
from stayput.cli.listing import list_settings_classes

FLAGS = {("unbalanced", "over"): "--partition", ("unbalanced", "sizes"): "--unbalanced"}
"""Settings whose flags are not called as they are."""


def partitions(json: flags.AsJson = False) -> None:
    """List the ways to spread examples over clients, with their settings and defaults."""
    from stayput.data.partitions import PARTITIONS

    list_settings_classes(PARTITIONS, as_json=json, flags=FLAGS)
