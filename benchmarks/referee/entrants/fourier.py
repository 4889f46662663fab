"""The exact GP by products with a Fourier series of the kernel (EFGP: Greengard, Rachh & Barnett, arXiv:2210.10210)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.referee.entrants.exact import Exact
from benchmarks.referee.task import Clock, Prediction, Task

MOST_INPUTS = 3


class Fourier(Exact):
    """The same as `Exact`, with apviz's Fourier operator."""

    operator = "fourier"

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        task.need(most_inputs=MOST_INPUTS)
        yield from super().predict(task, clock)
