"""From a spec to what it stands for: the task, the clients with their data, the algorithm, the test examples."""

from __future__ import annotations

from pathlib import Path

from stayput.algorithms import ALGORITHMS
from stayput.core.named_settings import from_plain
from stayput.data import DATA_SETS
from stayput.data.fetching import Progress
from stayput.data.partitions import PARTITIONS
from stayput.data.populations import open_population
from stayput.errors import InvalidSetting
from stayput.experiments.preparing import Parts, refuse_impossible
from stayput.runs.spec import CUSTOM, POPULATION, RunSpec
from stayput.tasks.catalogue import named_task


def build(spec: RunSpec, *, data_dir: Path | None = None, on_download: Progress | None = None) -> Parts:
    """Build a spec's parts; its data set is fetched if it is not there yet."""
    if CUSTOM in (spec.task, spec.partition["name"]):
        raise InvalidSetting(
            f"task={spec.task!r}: this run was started from Python with a model or data of its own, which only that "
            f"code can make again (call stayput.train(..., folder=..., resume=True) there)"
        )
    named = named_task(spec.task)
    algorithm = from_plain("algorithm", ALGORITHMS, spec.algorithm).algorithm()
    if spec.partition["name"] == POPULATION:
        refuse_impossible(spec, algorithm)
        population = open_population(spec.partition["folder"])
        return Parts(named.task, population.clients, algorithm, population.test)
    partition = from_plain("partition", PARTITIONS, spec.partition)
    refuse_impossible(spec, algorithm)
    split = DATA_SETS[named.data_set].load(data_dir, progress=on_download)
    return Parts(named.task, split.train.partition(partition, seed=spec.partition_seed), algorithm, split.test)
