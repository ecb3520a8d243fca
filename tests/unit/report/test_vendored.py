"""The bundled chart library is the one that was published, byte for byte, and its licence goes with every copy."""

import hashlib
import json
from importlib.resources import files

import pytest

from stayput.report.charts import asset, embedded_json, notice

ASSETS = files("stayput.report").joinpath("assets")
ABOUT = json.loads(asset("vendored.json"))


@pytest.mark.parametrize("name", sorted(ABOUT["files"]))
def test_a_bundled_file_is_the_published_one(name):
    content = ASSETS.joinpath(name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == ABOUT["files"][name]["sha256"]


def test_every_asset_is_bundled_or_our_own():
    ours = {"charts.js", "report.js", "theme.css", "vendored.json"}
    assert {entry.name for entry in ASSETS.iterdir()} == set(ABOUT["files"]) | ours


def test_the_library_is_small_and_says_its_version():
    assert len(asset("uplot.min.js")) < 60_000
    assert f"(v{ABOUT['version']})" in asset("uplot.min.js")


def test_the_licence_goes_with_every_copy(make_run):
    from stayput.report.html import write_report

    text = write_report(make_run()).read_text(encoding="utf-8")
    assert notice() in text
    assert "Permission is hereby granted" in text


def test_json_in_a_page_cannot_end_its_element():
    text = embedded_json({"name": "</script><script>alert(1)</script><!--", "line": "\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["name"].startswith("</script>")
