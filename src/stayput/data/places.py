"""Where data lies on this machine: a folder the user names, and the cache.

The folder is the argument `data_dir` or the environment variable STAYPUT_DATA; it is only ever read. The
cache is STAYPUT_CACHE or the user's cache folder; everything fetched is stored there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from stayput.errors import InvalidSetting

DATA_VARIABLE = "STAYPUT_DATA"
CACHE_VARIABLE = "STAYPUT_CACHE"


def data_folder(data_dir: str | Path | None = None) -> Path | None:
    """The folder with the user's own copies of data sets, if one is named; it must exist."""
    name, value = ("data_dir", data_dir) if data_dir is not None else (DATA_VARIABLE, os.environ.get(DATA_VARIABLE))
    if value is None or value == "":
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise InvalidSetting(f"{name}={str(value)!r}: must be an existing folder (leave it out to use the cache)")
    return folder


def cache_folder() -> Path:
    """The folder for fetched data; it need not exist yet."""
    value = os.environ.get(CACHE_VARIABLE)
    if value:
        return Path(value).expanduser().absolute()
    try:
        # Asked for late and done without: some images carry torch and numpy but not this small package, and a
        # data loader should not be what fails there.
        from platformdirs import user_cache_path
    except ImportError:
        return Path.home() / ".cache" / "stayput"
    return user_cache_path("stayput", appauthor=False)


def find_file(names: Sequence[str], folders: Iterable[Path]) -> Path | None:
    """The first of these files there is, folder by folder."""
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    return None
