"""Optimisers of the raw parameters of a training: Adam, scoring, and L-BFGS on exact values."""

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
# Least reach of a scoring step; and largest factor between the curvature that a step shows and that of the information.
SHORTEST, TRUSTED = 1e-3, 5.0
# a step that was expected to gain less than this, in nats, was near the optimum, where gradients are nearly linear
NEAR = 10.0
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


class Scoring(Optimiser):
    """Newton steps with the average information as curvature (Gilmour, Thompson & Cullis, 1995), see `information`.

    The information is corrected by what the last step showed: BFGS with one pair of vectors (Nocedal & Wright, 2006,
    section 6.1), for steps that share rows and probes. Where it is small, as for the lengthscale of an input without
    influence, a step is damped as by a normal prior of one unit; and it changes no positive number by more than the
    factor e. The error of a gradient from l probes has a covariance of about F/l, where F is the information. So the
    optimum is found to about 1/√l of its statistical uncertainty, which costs q/(2l) nats with q parameters.

    Args:
        raw: the start; all entries but the mean are logarithms, or numbers of any sign.
        n: number of rows, of which a step may use fewer. Only a step with all rows ends the training.
        settled: a step that is expected to gain less than this, in nats, is the last.
    """

    def __init__(self, raw: Tensor, bounds: Sequence[Bounds], n: int, settled: float) -> None:
        super().__init__(raw)
        self.bounds, self.n, self.settled = bounds, n, settled
        #: largest change of an entry; expected gain in nats, and rows, of the last step
        self._reach, self._gain, self._rows = 1.0, np.inf, 0
        #: the last step, and the gradient and the value before it, if values are known
        self._moved, self._gradient, self._value = torch.zeros_like(raw), torch.zeros_like(raw), np.inf

    def run(self, evaluate: Evaluate, on_move: OnMove) -> bool:
        self.raw = _within(self.raw, self.bounds)
        while True:
            at = self._evaluated(evaluate)
            before = self.raw
            assert at.information is not None  # its objective was asked for it
            goes_on = at.rows == self._rows
            if goes_on and at.value > self._value + self.settled / self.n:
                # an exact value shows that the step was too long: go back by half of it
                self._moved, self._reach = self._moved / 2, max(self._reach / 2, SHORTEST)
                self.raw = before - self._moved
                if not on_move(Move(before, self.raw, at, at.value - self._value)):
                    return False
                continue
            change = at.gradient - self._gradient
            # gradients with errors show a curvature only where they are nearly linear
            has_value = bool(np.isfinite(at.value))
            shows = goes_on and (has_value or self._gain < NEAR)
            curvature = corrected(at.information, self._moved, change) if shows else at.information
            after = _within(before + self._step(before, at.gradient, curvature), self.bounds)
            moved = after - before
            gain = -float(at.gradient @ moved + 0.5 * moved @ curvature @ moved)
            # without values, a rise of the expected gain is all that tells that steps are too long
            rose = goes_on and not has_value and gain * at.rows > self._gain
            self._reach = max(self._reach / 2, SHORTEST) if rose else min(2 * self._reach, 1.0)
            self.raw, self._gain, self._rows = after, gain * at.rows, at.rows
            self._moved, self._gradient, self._value = moved, at.gradient, at.value
            has_settled = at.rows == self.n and abs(self._gain) < self.settled
            if has_settled:
                self.message = f"a step is expected to increase the log likelihood by less than {self.settled:.2g} nats"
            if not on_move(Move(before, after, at, gain)) or has_settled:
                return has_settled

    def _evaluated(self, evaluate: Evaluate) -> Evaluation:
        """Evaluate at the raw vector, or nearer to the last one if K has no factor there."""
        while True:
            try:
                return evaluate(self.raw)
            except NotPositiveDefinite:
                if not bool((self._moved[1:].abs() > SHORTEST).any()):
                    raise
                self._moved = self._moved / 2
                self.raw = self.raw - self._moved

    def _step(self, raw: Tensor, gradient: Tensor, curvature: Tensor) -> Tensor:
        """Return the damped Newton step: the least of the quadratic model within the bounds and the reach."""
        step = torch.zeros_like(raw)
        if curvature[0, 0] > 0:
            step[0] = -gradient[0] / curvature[0, 0]  # the mean may have any unit: it is neither damped nor bounded
        low, high = np.array(self.bounds, dtype=np.float64).T - raw.numpy()
        low, high = np.fmax(low, -self._reach), np.fmin(high, self._reach)  # no bound is NaN, which they ignore
        free = low < high
        free[0] = False
        if free.any():
            # solves that ended early can leave the matrix slightly indefinite
            values, vectors = torch.linalg.eigh(curvature[free][:, free])
            root = (values.abs() + 1.0 / self.n).sqrt()
            target = -(vectors.T @ gradient[free]) / root
            found = scipy.optimize.lsq_linear(
                (root[:, None] * vectors.T).numpy(), target.numpy(), (low[free], high[free])
            )
            step[free] = torch.from_numpy(found.x)
        return step

    def state(self) -> dict[str, np.ndarray]:
        last = np.array([self._reach, self._gain, self._rows, self._value])
        return {"scoring": last, "moved": self._moved.numpy(), "gradient": self._gradient.numpy()}

    def restore(self, raw: Tensor, state: Mapping[str, np.ndarray]) -> None:
        super().restore(raw, state)
        self._reach, self._gain, rows, self._value = state["scoring"].tolist()
        self._rows = int(rows)
        self._moved, self._gradient = (torch.from_numpy(state[name]) for name in ("moved", "gradient"))


def corrected(information: Tensor, moved: Tensor, change: Tensor) -> Tensor:
    """Return the information with the curvature along a step that the change of the gradient shows: (2+p, 2+p).

    It stays as it is where that curvature is beyond a factor `TRUSTED` of its own, as from gradients with errors. The
    mean is left out.
    """
    s, y = moved[1:], change[1:]
    of = information[1:, 1:] @ s
    own, shown = float(s @ of), float(s @ y)
    if not own / TRUSTED < shown < own * TRUSTED:
        return information
    found = information.clone()
    found[1:, 1:] += torch.outer(y, y) / shown - torch.outer(of, of) / own
    return found


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
