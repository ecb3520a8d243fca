"""A workshop with toy data, for tests of how cells of the paper are measured."""

from __future__ import annotations

from dataclasses import dataclass

from stayput.data.partitions import Iid
from stayput.experiments.preparing import Parts
from stayput.paper.workshop import Workshop
from stayput.testing import toy_examples, toy_task


class InterruptedHereError(BaseException):
    """Like `KeyboardInterrupt`, which a test runner takes for its own."""


@dataclass
class ToyWorkshop(Workshop):
    """64 points with 8 clients; may be interrupted at any evaluation."""

    evaluations_left: int | None = None

    def task(self, cell):
        return toy_task()

    def parts(self, cell):
        clients = toy_examples(64).partition(Iid(8), seed=0)
        algorithm = self.algorithm(self.spec(cell, 0, 0, 8))
        return Parts(toy_task(), clients, algorithm, toy_examples(40, seed=1))

    def interrupt_after(self, evaluations):
        self.evaluations_left = evaluations

    def ready(self, cell):
        parts, engine = super().ready(cell)
        if self.evaluations_left is not None:
            evaluate = engine.evaluate

            def counted(model):
                self.evaluations_left -= 1
                if self.evaluations_left < 0:
                    raise InterruptedHereError
                return evaluate(model)

            engine.evaluate = counted
        return parts, engine
