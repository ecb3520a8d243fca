"""The files of the coordinator's page, as routes that another server takes in."""

import contextlib
import re
from http.client import HTTPConnection

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from stayput.board.coordinator_page import coordinator_page_routes


@pytest.fixture
def ask(serving):
    """Asks a server that took the routes in: the status, the headers and the text of an answer."""
    routes = [Route(path, handler, methods=[method]) for method, path, handler in coordinator_page_routes()]
    with serving(Starlette(routes=routes)) as port:

        def asked(path, method="GET"):
            with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
                connection.request(method, path)
                answer = connection.getresponse()
                return answer.status, dict(answer.getheaders()), answer.read().decode()

        yield asked


def test_the_page_and_everything_that_it_refers_to_is_there(ask):
    status, _, page = ask("/")
    assert status == 200
    seen, left = set(), re.findall(r'(?:src|href)="(/assets/[^"]*)"', page)
    while left:
        path = left.pop()
        status, _, text = ask(path)
        assert status == 200, path
        seen.add(path)
        left += [f"/assets/{name}" for name in re.findall(r'from "\./([^"]*)"', text)]
    assert {"/assets/coordinator.js", "/assets/words.js", "/assets/stream.js"} <= seen


def test_it_forbids_what_is_not_its_own_and_keeps_nothing(ask):
    for _, path, _ in coordinator_page_routes():
        _, headers, _ = ask(path)
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son[a-z]+=", ask("/")[2])


def test_it_is_read_alone(ask):
    assert {method for method, _, _ in coordinator_page_routes()} == {"GET"}
    assert ask("/", "POST")[0] == 405
    assert ask("/assets/board.js")[0] == 404  # another page's
