"""The paper's number for a run, if the paper prints one: same task, algorithm, clients and target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stayput.core.named_settings import NAME
from stayput.report.wording import PublishedComparison
from stayput.runs.spec import RunSpec

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
