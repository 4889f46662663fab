"""Test random solves: bands contain the truth, bounds hold, and every recorded number is that of the weights.

The systems are those of `truth.py`, at seeds of their own, solved by every method, converged or not, from zero or from
given weights, and recorded. K is evaluated in extended precision by the formulas of `tests/textbook.py`, or in mpmath
if that has too few digits; ‖W−W*‖²_K is RᵀK⁻¹R by its Cholesky factor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import mpmath
import numpy as np
import torch

import apviz
from apviz.analysis import k_norm_error
from apviz.partitions import partitioner_named
from apviz.solvers import Precision, Skeletons, Subspace
from apviz.tracing.trace import sign_of
from tests.textbook import CORRELATIONS
from tests.trust import truth
from tests.trust.exact import DIGITS
from tests.trust.truth import LONG, Case
from tests.trust.verdicts import ENDLESS, REFUSALS, Verdict, judged

#: first seed: these cases differ from those of the campaign `truth`
FIRST_SEED = 39_000_000
#: relative tolerance of a bound, for rounding of its last formula
ROUNDED = 1e-9
#: relative tolerance of numbers reported as equal
EQUAL = 0.01
EPS = float(np.finfo(np.float64).eps)
LONG_EPS = float(np.finfo(LONG).eps)
#: largest n·κ·eps for which a factor in extended precision is accurate enough
VOUCHED = 1e-6


@dataclass
class Solve:
    """A case with its solve and its measurements.

    Attributes:
        start: weights to start from, of the shape of b; None: zeros.
        spectrum, spectrum_rows: of the recorder.
        max_work: after which a hook stops the solve; None: no limit.
        z: (m, d) test inputs.
    """

    case: Case
    start: torch.Tensor | None
    spectrum: str | None
    spectrum_rows: int
    max_work: float | None
    z: np.ndarray


class Watch(apviz.Hook):
    """Keep the weights after every epoch."""

    def __init__(self) -> None:
        self.weights: list[np.ndarray] = []

    def on_start(self, run: Any) -> None:
        self.run = run

    def on_epoch(self, epoch: Any) -> None:
        self.weights.append(self.run.weights.numpy().copy())


def solve_of(seed: int) -> Solve:
    """Return the solve of a seed."""
    made, rng = truth.case(FIRST_SEED + seed), np.random.default_rng([39, seed])

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    n, d = made.x.shape
    solver = made.solver
    if hasattr(solver, "check_every"):
        solver = replace(solver, check_every=int(one_of(1, 3, 10, 50)))
    if isinstance(solver, apviz.AlternatingProjection):
        name = one_of("kd-tree", "principal-axis-tree")
        tree = {"partition": partitioner_named(name, overlap=float(one_of(0.3, 1.0)))}
        solver = replace(solver, **one_of(
            {}, {}, {"columns": Skeletons(rank=int(rng.integers(1, 9))), **tree},
            {"step": Subspace(length=int(rng.integers(1, 6)))}, {"fallback_rank": int(rng.integers(20, 60))},
        ), precision=Precision(
            recursion=one_of("system", "system", "float32", "float64", "auto"),
            factors=one_of("recursion", "recursion", "recursion", "float16"),
        ))  # fmt: skip
    start = None
    if rng.random() < 0.2:
        start = torch.from_numpy(rng.standard_normal(tuple(made.b.shape))) * made.b.abs().amax(0) / made.noise
    z = made.x.double().numpy()[rng.integers(n, size=3)] * (1 + 0.1 * rng.standard_normal((3, d)))
    spectrum, rows = one_of(None, None, "lanczos", "subsample"), int(rng.integers(2, 40))
    max_work = float(rng.uniform(0, 8)) if rng.random() < 0.15 else None
    if rng.random() < 0.12:
        solver = _in_sweeps(rng, n, d <= 3 and len(made.parts) == 1, made.solver)
    return Solve(replace(made, solver=solver), start, spectrum, rows, max_work, z)


def _in_sweeps(rng: np.random.Generator, n: int, may_be_fourier: bool, like: Any) -> apviz.ColouredProjection:
    """Return coloured projections to the tolerance of another solver."""

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    return apviz.ColouredProjection(
        block_size=int(rng.integers(1, n + 1)), rank=int(one_of(0, 5, 300)), overlap=float(one_of(0.0, 0.5, 1.0)),
        products="fourier" if may_be_fourier and rng.random() < 0.3 else "system", tol=like.tol,
        max_epochs=int(rng.integers(1, 40)), check_every=int(one_of(1, 3, 10)),
        precision=Precision(
            recursion=one_of("system", "float32", "float64", "auto"),
            factors=one_of("recursion", "recursion", "float16"),
        ),
    )  # fmt: skip


class Exact:
    """K in extended precision, and its factor there or in mpmath."""

    def __init__(self, case: Case) -> None:
        self.case, x = case, case.x.double().numpy()
        self.b = case.b.double().numpy().astype(LONG).reshape(len(x), -1)
        self.k = self.cross(x) + LONG(case.noise) * np.eye(len(x), dtype=LONG)
        self.largest = float(np.linalg.eigvalsh(self.k.astype(float))[-1])
        self.digits = len(x) * self.largest / case.noise * LONG_EPS
        if self.digits < VOUCHED:
            self.factor = cholesky(self.k)
            return
        with mpmath.workdps(DIGITS):
            self.factor = mpmath.cholesky(_matrix_in_mpmath(case, x))
            self.digits = 0.0

    def cross(self, z: np.ndarray) -> np.ndarray:
        """Return k(z, x) without noise, (m, n)."""
        case, values = self.case, []
        x, z = case.x.double().numpy().astype(LONG), z.astype(LONG)
        for name, made, lengthscale in case.parts:
            gaps = (z[:, None] - x[None]) / lengthscale.astype(LONG)
            values.append(CORRELATIONS[name](np.sqrt((gaps**2).sum(-1)), **made.parameters))
        found = values[0]
        for value in values[1:]:
            found = found + value if case.combined == "+" else found * value
        return LONG(case.outputscale) * found

    def residual(self, w: np.ndarray) -> np.ndarray:
        """Return B − KW, (n, l+1)."""
        return self.b - self.k @ w.astype(LONG)

    def errors(self, weights: list[np.ndarray]) -> list[float]:
        """Return ‖W − W*‖²_K of several W."""
        if isinstance(self.factor, np.ndarray):
            r = np.stack([self.residual(w) for w in weights], 1).reshape(len(self.b), -1)
            y = np.zeros_like(r)
            for i in range(len(r)):
                y[i] = (r[i] - self.factor[i, :i] @ y[:i]) / self.factor[i, i]
            return [float(each) for each in (y.reshape(len(r), len(weights), -1) ** 2).sum((0, 2))]
        with mpmath.workdps(DIGITS):
            return [float(mpmath.fsum(value**2 for i in range(w.shape[1]) for value in self._solved(w, i)))
                    for w in weights]  # fmt: skip

    def _solved(self, w: np.ndarray, column: int) -> Any:
        """Return L⁻¹ times a column of the residual, in mpmath."""
        k = self.factor
        r = _column(self.b, column) - k * (k.T * _column(w, column))
        found = []
        for i in range(len(r)):
            found.append((r[i] - mpmath.fdot((k[i, j], found[j]) for j in range(i))) / k[i, i])
        return found

    def energy(self, w: np.ndarray) -> float:
        """Return h(W)."""
        return float(-0.5 * (w.astype(LONG) * (self.b + self.residual(w))).sum())

    def is_definite(self, scale: float, shift: float) -> bool:
        """Test whether scale·K + shift·I has a Cholesky factor, up to rounding."""
        rounding = 4 * len(self.k) * LONG_EPS * self.largest
        return cholesky(LONG(scale) * self.k + LONG(shift + rounding) * np.eye(len(self.k), dtype=LONG)) is not None


def cholesky(k: np.ndarray) -> Any:
    """Return the lower factor in extended precision, column by column; None if there is none."""
    factor = np.zeros_like(k)
    for j in range(len(k)):
        column = k[j:, j] - factor[j:, :j] @ factor[j, :j]
        if not column[0] > 0:
            return None
        factor[j:, j] = column / np.sqrt(column[0])
    return factor


def _column(values: np.ndarray, place: int) -> Any:
    return mpmath.matrix([mpmath.mpf(float(each)) for each in values[:, place]])


def _matrix_in_mpmath(case: Case, x: np.ndarray) -> Any:
    """Return K with as many digits as mpmath is set to."""
    from tests.trust.exact import _MP

    def entry(i: int, j: int) -> Any:
        found: Any = None
        for name, made, lengthscale in case.parts:
            scales = lengthscale if len(lengthscale) > 1 else [lengthscale[0]] * x.shape[1]
            gaps = [(mpmath.mpf(float(x[i, c])) - mpmath.mpf(float(x[j, c]))) / mpmath.mpf(float(scales[c]))
                    for c in range(x.shape[1])]  # fmt: skip
            value = _MP[name](mpmath.sqrt(mpmath.fsum(gap**2 for gap in gaps)), made.parameters.get("alpha"))
            found = value if found is None else found + value if case.combined == "+" else found * value
        return case.outputscale * found + (mpmath.mpf(case.noise) if i == j else 0)

    k = mpmath.matrix(len(x), len(x))
    for i in range(len(x)):
        for j in range(i + 1):
            k[i, j] = k[j, i] = entry(i, j)
    return k


# --- what is wrong ----------------------------------------------------------------------------------------------------


def faults(made: Solve, exact: Exact, trace: Any, solution: Any, watch: Watch) -> list[str]:
    """Return the violated claims, in words with numbers."""
    return [
        *_of_band(exact, trace, exact.errors(watch.weights)),
        *_of_numbers(exact, trace, solution, watch),
        *_of_eigenvalues(exact, trace),
        *_of_predictions(made, exact, trace, watch),
    ]


def _of_band(exact: Exact, trace: Any, errors: list[float]) -> list[str]:
    band, found, slack = k_norm_error(trace), [], ROUNDED + 10 * exact.digits
    lower, upper, bound = (band[name].values for name in ("lower", "upper", "bound"))
    for epoch, error in enumerate(errors):
        if lower[epoch] > error * (1 + slack) or upper[epoch] < error * (1 - slack):
            found.append(f"error {error:.6g} outside [{lower[epoch]:.6g}, {upper[epoch]:.6g}] after epoch {epoch}")
        # expectations say nothing about a single solve, nor exact arithmetic about float32
        certain = trace.attrs["recursion_dtype"] == "float64" and "expectation" not in band.attrs["bound_name"]
        if certain and not band.attrs["bound_is_estimate"] and bound[epoch] < error * (1 - slack):
            found.append(f"error {error:.6g} above {band.attrs['bound_name']} {bound[epoch]:.6g} after epoch {epoch}")
    return found


def _of_numbers(exact: Exact, trace: Any, solution: Any, watch: Watch) -> list[str]:
    epoch = {name: values.values for name, values in trace["epoch"].data_vars.items()}
    found = []
    norms, of_b = np.asarray(trace.attrs["rhs_norms"]).astype(LONG), np.sqrt((exact.b**2).sum())
    for place, w in enumerate(watch.weights):
        rounding = float(epoch["residual_rounding"][place])
        if not np.isfinite(rounding):
            continue
        true = np.sqrt((exact.residual(w) ** 2).sum(0))
        said = epoch["residual_per_rhs"][place].astype(LONG) * norms
        off = float(np.sqrt(((true - said) ** 2).sum()) / of_b) if of_b else 0.0
        if off > 2 * rounding + 1e-10 * float(np.sqrt((true**2).sum()) / (of_b or 1)):
            found.append(f"residual off by {off:.3g} of ‖B‖, {rounding:.3g} allowed, after epoch {place}")
        energy, h = float(epoch["energy"][place]), exact.energy(w)
        if abs(energy - h) > float(epoch["energy_rounding"][place]) + 4 * EPS * abs(h):
            found.append(f"energy {energy:.12g} for {h:.12g} after epoch {place}")
    last = bool(np.isfinite(epoch["residual_rounding"][-1]))
    if solution.residual_is_measured is not last or trace.residual_is_measured is not last:
        found.append("solution and trace do not agree on whether the residual is measured")
    if not last and solution.stop_reason is not apviz.StopReason.STOPPED and np.isfinite(solution.residual):
        found.append(f"{solution.stop_reason} with a residual that is not measured")
    if not np.array_equal(solution.weights.numpy().reshape(exact.b.shape), watch.weights[-1], equal_nan=True):
        found.append("the weights of the last epoch are not the solution's")
    return found


def _of_eigenvalues(exact: Exact, trace: Any) -> list[str]:
    found, spectrum = [], trace["spectrum"]
    high, low = (spectrum.attrs[f"lambda_{which}_bound"] for which in ("max", "min"))
    if not exact.is_definite(-1, high * (1 + ROUNDED)):
        found.append(f"λmax is above {high:.9g}")
    if not exact.is_definite(1, -low * (1 - ROUNDED)):
        found.append(f"λmin is below {low:.9g}")
    values = {name: float(spectrum[name]) for name in ("lambda_max", "lambda_min")}
    if sign_of(spectrum, "lambda_max") == "=" and abs(values["lambda_max"] - exact.largest) > EQUAL * exact.largest:
        found.append(f"λmax = {values['lambda_max']:.6g} is {exact.largest:.6g}")
    value = values["lambda_min"]
    if sign_of(spectrum, "lambda_min") == "=" and (
        not exact.is_definite(1, -value * (1 - EQUAL)) or exact.is_definite(1, -value * (1 + EQUAL))
    ):
        found.append(f"λmin = {value:.6g} is not")
    if "block" in trace:
        rows, blocks = trace["rows"]["membership"].values.T
        k = exact.k.astype(float)
        largest = max(np.linalg.eigvalsh(k[np.ix_(held, held)])[-1] for held in
                      (rows[blocks == block] for block in range(trace["block"].sizes["block"])))  # fmt: skip
        if largest > spectrum.attrs["lambda_max_block_bound"] * (1 + ROUNDED):
            found.append(f"λ′max {largest:.9g} is above {spectrum.attrs['lambda_max_block_bound']:.9g}")
    return found


def _of_predictions(made: Solve, exact: Exact, trace: Any, watch: Watch) -> list[str]:
    cross, inputs = exact.cross(made.z), [made.case.x.double().numpy(), made.z]
    # rounding of inputs changes an entry by their size in lengthscales
    size = max(
        float(np.abs(each - inputs[0].mean(0)).max() / scale.min()) for each in inputs for *_, scale in made.case.parts
    )
    entry = EPS * (16 + 4 * size) * made.case.outputscale * len(made.case.parts)
    recorded = trace["epoch"]["test_rmse"].values
    for place, w in enumerate(watch.weights):
        predicted = cross @ w[:, 0].astype(LONG)
        true = float(np.sqrt((predicted**2).mean()))
        said, may = float(recorded[place]), entry * float(np.abs(w[:, 0]).sum())
        if np.isfinite(true) and not abs(said - true) <= may + ROUNDED * true:
            return [f"RMSE {said:.9g} for {true:.9g} after epoch {place}"]
    return []


@judged(*REFUSALS)
def judge(seed: int) -> Verdict:
    """Solve the case of a seed, and compare every claim with the truth."""
    made = solve_of(seed)
    case, began = made.case, time.process_time()  # CPU time, because the machine may be busy
    watch = Watch()
    recorder = apviz.Recorder(spectrum=made.spectrum, spectrum_rows=made.spectrum_rows, rows=True)
    with np.errstate(all="ignore"):
        system = apviz.KernelSystem(
            case.x, case.b, case.kernel, noise=case.noise, dtype=case.dtype, operator=case.operator, device="cpu"
        )
        hooks: list[Any] = [apviz.PredictionHook(made.z, np.zeros(len(made.z))), watch, recorder]
        if made.max_work is not None:
            hooks.append(apviz.StopHook(max_work=made.max_work))
        solution = apviz.solve(system, case.solver, hooks, made.start)
        if time.process_time() - began > ENDLESS:
            return Verdict("endless", f"{time.process_time() - began:.0f} s")
        trace = recorder.trace
        wrong = faults(made, Exact(case), trace, solution, watch)
        known = np.isfinite(k_norm_error(trace)["upper"].values)
    if wrong:
        return Verdict("false", "; ".join(wrong[:4]))
    return Verdict("band after every epoch" if known.all() else "band at passes" if known.any() else "no band")


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    made = solve_of(seed)
    return {
        "n, d": f"{len(made.case.x)}, {made.case.x.shape[1]}", "operator": made.case.operator, **made.case.words,
        "solver": repr(made.case.solver), "from": "zeros" if made.start is None else "given weights",
        "spectrum": str(made.spectrum), "stopped": str(made.max_work),
    }  # fmt: skip
