"""Stochastic dual descent (Lin et al., "Stochastic gradient descent for Gaussian processes done right", ICLR 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from apviz.method import Method
from apviz.operators import CountingOperator, Operator
from apviz.settings import Auto, chosen, require, require_number, require_whole
from apviz.solvers.baselines.iterates import Iteration, IterativeSolver, estimated_largest_eigenvalue, updates_of
from apviz.solvers.interface import SOLVERS, Prepared
from apviz.solvers.state import State

# The average spans about one part in this number of all updates: the paper's r = 100/t_max.
AVERAGED = 100


@SOLVERS.register("stochastic-dual-descent")
@dataclass(frozen=True, kw_only=True)
class StochasticDualDescent(IterativeSolver):
    """Descent along random rows of the gradient KW − B, with Nesterov's momentum and averaged iterates.

    Algorithm 1 of the paper (arXiv:2310.20581). Departures: batches are drawn without replacement, as in the authors'
    notebook; the step length is in units of 1/λmax(K), estimated from 500 rows, but the paper tunes it by data set.

    Args:
        batch_size: B; at most n.
        step: β λmax(K).
        momentum: ρ.
        averaging: r, the share of the last iterate in the average; `auto`: 100 ÷ the largest number of updates.
        tol, max_epochs, min_epochs, check_every, seed: as for every iterative solver; an epoch is n/B updates, 1.0
            work.

    Raises:
        ValueError: a setting out of range, with the accepted values.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")
        >>> apviz.solve(system, apviz.solvers.StochasticDualDescent(batch_size=100)).converged
        True
    """

    batch_size: int = 512
    step: float = 1.0
    momentum: float = 0.9
    averaging: float | Auto = "auto"

    name: ClassVar[str] = "StochasticDualDescent"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("batch_size", self.batch_size, 1)
        require_number("step", self.step, 0.0, "a positive number, in units of 1/λmax(K)", strictly=True)
        require_number("momentum", self.momentum, 0.0, "a number from 0, below 1")
        require(self.momentum < 1, "momentum", self.momentum, "a number from 0, below 1")
        if self.averaging != "auto":
            accepted = "a number above 0, at most 1, or 'auto'"
            number = self.averaging if not isinstance(self.averaging, str) else -1.0
            require_number("averaging", number, 0.0, accepted, strictly=True)
            require(number <= 1, "averaging", self.averaging, accepted)

    @property
    def method(self) -> Method:
        default = StochasticDualDescent()
        own = {name: (getattr(self, name), getattr(default, name)) for name in ("step", "momentum")}
        changed = [f"{name} {value:g}" for name, (value, usual) in own.items() if value != usual]
        return Method(family="stochastic-dual-descent", block_size=self.batch_size, variant=", ".join(changed) or None)

    def resolve(self, operator: Operator, columns: int = 1) -> tuple[StochasticDualDescent, Mapping[str, str]]:
        size, share, choices = min(self.batch_size, operator.n), self.averaging, dict[str, str]()
        if isinstance(share, str):
            share = min(1.0, AVERAGED / (self.max_epochs * updates_of(operator.n, size)))
            choices["averaging"] = f"{share:.2g}: {AVERAGED} divided by the largest number of updates, as in the paper"
        return replace(self, batch_size=size, averaging=share), choices

    def build(self, operator: CountingOperator, columns: int) -> _Prepared:
        largest = estimated_largest_eigenvalue(operator, self.seed)
        return _Prepared(solver=self, given=operator.uncounted, operator=operator.uncounted, largest=largest)

    def init(self, prepared: _Prepared, state: State) -> _Descent:
        return _Descent(prepared, state)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Prepared(Prepared):
    solver: StochasticDualDescent
    #: estimate of λmax(K)
    largest: float


class _Descent(Iteration):
    """State of one solve; `point` is the average, the paper's ᾱ."""

    def __init__(self, prepared: _Prepared, start: State) -> None:
        self.settings = s = prepared.solver
        n = prepared.operator.n
        super().__init__(start, s.seed, updates_of(n, s.batch_size))
        self.averaging = chosen("averaging", s.averaging)
        self.beta = s.step / prepared.largest * n / s.batch_size
        self.alpha, self.v = self.point.copy(), self.point.direction()

    def update(self) -> None:
        s, rows = self.settings, self.sampled(self.settings.batch_size)
        self.v.scale_(s.momentum)
        step = self.beta * (self.alpha.r[rows] + self.v.r[rows])
        self.v.step_(rows, step, self.operator.columns_matmul(rows, step))
        self.alpha.add_(self.v)
        self.point.mix_(1 - self.averaging, self.alpha)
