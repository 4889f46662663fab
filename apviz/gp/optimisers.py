"""What moves the raw parameters of a training: Adam along estimated gradients, or L-BFGS on the exact likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

from apviz.factors import NotPositiveDefinite
from apviz.gp.objectives import Evaluation

#: ℓ/n and its gradient at a raw vector
Evaluate = Callable[[Tensor], Evaluation]

# an iteration of L-BFGS that gains less than so many nats a row is the last; so is one at a smaller gradient
LBFGS_GAIN, LBFGS_GRADIENT = 1e-5, 1e-5
# of evaluations in an iteration
MOST_EVALUATIONS = 20
# nats a row above the start, in place of the value at a point where K has no factor
WALL = 1e3


@dataclass(frozen=True, eq=False)
class Move:
    """A step that was taken.

    Args:
        before, after: the raw vectors.
        at: what was found at `before`.
        gain: by how much ℓ/n falls, in nats a row: exactly, or to first order in the gradient.
    """

    before: Tensor
    after: Tensor
    at: Evaluation
    gain: float


#: least and largest value of an entry of the raw vector
Bounds = tuple[float | None, float | None]
#: told of a step; returns whether to go on
Taken = Callable[[Move], bool]


def _within(raw: Tensor, bounds: Sequence[Bounds]) -> Tensor:
    """Move each entry to the nearest value within its bounds."""
    least, largest = np.array(bounds, dtype=np.float64).T  # None is NaN, which no number is clipped to
    return torch.from_numpy(np.fmin(np.fmax(raw.numpy(), least), largest))


class Optimiser(ABC):
    """Moves raw parameters until it is told that it is enough, or finds that nothing more is to be had.

    Attributes:
        raw: (2 + p,) float64, where it is.
        message: how it ended, where it ended by itself.
    """

    def __init__(self, raw: Tensor) -> None:
        self.raw, self.message = raw, ""

    @abstractmethod
    def run(self, evaluate: Evaluate, taken: Taken) -> bool:
        """Take steps until `taken` returns False, and returns whether it has converged by its own criteria."""

    def state(self) -> dict[str, np.ndarray]:
        """Return what it goes on from, beside `raw`."""
        return {}

    def restore(self, raw: Tensor, state: Mapping[str, np.ndarray]) -> None:
        """Goes back to a state."""
        self.raw = raw


class Adam(Optimiser):
    """Adam (Kingma & Ba, 2015): one gradient a step, which may be an estimate.

    Args:
        step_size: of a step.
        bounds: of each entry of the raw vector, least and largest; None: none. A step that leaves them ends at them.
    """

    def __init__(self, raw: Tensor, step_size: float, bounds: Sequence[Bounds]) -> None:
        super().__init__(raw)
        self.bounds = bounds
        self._parameter = torch.nn.Parameter(raw.clone())
        self._adam = torch.optim.Adam([self._parameter], lr=step_size)

    def run(self, evaluate: Evaluate, taken: Taken) -> bool:
        while True:
            before = self.raw
            at = evaluate(before)
            self._parameter.grad = at.gradient
            self._adam.step()
            self._parameter.data = _within(self._parameter.data, self.bounds)
            self.raw = self._parameter.detach().clone()
            if not taken(Move(before, self.raw, at, float(at.gradient @ (before - self.raw)))):
                return False

    def state(self) -> dict[str, np.ndarray]:
        return {name: value.numpy() for name, value in self._adam.state[self._parameter].items()}

    def restore(self, raw: Tensor, state: Mapping[str, np.ndarray]) -> None:
        super().restore(raw, state)
        self._parameter.data = raw.clone()
        self._adam.state[self._parameter] = {name: torch.from_numpy(array) for name, array in state.items()}


class LBFGS(Optimiser):
    """L-BFGS-B of SciPy (Byrd, Lu, Nocedal & Zhu, 1995), for exact values; a step is an iteration.

    It keeps no curvature: what goes on from a checkpoint begins anew at the raw vector it had come to.

    Args:
        bounds: of each entry of the raw vector, least and largest; None: none.
    """

    def __init__(self, raw: Tensor, bounds: Sequence[Bounds]) -> None:
        super().__init__(raw)
        self.bounds = bounds

    def run(self, evaluate: Evaluate, taken: Taken) -> bool:
        self.raw = _within(self.raw, self.bounds)
        run = _LBFGSRun(self, evaluate, taken)
        options: dict[str, Any] = {
            "maxiter": np.iinfo(np.int32).max, "maxfun": np.iinfo(np.int32).max, "maxls": MOST_EVALUATIONS,
            "gtol": LBFGS_GRADIENT, "ftol": 0.0,
        }  # fmt: skip
        found = scipy.optimize.minimize(
            run.value_and_gradient, self.raw.numpy(), method="L-BFGS-B", jac=True, bounds=self.bounds,
            callback=run.iterated, options=options,
        )  # fmt: skip
        if not run.iterations:
            run.stay()
        converged = run.converged or found.status == 0
        ended = "the likelihood gains no more by L-BFGS" if converged else str(found.message)
        self.message = "" if run.was_told and not converged else ended
        return converged


class _LBFGSRun:
    """One call of SciPy's: it asks for values, and tells of its iterations."""

    def __init__(self, optimiser: LBFGS, evaluate: Evaluate, taken: Taken) -> None:
        self.optimiser, self.evaluate, self.taken = optimiser, evaluate, taken
        # since the last iteration, by the bytes of the raw vector
        self.found: dict[bytes, Evaluation] = {}
        self.at: Evaluation | None = None
        self.work, self.evaluations, self.iterations = 0.0, 0, 0
        self.converged = self.was_told = False

    def value_and_gradient(self, raw: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            at = self.evaluate(torch.from_numpy(raw.copy()))
        except NotPositiveDefinite:
            if self.at is None:
                raise
            # a line search turns back from here
            return self.at.value + WALL, np.zeros_like(raw)
        self.work, self.evaluations = self.work + at.work, self.evaluations + 1
        self.found[raw.tobytes()] = at
        self.at = self.at or at
        return at.value, at.gradient.numpy()

    def iterated(self, intermediate_result: scipy.optimize.OptimizeResult) -> None:
        raw = np.asarray(intermediate_result.x)
        after = self.found.get(raw.tobytes()) or self.evaluate(torch.from_numpy(raw.copy()))
        assert self.at is not None  # values come first
        gain = self.at.value - after.value
        self.converged = gain < LBFGS_GAIN
        self._take(torch.from_numpy(raw.copy()), gain)
        self.at, self.found = after, {}
        if self.converged:
            raise StopIteration

    def stay(self) -> None:
        """Report of a start that is the optimum as of a step."""
        with suppress(StopIteration):
            self._take(self.optimiser.raw, 0.0)

    def _take(self, after: Tensor, gain: float) -> None:
        assert self.at is not None
        before, self.optimiser.raw = self.optimiser.raw, after
        at = replace(self.at, work=self.work, evaluations=self.evaluations)
        self.work, self.evaluations, self.iterations = 0.0, 0, self.iterations + 1
        self.was_told = not self.taken(Move(before, after, at, gain))
        if self.was_told:
            raise StopIteration
