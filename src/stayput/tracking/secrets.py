"""Sentences of trackers without the secrets that may be in them: an address can hold a password, and an error both."""

from __future__ import annotations

import os
import re

_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SECRET_NAME = re.compile(r"(KEY|TOKEN|PASSWORD|SECRET|CREDENTIAL)", re.IGNORECASE)
SHORTEST = 6
"""Values below this length are not looked for: they would blank out ordinary words."""


def without_secrets(text: str) -> str:
    """The text with user names and passwords of addresses, and secrets of the environment, left out."""
    for name, value in os.environ.items():
        if len(value) >= SHORTEST and _SECRET_NAME.search(name):
            text = text.replace(value, "***")
    return _IN_ADDRESS.sub("***", text)
