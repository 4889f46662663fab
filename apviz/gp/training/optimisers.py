"""Optimisers of the raw parameters of a training: Adam with estimated gradients, L-BFGS on the exact likelihood."""

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
from apviz.gp.training.objectives import Evaluation

#: evaluates ℓ/n and its gradient at a raw vector
Evaluate = Callable[[Tensor], Evaluation]

# L-BFGS ends after an iteration with a smaller gain in nats a row, or at a smaller gradient
LBFGS_GAIN, LBFGS_GRADIENT = 1e-5, 1e-5
# largest number of evaluations in a line search
MOST_EVALUATIONS = 20
# If K has no factor at a point, its value is taken to be this many nats a row above the start.
WALL = 1e3


@dataclass(frozen=True, eq=False)
class Move:
    """One step of an optimiser.

    Args:
        before, after: the raw vectors.
        at: the evaluation at `before`.
        gain: decrease of ℓ/n, in nats a row: exact, or to first order in the gradient.
    """

    before: Tensor
    after: Tensor
    at: Evaluation
    gain: float


#: least and largest value of an entry of the raw vector
Bounds = tuple[float | None, float | None]
#: called after every step; returns whether to continue
OnMove = Callable[[Move], bool]


def _within(raw: Tensor, bounds: Sequence[Bounds]) -> Tensor:
    """Move each entry to the nearest value within its bounds."""
    least, largest = np.array(bounds, dtype=np.float64).T  # None becomes NaN, which fmin and fmax ignore
    return torch.from_numpy(np.fmin(np.fmax(raw.numpy(), least), largest))


class Optimiser(ABC):
    """Base class of optimisers, which move raw parameters until they are stopped or converge.

    Attributes:
        raw: (2 + p,) float64, the current raw vector.
        message: how the optimiser ended, if it ended by its own criteria.
    """

    def __init__(self, raw: Tensor) -> None:
        self.raw, self.message = raw, ""

    @abstractmethod
    def run(self, evaluate: Evaluate, on_move: OnMove) -> bool:
        """Take steps until `on_move` returns False. Return whether the optimiser converged by its own criteria."""

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that are needed to resume, without `raw`."""
        return {}

    def restore(self, raw: Tensor, state: Mapping[str, np.ndarray]) -> None:
        """Restore a raw vector and the arrays of `state`."""
        self.raw = raw


class Adam(Optimiser):
    """Adam (Kingma & Ba, 2015): one gradient a step, which may be an estimate. Steps are clipped to the bounds."""

    def __init__(self, raw: Tensor, step_size: float, bounds: Sequence[Bounds]) -> None:
        super().__init__(raw)
        self.bounds = bounds
        self._parameter = torch.nn.Parameter(raw.clone())
        self._adam = torch.optim.Adam([self._parameter], lr=step_size)

    def run(self, evaluate: Evaluate, on_move: OnMove) -> bool:
        while True:
            before = self.raw
            at = evaluate(before)
            self._parameter.grad = at.gradient
            self._adam.step()
            self._parameter.data = _within(self._parameter.data, self.bounds)
            self.raw = self._parameter.detach().clone()
            if not on_move(Move(before, self.raw, at, float(at.gradient @ (before - self.raw)))):
                return False

    def state(self) -> dict[str, np.ndarray]:
        return {name: value.numpy() for name, value in self._adam.state[self._parameter].items()}

    def restore(self, raw: Tensor, state: Mapping[str, np.ndarray]) -> None:
        super().restore(raw, state)
        self._parameter.data = raw.clone()
        self._adam.state[self._parameter] = {name: torch.from_numpy(array) for name, array in state.items()}


class LBFGS(Optimiser):
    """L-BFGS-B of SciPy (Byrd, Lu, Nocedal & Zhu, 1995), for exact values; a step is an iteration.

    A checkpoint has no curvature: a resumed run starts L-BFGS again from the last raw vector.
    """

    def __init__(self, raw: Tensor, bounds: Sequence[Bounds]) -> None:
        super().__init__(raw)
        self.bounds = bounds

    def run(self, evaluate: Evaluate, on_move: OnMove) -> bool:
        self.raw = _within(self.raw, self.bounds)
        run = _LBFGSRun(self, evaluate, on_move)
        options: dict[str, Any] = {
            "maxiter": np.iinfo(np.int32).max, "maxfun": np.iinfo(np.int32).max, "maxls": MOST_EVALUATIONS,
            "gtol": LBFGS_GRADIENT, "ftol": 0.0,
        }  # fmt: skip
        found = scipy.optimize.minimize(
            run.value_and_gradient, self.raw.numpy(), method="L-BFGS-B", jac=True, bounds=self.bounds,
            callback=run.iterated, options=options,
        )  # fmt: skip
        if not run.iterations:
            run.report_start()
        converged = run.converged or found.status == 0
        ended = "L-BFGS no longer increases the likelihood" if converged else str(found.message)
        self.message = "" if run.was_stopped and not converged else ended
        return converged


class _LBFGSRun:
    """Callbacks for one run of SciPy's optimiser."""

    def __init__(self, optimiser: LBFGS, evaluate: Evaluate, on_move: OnMove) -> None:
        self.optimiser, self.evaluate, self.on_move = optimiser, evaluate, on_move
        # evaluations since the last iteration, by the bytes of the raw vector
        self.found: dict[bytes, Evaluation] = {}
        self.at: Evaluation | None = None
        self.work, self.evaluations, self.iterations = 0.0, 0, 0
        self.converged = self.was_stopped = False

    def value_and_gradient(self, raw: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            at = self.evaluate(torch.from_numpy(raw.copy()))
        except NotPositiveDefinite:
            if self.at is None:
                raise
            # a high value makes the line search turn back
            return self.at.value + WALL, np.zeros_like(raw)
        self.work, self.evaluations = self.work + at.work, self.evaluations + 1
        self.found[raw.tobytes()] = at
        self.at = self.at or at
        return at.value, at.gradient.numpy()

    def iterated(self, intermediate_result: scipy.optimize.OptimizeResult) -> None:
        raw = np.asarray(intermediate_result.x)
        after = self.found.get(raw.tobytes()) or self.evaluate(torch.from_numpy(raw.copy()))
        assert self.at is not None  # SciPy evaluates before it iterates
        gain = self.at.value - after.value
        self.converged = gain < LBFGS_GAIN
        self._take(torch.from_numpy(raw.copy()), gain)
        self.at, self.found = after, {}
        if self.converged:
            raise StopIteration

    def report_start(self) -> None:
        """Report a start that is already the optimum as one step."""
        with suppress(StopIteration):
            self._take(self.optimiser.raw, 0.0)

    def _take(self, after: Tensor, gain: float) -> None:
        assert self.at is not None
        before, self.optimiser.raw = self.optimiser.raw, after
        at = replace(self.at, work=self.work, evaluations=self.evaluations)
        self.work, self.evaluations, self.iterations = 0.0, 0, self.iterations + 1
        self.was_stopped = not self.on_move(Move(before, after, at, gain))
        if self.was_stopped:
            raise StopIteration
