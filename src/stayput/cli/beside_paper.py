"""The paper's number for a run, if the paper prints one: same task, algorithm, clients and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stayput.core.named_settings import NAME
from stayput.report.wording import PublishedComparison
from stayput.runs.spec import RunSpec

if TYPE_CHECKING:
    from stayput.report.number_tables import NumberTable

PAPER_PARTITIONS: tuple[Mapping[str, Any], ...] = (
    {NAME: "iid", "num_clients": 100},
    {NAME: "shards", "num_clients": 100, "shards_per_client": 2},
)


def paper_rounds(spec: RunSpec, target: float | None = None) -> list[PublishedComparison]:
    """The paper's rounds to this target (any, if None) in the run's setting; two where its tables differ."""
    from stayput.paper.published import Setting, published_rounds

    local_work = _local_work(spec.algorithm)
    if local_work is None or dict(spec.partition) not in PAPER_PARTITIONS:
        return []
    epochs, size = local_work
    setting = Setting(spec.task, spec.partition[NAME], spec.algorithm["client_fraction"], epochs, size)
    return [
        PublishedComparison(cell.rounds, cell.target, cell.table)
        for cell in published_rounds(setting)
        if target in (None, cell.target)
    ]


def _local_work(algorithm: Mapping[str, Any]) -> tuple[int, Any] | None:
    """E and B where they do not change; the paper lists FedSGD as E=1, B="all"."""
    if algorithm[NAME] == "fed_sgd":
        return 1, "all"
    if algorithm[NAME] != "fed_avg":
        return None
    epochs, size = algorithm["local_epochs"], algorithm["batch_size"]
    return None if isinstance(epochs, Mapping) or isinstance(size, Mapping) else (epochs, size)


def measured_tables(folder: Path) -> list[tuple[str, Sequence[NumberTable]]]:
    """The paper's tables beside what `stayput reproduce` left in a folder; none if it holds no measured cells."""
    from stayput.paper.catalogue import TABLES
    from stayput.paper.results import Results
    from stayput.paper.telling import markdown

    if not folder.is_dir() or (folder / "spec.json").exists() or not any(folder.glob("*.json")):
        return []
    results = Results(folder)
    if not results.all():
        return []
    return [(table.title, _tables_of(markdown(table, results))) for table in TABLES.values()]


def _tables_of(lines: Sequence[str]) -> list[NumberTable]:
    """The tables of a page's text: a bold line above each, then its head, a rule and its rows."""
    from stayput.report.number_tables import NumberTable

    found: list[NumberTable] = []
    title, rows = "", list[list[str]]()
    for line in [*lines, ""]:
        if line.startswith("**"):
            title = line.strip("*")
        elif line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif rows:
            found.append(NumberTable(title, rows[0], rows[2:]))
            rows = []
    return found
