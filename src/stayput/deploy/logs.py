"""The coordinator's log: a line for each change, as text or as JSON for machines. Secrets never come into it."""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import time
from typing import Any

from stayput.errors import UnknownName

FORMATS = ("text", "json")


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level and message; a change with its fields."""
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        change = getattr(record, "change", None)
        if dataclasses.is_dataclass(change) and not isinstance(change, type):
            entry |= {"event": type(change).__name__, **dataclasses.asdict(change)}
        else:
            entry["message"] = record.getMessage()
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log_to_stderr(form: str, *, level: int = logging.INFO) -> None:
    """Write the deployment's log to stderr, and nothing of other libraries below a warning."""
    if form not in FORMATS:
        raise UnknownName("log_format", form, FORMATS)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("stayput.deploy")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
    logging.getLogger("uvicorn.error").addHandler(handler)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
