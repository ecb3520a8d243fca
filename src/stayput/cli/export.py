"""`stayput export`: a run's model as files for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stayput.cli import flags
from stayput.cli.outcome import json_line
from stayput.cli.run_names import find_run
from stayput.cli.wording import answer, say

To = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER|FILE.safetensors",
        help="A new folder, for model.safetensors, config.json and README.md; or one new file.",
        show_default=False,
    ),
]
Best = Annotated[bool, typer.Option("--best", help="The model with the best evaluation, rather than the last.")]


def export(run: flags.RunName, to: To, best: Best = False, json: flags.AsJson = False) -> None:
    """Write a run's model as safetensors, with a config and a model card in the layout of Hugging Face.

    The card states data, algorithm, rounds, accuracy and privacy settings. stayput.load_model reads it back.
    """
    from stayput.exports.model_files import export_model
    from stayput.exports.trained_model import TrainedModel

    model, notes = TrainedModel.of_run(find_run(run), best=best)
    for note in notes:
        say(f"note: {note}")
    written = export_model(model, to)
    if json:
        config = model.config()
        answer(
            json_line(
                {"written": [str(path) for path in written], "round": config["round"], "sha256": config["sha256"]}
            )
        )
    else:
        for path in written:
            answer(str(path))
