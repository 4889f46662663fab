"""Coloured projections: alternating projection in sweeps, over colours of far-apart blocks at once.

A sweep goes once over all colours. For each it reads the residual of the colour's rows, solves its blocks, and adds
their updates to a running product K Z. So a sweep costs one product with K in all, which the Fourier operator has at a
cost that grows with n. W then moves to the minimum of h over the last sweeps, as `Subspace` does over single updates.
Each colour is an update, and so is that step. Where sweeps gain too little, overlapping projections continue
(`apviz.solvers.coloured.handover`).

Sources: multiplicative Schwarz with coloured subdomains (Smith, Bjørstad & Gropp, 1996, section 1.3); sequential
subspace optimisation (Narkiss & Zibulevsky, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from apviz.memory import free_memory, require_memory
from apviz.method import Method
from apviz.methods import COLOURED_PROJECTION
from apviz.operators import CountingOperator, Operator
from apviz.operators.fourier.engine import FourierOperator
from apviz.operators.running_product import RunningProduct
from apviz.partitions import PrincipalAxisTree
from apviz.settings import Auto, chosen, require, require_overlap, require_seed, require_whole, require_whole_or_auto
from apviz.solvers.blocks import REDUCTION
from apviz.solvers.coloured.colours import colours_of
from apviz.solvers.coloured.handover import handing_over
from apviz.solvers.coloured.local_solves import LocalSolve, LocalSolves
from apviz.solvers.interface import SOLVERS, Prepared, Resolved, Solver
from apviz.solvers.precision import DTYPES, Precision, Recursion, precision_named
from apviz.solvers.state import EpochEnd, Events, State, Updated, column_inner
from apviz.solvers.steps import minimum
from apviz.solvers.stopping import Stopping

#: distance in lengthscales below which two blocks have different colours
DISTANCE = 2.0
#: largest number of past sweeps
MOST_SWEEPS = 12
#: sizes of blocks that are tried, and the number of trials of each
SIZES, TRIALS = (32768, 16384, 8192, 4096, 2048, 1024, 512, 256), 2
#: size of blocks that are solved exactly, and the share of the free memory for their factors
EXACT_SIZE, MEMORY_SHARE = 1024, 0.45
#: largest rank of a block, as a share of its rows: above it exact factors cost less
MOST_RANK = 0.4
#: blocks after which the memory for the others is checked
CHECKED = (3, 30)
#: share of σ² that the errors of products may add up to, by √n of them
ERROR_SHARE = 3.0
#: rounding of the products of sweeps, in units of their dtype's
RIDGE = 8.0


@SOLVERS.register(COLOURED_PROJECTION)
@dataclass(frozen=True, kw_only=True)
class ColouredProjection(Solver):
    """Alternating projection in sweeps over colours of overlapping blocks, whose solves may be of low rank.

    For very many points of few inputs, with `operator="fourier"`: then a sweep costs a few products that grow with n.
    With other operators it evaluates (1 + overlap) n² entries. An epoch is a sweep, with an update for every colour and
    one that steps along past sweeps. The decrease of h by a colour is estimated as that of exact solves, ½uᵀr; the last
    update has what is left of the sweep's, which is known.

    Args:
        block_size: rows a block owns; `auto`: the most for which trial blocks need at most `rank` vectors; about 1,000
            if even small ones need more, for then blocks are solved exactly.
        rank: rank of a block's solve for which the block size is chosen; a block that needs more vectors gets more, up
            to a share of its rows, and is solved exactly if these are not enough. 0: all blocks are solved exactly.
        overlap: rows a block also solves on, as a share of its own.
        products: `system`, those of the system's operator; `fourier`, those of the Fourier operator, on the CPU and for
            kernels of up to three inputs that it supports. `solution.certificate` says how the residual is known.
        hands_over: continue by overlapping projections where the sweeps left are expected to take more than twice their
            work; the choices in a trace say when and why.
        tol: stop when the mean over right-hand sides of ‖r‖/‖b‖, recomputed, is below this.
        max_epochs, min_epochs: in sweeps.
        check_every: sweeps between evaluations of B − KW without another reason for one.
        precision: of local solves and residual, as of `AlternatingProjection`; `auto` is float64 where the noise is too
            small for the products of float32.
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
    rank: int = 300
    overlap: float = 0.5
    products: Literal["system", "fourier"] = "system"
    hands_over: bool = True
    tol: float = 1e-2
    max_epochs: int = 1000
    min_epochs: int = 0
    check_every: int = 50
    precision: Precision = Precision(recursion="auto")  # noqa: RUF009  # frozen
    seed: int = 0

    name: ClassVar[str] = "ColouredProjection"

    def __post_init__(self) -> None:
        require_whole_or_auto("block_size", self.block_size, 1)
        require_whole("rank", self.rank, 0)
        require_overlap(self.overlap)
        require(self.products in ("system", "fourier"), "products", self.products, "system or fourier")
        require(isinstance(self.hands_over, bool), "hands_over", self.hands_over, "True or False")
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
        return self.resolve_for(CountingOperator(operator), columns, None)

    def resolve_for(self, operator: CountingOperator, columns: int, like: Tensor | None) -> Resolved:
        solver, reasons, operator = self, dict[str, str](), self._with_products(operator)
        if self.precision.recursion == "auto":
            recursion, reasons["precision.recursion"] = _recursion(operator)
            solver = replace(solver, precision=replace(self.precision, recursion=recursion))
        if self.precision.factors == "auto":
            solver = replace(solver, precision=replace(solver.precision, factors="recursion"))
        if self.block_size == "auto":
            size, rank, reasons["block_size"] = _block_size(solver, solver._in_dtype(operator))
            solver = replace(solver, block_size=size, rank=rank)
        return solver, reasons

    def build(self, operator: CountingOperator, columns: int) -> Coloured:
        if operator.layout.ranks > 1:
            raise ValueError("ColouredProjection runs in one process; with ranks use AlternatingProjection")
        given, operator = operator.uncounted, self._in_dtype(self._with_products(operator))
        size = int(chosen("block_size", self.block_size))
        partition = PrincipalAxisTree(overlap=self.overlap)(operator.inputs, size)
        rows = [partition.order[partition.solved(block)] for block in range(len(partition))]
        local, solves = self._local(operator), []
        for number, each in enumerate(rows):
            solves.append(local.of(operator, each))
            if number in CHECKED:
                held = sum(solve.numbers for solve in solves) / len(solves) * local.kept.itemsize
                what = f"the local solves of {len(rows)} blocks of {size:,} rows need"
                require_memory(held * (len(rows) - len(solves)), operator.x.device, what, "use a smaller block_size")
        colours = [
            _Colour.of([rows[block] for block in blocks], [solves[block] for block in blocks])
            for blocks in colours_of(operator.inputs, rows, DISTANCE, self.seed)
        ]
        return Coloured(solver=self, given=given, operator=operator.uncounted, colours=colours)

    def _with_products(self, operator: CountingOperator) -> CountingOperator:
        plain = operator.uncounted
        if self.products == "system" or isinstance(plain, FourierOperator):
            return operator
        found = FourierOperator(plain.given, plain.kernel, plain.noise_of(), plain.x.dtype)
        found.fix_engine(float(EXACT_SIZE * found.n), 1)  # about the entries of the local solves
        return operator.of(found)

    def _in_dtype(self, operator: CountingOperator) -> CountingOperator:
        dtype = DTYPES.get(self.precision.recursion, operator.x.dtype)
        return operator if dtype == operator.x.dtype else operator.of(operator.uncounted.in_dtype(dtype))

    def _local(self, operator: Operator) -> LocalSolves:
        return LocalSolves(MOST_RANK if self.rank else 0.0, self.seed, self.precision.kept(operator.x.dtype))

    def init(self, prepared: Coloured, state: State) -> Sweeps:
        return Sweeps(**vars(state), colours=prepared.colours)

    def epochs(self, prepared: Coloured, state: Sweeps) -> Events:
        sweeps = state.sweeps()
        return handing_over(sweeps, state, Stopping.of(self), self.seed) if self.hands_over else sweeps


def _recursion(operator: Operator) -> tuple[Recursion, str]:
    """Choose the dtype of the recursion, and return it with the reason."""
    error = operator.product_error(torch.float32) * math.sqrt(operator.n)
    if operator.noise * ERROR_SHARE < error * operator.largest_signal:
        return "float64", f"float64: σ² is below {error / ERROR_SHARE:.1g} of the outputscale"
    return "float32", "float32: the residual is evaluated in float64, so this is no less exact"


def _block_size(settings: ColouredProjection, operator: CountingOperator) -> tuple[int, int, str]:
    """Choose the rows a block owns by trial solves around random rows; return them, the rank and the reason."""
    n, local = operator.n, settings._local(operator)
    generator = torch.Generator().manual_seed(settings.seed)
    centres = torch.randint(n, (TRIALS,), generator=generator).tolist()
    distances = [torch.cdist(operator.inputs[k : k + 1], operator.inputs)[0] for k in centres]
    solved_rows = {size: round(size * (1 + settings.overlap)) for size in SIZES}
    tried = [size for size in SIZES if settings.rank and solved_rows[size] <= n]
    for size in tried:
        solved = solved_rows[size]
        needed, most = 0, min(settings.rank, round(MOST_RANK * solved))
        for distance in distances:
            trial = local.low_rank(operator, distance.topk(solved, largest=False).indices, most)
            if trial is None:
                break
            needed = max(needed, trial.rank)
        else:
            return size, settings.rank, f"{size}: trial blocks need {needed} vectors"
    each = local.kept.itemsize * n * (1 + settings.overlap) ** 2
    fits = MEMORY_SHARE * free_memory(operator.x.device) / each
    size = max(1, min(EXACT_SIZE, n, int(fits)))
    why = f"low rank would need more than {settings.rank} vectors" if tried else "no low rank was requested"
    return size, 0, f"{size}, solved exactly: {why if n > size else 'one block holds all rows'}"


@dataclass(frozen=True, eq=False)
class _Colour:
    """Blocks that are projected onto at once.

    Args:
        rows: the rows of all its blocks, sorted, each once; `places` are those of each block in them.
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

    @property
    def colour_sizes(self) -> list[tuple[int, int]]:
        return [(len(colour.solves), len(colour.rows)) for colour in self.colours]


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
        self._is_inside = False  # a sweep, whose updates are not in `w` and `r` yet
        columns = self.r.shape[1]
        self._gram = torch.zeros(columns, 0, 0, dtype=torch.float64)

    def weights(self) -> Tensor:
        return self.w + self._running.z if self._is_inside else self.w

    def residuals(self) -> Tensor:
        # costs a product, so it does not count: only a hook asks for it inside a sweep
        return self.r - self.operator.uncounted.matmul(self._running.z) if self._is_inside else self.r

    def squared(self) -> Tensor:
        # inside a sweep the residual is known on the rows of one colour alone
        return torch.full_like(self.b[0], math.nan, dtype=torch.float64) if self._is_inside else super().squared()

    def sweeps(self) -> Events:
        """Go over all colours, and then move to the minimum of h over the last sweeps; again and again.

        The order is always the same: if sweeps went back and forth, the last colour would be solved twice in a row.
        """
        running = self._running
        while True:
            running.begin(self.r.shape[1])
            self._is_inside, told = True, torch.zeros(self.r.shape[1], dtype=torch.float64, device=self.r.device)
            for group, colour in enumerate(self.colours):
                left = self.r[colour.rows]
                if group:
                    left -= running.at(group)
                u = colour.project(left)
                running.add_(group, u)
                decrease = 0.5 * column_inner(u, left)
                told += decrease
                if (yield Updated(group, decrease)):
                    break
            decrease = self._move_(running.z, running.product())
            self._is_inside = False
            yield Updated(-1, decrease - told)
            yield EpochEnd()

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
