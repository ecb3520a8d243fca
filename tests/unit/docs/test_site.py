"""The documentation as a site: it builds without a warning, has every page, and fetches nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import stayput as sp

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


class Resources(HTMLParser):
    """What a browser would load for a page, and where its links lead."""

    def __init__(self):
        super().__init__()
        self.loaded, self.links, self.anchors = [], [], set()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a":
            self.links.append(found.get("href") or "")
        elif tag in ("script", "img", "iframe", "source"):
            self.loaded.append(found.get("src") or "")
        elif tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(found.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "http_proxy": "http://127.0.0.1:9",
            "https_proxy": "http://127.0.0.1:9",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    found = {}
    for path in site.rglob("*.html"):
        parser = Resources()
        parser.feed(path.read_text(encoding="utf-8"))
        found[str(path.relative_to(site))] = parser
    return found


def named(path):
    """The site's name of a page of docs/."""
    return str(path.relative_to(DOCS).with_suffix(".html")).replace("README.html", "index.html")


@pytest.mark.slow
def test_every_page_is_in_the_site_and_in_its_navigation(pages):
    expected = {named(path) for path in DOCS.rglob("*.md")} | {
        f"{name}.html" for name in ("index", "architecture", "contributing", "changelog")
    }
    assert expected <= set(pages)
    home = {os.path.normpath(link.partition("#")[0]) for link in pages["index.html"].links}
    sections = {
        os.path.normpath(f"decisions/{link}") for link in pages["decisions/index.html"].links if ":" not in link
    }
    assert expected - {"index.html"} <= home | sections


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(pages, site):
    for page, parser in pages.items():
        for source in parser.loaded:
            assert not re.match(r"(https?:)?//", source), f"{page} loads {source}"
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?https?:", styles)


@pytest.mark.slow
def test_every_link_within_the_site_leads_somewhere(pages, site):
    for page, parser in pages.items():
        if page == "404.html":
            continue
        for link in parser.links:
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link) or not link or link == ".":
                continue
            path = os.path.normpath(Path(page).parent / target) if target else page
            assert (site / path).exists(), f"{page}: {link}"
            if anchor and path in pages:
                assert anchor in pages[path].anchors or anchor == "__skip", f"{page}: {link}"


@pytest.mark.slow
def test_the_reference_has_every_public_name(pages):
    documented = set().union(*(parser.anchors for page, parser in pages.items() if page.startswith("reference/")))
    for name in set(sp.__all__) - {"__version__", "data", "errors", "losses", "metrics", "partitions"}:
        value = getattr(sp, name)
        assert f"{value.__module__}.{value.__qualname__}" in documented, name
    errors = {
        error.__name__ for error in vars(sp.errors).values() if isinstance(error, type) and issubclass(error, Exception)
    }
    assert {f"stayput.errors.{name}" for name in errors} <= documented
