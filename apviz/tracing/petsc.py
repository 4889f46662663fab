"""Read the log of PETSc's KSP monitors as traces."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from apviz.method import GIVEN, Method
from apviz.methods import CONJUGATE_GRADIENT
from apviz.settings import require, require_number, require_whole
from apviz.solvers.interface import StopReason
from apviz.tracing.iterations import ESTIMATED, Iterations, finish, put, record_of
from apviz.tracing.trace import Trace

#: how residuals are known, in words
LOGGED: Final = "‖b − Ax‖/‖b‖ as PETSc logged it"
_NUMBER = r"([-+0-9.eE]+|[-+]?nan|[-+]?inf)"
#: a line of `-ksp_monitor`, `-ksp_monitor_true_residual`, `-ksp_converged_reason`
_PLAIN: Final = re.compile(rf"^(\s*)(\d+) KSP Residual norm {_NUMBER}", re.IGNORECASE)
_TRUE: Final = re.compile(
    rf"^(\s*)(\d+) KSP \w+ resid norm {_NUMBER} true resid norm {_NUMBER} \|\|r\(i\)\|\|/\|\|b\|\| {_NUMBER}",
    re.IGNORECASE,
)
_ENDED: Final = re.compile(r"^(\s*)Linear .*solve (converged|did not converge) due to (\w+) iterations (\d+)")


class _Solve:
    """The lines of one solve, which begin in the same column."""

    def __init__(self, column: int) -> None:
        self.column = column
        self.numbers: list[int] = []
        self.norms: list[float] = []
        self.relative: list[float] = []
        self.reason = ""


def read_ksp_monitor(
    lines: Iterable[str], *, n: int, solver: str = "cg", rtol: float = 1e-5, preconditioned: bool = True
) -> list[Trace]:
    """Read the solves of a log of PETSc, each as a trace.

    `-ksp_monitor_true_residual` logs ‖b − Ax‖/‖b‖. `-ksp_monitor` logs the norm of the solver's recursion, often the
    preconditioned one: divided by the first it is an estimate of the relative residual, and the trace says so. With
    `-ksp_converged_reason` the trace has how the solve ended; without it the trace is `interrupted`. A log has no
    seconds, and a product with A for each iteration is assumed. Inner solves, whose lines are indented further, become
    traces too.

    Args:
        lines: lines of the log, such as an open file.
        n: rows of A, which a log does not contain.
        solver: name of the KSP type, as `-ksp_type` has it.
        rtol: the relative tolerance, `-ksp_rtol`.
        preconditioned: whether there was a preconditioner; PETSc has one unless `-pc_type none` is given.

    Raises:
        ValueError: no line is of a KSP monitor, or a setting is invalid.

    Examples:
        >>> log = '''  0 KSP Residual norm 2.0
        ...   1 KSP Residual norm 1.0e-01
        ...   2 KSP Residual norm 1.0e-06
        ... Linear solve converged due to CONVERGED_RTOL iterations 2'''
        >>> from apviz.tracing import read_ksp_monitor
        >>> trace = read_ksp_monitor(log.splitlines(), n=100)[0]
        >>> trace.method_name, trace.outcome, float(trace["epoch"]["residual"][1])
        ('PETSc CG, preconditioned', 'converged', 0.05)
    """
    require_whole("n", n, 1)
    require_number("rtol", rtol, 0.0, "a positive number", strictly=True)
    found: list[_Solve] = []
    for line in lines:
        if ended := _ENDED.match(line):
            _note_end(found, int(ended[4]), ended[3])
        elif seen := _TRUE.match(line) or _PLAIN.match(line):
            number, column = int(seen[2]), seen.end(2)
            solve = _before(found, number, column)
            if solve is None:
                solve = _Solve(column)
                found.append(solve)
            solve.numbers.append(number)
            solve.norms.append(float(seen[3]))
            if seen.re is _TRUE:
                solve.relative.append(float(seen[5]))
    require(
        bool(found), "lines", "none of a KSP monitor", "a log with -ksp_monitor or -ksp_monitor_true_residual"
    )  # fmt: skip
    family = CONJUGATE_GRADIENT if solver == "cg" else solver
    method = Method(family=family, preconditioner=GIVEN if preconditioned else None, source="petsc")
    return [_trace(solve, method, n, rtol) for solve in found]


def _before(solves: list[_Solve], number: int, column: int) -> _Solve | None:
    """Return the solve that an iteration continues; None for the first one of a solve.

    An inner solve is indented further. From iteration 1,000 on a number is wider than the three columns it has.
    """
    continued = [each for each in reversed(solves) if not each.reason and each.numbers[-1] == number - 1]
    return next((each for each in continued if each.column == column), continued[0] if continued else None)


def _note_end(solves: list[_Solve], iterations: int, reason: str) -> None:
    """Give the last solve with this number of iterations, which has no end yet, its end."""
    for solve in reversed(solves):
        if not solve.reason and solve.numbers[-1] == iterations:
            solve.reason = reason
            return


def _trace(solve: _Solve, method: Method, n: int, rtol: float) -> Trace:
    is_true = len(solve.relative) == len(solve.numbers)
    first = solve.norms[0] or 1.0
    residual = solve.relative if is_true else [norm / first for norm in solve.norms]
    record = record_of(
        method, n=n, tol=rtol, settings={"rtol": rtol, "monitor": "true residual" if is_true else "residual"},
        engine="PETSc, from a log", dtype="float64", b_norm=1.0,
    )  # fmt: skip
    rows = Iterations(
        numbers=solve.numbers, work=[float(each) for each in solve.numbers], seconds=[math.nan] * len(residual),
        residual=residual, checked=residual if is_true else (), how=LOGGED if is_true else ESTIMATED,
    )  # fmt: skip
    put(record, rows)
    if solve.reason:
        reason, words = _ending(solve.reason)
        finish(record, reason, f"{words}: PETSc says {solve.reason}", rows)
    return record.to_trace()


def _ending(reason: str) -> tuple[StopReason, str]:
    """Return apviz's word for PETSc's reason; `CONVERGED_ITS` is a limit of iterations without a test."""
    if reason.startswith("CONVERGED") and reason != "CONVERGED_ITS":
        return StopReason.CONVERGED, "converged"
    if reason in ("DIVERGED_ITS", "CONVERGED_ITS"):
        return StopReason.MAX_EPOCHS, "hit the limit of iterations"
    if reason in ("DIVERGED_DTOL", "DIVERGED_NANORINF", "DIVERGED_NAN"):
        return StopReason.DIVERGED, "diverged"
    return StopReason.STAGNATED, "stagnated"
