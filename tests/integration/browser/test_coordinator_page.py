"""The coordinator's page in a browser: a token lets one look, rounds go by, clients are seen by state.

The server here speaks as a coordinator's `/v1/status` does, with rounds that end as they are looked at.
"""

import asyncio
import re
import threading
import time

import pytest
import uvicorn
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from stayput.board.coordinator_page import coordinator_page_routes
from stayput.board.serve import bound

pytestmark = pytest.mark.slow
TOKEN = "stayput.reads.nothing-else"  # noqa: S105 - of the server below
NAMES = ["<b>ward 1</b>", "ward 2", "ward 3", "ward 4"]


class Fleet:
    """A coordinator's status, one round further each time somebody looks."""

    def __init__(self):
        self.rounds, self.began = 0, time.time() - 1000
        self.asked_after = []

    def closed(self, number):
        opened = self.began + 10 * number
        evaluation = {"accuracy": 0.9 - 0.7 / (1 + number / 3), "loss": 2 / (1 + number)}
        times = {"opened_at": opened, "selected_at": opened + 1, "closing_at": opened + 7, "closed_at": opened + 8}
        report = {"round_number": number, "evaluation": evaluation, "train_loss": None if not number else 1 / number}
        return {"number": number, "attempts": 1, "goal": 2, **times, "report": report}

    def status(self, after):
        self.rounds += 1
        self.asked_after.append(after)
        states = ["working", "ready", "away", "revoked"]
        task = {"task": "r1-c0-1", "client": 0, "state": "open", "reason": ""}
        dropped = {"task": "r1-c2-1", "client": 2, "state": "dropped", "reason": "went away"}
        return {
            "protocol": 1, "version": "9", "time": time.time(), "task": "mnist-2nn", "algorithm": {"name": "fed_avg"},
            "rounds": 400, "seed": 5, "target": 0.85, "metric": "accuracy", "last_round": self.rounds,
            "finished": False, "failure": None, "ready": True, "trouble": None, "waiting_for": "reports: 1 of 2",
            "round": {
                "number": self.rounds + 1, "phase": "collecting", "attempt": 1, "goal": 2, "minimum": 1, "reported": 1,
                "seconds_left": 42.0, "tasks": [task, dropped],
            },
            "clients": [
                {"number": k, "name": name, "num_examples": 100 + k, "state": states[k]} for k, name in enumerate(NAMES)
            ],
            "client_states": {"working": 1, "ready": 1, "away": 1},
            "history": [self.closed(number) for number in range(after + 1, self.rounds + 1)],
            "dropouts": [{"round": 1, "reason": "went away", "count": 3}, {"round": 2, "reason": "late", "count": 1}],
            "failed_attempts": [{"round": 2, "attempt": 1}],
        }  # fmt: skip


@pytest.fixture
def fleet():
    """The status and the page, served."""
    fleet = Fleet()

    async def status(request):
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"code": "unknown-token", "message": "token: not one of ours"}, 401)
        return JSONResponse(fleet.status(int(request.query_params["after"])))

    routes = [Route(path, handler, methods=[method]) for method, path, handler in coordinator_page_routes()]
    app = Starlette(routes=[*routes, Route("/v1/status", status)])
    listener = bound(0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    fleet.url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

    def end():
        server.should_exit = True
        thread.join(10)
        listener.close()

    fleet.end = end
    yield fleet
    end()


def open_with_token(open_page, fleet, **how):
    page = open_page(fleet.url, **how)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#link")).to_have_text("live")
    return page


def test_without_a_token_there_is_a_form_and_no_more(fleet, open_page, serious_faults):
    page = open_page(fleet.url, expected=("401",))
    expect(page.get_by_role("heading", name="A token to look")).to_be_visible()
    assert serious_faults(page) == []
    page.get_by_label("Token").fill("another")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_text("The token was refused: token: not one of ours")).to_be_visible()
    assert fleet.asked_after == []


def test_rounds_go_by_and_clients_are_seen_by_state(fleet, open_page, keep, serious_faults, until):
    page = open_with_token(open_page, fleet, scheme="dark")
    expect(page.locator("#clients tr")).to_have_count(4)
    expect(page.locator("#clients td", has_text="<b>ward 1</b>")).to_be_visible()  # a name is a name
    expect(page.locator("#clients tr").nth(0)).to_contain_text("training or uploading")
    expect(page.locator("#clients tr").nth(2)).to_contain_text("dropped: went away")
    expect(page.locator("#drops")).to_contain_text(re.compile(r"went away\s*3"))
    expect(page.locator("#now")).to_contain_text("42 s to its deadline")
    until(page, "Number(document.querySelector('#tiles dd').innerText) >= 4")
    expect(page.locator("#metric-chart .plot")).to_have_attribute("aria-label", re.compile(r"accuracy by round"))
    assert fleet.asked_after[:3] == [-1, 1, 2]  # what is known is not asked for again
    page.locator("#time-chart .plot").focus()
    page.keyboard.press("End")
    expect(page.locator("#time-chart .tip")).to_contain_text(re.compile(r"training and uploads\s*6 s"))
    page.get_by_role("searchbox").fill("ward revoked")
    expect(page.locator("#clients tr")).to_have_count(1)
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="away 1").click()
    expect(page.locator("#clients tr")).to_have_count(1)
    expect(page.get_by_role("button", name="away 1")).to_have_attribute("aria-pressed", "true")
    assert serious_faults(page) == []
    keep(page, "coordinator")
    page.reload()  # the token stays in the tab
    expect(page.locator("#link")).to_have_text("live")


def test_a_coordinator_that_is_gone_is_said(fleet, open_page, keep):
    phone = {"width": 390, "height": 844}
    page = open_with_token(open_page, fleet, size=phone, expected=("net::ERR_",))
    expect(page.locator("#clients tr")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    fleet.end()
    expect(page.locator("#banner")).to_contain_text("Connection lost", timeout=15_000)
    keep(page, "coordinator-lost-phone")
