"""The model card of an exported model: README.md with front matter, as Hugging Face reads it.

It states data, algorithm, rounds, accuracy and privacy settings, and says where there are none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stayput.data import DATA_SETS
from stayput.exports.trained_model import TrainedModel
from stayput.report.wording import count_text, value_text
from stayput.runs.spec import CUSTOM, RunSpec
from stayput.tasks.catalogue import NAMED_TASKS

KINDS = {
    "mnist": "image-classification",
    "cifar10": "image-classification",
    "shakespeare": "text-generation",
    "posts": "text-generation",
}
"""What a model of a data set does, in Hugging Face's words."""

NO_PRIVACY_SENTENCE = (
    "None. Clients' updates were neither clipped nor noised, and were summed in the clear: the model carries no "
    "guarantee of differential privacy, and examples that it was trained on may be recovered from it."
)


def model_card(model: TrainedModel) -> str:
    """The text of README.md."""
    return "\n".join([*_front_matter(model), "", *_body(model)]) + "\n"


def _front_matter(model: TrainedModel) -> Iterator[str]:
    """YAML, every value of it written as JSON, which YAML includes."""
    named = model.data_set != CUSTOM
    algorithm = str(model.spec.algorithm["name"])
    yield "---"
    yield "library_name: stayput"
    yield f"tags: {json.dumps(['federated-learning', 'stayput', algorithm.replace('_', '-')])}"
    if named:
        yield f"datasets: {json.dumps([model.data_set])}"
        yield f"metrics: {json.dumps(list(model.spec.metrics))}"
    if named and model.data_set in KINDS:
        yield f"pipeline_tag: {KINDS[model.data_set]}"
        if model.report.evaluation:
            yield f"model-index: {json.dumps([_index_entry(model)])}"
    yield "---"


def _index_entry(model: TrainedModel) -> dict[str, Any]:
    measured = [{"type": name, "value": value} for name, value in model.report.evaluation.items()]
    data_set = {"type": model.data_set, "name": model.data_set, "split": "test"}
    task = {"type": KINDS[model.data_set]}
    return {"name": model.spec.task, "results": [{"task": task, "dataset": data_set, "metrics": measured}]}


def _body(model: TrainedModel) -> Iterator[str]:
    spec = model.spec
    yield f"# {spec.task}"
    yield ""
    yield (
        f"A model of {count_text(model.num_parameters)} parameters, trained by federated averaging with stayput: the "
        f"examples stayed with their clients, and only models were exchanged."
    )
    yield from ["", "## Data", "", *_table(_data_rows(model))]
    yield from ["", "## Algorithm", "", *_table(_plain(spec.algorithm).items())]
    yield from ["", "## Training", "", *_table(_training_rows(model))]
    yield from ["", "## Accuracy", "", *_accuracy(model)]
    yield from ["", "## Privacy", "", NO_PRIVACY_SENTENCE]
    yield from ["", "## Use", "", "```python", *_use(spec), "```"]


def _data_rows(model: TrainedModel) -> Iterator[tuple[str, str]]:
    known = DATA_SETS.get(model.data_set)
    yield "data set", "the user's own" if known is None else f"{known.name}: {known.summary}"
    if known is not None:
        yield "terms of the data", known.licence
    for name, label in (("num_clients", "clients (K)"), ("num_examples", "examples (n)")):
        if name in model.environment:
            yield label, count_text(model.environment[name])
    for name, value in _plain(model.spec.partition).items():
        yield f"partition: {name}", value
    yield "partition: seed", str(model.spec.partition_seed)


def _training_rows(model: TrainedModel) -> Iterator[tuple[str, str]]:
    spec = model.spec
    yield "rounds", f"{model.report.round_number} (of at most {spec.rounds})"
    yield "seed", str(spec.seed)
    yield "engine", f"{spec.engine}, {spec.device}, {spec.precision}"
    versions = model.environment.get("versions", {})
    if versions:
        yield "versions", ", ".join(f"{name} {number}" for name, number in versions.items())
    if "run_id" in model.environment:
        yield "run", str(model.environment["run_id"])


def _accuracy(model: TrainedModel) -> Iterator[str]:
    if not model.report.evaluation:
        yield f"Not measured: round {model.report.round_number} was not evaluated, or there were no test examples."
        return
    where = "the data set's own test examples" if model.data_set != CUSTOM else "the test examples that were given"
    yield f"After round {model.report.round_number}, on {where}:"
    yield ""
    yield from _table((name, value_text(name, value)) for name, value in model.report.evaluation.items())


def _use(spec: RunSpec) -> Iterator[str]:
    own = ", model=MyNet" if spec.task not in NAMED_TASKS else ""
    yield "import stayput as sp"
    yield ""
    yield f'model = sp.load_model("."{own})  # a torch module in evaluation mode'


def _table(rows: Any) -> Iterator[str]:  # noqa: ANN401 - pairs, of a mapping or of an iterator
    yield "| | |"
    yield "|---|---|"
    for name, value in rows:
        cell = str(value).replace("|", "\\|").replace("\n", " ")
        yield f"| {name} | {cell} |"


def _plain(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
