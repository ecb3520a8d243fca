"""One round's parcels on the way: handed out longest first, handed out again when a worker dies or straggles.

Every worker has one parcel, and a second one waiting where parcels are so short that the way there and back would
count. When nothing is left to hand out, a worker that has nothing to do takes a copy of a parcel that takes far longer
than it should; the first answer counts, and both have the same bits. What is still under way when a round ends is left
to end, and its worker is given nothing until then.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stayput.engines.cluster.connection import imported_ray
from stayput.engines.cluster.parcels import CostModel, Parcel, Trained
from stayput.engines.cluster.pool import START_SECONDS, Pool, Worker, unpacked_wrongly
from stayput.engines.worker_pool import DEATHS_ALLOWED
from stayput.engines.worker_process import Failed, raise_again
from stayput.errors import TrainingError

SHORT_SECONDS = 0.1
"""Parcels below this wait at their worker while it trains another."""
STRAGGLING_SECONDS, STRAGGLING_TIMES = 2.0, 3.0
"""Who takes this much longer than it should straggles."""

Submit = Callable[[Worker, Parcel], Any]
"""Gives a worker a parcel, and returns the reference of its answer."""


class Dispatch:
    """The parcels of one round."""

    def __init__(
        self,
        pool: Pool,
        key: str,
        parcels: Sequence[Parcel],
        cost: CostModel,
        *,
        submit: Submit,
        open_on: Callable[[Worker], Any],
    ) -> None:
        self._pool, self._key, self._cost, self._submit, self._open_on = pool, key, cost, submit, open_on
        self._waiting = deque(parcels)
        self._left = set(parcels)
        self._under_way: dict[Any, Parcel] = {}
        """By the reference of the answer."""
        self._opening: set[Any] = set()
        self._deaths: Counter[Parcel] = Counter()
        self._heard_at = time.monotonic()

    def answers(self) -> Iterator[tuple[Parcel, Trained]]:
        """Each parcel once, as they come."""
        ray = imported_ray()
        for worker in self._pool.workers:
            self._open(worker)
        while self._left:
            self._hand_out()
            owners = {reference: worker for worker in self._pool.workers for reference in worker.tasks}
            ready, _ = ray.wait(list(owners), num_returns=1, timeout=STRAGGLING_SECONDS / 4)
            if not ready:
                self._refuse_to_wait_for_nobody()
            for reference in ready:
                answer = self._answer(owners[reference], reference)
                if answer is not None:
                    yield answer

    def _answer(self, worker: Worker, reference: Any) -> tuple[Parcel, Trained] | None:  # noqa: ANN401 - Ray's
        ray = imported_ray()
        self._heard_at = time.monotonic()
        try:
            answer = ray.get(reference)
        except ray.exceptions.RayActorError as error:
            self._bury(worker, error)
            return None
        except ray.exceptions.RayTaskError as error:
            raise unpacked_wrongly(error) from error
        del worker.tasks[reference]
        parcel = self._under_way.pop(reference, None)
        opened = reference in self._opening
        self._opening.discard(reference)
        if isinstance(answer, Failed) and (opened or parcel in self._left):
            raise_again(answer)
        if parcel is None or parcel not in self._left:
            return None  # a worker that is ready now, a copy that came second, or what an earlier round left
        self._left.remove(parcel)
        return parcel, answer

    def _open(self, worker: Worker) -> None:
        if self._key not in worker.holds:
            self._opening.add(self._open_on(worker))
            worker.holds.add(self._key)

    def _hand_out(self) -> None:
        while self._waiting:
            short = (self._cost.seconds(self._waiting[0]) or 0.0) < SHORT_SECONDS
            free = [worker for worker in self._pool.workers if self._may_have(worker, 2 if short else 1)]
            if not free:
                return
            parcel = self._waiting.popleft()
            if parcel in self._left:
                self._give(min(free, key=self._seconds_left), parcel)
        idle = [worker for worker in self._pool.workers if self._may_have(worker, 1)]
        for worker, parcel in zip(idle, self._straggling(), strict=False):
            self._give(worker, parcel)

    def _may_have(self, worker: Worker, most: int) -> bool:
        return len(worker.tasks) < most and all(reference in self._under_way for reference in worker.tasks)

    def _give(self, worker: Worker, parcel: Parcel) -> None:
        self._under_way[self._submit(worker, parcel)] = parcel

    def _seconds_left(self, worker: Worker) -> float:
        return sum(self._cost.rank(self._under_way[reference]) for reference in worker.tasks)

    def _straggling(self) -> list[Parcel]:
        """Parcels that one worker alone has had for much too long."""
        copies = Counter(self._under_way.values())
        now = time.monotonic()
        late = []
        for worker in self._pool.workers:
            mine = [reference for reference in worker.tasks if reference in self._under_way]
            expected = [self._cost.seconds(self._under_way[reference]) for reference in mine]
            if None in expected:
                return []  # nothing has come back yet that it could be measured by
            should = max(STRAGGLING_SECONDS, STRAGGLING_TIMES * sum(second or 0.0 for second in expected))
            late += [
                self._under_way[reference]
                for reference in mine
                if now - worker.tasks[reference] > should and copies[self._under_way[reference]] == 1
            ]
        return [parcel for parcel in late if parcel in self._left]

    def _bury(self, worker: Worker, error: Exception) -> None:
        """Hand a dead worker's parcels to others, and start another in its place."""
        mine = [self._under_way.pop(reference) for reference in worker.tasks if reference in self._under_way]
        self._pool.drop(worker)
        for place, parcel in enumerate(mine):
            self._deaths[parcel] += place == 0  # the first is what it was at
            if self._deaths[parcel] == DEATHS_ALLOWED:
                raise TrainingError(
                    f"clients {', '.join(map(str, parcel.clients[:5]))}: {DEATHS_ALLOWED} workers died while they "
                    f"trained them: a client must leave its process alive (is there too little memory for so many "
                    f"workers? the last one: {str(error).partition(chr(10))[0]})"
                )
        self._waiting.extendleft(parcel for parcel in reversed(mine) if parcel in self._left)
        self._open(self._pool.start())

    def _refuse_to_wait_for_nobody(self) -> None:
        if time.monotonic() - self._heard_at > START_SECONDS and not self._under_way:
            raise TrainingError(
                f"engine='ray': no worker of {len(self._pool.workers)} has been able to start for "
                f"{START_SECONDS:.0f} seconds: the cluster must have room for at least one (see `ray status`)"
            )
