"""How `mkdocs` makes the site out of this repository: hooks that it calls.

Pages of the repository's root (README.md and its neighbours) become pages of the site; links that fit the repository
are turned into ones that fit the site; pages that the nav does not name are added to it. A link to a file that is no
page, such as a script, stays as its text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import ConfigurationError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the root, and what the site calls them."""

DECISIONS = "Decisions"
MORE = "More"

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put what is there into the nav, but not what is not: pages come and go without this file."""
    nav = _existing(config.nav or [])
    named = set(_pages(nav))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    decisions = sorted(page for page in there - named if page.startswith("decisions/"))
    section = _section(nav, DECISIONS)
    if section is None:
        raise ConfigurationError(f"mkdocs.yml: the nav has no section {DECISIONS!r} (add it, empty)")
    section[:] = ["decisions/README.md", *(page for page in decisions if "README" not in page)]
    if rest := sorted(there - named - set(decisions)):
        nav.append({MORE: rest})
    config.nav = nav
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Bring in the pages of the root."""
    for source, name in ROOT_PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:  # noqa: ANN401 - mkdocs passes what it likes
    """Links as the site has them; code is left alone."""
    source = Path(str(page.file.abs_src_path))
    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _link(link, source, page.file.src_uri), part) for part in parts[::2]]
    return "".join(parts)


def _link(link: re.Match[str], source: Path, uri: str) -> str:
    image, label, target = link.groups()
    path, hash_sign, anchor = target.partition("#")
    if not path or "://" in target:
        return link[0]
    found = (source.parent / path).resolve()
    if found.parent == ROOT and found.name in ROOT_PAGES:
        place = ROOT_PAGES[found.name]
    elif found.is_file() and found.is_relative_to(DOCS) and found.suffix in (".md", ".png", ".svg"):
        place = found.relative_to(DOCS).as_posix()
    else:
        return label
    return f"{image}[{label}]({os.path.relpath(place, Path(uri).parent)}{hash_sign}{anchor})"


def _existing(entries: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for entry in entries:
        label, content = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(content, list):
            kept.append({label: _existing(content)})
        elif content in ROOT_PAGES.values() or (DOCS / content).is_file():
            kept.append(entry)
    return kept


def _pages(entries: list[Any]) -> list[str]:
    found = []
    for entry in entries:
        content = next(iter(entry.values())) if isinstance(entry, dict) else entry
        found += _pages(content) if isinstance(content, list) else [content]
    return found


def _section(entries: list[Any], label: str) -> list[Any] | None:
    for entry in entries:
        for name, content in entry.items() if isinstance(entry, dict) else ():
            if isinstance(content, list):
                found = content if name == label else _section(content, label)
                if found is not None:
                    return found
    return None
