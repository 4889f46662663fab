"""Recorded and returned numbers match the returned weights, by dense float64 algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.partitions import KDTree, PrincipalAxisTree
from apviz.report.table import table_row
from apviz.solvers import Skeletons, Subspace
from apviz.tracing.trace import residual_words
from tests.device import DEVICE

N = 150
X = np.random.default_rng(0).uniform(-1, 1, (N, 1)) * np.ones((1, 2))
X[0] = 30.0  # distant from all others
B = np.stack([np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(N), np.ones(N)], 1)
Z = np.random.default_rng(2).uniform(-1, 1, (20, 1)) * np.ones((1, 2))
LIMITS = {"tol": 1e-5, "max_epochs": 7, "check_every": 3}
SOLVERS = (
    apviz.AlternatingProjection(block_size=40, **LIMITS),
    apviz.AlternatingProjection(block_size=40, step=Subspace(length=3), partition=KDTree(overlap=0.5), **LIMITS),
    apviz.AlternatingProjection(
        block_size=40,
        partition=PrincipalAxisTree(overlap=0.5),
        columns=Skeletons(rank=5),
        precision="float32",
        **LIMITS,
    ),
    apviz.ConjugateGradient(**LIMITS),
    apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=20), **LIMITS),
    apviz.ColouredProjection(block_size=40, **LIMITS),
    apviz.Cholesky(tol=1e-5),
    apviz.Automatic(tol=1e-5, max_epochs=7),
    *(
        kind(**LIMITS)
        for kind in (
            apviz.solvers.ASkotch,
            apviz.solvers.CoordinateDescentPlusPlus,
            apviz.solvers.GradientDescent,
            apviz.solvers.StochasticDualDescent,
        )
    ),
)


def kernel(a, b):
    r = np.sqrt(5 * ((a[:, None] - b[None]) ** 2).sum(-1)) / 2.0
    return (1 + r + r**2 / 3) * np.exp(-r)


K = kernel(X, X) + 1e-3 * np.eye(N)


def solved(solver, dtype, *hooks):
    system = apviz.KernelSystem(X, B, apviz.Matern52(lengthscale=2.0), noise=1e-3, dtype=dtype, device=DEVICE)
    recorder = apviz.Recorder(weights=True, final_snapshot=True)
    return apviz.solvers.attempt(
        system, solver, [apviz.PredictionHook(Z, np.zeros(len(Z))), recorder, *hooks]
    ), recorder


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
def test_rmse_residual_and_energy_match_the_returned_weights(tmp_path, solver, dtype):
    kept = apviz.KeepWeights(tmp_path / "w.npz")
    solution, recorder = solved(solver, dtype, kept)
    w, trace = solution.weights.numpy(), recorder.trace
    last = trace["epoch"].isel(epoch=-1)
    r = B - K @ w
    each = np.linalg.norm(r, axis=0) / np.linalg.norm(B, axis=0)
    np.testing.assert_allclose(solution.residual_per_rhs, each, rtol=1e-6, atol=1e-12)
    assert solution.residual_is_measured and trace.residual_is_measured
    assert float(last["residual"]) == solution.residual == trace.attrs["residual"]
    h = 0.5 * np.sum(w * (K @ w)) - np.sum(B * w)
    np.testing.assert_allclose([solution.energy, float(last["energy"])], h, rtol=1e-9)
    # the rounding of entries depends on the size of the distant input
    predicted, rounding = kernel(Z, X) @ w[:, 0], 1e-14 * np.abs(w[:, 0]).sum()
    assert float(last["test_rmse"]) == pytest.approx(np.sqrt((predicted**2).mean()), rel=1e-9, abs=rounding)
    np.testing.assert_array_equal(trace["snapshot"]["weights"].values[-1], w[:, 0])
    with np.load(kept.path) as file:
        np.testing.assert_array_equal(file["weights"], w)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_residual_of_the_recursion_is_marked_wherever_it_is_shown(dtype, capsys):
    solver = apviz.ConjugateGradient(tol=1e-9, max_epochs=60)
    solution, recorder = solved(solver, dtype, apviz.StopHook(max_work=5.0))
    trace = recorder.trace
    assert str(solution.stop_reason) == "stopped" and not solution.residual_is_measured
    assert not trace.residual_is_measured and trace.attrs["certificate"] == ""
    shown = f"≈ {solution.residual:.2e}"
    assert residual_words(solution.residual, False) == shown and shown in repr(trace)
    assert shown in table_row(trace).cells
    assert "≈" in apviz.diagnose(trace).evidence
    figure = apviz.plots.residuals(trace)
    assert any("by the recursion" in str(each.hovertemplate) for each in figure.data)
    with pytest.warns(apviz.NotConverged, match="by the recursion"):
        system = apviz.KernelSystem(X, B, apviz.Matern52(lengthscale=2.0), noise=1e-3, dtype=dtype, device=DEVICE)
        apviz.solve(system, solver, [apviz.StopHook(max_work=5.0)])


def test_an_unconverged_float32_solve_with_one_distant_point_reports_the_residual_of_its_weights():
    x = X.copy()
    x[0] = 1e4
    system = apviz.KernelSystem(x, B, apviz.Matern52(lengthscale=2.0), noise=1e-6, dtype=torch.float32, device=DEVICE)
    k = kernel(x, x) + 1e-6 * np.eye(N)
    for solver in (SOLVERS[0], SOLVERS[3], SOLVERS[4]):
        solution = apviz.solvers.attempt(system, solver)
        r = B - k @ solution.weights.numpy()
        found = (np.linalg.norm(r, axis=0) / np.linalg.norm(B, axis=0)).mean()
        # with weights of 10⁵ the error of evaluating B − KW matters, and the residual includes it
        error = solution.certificate.error
        assert not solution.converged and error < 2e-6 * found
        assert -1e-9 * found <= solution.residual - found <= error + 1e-9 * found
