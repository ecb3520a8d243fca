"""The page "From simulation to deployment", done as it says: its module, its files, its commands; the same model."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stayput.deploy.demo_fleet import waiting

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "first-fleet.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STAYPUT = [sys.executable, "-P", "-m", "stayput"]
"""As the installed command starts: without the working folder among the places of modules."""


def blocks(language):
    return [body for name, body in FENCE.findall(PAGE) if name == language]


def commands(start):
    lines = [line.removeprefix("$ ") for line in "".join(blocks("console")).splitlines()]
    found = [shlex.split(line)[1:] for line in lines if line.startswith(start)]
    assert found, f"the page has no {start}"
    return found


@pytest.fixture
def said(tmp_path):
    """Run a command in the reader's folder; what it prints."""

    def run(command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def started(tmp_path):
    """Start a command in the reader's folder; it ends with the test."""
    processes = []

    def start(command):
        with (tmp_path / f"{len(processes)}.log").open("wb") as log:
            processes.append(subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_the_page_leads_from_a_simulation_to_a_fleet_with_the_same_model(tmp_path, said, started):
    module, *session = blocks("python")
    (tmp_path / "shapes.py").write_text(module)
    (tmp_path / "session.py").write_text("from shapes import sp, task\n" + "".join(session))
    simulated = said([sys.executable, "session.py"]).split()[-1]
    assert re.fullmatch("[0-9a-f]{64}", simulated)

    (settings,) = blocks("toml")
    (tmp_path / "fleet.toml").write_text(settings + "port = 0\nhold = 1.0\n")
    *tokens, looking = [said([*STAYPUT, *words]) for words in commands("stayput token")]
    (serve,) = commands("stayput serve")
    started([*STAYPUT, *serve, "--ready-file", "address"])
    for _ in waiting(60, "the coordinator does not listen"):
        if (tmp_path / "address").is_file() and (tmp_path / "address").read_text().endswith("\n"):
            break

    def here(words, token):
        address = (tmp_path / "address").read_text().strip()
        stands_for = {"https://localhost:8443": address, "TOKEN": token, "STATUS_TOKEN": token}
        return [*STAYPUT, *(stands_for.get(word, word) for word in words)]

    joining = commands("stayput join")
    assert len(joining) == len(tokens) == 3
    clients = [started(here(words, token)) for words, token in zip(joining, tokens, strict=True)]
    assert [client.wait(90) for client in clients] == [0, 0, 0]
    (status,) = commands("stayput status")
    assert f"model {simulated}" in said(here(status, looking)).splitlines()
