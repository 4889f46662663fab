"""Errors and theory: distance of a recorded solve from the solution, and its theoretical bounds."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from apviz.methods import ALTERNATING_PROJECTION, CONJUGATE_GRADIENT
from apviz.tracing.trace import Trace, sign_of

#: Relative difference from the last test error below which another counts as equal.
RMSE_SHARE = 0.01
_EPS = float(np.finfo(np.float64).eps)
#: Number of roundings in a sum of n products in float64, in addition to √n, because sums run over chunks.
_SUM_ROUNDINGS = 64.0


def k_norm_error(trace: Trace) -> xr.Dataset:
    """Bound ‖W−W*‖²_K for the weights after every epoch, which hooks see as `run.weights`; K W* = B exactly.

    The error is between ‖R‖²_F/λmax and ‖R‖²_F/λmin, and equals 2(h(W) − h(W*)). So each epoch with known R = B − KW
    and h(W), and known rounding of both, bounds the error at every other epoch: `lower`, `upper`.

    They are measured at the start, at passes and at the end. Between passes, only the recursion provides them. For
    plain projections and CG in float64, rounding bounds its drift (`_drift`). In float32, or with skeletons, a history
    or a coarse space, there is no such bound, and the band is NaN (`at_passes` is true). `estimate` is the error by the
    recursion's energies, and is not a bound.

    `bound` starts from the upper edge at epoch 0: Theorem 1 for gauss-southwell, the same in expectation for random,
    exp(−t/(mκ′)) in expectation for shuffled, the CG bound for plain CG, NaN if there is no theory. All hold in exact
    arithmetic. From the epoch at which the error is known to be larger, rounding exceeds them, and they are NaN.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solution = apviz.solve(system, apviz.AlternatingProjection(block_size=50), hooks=[recorder])
        >>> error = apviz.analysis.k_norm_error(recorder.trace)
        >>> error.attrs["bound_name"], bool((error["lower"] <= error["bound"]).all())
        ('Theorem 1', True)
    """
    epoch, spectrum = trace["epoch"], trace["spectrum"]
    largest, smallest = spectrum.attrs["lambda_max_bound"], spectrum.attrs["lambda_min_bound"]
    with np.errstate(all="ignore"):  # for right-hand sides whose squares overflow float64
        energy, residual = epoch["energy"].values, _residual_norms(trace)
        of_residual, of_energy = _measured(trace)
        of_residual, of_energy = _drift(trace, energy, residual, of_residual, of_energy)
        of_energy = of_energy + 4 * _EPS * np.nanmax([0.0, *np.abs(energy)])
        low = np.maximum(residual - of_residual, 0) ** 2 / largest
        high = (residual + of_residual) ** 2 / smallest
        # bounds on −2h(W*) from every epoch
        least, most = low - 2 * (energy + of_energy), high - 2 * (energy - of_energy)
        from_below, from_above = np.nanmax([-np.inf, *least]), np.nanmin([np.inf, *most])
        lower = np.fmax(low, 2 * (energy - of_energy) + from_below)
        upper = np.fmin(high, 2 * (energy + of_energy) + from_above)
        lower, upper = (np.where(np.isfinite(upper), edge, np.nan) for edge in (lower, upper))
        # error left at the end, between its bounds
        left = residual[-1] ** 2 / math.sqrt(largest * smallest) - 2 * energy[-1]
        estimate = np.maximum(2 * energy + np.clip(left, from_below, from_above), 0)
        factor, name, estimated, how = _theory(trace, epoch["epoch"].values)
        bound = factor * upper[0]
        # by an error that is known, or that the rounding of R may hide
        overtaken = np.cumsum(bound * (1 + 1e-9) < np.fmax(lower, of_residual**2 / smallest)) > 0
    return xr.Dataset(
        {
            "lower": ("epoch", lower, {"long_name": "‖W−W*‖²_K at least", "units": "energy"}),
            "upper": ("epoch", upper, {"long_name": "‖W−W*‖²_K at most", "units": "energy"}),
            "estimate": ("epoch", estimate, {"long_name": "‖W−W*‖²_K by the recursion, about", "units": "energy"}),
            "bound": ("epoch", np.where(overtaken, np.nan, bound), {"long_name": name, "units": "energy"}),
        },
        coords={"epoch": epoch["epoch"]},
        attrs={
            "bound_name": name, "bound_is_estimate": estimated, "how": how, "at_passes": bool(np.isnan(upper).any()),
        },
    )  # fmt: skip


def _residual_norms(trace: Trace) -> np.ndarray:
    """Return ‖R‖_F after every epoch, (epochs + 1,)."""
    norms = np.asarray(trace.attrs["rhs_norms"])
    found: np.ndarray = np.sqrt(((trace["epoch"]["residual_per_rhs"].values * norms) ** 2).sum(axis=1))
    return found if 1e-150 < np.linalg.norm(norms) < 1e150 else np.full_like(found, np.nan)


def _measured(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds on the error of ‖R‖_F and h(W) at measured epochs, (epochs + 1,) each; NaN at other epochs."""
    epoch = trace["epoch"]
    if "residual_rounding" not in epoch:  # recorded from a solve outside apviz: W = 0 at the start
        nothing = np.where(np.arange(epoch.sizes["epoch"]) == 0, 0.0, np.nan)
        return nothing, nothing
    of_b = float(np.linalg.norm(trace.attrs["rhs_norms"]))
    # the residual may include a bound on rounding already
    return 2 * epoch["residual_rounding"].values * of_b, epoch["energy_rounding"].values


def _drift(
    trace: Trace, energy: np.ndarray, residual: np.ndarray, of_residual: np.ndarray, of_energy: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Extend these bounds to epochs between passes, if only float64 rounding perturbs the recursion; else return them.

    An update U that minimises h along itself lowers it by ½‖U‖²_K. So ‖U‖ ≤ √(2·decrease/λmin), and ‖W−W*‖_K never
    exceeds its initial value. An update moves R off B − KW by the rounding of the products with U, and by the rounding
    of W. The recorded decrease is off by ‖U‖ times that.
    """
    method, a, attrs = trace.method, trace.attrs, trace["spectrum"].attrs
    projects = method.family == ALTERNATING_PROJECTION and not (method.history or method.coarse_rank)
    simple = projects or method.family == CONJUGATE_GRADIENT
    exact = not method.skeleton_rank and a.get("factor_dtype", "float64") == a.get("recursion_dtype") == "float64"
    smallest, known = attrs["lambda_min_bound"], np.isfinite(of_residual)
    size = a["n"] * (a["outputscale"] + a.get("largest_noise", a["noise"]))  # tr K at most
    if not (simple and exact and "update" in trace and known.any() and smallest > 4 * a["entry_rounding"] * size):
        return of_residual, of_energy
    updates, epochs = trace["update"], trace["epoch"]["epoch"].values
    steps = np.concatenate([[0.0], np.sqrt(2 * np.abs(updates["energy_decrease"].values) / smallest)]).cumsum()
    done = np.searchsorted(updates["epoch_of_update"].values, epochs, side="right")
    path, at = steps[done], np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))
    since, taken = path - path[at], done - done[at]
    of_solution = np.nanmin([np.inf, *(residual + of_residual) ** 2 / smallest - 2 * (energy - of_energy)])  # −2h(W*)
    of_solution, at_first = max(of_solution, 0.0), max(of_solution + 2 * float(energy.max()), 0.0)
    weights = (math.sqrt(of_solution) + math.sqrt(at_first)) / math.sqrt(smallest)
    rounded = np.fmax.accumulate(np.where(known, of_residual, 0.0))
    off = rounded + a["entry_rounding"] * size * path + _EPS * done * (size * weights + residual.max())
    of_sum = 2 * taken * weights + (_SUM_ROUNDINGS + math.sqrt(a["n"])) * since
    of_decreases = of_energy[at] + since * off + _EPS * of_sum * (residual.max() + off)
    return np.where(known, of_residual, off), np.where(known, of_energy, of_decreases)


def _theory(trace: Trace, epochs: np.ndarray) -> tuple[np.ndarray, str, bool, str]:
    """Return the factor on the initial error, the bound's name, whether it is an estimate, and the source of its κ."""
    spectrum = trace["spectrum"]
    rule = trace.method.rule
    # with skeletons instead of columns, or low-precision factors, no decrease of h is guaranteed
    is_projection = not trace.method.skeleton_rank and trace.attrs.get("factor_dtype") != "float16"
    if rule in ("gauss-southwell", "random", "shuffled") and is_projection:
        jitter = float(trace["block"]["jitter"].max())  # a block that needs jitter lowers h by less
        kappa_prime = (spectrum.attrs["lambda_max_block_bound"] + jitter) / spectrum.attrs["lambda_min_bound"]
        # by completed updates, for a solve that was stopped inside an epoch, possibly the first
        of_update = np.array([], dtype=int)
        if "update" in trace:  # after CG took over no block is projected onto, but h still falls
            of_update = trace["update"]["epoch_of_update"].values[trace["update"]["block"].values >= 0]
        done = np.searchsorted(of_update, epochs, side="right")
        blocks = trace["block"].sizes["block"]
        how = f"κ′ ≤ {kappa_prime:.3g}, from bounds on λ′max and λmin"
        if rule == "shuffled":
            # the first update of an epoch is a uniform draw, and the others do not raise the error
            factor = theorem_1((done // blocks).astype(float), blocks * kappa_prime)
            return factor, "a bound for shuffled blocks, in expectation", False, f"exp(−t/(mκ′)), m = {blocks}, {how}"
        name = "Theorem 1" if rule == "gauss-southwell" else "Theorem 1, in expectation"
        return theorem_1(done / blocks, kappa_prime), name, False, how
    if trace.method.is_plain_cg:
        kappa = spectrum["kappa"]
        how = f"{trace.condition()}: {kappa.attrs['how']}"
        factor = conjugate_gradient_bound(epochs, float(kappa))
        return factor, "CG bound", sign_of(spectrum, "kappa") == "≈", how
    return np.full(len(epochs), np.nan), "no bound is known", False, ""


def sufficient_epoch(trace: Trace, end: float | None = None) -> int | None:
    """Find the row of `epoch` from which the test RMSE stays within `RMSE_SHARE`, 1%, of its last value.

    If the run converged, more epochs do not change the predictions; the end of an unconverged run is only its last
    epoch. None if fewer than two epochs have a test RMSE.

    Args:
        end: Value to compare with instead of the last, such as the end of a converged run. Return None also if the test
            RMSE does not stay near it.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder, prediction = apviz.Recorder(), apviz.PredictionHook(x[:, None], torch.sin(6 * x))
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(tol=1e-9), hooks=[prediction, recorder])
        >>> apviz.analysis.sufficient_epoch(recorder.trace) < solution.epochs  # the last iterations predict nothing new
        True
    """
    rmse = trace["epoch"]["test_rmse"].values
    known = np.flatnonzero(np.isfinite(rmse))
    if len(known) < 2:
        return None
    end = float(rmse[known[-1]]) if end is None else end
    far = np.flatnonzero(np.abs(rmse[known] - end) > RMSE_SHARE * end)
    if not len(far):
        return int(known[0])
    return int(known[far[-1] + 1]) if far[-1] + 1 < len(known) else None


def theorem_1(epochs: np.ndarray, kappa_prime: float) -> np.ndarray:
    """Return exp(−t/κ′), the factor on ‖W−W*‖²_K after t epochs of gauss-southwell (paper, Theorem 1).

    Examples:
        >>> import numpy as np
        >>> from apviz.analysis import theorem_1
        >>> theorem_1(np.array([0.0, 100.0]), kappa_prime=100.0)  # 1 and 1/e
        array([1.        , 0.36787944])
    """
    return np.exp(-epochs / kappa_prime)


def conjugate_gradient_bound(iterations: np.ndarray, kappa: float) -> np.ndarray:
    """Return 4((√κ−1)/(√κ+1))^{2t}, the factor on ‖W−W*‖²_K after t iterations of CG (paper, section 4).

    Examples:
        >>> import numpy as np
        >>> from apviz.analysis import conjugate_gradient_bound
        >>> conjugate_gradient_bound(np.array([0, 1]), kappa=9.0)  # (√κ−1)/(√κ+1) = ½
        array([4., 1.])
    """
    root = math.sqrt(kappa)
    return 4 * ((root - 1) / (root + 1)) ** (2.0 * iterations)


def conjugate_gradient_iterations(kappa: np.ndarray, tol: float) -> np.ndarray:
    """Bound the iterations after which CG in exact arithmetic has ‖r‖ ≤ tol·‖b‖, from W = 0: ½√κ·log(2√κ/tol).

    It follows from the bound on the K-norm (Saad, *Iterative Methods for Sparse Linear Systems*, 2003, section 6.11.3),
    ‖r‖/‖b‖ ≤ √κ·‖e‖_K/‖e₀‖_K, and log((√κ+1)/(√κ−1)) ≥ 2/√κ.

    Examples:
        >>> import numpy as np
        >>> from apviz.analysis import conjugate_gradient_iterations
        >>> conjugate_gradient_iterations(np.array([100.0, 10_000.0]), tol=0.01).round()
        array([ 38., 495.])
    """
    root = np.sqrt(kappa)
    iterations: np.ndarray = 0.5 * root * np.log(2 * root / tol)
    return iterations
