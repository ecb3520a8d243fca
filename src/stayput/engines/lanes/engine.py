"""A round on lanes: pack the clients of all experiments, load, step, and sum up where lanes finish.

The mean of a cohort is taken on the device: whenever clients finish, their moves are added, weighted with n_k, to
their experiment's sum by one matrix product in float64. That is exact enough that the order hardly matters, and it
is fixed by the schedule, so a run repeats bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from stayput.algorithms.local_sgd import LOCAL_SGD
from stayput.core.engine import ClientUpdate, CohortResult, RoundWork
from stayput.core.seeds import Purpose
from stayput.core.tensor_streams import tensor_key
from stayput.core.tensors import WEIGHTS, Groups
from stayput.data.federated_data import Examples, FederatedData
from stayput.engines.lanes.cohort_sums import CohortSums
from stayput.engines.lanes.folding import FoldedModule, refuse_different_outputs
from stayput.engines.lanes.jobs import Job, by_padded_length, jobs_of, minibatch_rows
from stayput.engines.lanes.layers import Descent
from stayput.engines.lanes.schedule import Placement, Schedule, pack
from stayput.engines.lanes.stepping import Lanes
from stayput.engines.model_program import ModelProgram, PlacedExamples
from stayput.errors import InvalidSetting
from stayput.tasks.task import Task

Finished = Callable[[Sequence[Job], dict[str, Tensor], Tensor], None]
"""Takes the jobs that finished, how far each moved ([job, ...] by name), and their mean losses [job]."""

logger = logging.getLogger("stayput")

SUM_BYTES = 2**28
"""Memory for the float64 copies of finished clients' moves, at a time."""


class LanesEngine:
    """Trains the clients of many experiments at once on one device."""

    def __init__(
        self,
        task: Task,
        clients: FederatedData,
        *,
        test: Examples | None = None,
        device: torch.device,
        max_lanes: int | None = None,
    ) -> None:
        self._task, self._clients, self._device = task, clients, device
        self._program = ModelProgram(task, device)
        self._folded = FoldedModule(self._program.module)
        self._data = PlacedExamples(clients.examples, task, device, self._program.dtype)
        self._test = None if test is None else PlacedExamples(test, task, device, self._program.dtype)
        self._lanes: dict[int, Lanes] = {}
        self._max_lanes = max_lanes
        self.initial_model = self._program.initial_model
        self.module_with = self._program.module_with
        self.occupancy = 1.0
        """Useful steps / lane-steps of the latest round."""
        self._refuse_if_lanes_mix()

    def run(self, works: Sequence[RoundWork]) -> list[CohortResult]:
        """Train several cohorts at once."""
        while True:
            sums = CohortSums(len(works))
            try:
                self._train(works, sums.add)
            except torch.OutOfMemoryError:
                self._use_fewer_lanes()
            else:
                return sums.results()

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        """Each client's update on its own, for algorithms and servers that must see it."""
        updates: list[ClientUpdate] = []

        def keep(jobs: Sequence[Job], moves: dict[str, Tensor], losses: Tensor) -> None:
            for index, (job, loss) in enumerate(zip(jobs, losses.tolist(), strict=True)):
                update = {WEIGHTS: {name: move[index] for name, move in moves.items()}}
                updates.append(ClientUpdate(job.client, job.num_examples, update, job.num_steps, loss))

        self._train([work], keep)
        yield from updates

    def evaluate(self, model: Groups) -> Mapping[str, float]:
        """The loss and the metrics of a model on the test examples; empty if there are none."""
        return {} if self._test is None else self._program.evaluate(model, self._test)

    def _train(self, works: Sequence[RoundWork], finished: Finished) -> None:
        for work in works:
            if work.program is not LOCAL_SGD:
                raise InvalidSetting("this algorithm's clients do more than plain SGD (use engine='sequential')")
        names = works[0].sent[WEIGHTS]
        sent = {name: torch.stack([work.sent[WEIGHTS][name] for work in works]) for name in names}
        useful = taken = 0
        for length, jobs in by_padded_length(jobs_of(works, self._clients), works).items():
            lanes = self._lanes_for(length, len(jobs), works[0].sent[WEIGHTS])
            schedule = pack([job.num_steps for job in jobs], lanes.capacity)
            _Execution(lanes, schedule, jobs, works, self._clients, sent, finished).run()
            useful, taken = useful + schedule.useful_steps, taken + schedule.lane_steps
        self.occupancy = useful / taken

    def _lanes_for(self, length: int, num_jobs: int, like: Mapping[str, Tensor]) -> Lanes:
        lanes = self._lanes.get(length)
        wanted = num_jobs if self._max_lanes is None else min(num_jobs, self._max_lanes)
        if lanes is None or lanes.capacity < wanted:
            lanes = Lanes(self._task, self._folded, self._data, like, capacity=wanted, batch_length=length)
            self._lanes[length] = lanes
        return lanes

    def _use_fewer_lanes(self) -> None:
        """Half as many, after the device's memory did not hold them; the round begins anew, to the same result."""
        tried = max((lanes.capacity for lanes in self._lanes.values()), default=self._max_lanes or 1)
        if tried == 1:
            raise  # noqa: PLE0704 - called while an OutOfMemoryError is handled: one lane does not fit either
        self._max_lanes = tried // 2
        self._lanes.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        logger.warning("the device's memory does not hold %d lanes; going on with %d", tried, self._max_lanes)

    def _refuse_if_lanes_mix(self) -> None:
        models = [self._program.initial_model(seed) for seed in (0, 1)]
        rows = torch.linspace(0, len(self._data) - 1, 6, device=self._device).long()  # three for each of two lanes
        inputs, _ = self._data.batch(rows)
        spark = torch.zeros((), device=self._device, requires_grad=True)

        def fold(folded_inputs: Tensor, stacked: Groups) -> Tensor:
            rate_L = torch.zeros(len(models), device=self._device)
            return self._folded.bind(stacked[WEIGHTS], Descent(rate_L, spark))(folded_inputs)

        refuse_different_outputs(self._program.module.train(), inputs, fold, models)


class _Execution:
    """One schedule, run to its end."""

    def __init__(
        self,
        lanes: Lanes,
        schedule: Schedule,
        jobs: Sequence[Job],
        works: Sequence[RoundWork],
        clients: FederatedData,
        sent: Mapping[str, Tensor],
        finished: Finished,
    ) -> None:
        self._lanes, self._schedule, self._jobs, self._works = lanes, schedule, jobs, works
        self._clients, self._sent, self._finished = clients, sent, finished

    def run(self) -> None:
        """Step from event to event: clients begin, clients finish, the width falls, a window of rows ends."""
        begins, ends = self._events()
        stops = sorted({*begins, *ends, *(stretch.first_step for stretch in self._schedule.stretches)})
        windows = range(0, self._schedule.num_steps, self._lanes.window_steps)
        stops = sorted({*stops, *windows, self._schedule.num_steps})
        for step, until in pairwise(stops):
            if step in windows:
                self._lanes.open_window(
                    *self._rows(step, min(step + self._lanes.window_steps, self._schedule.num_steps))
                )
            if step in begins:
                self._begin(begins[step])
            self._lanes.advance(self._width_at(step), until - step)
            if until in ends:
                self._end(ends[until])

    def _events(self) -> tuple[dict[int, list[Placement]], dict[int, list[Placement]]]:
        begins: dict[int, list[Placement]] = {}
        ends: dict[int, list[Placement]] = {}
        for placement in self._schedule.placements:
            begins.setdefault(placement.first_step, []).append(placement)
            ends.setdefault(placement.last_step + 1, []).append(placement)
        return begins, ends

    def _width_at(self, step: int) -> int:
        return next(s.width for s in self._schedule.stretches if s.first_step <= step < s.first_step + s.num_steps)

    def _rows(self, first: int, last: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        rows = np.zeros((last - first, self._lanes.capacity, self._lanes.batch_length), dtype=np.int32)
        counts = np.zeros((last - first, self._lanes.capacity), dtype=np.int32)
        for placement in self._schedule.placements:
            begin, end = max(first, placement.first_step), min(last, placement.last_step + 1)
            if begin >= end:
                continue
            job = self._jobs[placement.job]
            job_rows, job_counts = minibatch_rows(job, self._works[job.member], self._clients, self._lanes.batch_length)
            mine = slice(begin - placement.first_step, end - placement.first_step)
            rows[begin - first : end - first, placement.lane] = job_rows[mine]
            counts[begin - first : end - first, placement.lane] = job_counts[mine]
        return rows, counts

    def _begin(self, placements: Sequence[Placement]) -> None:
        jobs = [self._jobs[placement.job] for placement in placements]
        rates = [self._works[job.member].plan.learning_rate for job in jobs]
        self._lanes.load(
            self._index([placement.lane for placement in placements]),
            self._sent,
            self._index([job.member for job in jobs]),
            torch.tensor(rates, dtype=self._lanes.rate_L.dtype, device=self._lanes.rate_L.device),
            self._index([self._stream_name(job) for job in jobs]).T,
        )

    def _stream_name(self, job: Job) -> tuple[int, int, int, int]:
        work = self._works[job.member]
        return *tensor_key(work.seed, Purpose.AUGMENTATION), 0, work.round_number

    def _end(self, placements: Sequence[Placement]) -> None:
        placements = sorted(placements, key=lambda p: (self._jobs[p.job].member, self._jobs[p.job].position))
        model_bytes = sum(8 * tensor[0].numel() for tensor in self._sent.values())
        at_once = max(1, SUM_BYTES // model_bytes)
        for first in range(0, len(placements), at_once):
            self._hand_over(placements[first : first + at_once])

    def _hand_over(self, placements: Sequence[Placement]) -> None:
        jobs = [self._jobs[placement.job] for placement in placements]
        lanes, members = self._index([p.lane for p in placements]), self._index([job.member for job in jobs])
        moves = {
            name: weight.index_select(0, lanes) - self._sent[name].index_select(0, members)
            for name, weight in self._lanes.weights.items()
        }
        num_steps = torch.tensor([job.num_steps for job in jobs], device=lanes.device)
        self._finished(jobs, moves, self._lanes.loss_sum_L.index_select(0, lanes) / num_steps)

    def _index(self, numbers: Sequence[int] | Sequence[tuple[int, ...]]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self._lanes.rate_L.device)
