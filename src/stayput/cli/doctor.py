"""`stayput doctor`: what is installed, what computes, where data is; what to do about what is missing."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer

from stayput._version import __version__
from stayput.cli import flags
from stayput.cli.outcome import json_line
from stayput.cli.wording import aligned, answer
from stayput.errors import CorruptData, InvalidSetting

REQUIRED = ("torch", "numpy", "safetensors", "typer", "rich", "matplotlib")
DEPLOYMENT = "for the deployment and the live page"
DISPENSABLE = {
    "platformdirs": "for the cache to be where this system keeps caches, not in ~/.cache/stayput",
    "starlette": DEPLOYMENT,
    "uvicorn": DEPLOYMENT,
    "httptools": DEPLOYMENT,
    "uvloop": DEPLOYMENT,
    "aiohttp": DEPLOYMENT,
    "sqlalchemy": DEPLOYMENT,
    "alembic": DEPLOYMENT,
    "cryptography": DEPLOYMENT,
    "prometheus-client": DEPLOYMENT,
    "fsspec": DEPLOYMENT,
}
"""Required by the package, but simulations work without them, where they cannot be installed; and what each is for."""
EXTRAS = {
    "data": ("pyarrow", "datasets"),
    "postgres": ("psycopg",),
    "ray": ("ray",),
    "track": ("tensorboard", "mlflow", "wandb"),
}
"""Optional packages by the extra that installs them."""
WHAT_FOR = {
    "data": "for tables of your own as data",
    "postgres": "for several coordinators over one database",
    "ray": "for runs over many machines",
    "track": "for runs in the trackers of these names",
}
"""What each extra is for."""

OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "absent", "broken"]
    """Absent is what can be done without or fetched; broken is what keeps stayput from working."""
    detail: str
    remedy: str = ""


def doctor(data_dir: flags.DataDir = None, json: flags.AsJson = False) -> None:
    """Check this machine: packages, devices, data sets, folders. Says what to do about what is missing."""
    findings = [*_packages(), *_devices(), *_folders(), *_data_sets(data_dir)]
    if json:
        answer(json_line([asdict(finding) for finding in findings]))
    else:
        for line in aligned([(f.state, f.name, f.detail) for f in findings]):
            answer(line)
        _tell_remedies(findings)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def _tell_remedies(findings: list[Finding]) -> None:
    remedies = [(finding.name, finding.remedy) for finding in findings if finding.remedy]
    answer()
    if not remedies:
        answer("Nothing is missing.")
        return
    answer("What to do:")
    for line in aligned(remedies, indent="  "):
        answer(line)


def _packages() -> Iterator[Finding]:
    yield Finding("stayput", "ok", __version__)
    old = sys.version_info < OLDEST_PYTHON
    oldest = ".".join(map(str, OLDEST_PYTHON))
    yield Finding(
        "python",
        "broken" if old else "ok",
        f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        f"install Python {oldest} or newer" if old else "",
    )
    for package in REQUIRED:
        found = _version_of(package)
        remedy = "" if found else f"pip install {package}"
        yield Finding(package, "ok" if found else "broken", found or "not installed", remedy)
    for package, reason in DISPENSABLE.items():
        yield _optional(package, package, reason, "not installed")
    for extra, packages in EXTRAS.items():
        for package in packages:
            yield _optional(package, f"'stayput[{extra}]'", WHAT_FOR[extra], f"not installed (extra [{extra}])")


def _optional(package: str, requirement: str, reason: str, otherwise: str) -> Finding:
    found = _version_of(package)
    remedy = "" if found else f"pip install {requirement}, {reason}"
    return Finding(package, "ok" if found else "absent", found or otherwise, remedy)


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> Iterator[Finding]:
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding("torch", "broken", f"cannot be imported ({error})", "pip install --force-reinstall torch")
        return
    from stayput.runs.environment import machine

    facts = machine("cpu")
    yield Finding(
        "cpu",
        "ok",
        f"{facts['processor']}, {facts['cores']} cores, torch uses {torch.get_num_threads()} threads",
    )
    if not torch.cuda.is_available():
        yield Finding("cuda", "absent", "torch finds no CUDA device: training runs on the CPU")
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        memory = torch.cuda.get_device_properties(number).total_memory / 2**30
        yield Finding(f"cuda:{number}", "ok", f"{torch.cuda.get_device_name(number)}, {memory:.0f} GiB")


def _folders() -> Iterator[Finding]:
    from stayput.data.places import CACHE_VARIABLE, cache_folder

    yield _writable("cache", cache_folder(), f"set {CACHE_VARIABLE} to a folder you may write to")
    yield _writable("runs", Path("runs").absolute(), "go to a folder you may write to, or give --folder")


def _writable(name: str, folder: Path, remedy: str) -> Finding:
    """Whether a folder can be written to, or made."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Finding(name, "ok", f"{folder}, writable" if there == folder else f"{folder}, is made when needed")
    return Finding(name, "broken", f"{folder}, cannot be written to", remedy)


def _data_sets(data_dir: Path | None) -> Iterator[Finding]:
    from stayput.cli.data import megabytes
    from stayput.data import DATA_SETS

    for name, data_set in DATA_SETS.items():
        fetch = f"stayput data fetch {name}"
        if data_set.download_bytes is None:
            fetch += " says how to bring your own file"
        else:
            fetch += f", or a first run fetches it ({megabytes(data_set.download_bytes)})"
        try:
            location = data_set.locate(data_dir)
        except InvalidSetting as error:
            yield Finding(f"data {name}", "broken", str(error), "name a folder that exists, or none")
            continue
        if location is None:
            yield Finding(f"data {name}", "absent", "not here", fetch)
            continue
        where = f"{location.path} ({location.kind}, {megabytes(location.num_bytes)})"
        try:
            data_set.verify(location)
        except CorruptData as error:
            yield Finding(f"data {name}", "broken", str(error), f"stayput data fetch {name}")
        else:
            keys = f", with {', '.join(location.keys)}" if location.keys else ""
            yield Finding(f"data {name}", "ok", f"{where}, verified{keys}")
