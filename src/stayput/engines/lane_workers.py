"""Lanes on every core: the clients of a round on a pool of processes, each advancing several of them in lanes.

    engine = LaneWorkersEngine(task, clients, device=torch.device("cpu"))

A process with one torch thread (`workers.py` has the reasons) runs `LanesEngine` on its share of a cohort: what a step
costs beside its arithmetic is paid once for several clients, and no core waits for another within a step. Updates are
summed by the parent in the order of the cohort. Results are those of `lanes`: equal to `sequential` within rounding,
and the same bits wherever there are as many workers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from stayput.core.engine import RoundWork
from stayput.data.federated_data import FederatedData
from stayput.engines.lanes.engine import LanesEngine
from stayput.engines.worker_process import Trainer
from stayput.engines.workers import WorkersEngine
from stayput.tasks.task import Task


class LaneWorkersEngine(WorkersEngine):
    """Trains the clients of a round on a pool of processes, one core and several lanes each."""

    clients_at_once = 8

    def _made_for_workers(self, task: Task, clients: FederatedData, device: torch.device) -> Trainer:
        return LanesEngine(task, clients, device=device)

    def _shares(self, clients: Sequence[int], work: RoundWork) -> list[Sequence[int]]:  # noqa: ARG002 - as its kin
        """As many at once as may be, but no worker without work, and no worker with all the long ones.

        Clients that take about as long stay together, so that the lanes of a worker end together.
        """
        shares: list[Sequence[int]] = []
        together = self.num_workers * self.clients_at_once
        for begin in range(0, len(clients), together):
            block = clients[begin : begin + together]
            there_and_back = [block[i : i + self.num_workers] for i in range(0, len(block), self.num_workers)]
            rows = [row if number % 2 == 0 else row[::-1] for number, row in enumerate(there_and_back)]
            dealt = [[row[place] for row in rows if place < len(row)] for place in range(self.num_workers)]
            shares += [share for share in dealt if share]
        return shares
