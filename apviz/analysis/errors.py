"""Errors and theory: how far a recorded solve was from the solution, and how far theory says it could be."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from apviz.tracing.trace import Trace, sign_of

#: test errors this close to the last are as good as it
RMSE_SHARE = 0.01


def k_norm_error(trace: Trace) -> xr.Dataset:
    """Bounds ‖W−W*‖²_K after every epoch from the recorded energies, beside theory's bound on it.

    ‖W−W*‖²_K = 2(h(W) − h(W*)). What the recorded solve left over is not known but lies between
    ‖R‖²_F/λmax and ‖R‖²_F/λmin, so the error is a band: `lower`, `upper`. `bound` starts from the upper
    edge at epoch 0: Theorem 1 for gauss-southwell, the same in expectation for random, the CG bound for
    plain CG, NaN where theory gives none.

    With skeletons the recursion's R and energies are no longer those of W, so the band is NaN but at the start and
    where a pass in float64 found both anew (`at_passes` is true), and Theorem 1 says nothing of the updates.

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
    energy = epoch["energy"].values
    known = np.flatnonzero(energies_are_exact(trace))
    squared = ((epoch["residual_per_rhs"].values * np.asarray(trace.attrs["rhs_norms"])) ** 2).sum(axis=1)
    left, done = squared[known[-1]], np.full(len(energy), np.nan)
    done[known] = 2 * (energy[known] - energy[known[-1]])
    largest, smallest = spectrum.attrs["lambda_max_bound"], spectrum.attrs["lambda_min_bound"]
    if trace.method.skeleton_rank:
        # an energy that rises is no rounding; where it did, the residual itself bounds the error
        lower, upper = np.maximum(done + left / largest, squared / largest), done + left / smallest
    else:
        done = np.maximum(done, 0)
        lower, upper = done + left / largest, done + left / smallest
    factor, name, estimated, how = _theory(trace, epoch["epoch"].values)
    return xr.Dataset(
        {
            "lower": ("epoch", lower, {"long_name": "‖W−W*‖²_K at least", "units": "energy"}),
            "upper": ("epoch", upper, {"long_name": "‖W−W*‖²_K at most", "units": "energy"}),
            "bound": ("epoch", factor * upper[0], {"long_name": name, "units": "energy"}),
        },
        coords={"epoch": epoch["epoch"]},
        attrs={
            "bound_name": name,
            "bound_is_estimate": estimated,
            "how": how,
            "at_passes": bool(trace.method.skeleton_rank),
        },
    )


def energies_are_exact(trace: Trace) -> np.ndarray:
    """Tells after which epochs the recorded energy is h(W), (epochs + 1,): all, but with skeletons at passes alone.

    Between passes the decreases are by columns of which most are a skeleton's; how far their sum is off is not known
    before the next pass, and has been seen at ten times what that then corrects.
    """
    epochs = trace["epoch"]["epoch"].values
    if not trace.method.skeleton_rank:
        return np.ones(len(epochs), bool)
    exact = trace["pass"]["epoch"].values[trace["pass"]["is_exact"].values == 1] if "pass" in trace else []
    known: np.ndarray = np.isin(epochs, exact) | (np.arange(len(epochs)) == 0)
    return known


def _theory(trace: Trace, epochs: np.ndarray) -> tuple[np.ndarray, str, bool, str]:
    """The factor on the initial error, the bound's name, whether it is an estimate, and how its κ was got."""
    spectrum = trace["spectrum"]
    rule = trace.method.rule
    # where skeletons stand for columns, an update is no projection, and takes no guaranteed decrease off h
    if rule in ("gauss-southwell", "random") and not trace.method.skeleton_rank:
        kappa_prime = spectrum.attrs["lambda_max_block_bound"] / spectrum.attrs["lambda_min_bound"]
        # by updates done, for a solve that was stopped inside an epoch, be it the first
        of_update = np.array([], dtype=int)
        if "update" in trace:  # where CG took over no block is projected onto, and h falls all the same
            of_update = trace["update"]["epoch_of_update"].values[trace["update"]["block"].values >= 0]
        done = np.searchsorted(of_update, epochs, side="right")
        epochs = done / trace["block"].sizes["block"]
        name = "Theorem 1" if rule == "gauss-southwell" else "Theorem 1, in expectation"
        how = f"κ′ ≤ {kappa_prime:.3g}, from bounds on λ′max and λmin"
        return theorem_1(epochs, kappa_prime), name, False, how
    if trace.method.is_plain_cg:
        kappa = spectrum["kappa"]
        how = f"{trace.condition()}: {kappa.attrs['how']}"
        factor = conjugate_gradient_bound(epochs, float(kappa))
        return factor, "CG bound", sign_of(spectrum, "kappa") == "≈", how
    return np.full(len(epochs), np.nan), "no bound is known", False, ""


def sufficient_epoch(trace: Trace, share: float = RMSE_SHARE, end: float | None = None) -> int | None:
    """Finds the row of `epoch` from which on the test RMSE stays within `share` of its last value.

    Solving on after it does not change the predictions, where the run converged: the end of one that did not is
    no better than where it was cut off. None where fewer than two epochs have a test RMSE.

    Args:
        end: in place of the last value, such as that of a run that converged; None also where it is not kept to.

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
    far = np.flatnonzero(np.abs(rmse[known] - end) > share * end)
    if not len(far):
        return int(known[0])
    return int(known[far[-1] + 1]) if far[-1] + 1 < len(known) else None


def theorem_1(epochs: np.ndarray, kappa_prime: float) -> np.ndarray:
    """Evaluates exp(−t/κ′), the factor on ‖W−W*‖²_K after t epochs of gauss-southwell (paper, Theorem 1).

    Examples:
        >>> import numpy as np
        >>> from apviz.analysis import theorem_1
        >>> theorem_1(np.array([0.0, 100.0]), kappa_prime=100.0)  # 1 and 1/e
        array([1.        , 0.36787944])
    """
    return np.exp(-epochs / kappa_prime)


def conjugate_gradient_bound(iterations: np.ndarray, kappa: float) -> np.ndarray:
    """Evaluates 4((√κ−1)/(√κ+1))^{2t}, the factor on ‖W−W*‖²_K after t iterations of CG (paper, section 4).

    Examples:
        >>> import numpy as np
        >>> from apviz.analysis import conjugate_gradient_bound
        >>> conjugate_gradient_bound(np.array([0, 1]), kappa=9.0)  # (√κ−1)/(√κ+1) = ½
        array([4., 1.])
    """
    root = math.sqrt(kappa)
    return 4 * ((root - 1) / (root + 1)) ** (2.0 * iterations)


def conjugate_gradient_iterations(kappa: np.ndarray, tol: float) -> np.ndarray:
    """Bounds the iterations after which CG in exact arithmetic has ‖r‖ ≤ tol·‖b‖, from W = 0: ½√κ·log(2√κ/tol).

    From the bound on the K-norm (Saad, *Iterative Methods for Sparse Linear Systems*, 2003, section 6.11.3),
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
