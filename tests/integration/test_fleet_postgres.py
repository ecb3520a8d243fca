"""Several coordinators over one PostgreSQL: one leads, and when it is killed another goes on to the same model."""

from __future__ import annotations

import pytest
from postgres_server import NoPostgres, postgres
from toy_fleet import finished, simulated, start_clients, toy_fleet

from stayput.deploy.demo_fleet import waiting
from stayput.deploy.status_reader import read_status

pytestmark = pytest.mark.slow


@pytest.fixture
def database():
    try:
        with postgres() as url:
            yield url
    except NoPostgres as why:
        pytest.fail(str(why))


def test_a_second_coordinator_takes_over_and_the_model_is_the_simulators(tmp_path, database):
    with toy_fleet(tmp_path / "fleet", 3, rounds=6, more=f'database = "{database}"') as fleet:
        fleet.start_coordinator()
        leader, address = fleet.coordinator, fleet.url
        port = address.rpartition(":")[2]
        start_clients(fleet, 3)
        for _ in waiting(60, "no round is closed"):
            if fleet.status()["last_round"] >= 1:
                break
        # Another one, on a port of its own: it stands by.
        fleet.start_coordinator()
        second, second_address = fleet.coordinator, fleet.url
        assert not read_status(second_address, fleet.status_token)["ready"]
        leader.kill()
        leader.wait()
        for _ in waiting(30, "nobody takes over"):
            if read_status(second_address, fleet.status_token)["ready"]:
                break
        # What a load balancer does: the first address now leads to one that lives.
        second.kill()
        second.wait()
        fleet.file.write_text(fleet.file.read_text().replace("port = 0", f"port = {port}"))
        fleet.start_coordinator()
        assert fleet.url == address
        report = finished(fleet)
        assert report["model_sha256"] == simulated(3, rounds=6)
        for client in fleet.clients.values():
            assert client.wait(30) == 0
