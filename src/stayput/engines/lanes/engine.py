"""A round on lanes: plan it, run its parts, and sum up where clients finish.

The mean of a cohort is taken on the device: whenever clients finish, their updates are added, weighted with n_k, to
their experiment's sum by one matrix product in float64. That is exact enough that the order hardly matters, and it
is fixed by the schedule, so a run repeats bit for bit.

On CUDA nothing waits for the device before a round's results are read. While it computes, the round after is planned:
cohorts, shuffles and schedules do not depend on what is learned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from stayput.algorithms.local_sgd import LOCAL_SGD
from stayput.core.algorithm import ClientProgram
from stayput.core.engine import ClientUpdate, CohortResult, RoundWork
from stayput.core.tensors import WEIGHTS, Groups, Tensors, flatten, unflatten
from stayput.data.federated_data import Examples, FederatedData
from stayput.engines.lanes.choosing import choice_of_model
from stayput.engines.lanes.cohort_sums import CohortSums
from stayput.engines.lanes.execution import Finished, execute
from stayput.engines.lanes.given import Given
from stayput.engines.lanes.jobs import Outline
from stayput.engines.lanes.memory import bytes_of_a_lane, free_bytes, lanes_that_fit
from stayput.engines.lanes.programs import FullGradient, FusedSgd, LaneProgram, MappedProgram
from stayput.engines.lanes.round_plan import Part, PartKey, full_pass, plan_round
from stayput.engines.lanes.stepping import Lanes
from stayput.engines.model_program import ModelProgram
from stayput.engines.placed_examples import PlacedExamples
from stayput.tasks.task import Task

logger = logging.getLogger("stayput")

Finish = Callable[[Finished], None]

KEPT_LANES = 8
"""Sets of lanes that are kept for further rounds, each for one program and one length of minibatches."""


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
        self._data = PlacedExamples(clients.examples, task, device, self._program.dtype)
        self._program.lay_out_filters(self._data)
        self._test = None if test is None else PlacedExamples(test, task, device, self._program.dtype)
        self._model = choice_of_model(self._program, self._data)
        self._lanes: dict[PartKey, Lanes] = {}
        self._max_lanes = max_lanes
        self._most_lanes: dict[PartKey, int] = {}
        self._planned_ahead: tuple[list[Outline], list[Part]] | None = None
        self.initial_model = self._program.initial_model
        self.module_with = self._program.module_with
        self.occupancy = 1.0
        """Useful steps / lane-steps of the latest round."""

    def run(self, works: Sequence[RoundWork]) -> list[CohortResult]:
        """Train several cohorts at once."""
        while True:
            sums: dict[int, CohortSums] = {}  # by program: others return other groups

            def add(done: Finished, sums: dict[int, CohortSums] = sums) -> None:
                program = id(works[done.jobs[0].member].program)
                sums.setdefault(program, CohortSums(len(works))).add(done)

            try:
                self._train(works, add)
                return _merged([each.results() for each in sums.values()])
            except torch.OutOfMemoryError:
                self._use_fewer_lanes()

    def train(self, work: RoundWork) -> Iterator[ClientUpdate]:
        """Each client's update on its own, for algorithms and servers that must see it."""
        updates: list[ClientUpdate] = []

        def keep(done: Finished) -> None:
            flat = flatten(done.update)
            for index, (job, loss) in enumerate(zip(done.jobs, done.losses_J.tolist(), strict=True)):
                update = unflatten({name: tensor[index] for name, tensor in flat.items()})
                updates.append(ClientUpdate(job.client, job.num_examples, update, job.num_steps, loss))

        self._train([work], keep)
        yield from updates

    def evaluate(self, model: Groups) -> Mapping[str, float]:
        """The loss and the metrics of a model on the test examples; empty if there are none."""
        return {} if self._test is None else self._program.evaluate(model, self._test)

    def _train(self, works: Sequence[RoundWork], finished: Finish) -> None:
        parts = self._plan([_outline(work) for work in works])
        useful = taken = 0
        for part in parts:
            given = Given(works, {job.member for job in part.jobs})
            if part.key[0].full_gradient:
                self._add_full_gradients(part, works, given)
            execute(part, self._lanes_for(part, works), given, finished)
            useful, taken = useful + part.schedule.useful_steps, taken + part.schedule.lane_steps
        self.occupancy = useful / taken
        self._plan_ahead(works)

    def _plan(self, outlines: list[Outline]) -> list[Part]:
        ahead, self._planned_ahead = self._planned_ahead, None
        if ahead is not None and len(ahead[0]) == len(outlines):
            same = all(mine.is_that_of(theirs) for mine, theirs in zip(ahead[0], outlines, strict=True))
            if same and all(part.capacity == self._capacity(part.key, len(part.jobs)) for part in ahead[1]):
                return ahead[1]
        return plan_round(outlines, self._clients, self._capacity)

    def _plan_ahead(self, works: Sequence[RoundWork]) -> None:
        """Plan the next round, as far as one can tell, while this one runs; on a CPU there is nothing to gain."""
        if self._device.type != "cuda" or any(work.following is None for work in works):
            return
        outlines = []
        for work in works:
            assert work.following is not None  # noqa: S101 - just looked at
            cohort, plan = work.following()
            outlines.append(Outline(work.seed, work.round_number + 1, cohort, plan, work.program))
        parts = plan_round(outlines, self._clients, self._capacity)
        for part in parts:
            part.prepare()
        self._planned_ahead = outlines, parts

    def _capacity(self, key: PartKey, num_jobs: int) -> int:
        kept = self._lanes.get(key)
        if kept is not None and kept.capacity >= num_jobs:
            return kept.capacity
        most = [limit for limit in (self._max_lanes, self._lanes_that_fit(key, num_jobs)) if limit is not None]
        wanted = min(num_jobs, *most) if most else num_jobs
        return wanted if kept is None else max(wanted, kept.capacity)

    def _lanes_that_fit(self, key: PartKey, num_jobs: int) -> int | None:
        """What the device's memory holds of these lanes, found out once, when they are asked for."""
        if key not in self._most_lanes:
            free = free_bytes(self._device)
            if free is None:
                return None
            program, length = key
            needed = bytes_of_a_lane(self._program, self._data, length, fused=self._is_fused(program))
            fitting = self._most_lanes[key] = lanes_that_fit(free, needed)
            if fitting < num_jobs:
                logger.warning(
                    "%d clients take turns on %d lanes, which is what the device's free memory holds at %.1f MB a lane",
                    num_jobs, fitting, needed / 1e6,
                )  # fmt: skip
        return self._most_lanes[key]

    def _add_full_gradients(self, part: Part, works: Sequence[RoundWork], given: Given) -> None:
        program = FullGradient(self._model, works[part.jobs[0].member].sent[WEIGHTS], part.capacity)
        lanes = self._new_lanes(part, program)
        execute(full_pass(part, [_outline(work) for work in works], self._clients), lanes, given, given.add)
        given.have_all_gradients()

    def _lanes_for(self, part: Part, works: Sequence[RoundWork]) -> Lanes:
        lanes = self._lanes.pop(part.key, None)
        if lanes is None or lanes.capacity < part.capacity:
            lanes = None  # first, so that its memory is free
            while len(self._lanes) >= KEPT_LANES:
                self._lanes.pop(next(iter(self._lanes)))
            like = works[part.jobs[0].member].sent[WEIGHTS]
            lanes = self._new_lanes(part, self._lane_program(part, like))
        self._lanes[part.key] = lanes  # the latest last: the first is the one that was not used for longest
        return lanes

    def _new_lanes(self, part: Part, program: LaneProgram) -> Lanes:
        _, length = part.key
        return Lanes(self._task, self._data, program, self._program.dtype, capacity=part.capacity, batch_length=length)

    def _lane_program(self, part: Part, like: Tensors) -> LaneProgram:
        program, _ = part.key
        if self._is_fused(program):
            return FusedSgd(self._model, like, part.capacity)
        return MappedProgram(self._model, program, part.capacity, self._device)

    def _is_fused(self, program: ClientProgram) -> bool:
        return program is LOCAL_SGD and self._model.descends

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


def _outline(work: RoundWork) -> Outline:
    return Outline(work.seed, work.round_number, work.cohort, work.plan, work.program)


def _merged(results: Sequence[Sequence[CohortResult | None]]) -> list[CohortResult]:
    """Each member's result, from the sums of the program that it ran."""
    return [next(result for result in of_member if result is not None) for of_member in zip(*results, strict=True)]
