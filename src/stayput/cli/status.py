"""`stayput status`: where a fleet stands, from anywhere, with a token that reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stayput.cli import flags
from stayput.cli.outcome import json_line
from stayput.cli.wording import aligned, answer

Url = Annotated[
    str, typer.Argument(metavar="URL", help="The coordinator, such as https://host:8443.", show_default=False)
]
Token = Annotated[
    str,
    typer.Option(
        envvar="STAYPUT_STATUS_TOKEN", help="As `stayput token new --status` has printed it.", show_default=False
    ),
]
CaFile = Annotated[
    Path | None, typer.Option(help="Authorities that the coordinator's certificate is checked against (PEM).")
]


def status(url: Url, *, token: Token, ca_file: CaFile = None, json: flags.AsJson = False) -> None:
    """Show a fleet's rounds, clients and accuracy, and what it waits for.

    Example: stayput status https://host:8443 --token stayput.0123456789abcdef.SECRET
    """
    from stayput.deploy.status_reader import read_status

    found = read_status(url, token, ca_file=ca_file)
    if json:
        answer(json_line(found))
        return
    for line in _lines(found):
        answer(line)


def _lines(found: dict[str, Any]) -> list[str]:
    metric = found["metric"]
    rounds = [entry for entry in found["history"] if entry["report"]]
    best = [entry["report"]["evaluation"].get(metric) for entry in rounds if entry["report"].get("evaluation")]
    lines = [
        f"{found['task']}: round {found['last_round']} of {found['rounds']}"
        + (f", {metric} {best[-1]:.4f}" if best and best[-1] is not None else ""),
        f"waits for {found['waiting_for'] or found['trouble']}",
    ]
    if found["failure"]:
        lines.append(f"failed: {found['failure']}")
    states = ", ".join(f"{count} {state}" for state, count in sorted(found["client_states"].items()))
    lines.append(f"clients: {states or 'none'}")
    current = found["round"]
    if current is not None:
        left = "" if current["seconds_left"] is None else f", {current['seconds_left']:.0f} s to its deadline"
        lines.append(
            f"round {current['number']} ({current['phase']}, attempt {current['attempt']}): "
            f"{current['reported']} of {current['goal']} reports{left}"
        )
    dropped = [(f"round {each['round']}", str(each["count"]), each["reason"]) for each in found["dropouts"][-5:]]
    if rounds:
        lines.append(f"model {rounds[-1]['report']['model_sha256']}")
    return lines + (["dropouts:", *aligned(dropped, indent="  ")] if dropped else [])
