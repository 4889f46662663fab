"""Progress of a solve compared with its forecast: the remaining time, and a warning if it is slow."""

from __future__ import annotations

import math
from collections.abc import Mapping

from apviz.advice.forecast import Band, Forecast, in_words
from apviz.solvers import Epoch, Hook
from apviz.solvers.run import Run

#: measurements correct the forecast after more epochs, and a larger share of the way to the tolerance, than these
FEW_EPOCHS, LITTLE = 3, 0.1


class ProgressOfAll(Hook):
    """A hook that compares each solve with its forecast, and is silent for solves without one.

    Args:
        forecasts: forecasts by name.
    """

    def __init__(self, forecasts: Mapping[str, Forecast]) -> None:
        self._forecasts = dict(forecasts)
        self._progress: Progress | None = None

    @property
    def words(self) -> str:
        """Time left of the running solve, or its warning."""
        return self._progress.words if self._progress else ""

    def on_start(self, run: Run) -> None:
        mine = [name for name, each in self._forecasts.items() if each.solver == run.solver]
        self._progress = Progress(self._forecasts[mine[0]]) if mine else None
        if self._progress:
            self._progress.on_start(run)

    def on_epoch(self, epoch: Epoch) -> None:
        if self._progress:
            self._progress.on_epoch(epoch)


class Progress(Hook):
    """A hook that estimates the remaining time of a solve: first from the forecast, later from its epochs.

    Progress is measured by the logarithm of the residual. The total time is a geometric mean of the measured and the
    forecast total, weighted by the done and the remaining share of the way to the tolerance.

    Args:
        forecast: forecast of the solve.
        others: forecasts of other methods by name, to recommend if the solve is slower than forecast.

    Attributes:
        left: estimated seconds until the tolerance; all zero once it is reached.
        warning: empty, or a sentence if even the best pace so far takes longer than the forecast's band.

    Examples:
        >>> import torch, apviz
        >>> from apviz.advice.progress import Progress
        >>> x = torch.linspace(0, 1, 300, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> best = apviz.advise(system).best
        >>> progress = Progress(best)
        >>> solution = apviz.solve(system, best.solver, hooks=[progress])
        >>> progress.left.likely
        0.0
    """

    def __init__(self, forecast: Forecast, others: Mapping[str, Forecast] | None = None) -> None:
        self._forecast, self._others = forecast, dict(others or {})
        self._curve: list[tuple[float, float]] = []
        self._tol, self._is_unlimited = 1.0, not forecast.is_bounded
        self.left, self.warning = forecast.seconds, ""

    @property
    def words(self) -> str:
        """Time left, or the warning if there is one."""
        more = " or more" if self._is_unlimited else ""
        return self.warning or (f"about {in_words(self.left.likely)}{more} left" if self.left.likely else "")

    def on_start(self, run: Run) -> None:
        self._run, self._tol, self._curve = run, run.stopping.tol, []
        self.left, self.warning = self._forecast.seconds, ""

    def on_epoch(self, epoch: Epoch) -> None:
        if not (0 < epoch.residual < math.inf and self._tol < 1):
            return
        self.follow(epoch.seconds, epoch.residual, self._run.setup_seconds, self._tol)

    def follow(self, seconds: float, residual: float, setup: float, tol: float) -> None:
        """Record an epoch: total seconds, its residual, the seconds of the set-up, and the tolerance."""
        self._curve.append((seconds, residual))
        first, said = self._curve[0][1], self._forecast.seconds
        to_go = math.log(max(residual, tol) / tol)
        done = max(0.0, 1.0 - to_go / math.log(max(first, 10 * tol) / tol))
        if not to_go:
            self.left, self.warning = Band(0.0, 0.0, 0.0), ""
            return
        measured = setup + (seconds - setup) / done if done else math.inf
        share = done if len(self._curve) > FEW_EPOCHS and done > LITTLE else 0.0
        self.warning, self._is_unlimited = "", not (share or self._forecast.is_bounded)
        # a stopped rehearsal gives no upper limit; measurements replace its estimate
        weight = 1.0 if share and not self._forecast.is_bounded else share
        totals = [each if not weight else each ** (1 - weight) * measured**weight for each in said]
        self.left = Band(*(max(0.0, each - seconds) for each in totals))
        pace = self._best_pace()
        if len(self._curve) > FEW_EPOCHS and seconds + (to_go / pace if pace else math.inf) > said.high:
            self._warn(seconds, to_go / pace if pace else math.inf)

    def _best_pace(self) -> float:
        """Return the best decrease of log residual a second: over all epochs, the later half, or the last epoch."""
        now, last = self._curve[-1]
        ways = (self._curve[each] for each in (0, len(self._curve) // 2, len(self._curve) - 2))
        return max(0.0, *(math.log(r / last) / (now - t) for t, r in ways if now > t), 0.0)

    def _warn(self, seconds: float, left: float) -> None:
        said = self._forecast.seconds
        more = f"about {in_words(left)} more" if math.isfinite(left) else "no end in sight"
        self.left = Band(left, left, math.inf) if math.isfinite(left) else self.left
        self.warning = f"Slower than forecast, {in_words(said.low)} to {in_words(said.high)} in all: {more}."
        name, other = min(
            ((name, each) for name, each in self._others.items() if each.chance > 0.5 and each.is_bounded),
            key=lambda item: item[1].seconds.likely, default=("", None),
        )  # fmt: skip
        if other is not None and other.seconds.likely < left:
            self.warning += f" {name} was forecast to take {in_words(other.seconds.likely)}: stop, and use it."
