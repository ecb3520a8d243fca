"""A coordinator and clients as processes, over TLS: the same task file, the same model."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from toy_fleet import finished, simulated, start_clients, toy_fleet

from stayput.deploy.demo_fleet import waiting
from stayput.deploy.status_reader import read_status
from stayput.errors import AccessDenied, CertificateMismatch

pytestmark = pytest.mark.slow
NUM_CLIENTS, ROUNDS, FRACTION = 3, 4, 0.67


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with toy_fleet(tmp_path_factory.mktemp("fleet"), NUM_CLIENTS, rounds=ROUNDS, fraction=FRACTION) as running:
        running.start_coordinator()
        start_clients(running, NUM_CLIENTS)
        running.last_report = finished(running)
        running.exits = [client.wait(60) for client in running.clients.values()]  # before a test revokes one
        yield running


def test_a_fleet_gives_the_model_of_the_simulator(fleet):
    assert fleet.last_report["model_sha256"] == simulated(NUM_CLIENTS, rounds=ROUNDS, fraction=FRACTION)


def test_clients_leave_when_training_has_ended(fleet):
    assert fleet.exits == [0] * NUM_CLIENTS


def test_nobody_dropped_out_and_the_status_says_who_took_part(fleet):
    status = fleet.status()
    assert status["dropouts"] == status["failed_attempts"] == []
    assert [client["name"] for client in status["clients"]] == ["client-0", "client-1", "client-2"]
    assert [entry["number"] for entry in status["history"]] == list(range(ROUNDS + 1))
    assert all(entry["closed_at"] >= entry["opened_at"] for entry in status["history"])


def test_a_clients_token_reads_no_status_and_another_certificate_is_refused(fleet):
    with pytest.raises(AccessDenied):
        read_status(fleet.url, fleet.tokens[0])
    other = fleet.status_token.rpartition(".")[0] + "." + "0" * 64
    with pytest.raises(CertificateMismatch):
        read_status(fleet.url, other)


@pytest.mark.parametrize(("protocol", "side"), [("0", "the other side"), ("2", "this side")])
def test_another_protocol_is_told_so_at_once(fleet, protocol, side):
    """P10: an older and a newer client hear which side to upgrade, within a second."""
    headers = {
        "Stayput-Protocol": protocol, "Stayput-Key": "0" * 32, "Stayput-Time": "0", "Stayput-Nonce": "0" * 32,
        "Stayput-Boot": "", "Stayput-Body-SHA256": "0" * 64, "Stayput-Signature": "0" * 128,
    }  # fmt: skip
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"{fleet.url}/v1/poll", data=b"{}", headers=headers)  # noqa: S310 - our own
    began = time.monotonic()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=5, context=unverified)  # noqa: S310 - our own
    assert time.monotonic() - began <= 1.0
    with refused.value as answer:
        problem = json.loads(answer.read())
        assert answer.code == 426
    assert problem["code"] == "protocol"
    assert f"upgrade stayput on {side}" in problem["message"]


def test_the_command_line_shows_and_revokes(fleet):
    def stayput(*words):
        done = subprocess.run([sys.executable, "-m", "stayput", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = stayput("status", fleet.url, "--token", fleet.status_token)
    assert f"round {ROUNDS} of {ROUNDS}" in shown
    assert json.loads(stayput("status", fleet.url, "--token", fleet.status_token, "--json"))["finished"]
    assert "client-2" in stayput("clients", "list", "--fleet", str(fleet.file))
    stayput("clients", "revoke", "client-2", "--fleet", str(fleet.file))
    for _ in waiting(10, "the coordinator does not hear of the revocation"):
        if fleet.status()["clients"][2]["state"] == "revoked":
            break
    log = fleet.log("client-2")
    fleet.start_client(2, "--task", "fleet_tasks:toy")
    assert fleet.clients[2].wait(30) == 8
    assert "revoked" in fleet.log("client-2").removeprefix(log)


def test_the_coordinators_process_holds_no_torch():
    look = "import sys, stayput.deploy.serving; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
