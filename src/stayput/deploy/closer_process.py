"""The coordinator's hold on its `round_closer` process: one order at a time, started again if it dies.

Must not import torch: that is what the other process is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stayput.errors import DeploymentError, StoreFailed

LONGEST_ANSWER = 64 << 20
"""Bytes of one line of an answer; a schema of 10,000 tensors is a few MB."""


class CloserFailed(DeploymentError):
    """The process that sums has refused an order, or died of it twice."""


class CloserProcess:
    """Sums rounds in a process of its own."""

    def __init__(self, plan: Mapping[str, Any], folder: Path, url: str | None = None) -> None:
        self._plan = dict(plan)
        self._command = [sys.executable, "-m", "stayput.deploy.round_closer", str(folder), *([url] if url else [])]
        self._process: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    async def order(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to an order; a process that died of it is given it once more, in a new one.

        `StoreFailed` for what is to be asked again later, such as on a full disk.
        """
        async with self._one_at_a_time:
            for _ in range(2):
                answer = await self._ask(order)
                if answer is not None:
                    if answer.get("again"):
                        raise StoreFailed(answer["error"])
                    if "error" in answer:
                        raise CloserFailed(answer["error"])
                    return answer
            raise CloserFailed(f"the process that sums rounds died twice of {order['do']!r} (see its errors above)")

    async def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _ask(self, order: Mapping[str, Any]) -> dict[str, Any] | None:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LONGEST_ANSWER,
            )
        process = self._process
        assert process.stdin is not None  # noqa: S101 - asked for above
        assert process.stdout is not None  # noqa: S101 - asked for above
        process.stdin.write(json.dumps({**order, "plan": self._plan}).encode() + b"\n")
        try:
            await process.stdin.drain()
            line = await process.stdout.readline()
        except ConnectionError:
            line = b""
        if not line:
            await process.wait()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer
