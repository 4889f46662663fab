"""Certificates: how a residual is known, and an error that counts against the claim."""

import math

import numpy as np
import pytest
import torch

import apviz
from apviz.operators.tiled import TiledOperator
from apviz.solvers import attempt
from apviz.solvers.measuring import residuals
from tests.textbook import CORRELATIONS

N, LENGTHSCALE = 400, 0.2


@pytest.fixture(autouse=True)
def _samples_are_worthwhile_for_few_rows(monkeypatch):
    """Sample the error of products from fewer rows, so that small systems take the paths of large ones."""
    monkeypatch.setattr(residuals, "SAMPLED_ROWS", 64)
    monkeypatch.setattr(residuals, "WORTH_ROWS", 256)


class Coarse(TiledOperator):
    """K plus a smooth symmetric error of at most `size` an entry: a stand-in for products that are not exact."""

    size = 0.0

    def certifying(self):
        found = type(self)(self.given, self.kernel, self.noise_of(), torch.float64)
        found.size, found.entry_error = self.size, self.size
        found.fix_engine(0.0, 1)
        return found

    def in_dtype(self, dtype):
        found = type(self)(self.given, self.kernel, self.noise_of(), dtype)
        found.size = self.size
        return found

    def reordered(self, order):
        found = type(self)(self.given[order], self.kernel, self.noise_of(order), self.x.dtype)
        found.size = self.size
        return found

    def matmul(self, v):
        waves = torch.cat([torch.sin(60 * self.x), torch.cos(60 * self.x)], 1)  # cos(60 (x − z)), summed over inputs
        return super().matmul(v) + self.size / self.x.shape[1] * (waves @ (waves.T @ v))


def system_of(seed, size, noise=0.01, dtype=torch.float64, n=N):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    b = np.stack([np.sin(6 * x[:, 0]) + 0.1 * rng.standard_normal(n), rng.standard_normal(n)], 1)
    kernel, given = apviz.Matern52(lengthscale=LENGTHSCALE), torch.from_numpy(x).to(dtype)
    operator = Coarse(given, kernel, noise, dtype)
    operator.size = size
    b = torch.from_numpy(b).to(dtype)
    return apviz.KernelSystem(given, b, kernel, noise=noise, operator=operator, device="cpu")


def true_residual(system, weights):
    """The mean of ‖b − Kw‖/‖b‖ of the exact K, in NumPy."""
    x, b, w = (np.asarray(a, dtype=float) for a in (system.x, system.b, weights))
    distance = np.sqrt(((x[:, None] - x[None]) / system.kernel.lengthscale) ** 2 @ np.ones(x.shape[1]))
    k = CORRELATIONS[system.kernel.name](distance) + system.noise * np.eye(len(x))
    return float((np.linalg.norm(b - k @ w, axis=0) / np.linalg.norm(b, axis=0)).mean())


SOLVERS = (
    apviz.ConjugateGradient(tol=1e-3), apviz.Cholesky(tol=1e-3),
    apviz.AlternatingProjection(block_size=60, tol=1e-3, max_epochs=200),
)  # fmt: skip


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
def test_products_that_evaluate_every_entry_give_an_exact_certificate(solver):
    system = system_of(0, 0.0)
    solution = apviz.solve(system, solver)
    certificate = solution.certificate
    assert (certificate.kind, certificate.rows, certificate.residual) == ("exact", 0, solution.residual)
    assert math.isclose(certificate.residual, true_residual(system, solution.weights), abs_tol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)
@pytest.mark.parametrize(("size", "kind"), [(1e-14, "bounded"), (1e-8, "sampled"), (1e-7, "sampled")])
def test_the_error_of_approximate_products_counts_against_the_claim(solver, size, kind):
    system = system_of(1, size)
    solution = attempt(system, solver)
    certificate, true = solution.certificate, true_residual(system, solution.weights)
    assert certificate.kind == kind and (certificate.rows > 0) == (kind == "sampled")
    assert true <= certificate.residual and certificate.residual <= true + 2.5 * certificate.error + 1e-12
    assert not solution.converged or certificate.residual < 1e-3


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(2))
def test_no_claim_by_approximate_products_is_false(seed, dtype, noise):
    rng = np.random.default_rng([seed, 7])
    system = system_of(seed, 10.0 ** rng.uniform(-10, -4), noise, dtype)
    solution = attempt(system, apviz.ConjugateGradient(tol=1e-3, max_epochs=300))
    true = true_residual(system, solution.weights)
    assert true <= solution.certificate.residual
    assert not solution.converged or true < 1e-3


def test_an_error_above_the_tolerance_ends_the_solve_without_convergence():
    system = system_of(2, 1e-3, noise=1e-3)
    with pytest.warns(apviz.NotConverged):
        solution = apviz.solve(system, apviz.ConjugateGradient(tol=1e-3, max_epochs=200))
    assert solution.certificate.residual >= 1e-3


def test_an_exact_pass_can_be_requested():
    solution = attempt(system_of(1, 1e-9), apviz.ConjugateGradient(tol=1e-3), certify="exact")
    assert solution.certificate.kind == "exact"


def test_few_rows_are_certified_exactly_because_that_costs_as_little_as_a_sample():
    solution = apviz.solve(system_of(1, 1e-9, n=200), apviz.ConjugateGradient(tol=1e-3))
    assert solution.certificate.kind == "exact"


def test_a_trace_says_how_its_residual_is_known():
    recorder = apviz.Recorder()
    apviz.solve(system_of(1, 1e-8), apviz.ConjugateGradient(tol=1e-3), hooks=[recorder])
    trace = recorder.trace
    assert trace.attrs["certificate"] == "sampled" and trace.attrs["certificate_error"] > 0
    assert trace.residual_in_words().endswith("(sampled)")


@pytest.mark.parametrize(
    ("d", "kernel", "noise"),  # every pair of two of them
    [
        (d, kernel, (1e-3, 0.1)[(d + place) % 2])
        for d in (1, 2, 3)
        for place, kernel in enumerate([apviz.Matern12, apviz.Matern32, apviz.Matern52, apviz.RBF])
    ],
)
def test_fourier_products_claim_no_convergence_that_is_false(d, kernel, noise):
    rng = np.random.default_rng([d, int(1e4 * noise)])
    x = torch.from_numpy(rng.uniform(size=(500, d)))
    b = torch.sin(6 * x.sum(1)) + 0.1 * torch.from_numpy(rng.standard_normal(len(x)))
    system = apviz.KernelSystem(x, b[:, None], kernel(lengthscale=0.2), noise=noise, operator="fourier", device="cpu")
    solution = attempt(system, apviz.AlternatingProjection(block_size=100, tol=1e-3, max_epochs=40))
    certificate, true = solution.certificate, true_residual(system, solution.weights)
    assert certificate.kind in ("bounded", "sampled")
    assert true <= certificate.residual <= 1.01 * true + 3 * certificate.error
    assert not solution.converged or true < 1e-3


@pytest.mark.parametrize(
    ("certify", "said"),
    [
        ("quickly", "certify must be one of operator, exact, compensated, got 'quickly'"),
        ("compensated", "certify='compensated' needs operator='fused', and the operator is 'tiled'"),
    ],
)
def test_what_cannot_be_done_is_refused(certify, said):
    with pytest.raises(ValueError, match=said):
        apviz.solve(system_of(0, 0.0, n=50), apviz.ConjugateGradient(), certify=certify)
