"""Where models and updates lie as bytes: a folder, or any store that fsspec knows, with a folder before it.

A blob is written once and never changed; its name says what it is, and `models/<sha256>` is named by its content. Who
puts one has it durable when `put` returns. Must not import torch or a web framework.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from stayput.errors import InvalidSetting
from stayput.runs.durable_files import sync_folder, write_whole


class Blobs:
    """Blobs by key, such as `models/<sha256>` or `updates/<task>/<sha256>`."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        """Where they lie, or, with `url`, where those that are in use are kept."""
        self._remote: Any = None
        if url is not None:
            import fsspec

            try:
                self._remote, self._root = fsspec.core.url_to_fs(url)
            except (ValueError, ImportError) as error:
                raise InvalidSetting(
                    f"blobs: must be a folder, or a URL that fsspec knows, with its package installed ({error})"
                ) from error
        folder.mkdir(parents=True, exist_ok=True)

    def place(self, key: str) -> Path:
        """The local path of a key, its folder made; for who writes the file durably itself and then calls `keep`."""
        path = self.folder / key
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in (path.parent.parent, self.folder):
                sync_folder(folder)
        return path

    def keep(self, key: str) -> None:
        """See a local file, durable already, to where blobs lie."""
        if self._remote is not None:
            target = f"{self._root}/{key}"
            self._remote.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH120 - a path of another system
            self._remote.put_file(str(self.folder / key), target)

    def put_model(self, content: bytes) -> str:
        """Keep a model, and give its name."""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.place(f"models/{sha256}")
        if not path.exists():
            write_whole(path, content)
        self.keep(f"models/{sha256}")
        return sha256

    def fetch(self, key: str) -> Path:
        """A local file with the blob."""
        path = self.place(key)
        if not path.exists() and self._remote is not None:
            working = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            self._remote.get_file(f"{self._root}/{key}", str(working))
            working.replace(path)
        return path

    def remove(self, key: str) -> None:
        """Remove a blob or a folder of blobs, if it is there."""
        path = self.folder / key
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        if self._remote is not None and self._remote.exists(f"{self._root}/{key}"):
            self._remote.rm(f"{self._root}/{key}", recursive=True)

    def models(self) -> list[str]:
        """The names of the models that are there."""
        folder = self.folder / "models"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
