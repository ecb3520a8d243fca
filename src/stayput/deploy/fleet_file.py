"""The file of a fleet: the settings of `stayput run`, and a table [fleet]. Must not import torch.

The training's settings are turned into a spec elsewhere (`cli/serve.py` has a process of its own do it): checking them
needs torch, which the coordinator's process does without.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from stayput.deploy.fleet_settings import FleetSettings
from stayput.deploy.fleet_state import FleetState
from stayput.errors import InvalidSetting

FLEET = "fleet"
"""The name of the table."""


@dataclass(frozen=True)
class FleetFile:
    """A fleet's file, read."""

    path: Path
    settings: FleetSettings
    training_sha256: str
    """Over everything outside of [fleet]."""

    @property
    def state(self) -> FleetState:
        """Where the fleet's state lies: as the file says, seen from the file, or beside it."""
        named = self.settings.state or f"{self.path.stem}-state"
        return FleetState(self.path.parent / named, self.settings)


def read_fleet_file(path: Path) -> FleetFile:
    """A fleet's file, its table checked."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSetting(
            f"{path}: cannot be read ({error.strerror}; give the file that `stayput serve` is given)"
        ) from error
    except ValueError as error:
        raise InvalidSetting(f"{path}: is not TOML: {error}") from error
    table = content.pop(FLEET, {})
    if not isinstance(table, dict):
        raise InvalidSetting(f"{path}: fleet={table!r}: must be a table, [fleet]")
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
    settings = FleetSettings.from_plain({"start_with": content.get("num_clients", 1), **table}, source=str(path))
    return FleetFile(path, settings, digest)
