"""What a coordinator shows of itself: status as plain data, health, readiness, Prometheus metrics. It only reads.

`GET /v1/status` is for `stayput status`, live pages and scripts; it wants a token that reads and nothing else. Health,
readiness and metrics are open, as those who ask for them have no keys; they hold counts, and no names. Must not import
torch.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as CounterMetric
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stayput._version import __version__
from stayput.deploy import records as r
from stayput.deploy.app import Authority, Handler
from stayput.deploy.identity import check_token, parse_token
from stayput.deploy.membership import Membership
from stayput.deploy.schemas import PROTOCOL
from stayput.deploy.service import Service
from stayput.errors import AccessDenied


def round_in(text: str) -> int:
    """The round that a request names; -1, before all of them, if it names none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


class Metrics:
    """The numbers of one coordinator process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.round = Gauge("stayput_round", "The last round that is over.", registry=self.registry)
        self.clients = Gauge("stayput_clients", "Clients by state.", ["state"], registry=self.registry)
        self.uploads = Gauge("stayput_uploads_under_way", "Updates on their way in.", registry=self.registry)
        self.ready = Gauge("stayput_ready", "1 where changes can be taken.", registry=self.registry)
        self.reports = CounterMetric("stayput_reports", "Updates that count.", registry=self.registry)
        self.dropouts = CounterMetric(
            "stayput_dropouts", "Tasks that came to nothing.", ["reason"], registry=self.registry
        )
        self.attempts = CounterMetric(
            "stayput_failed_attempts", "Rounds that had too few reports at their deadline.", registry=self.registry
        )
        self.closing = Histogram(
            "stayput_round_closing_seconds", "From the last report to the next model.", registry=self.registry
        )

    def count(self, change: r.Change) -> None:
        """Take note of a change that was stored."""
        if isinstance(change, r.TaskReported):
            self.reports.inc()
        elif isinstance(change, r.TaskDropped):
            self.dropouts.labels(change.reason.partition(":")[0]).inc()
        elif isinstance(change, r.AttemptFailed | r.RoundReopened):
            self.attempts.inc()
        elif isinstance(change, r.RoundClosed):
            self.closing.observe(float(change.result.report.get("seconds", 0.0)))


class ObservingRoutes:
    """The handlers that only look."""

    def __init__(self, service: Service, membership: Membership, authority: Authority, uploads: Any) -> None:  # noqa: ANN401 - anything with a length
        self._service, self._membership, self._authority, self._uploads = service, membership, authority, uploads
        self.metrics = Metrics()

    def routes(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler) of each."""
        return [
            ("GET", "/v1/status", self.status),
            ("GET", "/healthz", self.healthy),
            ("GET", "/readyz", self.ready),
            ("GET", "/metrics", self.numbers),
        ]

    async def healthy(self, request: Request) -> Response:  # noqa: ARG002 - anybody may ask
        """The process answers."""
        return JSONResponse({"healthy": True})

    async def ready(self, request: Request) -> Response:  # noqa: ARG002 - anybody may ask
        """Whether changes can be taken; 503 with the reason where not."""
        ready = self._service.machine is not None and self._service.trouble is None
        return JSONResponse(
            {"ready": ready, "why_not": None if ready else self._service.trouble}, 200 if ready else 503
        )

    async def numbers(self, request: Request) -> Response:  # noqa: ARG002 - anybody may ask
        """For Prometheus."""
        machine, metrics = self._service.machine, self.metrics
        metrics.ready.set(machine is not None)
        metrics.uploads.set(len(self._uploads))
        if machine is not None:
            metrics.round.set(machine.last_closed)
            for state, count in client_states(self._service).items():
                metrics.clients.labels(state).set(count)
        return Response(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def status(self, request: Request) -> Response:
        """Everything that can be said of the fleet, to who has a token that reads."""
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise AccessDenied("no-credentials", "authorization: must be `Bearer <token>` (stayput token new --status)")
        token = parse_token(text)
        stored, client, _ = await asyncio.to_thread(self._membership.token, token.token_id) or (None, None, None)
        check_token(token, stored, self._authority.clock())
        if client is not None:
            raise AccessDenied("wrong-role", "token: lets a client in and reads nothing (stayput token new --status)")
        number = round_in(request.query_params.get("after", ""))
        return JSONResponse(await asyncio.to_thread(self._status, number))

    def _status(self, after: int) -> dict[str, Any]:
        service, machine = self._service, self._service.machine
        spec = service.plan.get("spec", {})
        head = service.store.head()
        return {
            "protocol": PROTOCOL,
            "version": __version__,
            "time": self._authority.clock(),
            "task": service.plan.get("task") or spec.get("task"),
            "algorithm": spec.get("algorithm"),
            "rounds": spec.get("rounds"),
            "seed": spec.get("seed"),
            "target": spec.get("target"),
            "metric": next(iter(spec.get("metrics", {})), "loss"),
            "last_round": head["last_closed"],
            "finished": bool(head["finished"]),
            "failure": head["failure"],
            "ready": machine is not None and service.trouble is None,
            "trouble": service.trouble,
            "waiting_for": None if machine is None else machine.waiting_for(),
            "round": _open_round(service),
            "clients": self._clients(),
            "client_states": client_states(service),
            "history": [_closed_round(row) for row in service.store.round_rows(after=after) if row["closed_at"]],
            "dropouts": service.store.dropouts(),
            "failed_attempts": service.store.failed_attempts(),
        }

    def _clients(self) -> list[dict[str, Any]]:
        machine = self._service.machine
        return [
            {
                "number": member.number,
                "name": member.name,
                "num_examples": member.num_examples,
                "state": "revoked"
                if member.revoked_at
                else "not enrolled"
                if member.enrolled_at is None
                else "unknown"
                if machine is None
                else machine.state_of(member.number),
            }
            for member in self._membership.members()
        ]


def client_states(service: Service) -> dict[str, int]:
    """How many clients there are in each state."""
    if service.machine is None:
        return {}
    return dict(Counter(service.machine.state_of(number) for number in list(service.machine.clients)))


def _open_round(service: Service) -> dict[str, Any] | None:
    machine = service.machine
    if machine is None or machine.round is None:
        return None
    progress, deadline = machine.round, machine.deadline()
    tasks = [
        {"task": task.task, "client": task.client, "state": str(task.state), "reason": task.reason}
        for task in list(progress.tasks.values())
    ]
    return {
        "number": progress.number,
        "phase": "selecting" if not progress.selected else str(progress.phase),
        "attempt": progress.attempt,
        "goal": progress.goal,
        "minimum": progress.minimum,
        "reported": len(progress.reported),
        "seconds_left": None if deadline is None else max(deadline - service.monotonic(), 0.0),
        "tasks": tasks,
    }


def _closed_round(row: dict[str, Any]) -> dict[str, Any]:
    times = ("opened_at", "selected_at", "closing_at", "closed_at")
    facts = {"number": row["number"], "attempts": row["attempt"], "goal": row["goal"]}
    return {**facts, **{name: row[name] for name in times}, "report": row["report"]}
