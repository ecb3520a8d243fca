"""The process that holds tensors on the coordinator's side: `python -m stayput.deploy.round_closer FOLDER [URL]`.

Lines of JSON come in on stdin and go out on stdout, one answer for each order. It touches no database and no socket;
models and updates are files. If it dies the coordinator starts another and asks again, and gets the same bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from pathlib import Path
from typing import IO, Any

from stayput.deploy.blobs import Blobs
from stayput.errors import StayputError, StoreFailed


def carry_out(order: dict[str, Any], sums: Any) -> dict[str, Any]:  # noqa: ANN401 - a RoundSums, imported late
    """The answer to one order."""
    if order["do"] == "begin":
        schema, result = sums.begin()
        return {"schema": [dataclasses.asdict(spec) for spec in schema], "result": result}
    result = sums.close(order["round"], order["state_sha256"], order["updates"], order["num_examples"])
    return result if "damaged" in result else {"result": result}


def serve(blobs: Blobs, orders: IO[str], answers: IO[str]) -> None:
    """Answer orders until there are no more; the first says what is learned."""
    sums: Any = None
    for line in orders:
        try:
            order = json.loads(line)
            if sums is None:
                from stayput.deploy.round_sums import RoundSums

                sums = RoundSums(order["plan"], blobs)
            answer = carry_out(order, sums)
        except (StoreFailed, OSError) as error:  # a full disk, a damaged model: over when somebody has seen to it
            answer = {"error": str(error), "again": True}
        except StayputError as error:
            answer = {"error": str(error)}
        answers.write(json.dumps(answer, allow_nan=False) + "\n")
        answers.flush()


def main() -> None:
    """Serve the process that started this one."""
    folder, *url = sys.argv[1:]
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # whatever a user's task prints must not look like an answer
        serve(Blobs(Path(folder), url[0] if url else None), sys.stdin, answers)


if __name__ == "__main__":
    main()
