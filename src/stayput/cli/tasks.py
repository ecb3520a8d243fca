"""`stayput tasks`: the named tasks."""

from __future__ import annotations

from stayput.cli import flags
from stayput.cli.outcome import json_line
from stayput.cli.wording import aligned, answer
from stayput.report.wording import value_text


def tasks(json: flags.AsJson = False) -> None:
    """List the tasks that `stayput run` knows, with the paper's target for each."""
    from stayput.tasks.catalogue import NAMED_TASKS

    if json:
        answer(
            json_line(
                [
                    {
                        "name": name,
                        "summary": named.summary,
                        "data_set": named.data_set,
                        "metric": named.task.target_metric,
                        "paper_target": named.paper_target,
                    }
                    for name, named in NAMED_TASKS.items()
                ]
            )
        )
        return
    rows = [
        (
            name,
            f"{named.task.target_metric} {value_text(named.task.target_metric, named.paper_target)}",
            named.summary,
        )
        for name, named in NAMED_TASKS.items()
    ]
    for line in aligned([("task", "paper's target", ""), *rows], gap="   "):
        answer(line)
