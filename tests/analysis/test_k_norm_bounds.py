"""Bounds on the K-norm error of several right-hand sides, by name, are above the error by dense algebra."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis import k_norm_error
from apviz.partitions import KDTree
from tests.device import DEVICE

NEVER = 1e-300
SOLVERS = (
    apviz.AlternatingProjection(block_size=7, tol=NEVER, max_epochs=5, check_every=2),
    apviz.AlternatingProjection(block_size=7, rule="cyclic", partition=KDTree(overlap=0.6), tol=NEVER, max_epochs=5),
    apviz.AlternatingProjection(block_size=7, rule="random", partition="shuffled", tol=NEVER, max_epochs=5),
    apviz.ConjugateGradient(tol=1e-8),
    apviz.Cholesky(),
)
X = np.random.default_rng(0).uniform(size=(40, 2))
B = np.random.default_rng(1).standard_normal((40, 3))
# Matérn-3/2, lengthscale 0.5, noise 0.3, written out
R = np.sqrt(3) * np.linalg.norm(X[:, None] - X[None], axis=-1) / 0.5
K = (1 + R) * np.exp(-R) + 0.3 * np.eye(40)


def system():
    return apviz.KernelSystem(X, B, apviz.Matern32(lengthscale=0.5), noise=0.3, dtype=torch.float64, device=DEVICE)


class KeepErrors(apviz.Hook):
    """Keeps ‖W−W*‖²_K after every epoch, by dense algebra."""

    def on_start(self, run):
        self.run, self.errors = run, []

    def on_epoch(self, epoch):
        gap = self.run.weights.numpy() - np.linalg.solve(K, B)
        self.errors.append(np.sum(gap * (K @ gap)))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
@pytest.mark.parametrize("warm", [False, True])
def test_the_band_contains_the_error_in_the_k_norm_and_the_bound_is_above_it(solver, warm):
    truth, recorder = KeepErrors(), apviz.Recorder()
    start = torch.ones(40, 3, dtype=torch.float64) if warm else None
    apviz.solve(system(), solver, [truth, recorder], initial_weights=start)
    band = k_norm_error(recorder.trace)
    slack = 1e-11 * truth.errors[0]
    assert (band["lower"] <= np.array(truth.errors) + slack).all()
    assert (band["upper"] >= np.array(truth.errors) - slack).all()
    theory = {
        "gauss-southwell": "Theorem 1",
        "random": "Theorem 1, in expectation",
        "shuffled": "a bound for shuffled blocks, in expectation",
    }
    name = (
        "CG bound"
        if solver.name == "ConjugateGradient"
        else theory.get(getattr(solver, "rule", ""), "no bound is known")
    )
    assert band.attrs["bound_name"] == name
    if name in ("Theorem 1", "CG bound"):
        assert (band["bound"] >= np.array(truth.errors) - slack).all()
    if name == "no bound is known":
        assert band["bound"].isnull().all()


def test_the_bound_for_shuffled_blocks_holds_for_the_mean_over_seeds():
    ratios, bounds = [], []
    for seed in range(30):
        truth, recorder = KeepErrors(), apviz.Recorder()
        solver = apviz.AlternatingProjection(
            block_size=8, rule=apviz.rules.Shuffled(seed=seed), tol=1e-12, max_epochs=6
        )
        apviz.solve(system(), solver, [truth, recorder])
        band = k_norm_error(recorder.trace)
        ratios.append(np.array(truth.errors) / truth.errors[0])
        bounds.append(band["bound"].values / float(band["upper"][0]))
    kappa_prime = max(np.linalg.norm(K[i : i + 8, i : i + 8], 2) for i in range(0, 40, 8)) / np.linalg.eigvalsh(K)[0]
    t = np.arange(7)
    assert (np.mean(ratios, axis=0) <= np.exp(-t / (5 * kappa_prime))).all()
    # κ′ of the trace is a bound, so its curve is above that of the true κ′
    drawn = np.nanmin(bounds, axis=0)
    assert (drawn[: len(t)] >= np.exp(-t / (5 * kappa_prime)) * (1 - 1e-12)).all()


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
def test_the_bound_holds_for_a_solve_stopped_within_an_epoch(share):
    # with such large noise, every update removes exactly its share of the error
    truth, recorder = KeepErrors(), apviz.Recorder()
    large = apviz.KernelSystem(X, B, apviz.RBF(lengthscale=0.001), noise=1.0, dtype=torch.float64, device=DEVICE)
    apviz.solve(
        large, apviz.AlternatingProjection(block_size=4), [apviz.StopHook(max_work=0.1 + share), recorder, truth]
    )
    w = np.linalg.norm(B) ** 2 / 2
    band = k_norm_error(recorder.trace)
    left = w - np.sum(recorder.trace["update"]["energy_decrease"].values) * 2
    assert recorder.trace["update"].sizes["update"] < 10
    assert float(band["upper"][-1]) >= left * (1 - 1e-9) and float(band["bound"][-1]) >= left * (1 - 1e-9)


class InterruptedAtOnce(apviz.Hook):
    """Interrupts the solve before the first update is recorded."""

    def on_update(self, update):
        raise KeyboardInterrupt


@pytest.mark.parametrize("rule", ["gauss-southwell", "random", "cyclic"])
def test_before_the_first_update_the_bound_equals_the_error(tmp_path, rule):
    recorder = apviz.Recorder(tmp_path / "a.zarr", spectrum="exact")
    with pytest.raises(KeyboardInterrupt):
        apviz.solve(system(), dataclasses.replace(SOLVERS[0], rule=rule), [InterruptedAtOnce(), recorder])
    for trace in (recorder.trace, apviz.open_trace(tmp_path / "a.zarr")):
        assert "update" not in trace and trace["epoch"].sizes["epoch"] == 1
        error = k_norm_error(trace)
        exact = np.einsum("ij,ij->", B, np.linalg.solve(K, B))
        assert error["lower"][0] * (1 - 1e-9) <= exact <= error["upper"][0] * (1 + 1e-9)
        assert np.isnan(error["bound"][0]) if rule == "cyclic" else error["bound"][0] == error["upper"][0]
