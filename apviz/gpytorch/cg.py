"""A recorder for GPyTorch's own CG, which shows how "CG terminated in 1000 iterations" came about."""

from __future__ import annotations

import inspect
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import linear_operator
import torch
from gpytorch.lazy import LazyEvaluatedKernelTensor
from linear_operator.operators import LinearOperator
from torch import Tensor

from apviz.gpytorch.expressions import same_inputs
from apviz.gpytorch.intercept import intercepted
from apviz.gpytorch.matrix import Matrix, describe
from apviz.method import Method
from apviz.methods import CONJUGATE_GRADIENT
from apviz.settings import require
from apviz.solvers.interface import StopReason
from apviz.solvers.measuring.clock import Clock
from apviz.tracing import Recorder
from apviz.tracing.attributes import surroundings
from apviz.tracing.schema import FINISHED
from apviz.tracing.spectra import put_spectrum
from apviz.tracing.store import Record

# number of iterations that stay on the device before they are moved
DRAIN_ITERATIONS = 50
# GPyTorch tests the tolerance from this iteration on
FIRST_CHECKED_ITERATION = 11


@contextmanager
def record_cg(recorder: Recorder) -> Iterator[Recorder]:
    """Record every run of GPyTorch's CG inside as a trace of `recorder`; the numbers of CG stay bit for bit the same.

    A trace has one epoch per iteration, with GPyTorch's residuals (from the recursion, for normalised right-hand
    sides). At its end the residual is recomputed from B − KW, which GPyTorch does not do: one more product with K. The
    stop reason is GPyTorch's, at GPyTorch's tolerance (`gpytorch.settings.cg_tolerance`, 1 in training by default),
    with one exception: the run has `stagnated` if B − KW contradicts the recursion. Right-hand sides are in GPyTorch's
    order: in training the probes, then the targets. Work counts products with K. A preconditioner is built before CG
    starts, and is not counted.

    GPyTorch takes Cholesky, not CG, up to `gpytorch.settings.max_cholesky_size` rows, and where `fast_computations` are
    off, as they are once BoTorch is imported. If no CG ran at all, a warning says so at the end. Any kernel can be
    recorded; the spectrum is computed for kernels of apviz only. Calls with a bare function instead of a matrix are
    not recorded: they are not solves in GPyTorch, except Lanczos' start of contour integral quadrature. The context
    holds for the current thread.

    Raises:
        TypeError: not a `Recorder`.
        ValueError: the recorder keeps eigenvalues, rows or snapshots, which only apviz's own solves have.
    """
    if not isinstance(recorder, Recorder):
        raise TypeError(f"recorder must be an apviz.Recorder, got {type(recorder).__name__}")
    extras = [name for name in ("eigenvalues", "rows", "snapshots") if getattr(recorder, name)]
    require(not extras, "the outputs of the recorder", extras, "path and spectrum only")
    calls = _Calls(recorder)
    with ExitStack() as stack:
        stack.enter_context(intercepted(LazyEvaluatedKernelTensor, "evaluate_kernel", calls.evaluate_kernel))
        for module in _importers():
            stack.enter_context(intercepted(module, "linear_cg", calls.linear_cg))
        yield recorder
    if not calls.count:
        warnings.warn(f"nothing was recorded: no CG ran inside record_cg; {calls.why_not}", stacklevel=3)


def _original() -> Callable[..., Any]:
    function: Callable[..., Any] = inspect.unwrap(linear_operator.utils.linear_cg)
    return function


def _importers() -> list[Any]:
    """Return the modules with a `linear_cg` in their namespace: each calls its own."""
    named = [
        (module, vars(module).get("linear_cg")) for module in list(sys.modules.values()) if inspect.ismodule(module)
    ]
    return [
        module for module, function in named if inspect.isfunction(function) and inspect.unwrap(function) is _original()
    ]


def _matrix_of(closure: Any) -> Any:
    """Return the tensor or operator whose products `closure` computes, also under another recorder; or None."""
    owner = getattr(closure, "__self__", closure)
    if isinstance(owner, _Observed):
        return _matrix_of(owner.arguments["matmul_closure"])
    return owner if isinstance(owner, LinearOperator | Tensor) else None


class _Calls:
    """The CG calls inside one context."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        # of the last evaluated kernel; the operator itself would hold the n × n matrix
        self.kernel: Any = None
        self.x: Tensor | None = None
        self.count = 0
        self.why_not = "GPyTorch solved nothing"
        self._largest = 0

    def evaluate_kernel(self, call_next: Any, covariance: Any) -> Any:
        """Intercept `LazyEvaluatedKernelTensor.evaluate_kernel`, which precedes every solve."""
        if covariance.x1.shape == covariance.x2.shape:
            self._note_settings(covariance.x1.shape[-2])
        if same_inputs(covariance.x1, covariance.x2):  # test inputs against training inputs can also be square
            self.kernel, self.x = covariance.kernel, covariance.x1.detach()
        return call_next(covariance)

    def _note_settings(self, n: int) -> None:
        """Keep why GPyTorch would take Cholesky for the largest matrix so far; its settings may change later."""
        if n <= self._largest:
            return
        self._largest = n
        settings, most = linear_operator.settings, linear_operator.settings.max_cholesky_size.value()
        flags = settings.fast_computations
        causes = [f"max_cholesky_size is {most:,}"] if n <= most else []
        for name, flag in (("log_prob", flags.log_prob), ("solves", flags.solves)):
            if flag.off():
                by = " (not by you: its default was changed, as importing BoTorch does)" if flag.is_default() else ""
                causes.append(f"fast_computations({name}=False) is on{by}")
        self.why_not = (
            f"GPyTorch took Cholesky for n = {n:,}, since in gpytorch.settings {', and '.join(causes)}. To see CG, "
            "enter max_cholesky_size(0) and fast_computations() too"
            if causes
            else f"GPyTorch solved nothing with its matrix of n = {n:,} rows"
        )

    def linear_cg(self, call_next: Any, *args: Any, **kwargs: Any) -> Any:
        """Intercept `linear_cg`."""
        call = inspect.signature(_original()).bind(*args, **kwargs)
        call.apply_defaults()
        arguments = call.arguments
        matrix = _matrix_of(arguments["matmul_closure"])
        if matrix is None:
            return call_next(*args, **kwargs)
        self.count += 1
        with torch.no_grad():
            observed = _Observed(self.recorder, describe(matrix, self.kernel, self.x), arguments)
        arguments |= {"matmul_closure": observed.matmul, "preconditioner": observed.precondition}
        try:
            result = call_next(*call.args, **call.kwargs)
        except BaseException as error:
            observed.abandon(error)
            raise
        with torch.no_grad():
            observed.finish(result[0] if isinstance(result, tuple) else result)
        return result


class _Observed:
    """One run of `linear_cg`, observed through the two functions that it calls.

    It calls r ↦ P⁻¹r once before the first iteration and then at the end of each, with the residual of the normalised
    right-hand sides. It calls p ↦ Kp once for the initial guess and then at the beginning of each iteration.
    """

    def __init__(self, recorder: Recorder, matrix: Matrix, arguments: dict[str, Any]) -> None:
        self.recorder, self.arguments = recorder, dict(arguments)
        closure, self._preconditioner = arguments["matmul_closure"], arguments["preconditioner"]
        self._closure: Callable[[Tensor], Tensor] = closure.matmul if isinstance(closure, Tensor) else closure
        self._rhs: Tensor = arguments["rhs"][:, None] if arguments["rhs"].ndim == 1 else arguments["rhs"]
        defaults = linear_operator.settings
        self._tol = _default(arguments["tolerance"], defaults.cg_tolerance)
        self._max_iterations = _default(arguments["max_iter"], defaults.max_cg_iterations)
        if defaults.terminate_cg_by_size.on():
            self._max_iterations = min(self._max_iterations, self._rhs.shape[-2])
        tridiagonal = _default(arguments["max_tridiag_iter"], defaults.max_lanczos_quadrature_iterations)
        # the tolerance is tested from this iteration on
        self._first_checked = min(FIRST_CHECKED_ITERATION, self._max_iterations)
        if arguments["n_tridiag"]:
            last_tridiagonal = min(tridiagonal, self._rhs.shape[-2], self._max_iterations - 1)
            self._first_checked = max(self._first_checked, last_tridiagonal + 1)
        norms = self._rhs.norm(2, dim=-2, keepdim=True)
        self._is_zero = norms.lt(arguments["eps"])
        # for batches, the right-hand sides of the first matrix come first
        self._rhs_norms = norms.masked_fill(self._is_zero, 1).double().reshape(-1)
        self._products = self._iterations = 0
        self._r: Tensor | None = None
        self._norms = self._rz = self._pkp = torch.zeros(())
        self._energy = 0.0
        self._pending: list[tuple[int, float, Any, Tensor, Tensor]] = []
        self.record = Record(self._attributes(matrix))
        put_spectrum(self.record, matrix.spectrum(recorder.spectrum))
        recorder.adopt(self.record)
        self._clock = Clock(self._rhs.device)

    def _attributes(self, matrix: Matrix) -> dict[str, Any]:
        settings = {
            "tol": self._tol,
            "min_epochs": self._first_checked,
            "max_epochs": self._max_iterations,
            "preconditioned": self._preconditioner is not None,
            "probes": self.arguments["n_tridiag"],
        }
        method = Method(
            family=CONJUGATE_GRADIENT,
            preconditioner=None if self._preconditioner is None else "pivoted-cholesky",
            source="gpytorch",
        )
        solve = {
            "dataset": "",
            "right_hand_sides": len(self._rhs_norms),
            "rhs_norms": self._rhs_norms.tolist(),
            "method": method.plain(),
            "method_name": method.name,
            "method_details": method.details,
            "solver": "linear_cg",
            "solver_settings": json.dumps(settings),
            "choices": "{}",
            "tol": self._tol,
            "setup_work": 0.0,
            "setup_seconds": 0.0,
            "initial_energy": self._initial_energy(),
        }
        return surroundings(self._rhs.device, self._rhs.dtype) | matrix.attrs | solve

    def _initial_energy(self) -> float:
        """Return h(W₀) = ½tr(W₀ᵀKW₀) − tr(BᵀW₀)."""
        w = self.arguments["initial_guess"]
        if w is None:
            return 0.0
        w = w.reshape(self._rhs.shape)
        return float((w * (0.5 * self._closure(w) - self._rhs)).sum(dtype=torch.float64))

    # --- the functions that linear_cg calls -----------------------------------------------------------------------

    def matmul(self, p: Tensor) -> Tensor:
        product = self._closure(p)
        self._products += 1
        if self._products > 1:
            with torch.no_grad():
                self._pkp = (p * product).sum(-2, dtype=torch.float64)
        return product

    def precondition(self, r: Tensor) -> Tensor:
        # linear_cg copies r where P = I; this copy is made here, because only a preconditioner is called with r
        z: Tensor = r.clone() if self._preconditioner is None else self._preconditioner(r)
        with torch.no_grad():
            self._observe(r, z)
        return z

    def _observe(self, r: Tensor, z: Tensor) -> None:
        norms = torch.norm(r, 2, dim=-2).masked_fill_(self._is_zero.squeeze(-2), 0)
        rz = (r * z).sum(-2, dtype=torch.float64)
        decrease = torch.zeros((), dtype=torch.float64, device=r.device)
        if self._r is not None:
            self._iterations += 1
            # exact line search lowers h by ½(rᵀz)²/pᵀKp; linear_cg skips columns that converged or whose pᵀKp is tiny
            moves = (self._pkp >= self.arguments["eps"]) & (self._norms >= self.arguments["stop_updating_after"])
            lower = torch.where(moves, 0.5 * self._rz.square() / self._pkp, 0.0)
            decrease = (lower.reshape(-1) * self._rhs_norms.square()).sum()
        self._r, self._norms, self._rz = r, norms, rz
        self._pending.append(
            (self._iterations, self._work, self._clock.mark(), norms.reshape(-1), decrease)
        )  # fmt: skip
        if len(self._pending) > DRAIN_ITERATIONS:
            # the last row waits for the recomputed residual
            *rows, last = self._pending
            self._put(rows)
            self._pending = [last]
            self.recorder.flush_if_due()

    @property
    def _work(self) -> float:
        """Return the number of products with K, summed over the batch."""
        return float(self._products * self._rhs.shape[:-2].numel())

    # --- the end of a run -----------------------------------------------------------------------------------------

    def finish(self, result: Tensor) -> None:
        """Recompute the residual and finish the trace after `linear_cg` returned."""
        result = result.reshape(self._rhs.shape)
        mark = self._clock.mark()
        fresh = (self._rhs - self._closure(result)).double()
        relative = torch.linalg.vector_norm(fresh, dim=-2).reshape(-1) / self._rhs_norms
        drift = 0.0
        if self._r is None:
            # the initial guess was the solution: linear_cg made no iteration and called no preconditioner
            self._norms = relative.to(self._rhs.dtype)
            self._pending = [(0, self._work, mark, self._norms, torch.zeros((), dtype=torch.float64))]
        else:
            scale = self._rhs_norms.reshape(*self._rhs.shape[:-2], 1, -1)
            drift = float(torch.linalg.vector_norm(self._r.double() * scale - fresh))
            drift /= float(torch.linalg.vector_norm(self._rhs_norms))
        checked = float(relative.mean())
        self._put(self._pending, checked, drift)
        self._pending = []
        # in GPyTorch's precision, so that the comparison matches its own
        claimed = self._norms.mean()
        reason, message = self._ending(bool(claimed < self._tol), float(claimed), checked)
        self.record.attrs |= {
            "status": FINISHED,
            "stop_reason": str(reason),
            "stop_message": message,
            "residual": float(claimed) if math.isfinite(float(claimed)) else str(float(claimed)),
            "epochs": self._iterations,
            "work": self._work,
            "seconds": self._clock.seconds(mark),
        }
        self.recorder.flush()

    def _ending(self, below: bool, claimed: float, checked: float) -> tuple[StopReason, str]:
        if not math.isfinite(claimed):
            return StopReason.DIVERGED, StopReason.DIVERGED.value
        met = below and (self._iterations >= self._first_checked or not self._iterations)
        numbers = f"residual {claimed:.3g} by the recursion, {checked:.3g} by B − KW, tolerance {self._tol:g}"
        if not met:
            return StopReason.MAX_EPOCHS, (
                f"hit GPyTorch's limit of {self._max_iterations} CG iterations: raise "
                "gpytorch.settings.max_cg_iterations or max_preconditioner_size, or solve inside "
                f"apviz.gpytorch.alternating_projection(); this solution is not converged ({numbers})"
            )
        if checked < self._tol:
            return (
                StopReason.CONVERGED,
                f"converged: GPyTorch's rule held after at least {self._first_checked} iterations ({numbers})",
            )
        return StopReason.STAGNATED, (
            f"stagnated: GPyTorch reports convergence, but B − KW contradicts it ({numbers}); use float64, or a larger "
            "tolerance"
        )

    def abandon(self, error: BaseException) -> None:
        """Finish the trace after an exception or Ctrl-C in `linear_cg`; the caller raises it again."""
        self._put(self._pending)
        self.record.attrs["stop_message"] = f"interrupted by {type(error).__name__}: {error}".rstrip(": ")
        self.recorder.flush()

    def _put(
        self, rows: list[tuple[int, float, Any, Tensor, Tensor]], checked: float = math.nan, drift: float = math.nan
    ) -> None:
        """Write iterations into the record; `checked` and `drift` belong to the last one."""
        if not rows:
            return
        numbers, works, marks, norms, decreases = (list(column) for column in zip(*rows, strict=True))
        residual = torch.stack(norms).double().cpu()
        decrease = torch.stack(decreases).double().cpu()
        energy = self.record.attrs["initial_energy"] - self._energy - decrease.cumsum(0)
        self._energy += float(decrease.sum())
        seconds = [self._clock.seconds(mark) for mark in marks]
        nothing = [math.nan] * (len(rows) - 1)
        groups: dict[str, dict[str, Any]] = {
            "epoch": {
                "epoch": numbers,
                "work": works,
                "seconds": seconds,
                "residual": torch.stack([norm.mean() for norm in norms]).double().cpu(),
                "residual_per_rhs": residual,
                "checked_residual": [*nothing, checked],
                "drift": [*nothing, drift],
                "energy": energy,
                "test_rmse": [*nothing, math.nan],
                "prediction_work": [0.0] * len(rows),
            }
        }
        updates = slice(1, None) if numbers[0] == 0 else slice(None)
        if numbers[updates]:
            groups["update"] = {
                "update": numbers[updates],
                "block": [-1] * len(numbers[updates]),
                "epoch_of_update": numbers[updates],
                "work": works[updates],
                "seconds": seconds[updates],
                "energy_decrease": decrease[updates],
                "guaranteed_decrease": [math.nan] * len(numbers[updates]),
                "residual": residual[updates],
            }
        self.record.put(**groups)


def _default(value: Any, setting: Any) -> Any:
    return setting.value() if value is None else value
