"""The coordinator's own page, with a fleet of real processes: a token lets one look, and rounds go by."""

import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1]))  # the fleet of the integration tests
from toy_fleet import start_clients, toy_fleet

pytestmark = pytest.mark.slow


def test_a_deployment_is_followed_with_a_token_that_reads(tmp_path, chromium, keep, serious_faults, until):
    with toy_fleet(tmp_path, 3, rounds=4000, fraction=0.67) as fleet:
        fleet.start_coordinator()
        context = chromium.new_context(ignore_https_errors=True, color_scheme="dark", reduced_motion="reduce")
        page = context.new_page()
        page.set_default_timeout(30_000)
        expect.set_options(timeout=30_000)
        page.goto(fleet.url + "/")
        expect(page.get_by_role("heading", name="A token to look")).to_be_visible()
        assert serious_faults(page) == []
        page.get_by_label("Token").fill(fleet.tokens[0])  # lets a client in, and reads nothing
        page.get_by_role("button", name="Look").click()
        expect(page.get_by_role("alert").filter(has_text="refused")).to_be_visible()
        page.get_by_label("Token").fill(fleet.status_token)
        page.get_by_role("button", name="Look").click()
        expect(page.locator("#link")).to_have_text("live")
        expect(page.locator("#clients tr")).to_have_count(3)
        expect(page.locator("#clients .state").first).to_have_text("not enrolled")

        start_clients(fleet, 3)
        until(page, "Number(document.querySelector('#tiles dd').innerText) >= 3", seconds=60)
        expect(page.locator("#metric-chart .plot")).to_have_attribute("aria-label", re.compile(r"train_loss by round"))
        assert page.locator("#now").inner_text().startswith("Round ")
        expect(page.get_by_role("button", name=re.compile("^all 3"))).to_be_visible()
        assert serious_faults(page) == []
        keep(page, "coordinator")
        page.reload()  # the token stays in the tab
        expect(page.locator("#link")).to_have_text("live")
        context.close()
