"""`stayput board` as a process: its address, its end, what it imports."""

import os
import signal
import subprocess
import sys
import urllib.request

import pytest


@pytest.fixture
def started(tmp_path):
    """Starts the command in an empty folder; ended at the end, whatever happened."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "stayput", "board", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_it_says_its_address_and_ends_with_ctrl_c(started):
    process = started("--port", "0")
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - our own
        assert b"stayput board" in answer.read()
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in said
    assert said.splitlines() == ["the runs in runs; Ctrl-C ends it", "ended"]


def test_a_port_in_use_is_a_sentence_and_an_exit_code(started):
    first = started("--port", "0")
    port = first.stdout.readline().strip().rstrip("/").rpartition(":")[2]
    second = started("--port", port)
    _, said = second.communicate(timeout=20)
    assert second.returncode == 2
    assert f"error: port={port}: cannot be listened on" in said


def test_the_board_imports_neither_torch_nor_matplotlib():
    code = "import sys, stayput.board.serve; print([name for name in ('torch', 'matplotlib') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
