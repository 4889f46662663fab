"""Record SciPy's iterative solvers by their callbacks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg as scipy_solvers
import torch
from numpy.typing import NDArray

from apviz.method import GIVEN, Method
from apviz.methods import CONJUGATE_GRADIENT
from apviz.places import Place
from apviz.settings import require, require_number
from apviz.solvers.interface import StopReason
from apviz.spectrum import Eigenvalue, Spectrum
from apviz.system import tensor_of
from apviz.tracing.iterations import ESTIMATED, MEASURED, Iterations, finish, put, record_of, unknown_spectrum
from apviz.tracing.recorder import Recorder
from apviz.tracing.trace import Trace

Vector = NDArray[np.float64]

#: solvers whose callback gets x, after every iteration or every outer one
WITH_X: Final = ("cg", "bicg", "cgs", "bicgstab", "minres", "qmr", "tfqmr", "lgmres", "gcrotmk")
#: solvers whose callback gets an estimated norm of the residual
WITH_NORMS: Final = ("gmres",)
#: symmetric matrices with at most this number of rows get their eigenvalues
MOST_ROWS: Final = 1_000
#: largest relative asymmetry of a matrix that counts as symmetric
ASYMMETRY: Final = 1e-12
#: SciPy's own default
RTOL: Final = 1e-5


class Recorded(NamedTuple):
    """A solve by SciPy, and its trace.

    Args:
        x: (n,) the solution.
        info: SciPy's: 0 if its own rule held, above 0 the number of iterations at its limit, below 0 a breakdown.
        trace: everything recorded.
    """

    x: Vector
    info: int
    trace: Trace


def record(
    solver: Callable[..., Any], a: Any, b: Any, x0: Any = None, *, noise: float = 0.0,
    path: str | Place | None = None, **settings: Any,
) -> Recorded:  # fmt: skip
    """Run an iterative solver of SciPy on Ax = b, and record it as a trace.

    The trace has one epoch for each call of the solver's callback. Where the callback gets x (`cg`, `bicg`, `cgs`,
    `bicgstab`, `minres`, `qmr`, `tfqmr`, `lgmres`, `gcrotmk`), residual and energy are recomputed from b − Ax in
    float64: one more product with A each time, which counts neither as work nor as seconds. The callback of `gmres`
    gets the preconditioned residual norm of its recursion: these residuals are estimates, and say so. At the end the
    residual is always recomputed: `converged` means that ‖b − Ax‖ is at most max(rtol ‖b‖, atol), whatever SciPy's own
    rule is. Work counts products with A.

    Args:
        solver: one of these functions of `scipy.sparse.linalg`.
        a: (n, n) array, sparse matrix or `LinearOperator`. Of an operator no entry is known: residuals have no bound on
            their rounding, and count as estimates.
        b: (n,) right-hand side, not zero.
        x0: (n,) starting guess; None: zero.
        noise: σ² if A = K + σ²I, so that a diagnosis knows it.
        path: path of the trace, by convention `*.zarr`; None: in memory.
        settings: the solver's own, such as `rtol`, `maxiter`, `M`, `callback`.

    Returns:
        SciPy's solution and `info`, and the trace.

    Raises:
        TypeError: the solver is not one of these.
        ValueError: A, b or a setting is invalid.
        FileExistsError: the path exists.

    Examples:
        >>> import numpy as np, scipy.sparse.linalg, apviz
        >>> x = np.linspace(0, 1, 50)
        >>> a = np.exp(-np.abs(x[:, None] - x)) + 0.1 * np.eye(50)
        >>> found = apviz.record(scipy.sparse.linalg.cg, a, np.sin(6 * x), noise=0.1, rtol=1e-6)
        >>> found.info, found.trace.method_name, found.trace.outcome
        (0, 'SciPy CG', 'converged')
    """
    name = _name_of(solver)
    require_number("noise", noise, 0.0, "a number, at least 0")
    a, b, x0 = _checked(a, b, x0, settings)
    run = _Run(name, a, b, x0, noise, settings)
    recorder = Recorder(path)
    recorder.adopt(run.record)
    try:
        found, info = solver(run.counted, b, x0, **settings | run.own_settings)
    except BaseException as error:
        run.abandon(error)
        recorder.flush()
        raise
    run.finish(found, int(info))
    recorder.flush()
    return Recorded(found, int(info), recorder.trace)


def _checked(a: Any, b: Any, x0: Any, settings: dict[str, Any]) -> tuple[Any, Vector, Vector | None]:
    """Return A, b and x0 as SciPy takes them.

    Raises:
        ValueError: one of them, or a setting, is invalid.
    """
    if not callable(getattr(a, "matvec", None)) or scipy.sparse.issparse(a):
        a = a if scipy.sparse.issparse(a) else np.asarray(a)
    require(a.ndim == 2 and a.shape[0] == a.shape[1], "the shape of A", a.shape, "(n, n)")
    b = _vector(b, "b", a.shape[0])
    require(bool(b.any()), "b", "zeros", "numbers that are not all zero")
    x0 = None if x0 is None else _vector(x0, "x0", a.shape[0])
    require("callback_type" not in settings, "callback_type", settings.get("callback_type"), "None: apviz sets it")
    require(np.dtype(a.dtype).kind != "c", "A", "complex", "real")
    return a, b, x0


def _vector(values: Any, name: str, n: int) -> Vector:
    """Return values as (n,) finite numbers, in their own precision if that is float32 or float64."""
    tensor = tensor_of(values, name).cpu()
    require(tensor.shape == (n,), f"the shape of {name}", tuple(tensor.shape), f"({n},)")
    require(bool(torch.isfinite(tensor).all()), name, "not finite", "finite numbers")
    found: Vector = (tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.double()).numpy()
    return found


def _name_of(solver: Any) -> str:
    for name in (*WITH_X, *WITH_NORMS):
        if solver is getattr(scipy_solvers, name):
            return name
    offered = ", ".join((*WITH_X, *WITH_NORMS))
    raise TypeError(f"solver must be one of scipy.sparse.linalg's {offered}, got {getattr(solver, '__name__', solver)}")


class _Run:
    """One run of a solver, observed through its products with A and its callback."""

    def __init__(self, name: str, a: Any, b: NDArray[Any], x0: Any, noise: float, settings: dict[str, Any]) -> None:
        self.name, self._a, self._b = name, scipy_solvers.aslinearoperator(a), b.astype(np.float64)
        self._entries = None if isinstance(a, scipy_solvers.LinearOperator) else a
        self._is_symmetric = self._entries is not None and _is_symmetric(self._entries)
        self._norm = _frobenius(self._entries)
        self._b_norm = float(np.linalg.norm(self._b))
        self.tol = max(float(settings.get("rtol", RTOL)), float(settings.get("atol", 0.0)) / self._b_norm)
        self._products, self._number, self._aside = 0, 0, 0.0
        self._users = settings.get("callback")
        self._rows: list[tuple[int, float, float, float, float, float, tuple[float, float]]] = []
        self.own_settings: dict[str, Any] = {"callback": self._on_x if name in WITH_X else self._on_norm}
        if name == "gmres":
            self.own_settings["callback_type"] = "pr_norm"
        self.counted = scipy_solvers.LinearOperator(
            self._a.shape, matvec=self._product, rmatvec=self._transposed, dtype=self._a.dtype
        )
        start = np.zeros(len(b)) if x0 is None else np.array(x0, dtype=np.float64)
        residual, energy, rounding = self._measure(start)
        plain = {key: value for key, value in settings.items() if isinstance(value, int | float | str | bool)}
        self.record = record_of(
            _method(name, settings), n=len(b), tol=self.tol, settings=plain,
            engine=f"SciPy {type(a).__name__}", dtype=str(self._a.dtype), b_norm=self._b_norm, noise=noise,
            diagonal=math.nan if self._entries is None else float(np.mean(self._entries.diagonal())),
            initial_energy=energy if self._is_symmetric else 0.0, spectrum=self._spectrum(),
        )  # fmt: skip
        self._rows.append((0, 0.0, 0.0, residual, energy, residual, rounding))
        self._began = time.perf_counter()

    # --- what SciPy calls ---------------------------------------------------------------------------------------------

    def _product(self, x: NDArray[Any]) -> Any:
        self._products += 1
        return self._a.matvec(x)

    def _transposed(self, x: NDArray[Any]) -> Any:
        self._products += 1
        return self._a.rmatvec(x)

    def _on_x(self, x: NDArray[Any]) -> None:
        started = time.perf_counter()
        residual, energy, rounding = self._measure(np.array(x, dtype=np.float64).reshape(-1))
        self._keep(started, residual, energy, residual, rounding)
        self._aside += time.perf_counter() - started
        if self._users is not None:
            self._users(x)

    def _on_norm(self, norm: float) -> None:
        self._keep(time.perf_counter(), float(norm), math.nan, math.nan, (math.nan, math.nan))
        if self._users is not None:
            self._users(norm)

    def _keep(self, now: float, residual: float, energy: float, checked: float, rounding: tuple[float, float]) -> None:
        self._number += 1
        seconds = now - self._began - self._aside
        self._rows.append((self._number, float(self._products), seconds, residual, energy, checked, rounding))

    # --- measurements -------------------------------------------------------------------------------------------------

    def _measure(self, x: Vector) -> tuple[float, float, tuple[float, float]]:
        """Return relative residual, energy, and bounds on their rounding.

        A product in float64 is off by at most n eps |A||x|, and ‖|A||x|‖ ≤ ‖A‖_F ‖x‖ (Higham, 2002, section 3.5).
        """
        r = self._b - self._a.matvec(x)
        rounding = len(x) * np.finfo(np.float64).eps * (self._norm * float(np.linalg.norm(x)) + self._b_norm)
        both = self._b + r
        size = float(np.linalg.norm(x))
        energy = -0.5 * float(x @ both) if self._is_symmetric else math.nan
        of_energy = size * (rounding + len(x) * np.finfo(np.float64).eps * float(np.linalg.norm(both)))
        return float(np.linalg.norm(r)) / self._b_norm, energy, (rounding / self._b_norm, of_energy)

    def _spectrum(self) -> Spectrum:
        """Return the eigenvalues of a small symmetric matrix, else bounds."""
        if not self._is_symmetric or self._entries is None:
            return unknown_spectrum()
        if len(self._b) > MOST_ROWS:
            return unknown_spectrum(self._norm)
        dense = self._entries.toarray() if scipy.sparse.issparse(self._entries) else self._entries
        values = np.linalg.eigvalsh(np.asarray(dense, dtype=np.float64))
        off = len(values) * np.finfo(np.float64).eps * self._norm
        if values[0] <= off:  # not positive definite, or not known to be so
            return unknown_spectrum(self._norm)
        how = "dense, in float64"
        return Spectrum(
            Eigenvalue(float(values[-1]), how, False, float(values[-1] + off)),
            Eigenvalue(float(values[0]), how, False, float(values[0] - off)),
            unknown_spectrum().lambda_max_block,
            torch.empty(0),
        )

    # --- the end ------------------------------------------------------------------------------------------------------

    def _iterations(self) -> Iterations:
        numbers, work, seconds, residual, energy, checked, rounding = zip(*self._rows, strict=True)
        return Iterations(
            numbers=numbers, work=work, seconds=seconds, residual=residual, energy=energy, checked=checked,
            rounding=rounding if self.name in WITH_X else (), how=MEASURED if self.name in WITH_X else ESTIMATED,
        )  # fmt: skip

    def finish(self, x: Vector, info: int) -> None:
        """Recompute the residual, and say how the solve ended."""
        now = time.perf_counter()
        checked, energy, rounding = self._measure(np.array(x, dtype=np.float64).reshape(-1))
        number, work, seconds, claimed, of_energy, _, of_rounding = self._rows[-1]
        if self.name in WITH_X and claimed != checked:  # the solver took another step after its last callback
            self._number = number
            self._keep(now, checked, energy, checked, rounding)
        elif self.name in WITH_NORMS:
            self._rows[-1] = number, work, seconds, claimed, of_energy, checked, of_rounding
        rows = self._iterations()
        put(self.record, rows)
        reason, message = self._ending(checked, claimed, info)
        finish(self.record, reason, message, rows)

    def _ending(self, checked: float, claimed: float, info: int) -> tuple[StopReason, str]:
        numbers = f"residual {checked:.3g} by b − Ax, tolerance {self.tol:g}"
        if not math.isfinite(checked):
            return StopReason.DIVERGED, StopReason.DIVERGED.value
        if checked <= self.tol:
            return StopReason.CONVERGED, f"converged: {numbers}"
        if info > 0:
            return StopReason.MAX_EPOCHS, (
                f"hit SciPy's limit of iterations: raise maxiter, or change the solver; this solution is not converged "
                f"({numbers})"
            )
        if info < 0:
            return StopReason.STAGNATED, f"stagnated: the recursion of SciPy's {self.name} broke down ({numbers})"
        if self.name == "minres":
            return StopReason.STOPPED, (
                f"stopped: the rule of SciPy's minres held, which compares with ‖A‖ ‖x‖; use a smaller rtol ({numbers})"
            )
        return StopReason.STAGNATED, (
            f"stagnated: SciPy reports convergence, but b − Ax contradicts it ({numbers}); use a smaller rtol"
        )

    def abandon(self, error: BaseException) -> None:
        """Keep what was recorded before an exception or Ctrl-C, which the caller raises again."""
        put(self.record, self._iterations())
        self.record.attrs["stop_message"] = f"interrupted by {type(error).__name__}: {error}".rstrip(": ")


def _method(name: str, settings: dict[str, Any]) -> Method:
    preconditioned = any(settings.get(each) is not None for each in ("M", "M1", "M2"))
    family = CONJUGATE_GRADIENT if name == "cg" else name
    return Method(family=family, preconditioner=GIVEN if preconditioned else None, source="scipy")


def _frobenius(a: Any) -> float:
    """Return ‖A‖_F, NaN without entries."""
    if a is None:
        return math.nan
    return float(scipy_solvers.norm(a) if scipy.sparse.issparse(a) else np.linalg.norm(a))


def _is_symmetric(a: Any) -> bool:
    """Test whether a matrix of numbers equals its transpose, up to rounding."""
    off = abs(a - a.T).max()
    return bool(off <= ASYMMETRY * abs(a).max())
