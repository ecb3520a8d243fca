"""A PostgreSQL server of the tests' own: installed where it is missing and can be, started, and stopped again."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

DEBIAN = "/usr/lib/postgresql"


class NoPostgres(Exception):
    """There is none, and none can be had; the message says why."""


def programs():
    """The folder of initdb and pg_ctl; Debian's package is installed where they are missing and this may be done."""
    found = shutil.which("pg_ctl") or next(iter(sorted(Path(DEBIAN).glob("*/bin/pg_ctl"), reverse=True)), None)
    if found is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise NoPostgres("PostgreSQL is not installed: install Debian's package `postgresql` and run this again")
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "postgresql"]):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
        found = next(iter(sorted(Path(DEBIAN).glob("*/bin/pg_ctl"), reverse=True)), None)
        if found is None:
            raise NoPostgres(f"Debian's package `postgresql` cannot be installed: {done.stderr[-300:]}")
    return Path(found).resolve().parent


@contextlib.contextmanager
def postgres():
    """The URL of a database of its own, for as long as the server runs.

    Its folder is not pytest's: every run of pytest takes that from all other users again, and the server is one.
    """
    binaries = programs()
    folder = Path(tempfile.mkdtemp(prefix="stayput-postgres-"))
    try:
        with _running(binaries, folder) as url:
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _running(binaries, folder):
    as_user = []
    if os.geteuid() == 0:  # it refuses to run as root
        shutil.chown(folder, "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*words):
        done = subprocess.run([*as_user, *words], capture_output=True, text=True, check=False, timeout=120, cwd="/")
        if done.returncode != 0:
            raise NoPostgres(f"{words[0]}: {done.stderr[-500:]}")

    run(str(binaries / "initdb"), "-D", str(folder / "data"), "-U", "stayput", "--auth=trust", "-E", "UTF8", "-N")
    options = f"-p {port} -h 127.0.0.1 -k {folder}"
    run(str(binaries / "pg_ctl"), "-D", str(folder / "data"), "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield f"postgresql+psycopg://stayput@127.0.0.1:{port}/postgres"
    finally:
        run(str(binaries / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "-w", "stop")
