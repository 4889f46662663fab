"""Coloured projections: alternating projection in sweeps, over colours of far-apart blocks at once.

A sweep goes once over all colours. For each it reads the residual of the colour's rows, solves its blocks, and adds
their updates to a running product K Z. So a sweep costs one product with K in all, which the Fourier operator has at a
cost that grows with n. W then moves to the minimum of h over the last sweeps, as `Subspace` does over single updates.

Sources: multiplicative Schwarz with coloured subdomains (Smith, Bjørstad & Gropp, 1996, section 1.3); sequential
subspace optimisation (Narkiss & Zibulevsky, 2005).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from apviz.colours import colours_of
from apviz.local_solves import LocalSolve, LocalSolves
from apviz.method import Method
from apviz.methods import COLOURED_PROJECTION
from apviz.operators import CountingOperator, Operator
from apviz.operators.running_product import RunningProduct
from apviz.partitions import PrincipalAxisTree
from apviz.settings import Auto, chosen, require_overlap, require_seed, require_whole, require_whole_or_auto
from apviz.solvers.blocks import REDUCTION
from apviz.solvers.interface import SOLVERS, Prepared, Resolved, Solver
from apviz.solvers.precision import DTYPES, Precision, precision_named
from apviz.solvers.recommended import inner_dtype
from apviz.solvers.state import EpochEnd, Events, State, Updated, column_inner
from apviz.solvers.steps import minimum
from apviz.solvers.stopping import Stopping

#: largest number of past sweeps
MOST_SWEEPS = 12
#: rounding of the products of sweeps, in units of their dtype's
RIDGE = 8.0


@SOLVERS.register(COLOURED_PROJECTION)
@dataclass(frozen=True, kw_only=True)
class ColouredProjection(Solver):
    """Alternating projection in sweeps over colours of overlapping blocks, whose solves may be of low rank.

    For very many points of few inputs, with `operator="fourier"`: then a sweep costs a few products that grow with n.
    With other operators it evaluates (1 + overlap) n² entries. An epoch is a sweep.

    Args:
        block_size: rows a block owns; `auto`: chosen by trial solves of a few blocks.
        rank: largest rank of a block's solve; a block that needs more is solved exactly (`apviz.local_solves`).
        overlap: rows a block also solves on, as a share of its own.
        distance: in lengthscales, below which two blocks have different colours.
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in sweeps.
        check_every: sweeps between evaluations of B − KW without another reason for one.
        precision: of local solves and residual, as of `AlternatingProjection`.
        seed: of pivots and trials.

    Raises:
        ValueError: a setting out of range, with the accepted values.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 2_000, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.02), noise=0.01, device="cpu")
        >>> apviz.solve(system, apviz.ColouredProjection(block_size=200)).converged
        True
    """

    block_size: int | Auto = "auto"
    rank: int = 500
    overlap: float = 0.5
    distance: float = 2.0
    tol: float = 1e-2
    max_epochs: int = 1000
    min_epochs: int = 0
    check_every: int = 50
    precision: Precision = Precision(recursion="auto")  # noqa: RUF009  # frozen
    seed: int = 0

    name: ClassVar[str] = "ColouredProjection"

    def __post_init__(self) -> None:
        require_whole_or_auto("block_size", self.block_size, 1)
        require_whole("rank", self.rank, 1)
        require_overlap(self.overlap)
        Stopping.of(self)
        object.__setattr__(self, "precision", precision_named(self.precision))
        require_seed(self.seed)

    @property
    def method(self) -> Method:
        return Method(
            family=COLOURED_PROJECTION, block_size=self.block_size, overlap=self.overlap, rank=self.rank,
            partition="principal-axis-tree",
        )  # fmt: skip

    def resolve(self, operator: Operator, columns: int = 1) -> Resolved:
        return self, {}

    def build(self, operator: CountingOperator, columns: int) -> Coloured:
        dtype = DTYPES.get(self.precision.recursion, operator.x.dtype)
        if dtype != operator.x.dtype:
            operator = operator.of(operator.uncounted.in_dtype(dtype))
        size = int(chosen("block_size", self.block_size))
        partition = PrincipalAxisTree(overlap=self.overlap)(operator.inputs, size)
        rows = [partition.order[partition.solved(block)] for block in range(len(partition))]
        local = LocalSolves(self.rank, self.seed, self.precision.kept(operator.x.dtype))
        solves = [local.of(operator, each) for each in rows]
        colours = colours_of(operator.inputs, rows, self.distance, self.seed)
        return Coloured(
            solver=self, given=operator.uncounted, operator=operator.uncounted,
            colours=tuple(_Colour.of([rows[block] for block in blocks], [solves[block] for block in blocks])
                          for blocks in colours),
        )  # fmt: skip

    def init(self, prepared: Coloured, state: State) -> Sweeps:
        return Sweeps(**vars(state), colours=prepared.colours)

    def epochs(self, prepared: Coloured, state: Sweeps) -> Events:
        for number in itertools.count():
            decrease = state.sweep_(backwards=number % 2 == 1)
            yield Updated(-1, decrease, is_whole_epoch=True)
            yield EpochEnd()


@dataclass(frozen=True, eq=False)
class _Colour:
    """Blocks that are projected onto at once.

    Args:
        rows: the rows of all its blocks, sorted, each once.
        places: those of each block in `rows`.
        solves: the local solve of each block.
    """

    rows: Tensor
    places: Sequence[Tensor]
    solves: Sequence[LocalSolve]

    @classmethod
    def of(cls, rows: Sequence[Tensor], solves: Sequence[LocalSolve]) -> _Colour:
        every, places = torch.unique(torch.cat(list(rows)), return_inverse=True)
        return cls(every, places.split([len(each) for each in rows]), solves)

    def project(self, r: Tensor) -> Tensor:
        """Solve every block for its rows of r: (|I|, p); return the sum of their updates, (|I|, p)."""
        u = torch.zeros_like(r)
        for places, solve in zip(self.places, self.solves, strict=True):
            u.index_add_(0, places, solve(r[places]))
        return u


@dataclass(frozen=True, eq=False, kw_only=True)
class Coloured(Prepared):
    """Set-up: the colours, with the local solves of their blocks."""

    solver: ColouredProjection
    colours: Sequence[_Colour]


@dataclass(eq=False, kw_only=True)
class Sweeps(State):
    """State of the sweeps, and the past ones.

    Args:
        colours: of the set-up.
    """

    colours: Sequence[_Colour]
    reduction: float = REDUCTION

    def __post_init__(self) -> None:
        self._running: RunningProduct = self.operator.running_product([colour.rows for colour in self.colours])
        self._updates: list[Tensor] = []  # Z of past sweeps
        self._images: list[Tensor] = []  # K Z
        columns = self.r.shape[1]
        self._gram = torch.zeros(columns, 0, 0, dtype=torch.float64)

    def sweep_(self, *, backwards: bool) -> Tensor:
        """Go over all colours, and move to the minimum of h over the last sweeps; return its decreases, (p,)."""
        running, order = self._running, list(enumerate(self.colours))
        running.begin(self.r.shape[1])
        for number, (group, colour) in enumerate(reversed(order) if backwards else order):
            left = self.r[colour.rows]
            if number:
                left -= running.at(group)
            running.add_(group, colour.project(left))
        return self._move_(running.z, running.product())

    def _move_(self, z: Tensor, kz: Tensor) -> Tensor:
        updates, images = [*self._updates, z][-MOST_SWEEPS:], [*self._images, kz][-MOST_SWEEPS:]
        inner = torch.stack([column_inner(each, kz) for each in updates], 1)  # (p, q)
        gradient = torch.stack([column_inner(each, self.r) for each in updates], 1)
        q = len(updates)
        gram = inner.new_zeros(len(inner), q, q)
        gram[:, : q - 1, : q - 1] = self._gram[:, 1 - q :, 1 - q :] if q > 1 else 0.0
        gram[:, -1] = gram[:, :, -1] = inner
        steps = minimum(gram, gradient, q - 1, RIDGE * torch.finfo(z.dtype).eps)
        for k, (update, image) in enumerate(zip(updates, images, strict=True)):
            self.w += update * steps[:, k]
            self.r -= image * steps[:, k].to(image)
        self._updates, self._images, self._gram = updates, images, gram
        curvature = (gram @ steps[..., None])[..., 0]
        return torch.sum(steps * (gradient - 0.5 * curvature), dim=1)

