"""The solver that chooses: overlapping alternating projection, CG where low rank is enough, Cholesky for small n."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from apviz.memory import SHARE, free_memory
from apviz.methods import RECOMMENDED
from apviz.operators import CountingOperator, Operator
from apviz.partitions import PrincipalAxisTree, overlap_of, with_overlap
from apviz.preconditioners import RandomlyPivotedCholesky
from apviz.settings import chosen, require_seed, require_tolerance, require_whole
from apviz.solvers.cholesky import Cholesky
from apviz.solvers.choosing.costs import CostModel, memory_of_a_factor, of_factor, of_sweeps, usual_work
from apviz.solvers.choosing.rehearsal import FAR, SHORT, Plan, Rehearsal, Rehearsals, affordable_iterations
from apviz.solvers.coloured.projection import ColouredProjection
from apviz.solvers.conjugate_gradient import ConjugateGradient
from apviz.solvers.interface import SOLVERS, Prepared, Resolved, Solver
from apviz.solvers.projection import AlternatingProjection
from apviz.solvers.recommended import FEW_INPUTS, coarse_rank
from apviz.solvers.state import Events, State

# Up to this number of rows a factorisation takes a tenth of a second.
CHOLESKY_ROWS = 2_000
# The limit on a GPU in float32, if K fits. At 50,000 rows a factorisation takes 1.05 s on an H100, and blocks take
# 1.6 s to 0.001 (`benchmarks/results/gpu/solves.json`).
GPU_CHOLESKY_ROWS = 50_000
# CG is rehearsed on this number of rows: at most an eighth of all rows, at least four times the rank.
REHEARSAL_ROWS, REHEARSAL_SHARE, REHEARSAL_RANKS = 1_000, 8, 4
# Blocks are slow only where rows far apart are correlated, by more than FAR. If a sweep of blocks on SWEPT_ROWS rows
# leaves a share s of the residual, blocks take EASY + SLOW·s times the usual time, at most 1 + SLOW_PER_DIGIT times
# the digits of the tolerance. CG must be cheaper than 1 + SLOW_PER_DIGIT·s times the digits, which is less for a
# small s (`benchmarks/notes.md`). With up to FEW_INPUTS inputs blocks take the usual time; with more than MANY_INPUTS
# the sweep takes longer than it saves.
SLOW_PER_DIGIT = 0.75
# CG must cost less than this share of factoring K, whose seconds are known better.
SURE_OF_FACTOR = 0.9
SWEPT_ROWS, EASY, SLOW, MANY_INPUTS = 400, 0.5, 5.0, 100
# Share of the free memory for coloured projections.
MEMORY_SHARE = 0.9
# Share of the expected seconds of blocks that those of coloured projections may take: easy systems take half of it.
WORTH = 0.6
GIB = 2**30


@SOLVERS.register("automatic")
@dataclass(frozen=True, kw_only=True)
class Automatic(Solver):
    """Automatic choice of a solver: overlapping alternating projection, CG with low rank, or Cholesky.

    It chooses the smallest prediction of `apviz.solvers.choosing.costs`, of these:

    - Cholesky: up to 2,000 rows without a prediction, on a GPU in float32 up to 50,000. For more rows n³/3 flops at a
      measured rate, if K fits the memory and σ² is above the rounding of its dtype.
    - CG, alone or with randomly pivoted Cholesky: the iterations that a rehearsal on up to 1,000 rows takes, first on
      half of them; where blocks are slow, with 500 vectors too, on 1,500 rows.
    - Alternating projection on blocks of neighbours, sized by n and the free memory: its usual work, or
      what a sweep on 400 rows suggests if that may decide. It hands over to CG if it turns out to be slow.
    - Coloured projections with Fourier products, for 30,000 rows or more of up to three inputs, if they are expected
      to take clearly less time than blocks that evaluate entries.

    A few products and a factor are timed first, once for systems of a kind, so that a close choice may differ between
    machines. `resolve` returns the choice as a solver of its own, to repeat it.

    `benchmarks/results/solvers` has the times of every method on every data set.

    Args:
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs: maximum number of epochs or iterations.
        seed: seed of rehearsals, partitions and pivots.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solver, reasons = apviz.Automatic(tol=1e-4).resolve(system.operator)
        >>> solver
        Cholesky(tol=0.0001)
        >>> reasons["method"]
        'Cholesky: n = 200 is at most 2,000'
    """

    tol: float = 1e-2
    max_epochs: int = 1000
    seed: int = 0
    name: ClassVar[str] = "Automatic"

    def __post_init__(self) -> None:
        require_tolerance(self.tol)
        require_whole("max_epochs", self.max_epochs, 1)
        require_seed(self.seed)

    def resolve(self, operator: Operator, columns: int = 1) -> Resolved:
        solver, why = self._choose(operator, columns, None)
        resolved, reasons = solver.resolve(operator, columns)
        return resolved, {"method": f"{resolved.name}: {why}", **reasons}

    def resolve_for(self, operator: CountingOperator, columns: int, like: Tensor | None) -> Resolved:
        solver, why = self._choose(operator.uncounted, columns, like)
        resolved, reasons = solver.resolve_for(operator, columns, like)
        return resolved, {"method": f"{resolved.name}: {why}", **reasons}

    def epochs(self, prepared: Prepared, state: State) -> Events:
        return prepared.solver.epochs(prepared, state)

    def _choose(self, operator: Operator, columns: int, like: Tensor | None) -> tuple[Solver, str]:
        """Return the solver and the reason."""
        n = operator.n
        operator.fix_engine(10.0 * n**2, columns)  # the engine sets the cost of an entry
        if n <= (few := cholesky_rows(operator)):
            return Cholesky(tol=self.tol), f"n = {n:,} is at most {few:,}"
        settings: dict[str, Any] = {"tol": self.tol, "max_epochs": self.max_epochs}
        costs = cost_model(operator, columns)
        usual, slowest = usual_work(n, self.tol), 1.0 + SLOW_PER_DIGIT * digits(self.tol)
        direct = cholesky_work(operator, costs, slowest * usual)
        sweeps, unfit = of_sweeps(operator, columns, self.tol), ""
        if sweeps is not None and (seconds := sweeps.seconds()) <= WORTH * min(usual, direct) * costs.work:
            free = free_memory(operator.x.device)
            why = f"about {_rounded(seconds)} s with Fourier products, {_of_blocks(usual, costs)}"
            if sweeps.memory <= MEMORY_SHARE * free:
                return ColouredProjection(products="fourier", seed=self.seed, **settings), why
            needed = f"{sweeps.memory / GIB:.1f} GiB, {free / GIB:.1f} GiB are free"
            unfit = f"; coloured projections would take {why}, but need about {needed}"
        rank, blocks, plan = coarse_rank(n), overlapping(seed=self.seed, **settings), None
        why = "an epoch of blocks leaves a smaller residual than an iteration of CG"
        if self.max_epochs > 1:
            usual, plan = self._rehearsed(blocks, operator, columns, like, usual, direct, costs)
            within = affordable_iterations(operator, columns, rank, usual)
            why = (
                f"CG with rank {rank} is cheaper only within {within:.0f} iterations, and would take more (an estimate)"
            )
        if plan is not None and plan.iterations > self.max_epochs:
            plan, why = None, f"CG would take more than the limit of {self.max_epochs:,} iterations (an estimate)"
        if plan is not None:
            low_rank = RandomlyPivotedCholesky(rank=plan.rank, seed=self.seed) if plan.rank else None
            how = f"with rank {plan.rank} would take" if plan.rank else "would take"
            why = f"CG {how} about {math.ceil(plan.iterations)} iterations (an estimate), cheaper than blocks{unfit}"
            return ConjugateGradient(preconditioner=low_rank, **settings), why
        if direct <= usual:
            why = f"factoring K takes about {_rounded(direct * costs.work)} s, {_of_blocks(usual, costs)}"
            return Cholesky(tol=self.tol), why + unfit
        return blocks, why + unfit

    def _rehearsed(
        self,
        blocks: AlternatingProjection,
        operator: Operator,
        columns: int,
        like: Tensor | None,
        usual: float,
        direct: float,
        costs: CostModel,
    ) -> tuple[float, Plan | None]:
        """Return the expected work of blocks, and a plan of CG that costs less than blocks and a factor, or None."""
        n, rank = operator.n, coarse_rank(operator.n)
        rows = max(min(REHEARSAL_ROWS, n // REHEARSAL_SHARE), REHEARSAL_RANKS * rank)
        least = min(usual, SURE_OF_FACTOR * direct)
        is_short = operator.layout.agreed(least * costs.work < SHORT)
        rehearsals = Rehearsals(operator=operator, b=like, rank=rank, rows=rows, seed=self.seed, is_short=is_short)
        plan = rehearsals.cheapest([rank, rank // 2, rank // 4, 0], self.tol, columns, least)
        if plan is None and not is_short and FEW_INPUTS < operator.inputs.shape[1] <= MANY_INPUTS:
            return self._if_slow(blocks, rehearsals, columns, usual, direct, costs)
        return usual, plan

    def _if_slow(
        self,
        blocks: AlternatingProjection,
        rehearsals: Rehearsals,
        columns: int,
        usual: float,
        direct: float,
        costs: CostModel,
    ) -> tuple[float, Plan | None]:
        """Return the expected work of blocks, by a sweep where that may decide, and a plan of CG that costs less."""
        operator, agreed = rehearsals.operator, rehearsals.operator.layout.agreed
        slowest = SLOW_PER_DIGIT * digits(self.tol)  # the largest share of the usual work in addition to it
        most = (1 + slowest) * usual
        if not agreed(direct <= most or rehearsals.may_be_cheaper(self.tol, columns, min(direct, most))):
            return usual, None
        is_far = agreed(rehearsals.correlation) > FAR
        if not (is_far or EASY * usual < direct <= usual):
            return usual, None
        left = agreed(left_by_a_sweep(blocks, operator, columns, rehearsals.b))
        slow = min(SURE_OF_FACTOR * direct, usual * (1 + slowest * min(1.0, left)))
        plan = rehearsals.cheaper_than_slow(self.tol, columns, slow, costs.flop / costs.work) if is_far else None
        return usual * min(1 + slowest, EASY + SLOW * left), agreed(plan)


def left_by_a_sweep(blocks: AlternatingProjection, operator: Operator, columns: int, like: Tensor | None) -> float:
    """Return the share of the residual that a sweep of the blocks leaves, on few rows."""
    resolved, _ = blocks.resolve(operator, columns)
    rehearsal, overlap = Rehearsal(operator, like, 0, SWEPT_ROWS, blocks.seed), overlap_of(resolved.partition)
    return rehearsal.left_by_a_sweep(
        PrincipalAxisTree(), int(chosen("block_size", resolved.block_size)), float(chosen("overlap", overlap))
    )


def digits(tol: float) -> float:
    """Return the decimal digits of a tolerance: 2 for 0.01."""
    return max(0.0, -math.log10(tol))


def _of_blocks(usual: float, costs: CostModel) -> str:
    return f"blocks {_rounded(usual * costs.work)} s (estimates)"


def _rounded(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 95 else f"{float(f'{seconds:.2g}'):,.0f}"


def cholesky_rows(operator: Operator) -> int:
    """Return the number of rows up to which a factorisation of K is fastest on the operator's device."""
    x, n = operator.x, operator.n
    is_fast = x.is_cuda and x.dtype == torch.float32 and operator.layout.ranks == 1
    fits = is_fast and memory_of_a_factor(operator) <= SHARE * free_memory(x.device)
    return (
        GPU_CHOLESKY_ROWS if fits and survives_rounding(n, operator.noise, operator.largest_signal) else CHOLESKY_ROWS
    )


def cost_model(operator: Operator, columns: int) -> CostModel:
    """Return the costs by which `auto` chooses: in seconds of the processor, which other processes change little."""
    return CostModel(operator, columns, time.perf_counter if operator.x.is_cuda else time.process_time)


def cholesky_work(operator: Operator, costs: CostModel, most: float = math.inf) -> float:
    """Predict the work that takes as long as factoring K.

    Return inf if K does not fit, if rounding hides the noise, or, before the rest is timed, if the flops alone take
    longer than `most` work.
    """
    n = operator.n
    if operator.layout.ranks > 1 or n**3 / 3 * costs.flop > most * costs.work:
        return math.inf
    if not survives_rounding(n, operator.noise, operator.largest_signal, operator.x.dtype):
        return math.inf
    if memory_of_a_factor(operator) > SHARE * free_memory(operator.x.device):  # last, because it reads files
        return math.inf
    return of_factor(operator, costs).seconds() / costs.work


def survives_rounding(n: int, noise: float, signal: float, dtype: torch.dtype = torch.float32) -> bool:
    """Test whether σ² is above the rounding of a factorisation of K (Higham 2002, theorem 10.3).

    Below it a factor needs jitter, with which refinement may stagnate while smaller blocks converge.
    """
    return noise >= n * torch.finfo(dtype).eps / 2 * (signal + noise)


def overlapping(**settings: Any) -> AlternatingProjection:
    """Make the alternating projection that apviz recommends: overlapping blocks of neighbours, and a history.

    Block size, overlap and history are chosen from n, d, the right-hand sides and the free memory
    (`apviz.solvers.recommended`). `Automatic` uses it if neither Cholesky nor low rank is faster.

    Args:
        settings: settings of `AlternatingProjection` that replace the recommended ones.

    Examples:
        >>> from apviz.solvers.choosing.automatic import overlapping
        >>> overlapping(tol=1e-3).partition
        PrincipalAxisTree(overlap='auto')
    """
    return AlternatingProjection(**{**with_overlap(RECOMMENDED), **settings})
