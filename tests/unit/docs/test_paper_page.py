"""The page of the paper is what the measured cells say."""

from __future__ import annotations

import re
from pathlib import Path

from stayput.paper.page import page
from stayput.paper.results import Results

ROOT = Path(__file__).resolve().parents[3]
WRITTEN = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


def test_the_page_is_the_one_that_the_files_make():
    assert page(Results(ROOT / "results")) == WRITTEN, "run: stayput reproduce page"


def test_its_figures_are_there():
    shown = set(re.findall(r"\]\((images/paper/[^)]*)\)", WRITTEN))
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs" / "images" / "paper").glob("*.png")}
    assert shown == there, "run: stayput reproduce page"


def test_a_measured_file_is_small_and_says_where_it_comes_from():
    for result in Results(ROOT / "results").all():
        assert {"machine", "versions", "source_sha256", "seconds", "precision"} <= set(result.provenance)
    assert all(path.stat().st_size < 300_000 for path in (ROOT / "results").glob("*.json"))
