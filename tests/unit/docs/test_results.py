"""The results page is what its files say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def publish():
    spec = importlib.util.spec_from_file_location("publish", ROOT / "benchmarks" / "publish.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_the_one_that_the_files_make():
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == publish().page(), "run: python benchmarks/publish.py page"


def test_a_kept_run_is_on_the_page():
    runs = publish().kept_runs()
    assert len(runs) >= 3
    assert all({"spec", "machine", "versions", "rounds", "values"} <= set(run) for run in runs.values())
