"""Wrong values in a fleet's file are sentences: the value, the rule, the way out; and never a traceback."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from stayput.deploy.blobs import Blobs
from stayput.deploy.certificates import client_context, ensure_certificate, server_context
from stayput.deploy.client_transport import Address, connector_to
from stayput.deploy.database import connect
from stayput.deploy.fleet_settings import FleetSettings
from stayput.deploy.listening import listening_sockets
from stayput.deploy.own_examples import examples_in
from stayput.errors import DeploymentError, EmptyClient, InvalidSetting

PART_OF_A_URL = "hunter-two"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"port": 65536}, "port=65536: must be at most 65535"),
        ({"port": -1}, "port=-1: must be a whole number"),
        ({"names": [1, 2]}, r"fleet.names=\[1, 2\]: must be a list of texts"),
        ({"state": 5}, "fleet.state=5: must be text in quotes"),
        ({"max_norm": "x"}, "fleet.max_norm='x': must be a number"),
        ({"names": []}, r"names=\[\]: must be"),
        ({"names": ["zürich.example"]}, "ASCII"),
        ({"over_selection": float("inf")}, "over_selection=inf: must be a number"),
        ({"over_selection": float("nan")}, "over_selection=nan: must be a number"),
        ({"least_examples": 10, "most_examples": 5}, "least_examples=10: must be at most most_examples=5"),
        ({"prot": 1}, "did you mean 'port'"),
    ],
)
def test_settings_that_break_a_rule_are_refused(table, said):
    with pytest.raises(InvalidSetting, match=said):
        FleetSettings.from_plain(table, source="fleet.toml")


def test_bounds_of_examples_may_meet():
    table = {"least_examples": 5, "most_examples": 5, "port": 65535}
    assert FleetSettings.from_plain(table, source="fleet.toml").most_examples == 5


@pytest.mark.parametrize("url", [f"oracle:{PART_OF_A_URL}", "sqlite3:///x", "mysql://user@host/x", ""])
def test_a_database_that_there_is_no_way_to_is_refused_without_repeating_secrets(url):
    with pytest.raises(InvalidSetting, match=r"postgresql\+psycopg") as refusal:
        connect(url)
    assert PART_OF_A_URL not in str(refusal.value)


def test_blobs_that_nothing_can_store_are_refused(tmp_path):
    with pytest.raises(InvalidSetting, match="fsspec"):
        Blobs(tmp_path / "blobs", "foo://x")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_authorities_that_cannot_be_read_are_refused_on_both_sides(tmp_path, content):
    ensure_certificate(tmp_path, ("localhost",))
    authorities = tmp_path / "authorities.pem"
    if content is not None:
        authorities.write_text(content)
    for use in (
        lambda: server_context(tmp_path / "tls.pem", client_ca=authorities),
        lambda: client_context(ca_file=authorities),
    ):
        with pytest.raises(DeploymentError, match=r"authorities\.pem: must hold certificates of authorities"):
            use()


def test_data_without_an_example_are_refused(tmp_path):
    np.savez(tmp_path / "none.npz", inputs=np.zeros((0, 4)), targets=np.zeros(0))
    with pytest.raises(EmptyClient, match=r"none\.npz: holds no examples"):
        examples_in(tmp_path / "none.npz")


def test_a_port_in_use_and_a_host_that_is_elsewhere_are_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DeploymentError, match=f"port={port}: is in use on 127.0.0.1"):
            listening_sockets("127.0.0.1", port)
    with pytest.raises(DeploymentError, match=r"192\.0\.2\.1.*cannot be listened on"):
        listening_sockets("192.0.2.1", 0)  # an address for documentation, RFC 5737
    for unknown in ("no such host", "a" * 70 + ".example"):
        with pytest.raises(InvalidSetting, match="must be a name or an address of this machine"):
            listening_sockets(unknown, 0)


def test_a_name_of_this_machine_is_listened_on_at_each_of_its_addresses():
    sockets = listening_sockets("localhost", 0)
    try:
        assert {each.getsockname()[0] for each in sockets} <= {"127.0.0.1", "::1"}
        assert all(each.getsockname()[1] for each in sockets)
    finally:
        for each in sockets:
            each.close()


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8443", "http://localhost:8443", "https://", "https://host:99999", "https://host:x", "https:host"],
)
def test_only_addresses_over_tls_are_called(url):
    with pytest.raises(InvalidSetting, match="must be https://HOST:PORT"):
        connector_to(Address(url, "0" * 64))
