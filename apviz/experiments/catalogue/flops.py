"""The appendix's table of flops: measured flops of an epoch of Algorithm 1, and the paper's formulas."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, Final

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from apviz.comparison import build_system
from apviz.experiments.base import Cell, Chart, Experiment, Options, Row, Table, duration
from apviz.experiments.measuring import machines, solved
from apviz.experiments.sources import block_size, hyperparameters_of, load, name_of, pairs
from apviz.factors import BlockFactors
from apviz.operators import Operator
from apviz.operators.interface import add_rows_
from apviz.operators.tiled import TiledOperator
from apviz.rules import GaussSouthwell
from apviz.solvers import AlternatingProjection, ConjugateGradient, Hook, Solver, attempt
from apviz.solvers.blocks import Projection
from apviz.solvers.run import Run
from apviz.solvers.state import column_inner
from apviz.system import KernelSystem

PAIRS = (("airquality", "sgemm"),)
COLUMNS = 16
EPOCH, ITERATION = "an epoch", "an iteration of CG"
# unreachable: the solve should do exactly one epoch
TOL = 1e-9

CACHE, RULE, SOLVE, WEIGHTS, RESIDUAL = "cache", "rule", "solve", "weights", "residual"
ENTRIES, RECORD = "entries", "record"
#: Purpose of each function, by the function itself, so that a renamed or moved function raises an error at once.
CALLERS: Final = {
    BlockFactors.__init__: CACHE, Projection.norms_of: RULE, GaussSouthwell.begin: RULE, BlockFactors.solve: SOLVE,
    add_rows_: WEIGHTS, Operator.subtract_columns_: RESIDUAL, column_inner: RECORD, Run.__init__: RECORD,
    Run._start: RECORD, Run._begin: RECORD, Run._updated: RECORD, Run._solution: RECORD, Run._end_epoch: RECORD,
}  # fmt: skip
EVALUATING: Final = {TiledOperator._tile: ENTRIES, Operator.block: ENTRIES}


class Flops(Experiment):
    """Flops of one epoch on the torch engine, which runs the formulas' operations, and of one CG iteration."""

    name = "flops"
    title = "The flops of an epoch, counted"
    source = 'The table of the appendix "FLOPs in Algorithm 1"'

    def cells(self, options: Options) -> list[Cell]:
        (pair,) = pairs(PAIRS, options)
        hyperparameters_of(name := name_of(*pair, options))
        return [
            Cell(f"{name}-ap", partial(_count_epoch, pair, options)),
            Cell(f"{name}-cg", partial(_count_iteration, pair, options)),
        ]

    def tables(self, rows: Mapping[str, Row], options: Options) -> list[Table]:
        tables = []
        if EPOCH in (kinds := {row["kind"]: row for row in rows.values()}):
            tables.append(_table(kinds[EPOCH], kinds.get(ITERATION)))
        return tables

    def charts(self, rows: Mapping[str, Row], folder: Path) -> list[Chart]:
        return []  # a single epoch has no curve


def _system(pair: tuple[str, str], options: Options, torch_engine: bool) -> tuple[KernelSystem, int, str]:
    """Return the system, b and the data's name in a table, on the torch engine, whose operations can be counted."""
    source = load(*pair, options)
    system = build_system(source.data, source.hyperparameters, rhs=COLUMNS, device=options.device)
    if torch_engine:
        operator = TiledOperator(system.x, system.kernel, system.noise, compiled=False)
        system = KernelSystem(
            system.x, system.b, system.kernel, noise=system.noise, operator=operator, dtype=system.dtype,
            device=system.device, dataset=system.dataset,
        )  # fmt: skip
    return system, block_size(source), source.heading


class _Held(Hook):
    """Count of the numbers that the cached factors store."""

    def on_start(self, run: Run) -> None:
        assert run.factors is not None  # alternating projection has factors
        self.numbers = run.factors.numbers
        self.updates = len(run.factors)


def _count(system: KernelSystem, solver: Solver, *hooks: Hook) -> FlopCount:
    """Count the flops of a solve without other recorders."""
    count = FlopCount(CALLERS, EVALUATING)
    with count:
        attempt(system, solver, hooks)
    return count


def _count_epoch(pair: tuple[str, str], options: Options, trace: Path) -> Row:
    system, b, data = _system(pair, options, torch_engine=True)
    solver, held = AlternatingProjection(block_size=b, tol=TOL, max_epochs=1), _Held()
    count = _count(system, solver, held)
    row = solved(_system(pair, options, torch_engine=False)[0], solver, trace, options, ())
    row |= {"n": system.n, "b": b, "columns": COLUMNS, "updates": held.updates, "held": held.numbers}
    return row | _shared(EPOCH, data, count) | {"largest": count.largest.get(ENTRIES, 0)}


def _count_iteration(pair: tuple[str, str], options: Options, trace: Path) -> Row:
    system, _, data = _system(pair, options, torch_engine=True)
    solver = ConjugateGradient(tol=TOL, max_epochs=1)
    count = _count(system, solver)
    row = solved(_system(pair, options, torch_engine=False)[0], solver, trace, options, ())
    return row | _shared(ITERATION, data, count)


def _shared(kind: str, data: str, count: FlopCount) -> Row:
    """Return the entries that both rows share."""
    return {"kind": kind, "data": data, "flops": dict(count.flops), "unknown": sorted(count.unknown)}


def _table(epoch: Row, iteration: Row | None) -> Table:
    n, b, p, m, flops = (epoch[name] for name in ("n", "b", "columns", "updates", "flops"))
    # an epoch has n/b updates
    solve_half = flops[SOLVE] / 2
    parts = [
        ("Cholesky factors, once", "n b²/3", n * b**2 / 3, flops[CACHE]),
        ("gauss-southwell rule", "2 n l · n/b", 2 * n * p * n / b, flops[RULE]),
        ("W_I += K_II⁻¹R_I", "(b² + b) l · n/b", (b**2 + b) * p * n / b, flops[WEIGHTS] + solve_half),
        ("R −= K_:I K_II⁻¹R_I", "(b² + 2nb + n) l · n/b", (b**2 + 2 * n * b + n) * p * n / b,
         flops[RESIDUAL] + solve_half),
    ]  # fmt: skip
    total = ((2 + 3 / b) * n**2 + (2 * b + 1) * n) * p
    parts.append(("an epoch", "((2 + 3/b) n² + (2b + 1) n) l", total, sum(part[3] for part in parts[1:])))
    if iteration:
        counted = sum(value for what, value in iteration["flops"].items() if what != ENTRIES)
        parts.append(("an iteration of CG", "2 n² l", 2 * n**2 * p, counted))
    memory = {0: (f"nb = {n * b:,}", epoch["held"]), 3: (f"nb = {n * b:,}", epoch["largest"])}
    memory[4] = (f"2nb = {2 * n * b:,}", epoch["held"] + epoch["largest"])
    body = []
    for index, (name, formula, value, counted) in enumerate(parts):
        theirs, ours = memory.get(index, ("–", None))
        body.append([name, formula, _mega(value), _mega(counted), f"{counted / value:.3f}", theirs, _numbers(ours)])
    for name, what in (("evaluating the entries of K", ENTRIES), ("energies, norms for the record", None)):
        counted = flops[ENTRIES] if what else flops.get(RECORD, 0) + flops.get(OTHER, 0)
        body.append([name, "–", "–", _mega(counted), "–", "–", "–"])
    unknown = sorted({*epoch["unknown"], *(iteration or epoch)["unknown"]})
    note = (
        f"{epoch['data']}, b = {b:,}, l = {p} columns, {m} updates. Mflop = 10⁶ flops; memory in numbers. Counted: "
        "every tensor operation that ran, +, −, ×, ÷, √ and exp as one each; products, triangular solves and factors "
        "by their shapes, as in the formulas. The two triangular solves of an update count once with W and once with "
        "R, as in the paper. Not in its table: evaluating entries of K, and what is computed for the record. K_:I is "
        "never formed whole; the largest tile is held. Two factors, unit triangles, share a square: half the memory, "
        "for 3b²/2 flops more a factor. "
        f"One epoch took {duration(epoch['epoch_seconds'])}"
        + (f", one iteration of CG {duration(iteration['epoch_seconds'])}" if iteration else "")
        + f", on the engine that apviz chooses; {machines([epoch])}."
        + (f" Not counted, for no rule is known: {', '.join(unknown)}." if unknown else "")
    )
    headings = ["operation", "paper: formula", "paper: Mflop", "counted: Mflop", "counted ÷ paper", "paper: memory"]
    return Table("Flops and memory", [*headings, "held"], body, note)


def _mega(flops: float) -> str:
    return f"{flops / 1e6:,.4g}" if flops < 1e9 else f"{flops / 1e6:,.0f}"


def _numbers(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


# --- counting ---------------------------------------------------------------------------------------------------------

#: Purpose of functions outside the table.
OTHER: Final = "other"

# one flop per element of the result, or of the argument
_ELEMENTWISE: Final = frozenset(("add", "sub", "rsub", "mul", "div", "reciprocal", "sqrt", "rsqrt", "pow", "exp"))
_REDUCTIONS: Final = frozenset(("sum", "mean"))
# signs and comparisons, copies, new arrays, views
_FREE: Final = frozenset((
    "neg", "abs", "clamp", "clamp_min", "argmax", "argmin", "amax", "amin", "aminmax", "max", "min", "sort", "eq",
    "ne", "lt", "gt", "le", "ge", "equal", "bitwise_and", "bitwise_or", "where", "any", "all", "isfinite", "nonzero",
    "bincount", "clone", "copy",
    "_to_copy", "detach", "fill", "empty", "empty_like", "empty_strided", "new_empty", "new_zeros", "zeros",
    "zeros_like", "ones", "ones_like", "full", "full_like", "scalar_tensor", "arange", "eye", "lift_fresh", "slice",
    "select", "view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "alias", "expand", "permute", "t",
    "transpose", "unsqueeze", "squeeze", "frexp", "ldexp", "diagonal", "unbind", "split", "cat", "stack", "index",
    "index_select", "index_put", "masked_fill", "_local_scalar_dense",
))  # fmt: skip


class FlopCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counter of the flops executed while it is active.

    Each +, −, ×, ÷, √ and exp of one or two numbers counts as one flop; copies, comparisons and changes of sign do not
    count. Products, triangular solves and Cholesky factors count by their shapes: 2mkn for (m, k) times (k, n), b²p for
    a triangle (b, b) and p columns, b³/3 for a factor. Compiled engines call no tensor operations, so they are not
    counted.

    Args:
        callers: Purpose of a function, method or property, including functions defined inside it. Operations count
            for the outermost of these functions.
        always: Purpose of functions that count everything they call, for any caller.

    Attributes:
        flops: Flops by purpose; `OTHER` if no caller is known.
        largest: Number of elements of the largest result, by purpose.
        unknown: Operations that it cannot count; if there are any, the count is incomplete.
    """

    def __init__(self, callers: Mapping[Any, str], always: Mapping[Any, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._callers, self._always = _by_code(callers), _by_code(always)
        self.flops: Counter[str] = Counter()
        self.largest: dict[str, int] = {}
        self.unknown: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        doing = self._doing()
        self.flops[doing] += self._count(func.overloadpacket.__name__.rstrip("_"), args, kwargs, result)
        if isinstance(result, Tensor):
            self.largest[doing] = max(self.largest.get(doing, 0), result.numel())
        return result

    def _doing(self) -> str:
        """Return the purpose of the current operation, from the stack."""
        found, frame = OTHER, sys._getframe(2)
        while frame is not None:
            if frame.f_code in self._always:
                return self._always[frame.f_code]
            found = self._callers.get(frame.f_code, found)
            frame = frame.f_back  # type: ignore[assignment]
        return found

    def _count(self, name: str, args: Any, kwargs: Any, result: Any) -> int:
        """Return the flops of one operation."""
        if name in ("mm", "bmm"):
            return 2 * int(args[0].numel()) * int(args[1].shape[-1])
        if name in ("addmm", "baddbmm"):  # the product's additions include the sum
            return 2 * int(args[1].numel()) * int(args[2].shape[-1])
        if name == "linalg_cholesky_ex":
            return int(args[0].numel()) * int(args[0].shape[-1]) // 3
        if name == "linalg_solve_triangular":
            return int(args[0].numel()) * int(args[1].shape[-1])
        if name in ("addcmul", "linalg_vector_norm"):
            return 2 * int(args[0].numel())
        if name == "index_add":
            return int(args[3].numel())
        if name in _ELEMENTWISE:
            scaled = kwargs.get("alpha", 1) not in (1, -1)
            return int(result.numel()) * (2 if scaled else 1)
        if name in _REDUCTIONS:
            return int(args[0].numel())
        if name not in _FREE:
            self.unknown.add(name)
        return 0


def _by_code(functions: Mapping[Any, str]) -> dict[CodeType, str]:
    """Return the purpose by code of each function and of the functions defined inside it."""
    found: dict[CodeType, str] = {}
    for function, what in functions.items():
        codes = [inspect.unwrap(getattr(function, "fget", function)).__code__]
        while codes:
            code = codes.pop()
            found[code] = what
            codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return found
