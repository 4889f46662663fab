import itertools
import math
import re
import warnings
from types import SimpleNamespace

import gpytorch
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import apviz
from apviz.gp.metrics import negative_log_likelihood, rmse
from apviz.gp.prediction import variances
from apviz.gp.prediction.points import CHUNK
from apviz.gp.prediction.posterior import Posterior
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS
from apviz.partitions import PrincipalAxisTree
from apviz.solvers import Subspace
from tests.device import DEVICE
from tests.textbook import CORRELATIONS

PRECISE = apviz.ConjugateGradient(tol=1e-10)
OVERLAP = apviz.AlternatingProjection(block_size=60, partition=PrincipalAxisTree(overlap=1.0), tol=1e-8)


def problem(n=120, m=40, d=2, kernel="matern32", lengthscale=0.5, outputscale=1.5, noise=0.1, mean=0.7, seed=0):
    """Return data, hyperparameters, and the posterior in dense float64 NumPy, which shares no code with apviz."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(size=(n, d)), rng.uniform(-0.2, 1.2, size=(m, d))
    y = np.sin(6 * x[:, 0]) + mean + 0.3 * rng.standard_normal(n)
    h = Hyperparameters(kernel, (lengthscale,), outputscale, noise, mean)
    correlation = CORRELATIONS[kernel]
    k = outputscale * correlation(cdist(x, x) / lengthscale) + noise * np.eye(n)
    c = outputscale * correlation(cdist(x, z) / lengthscale)
    factor = scipy.linalg.cho_factor(k)
    weights = scipy.linalg.cho_solve(factor, y - mean)
    variance = outputscale - (c * scipy.linalg.cho_solve(factor, c)).sum(0)
    return SimpleNamespace(x=x, y=y, z=z, h=h, k=k, c=c, weights=weights, mean=mean + c.T @ weights, variance=variance)


def posterior(p, solver=PRECISE, **kwargs):
    return Posterior(p.x, p.y, p.h, solver, **{"dtype": torch.float64, "device": DEVICE, **kwargs})


# --- against GPyTorch ----------------------------------------------------------------------------------------------


class Exact(gpytorch.models.ExactGP):
    """GPyTorch's exact GP with the given hyperparameters."""

    def __init__(self, x, y, h):
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-8))
        super().__init__(x, y, likelihood)
        d = x.shape[1]
        self.mean_module = gpytorch.means.ConstantMean()
        name, chosen = KERNELS[h.kernel].gpytorch
        base = getattr(gpytorch.kernels, name)(**chosen, ard_num_dims=d)
        self.covar_module = gpytorch.kernels.ScaleKernel(base)
        self.double()
        self.mean_module.initialize(constant=torch.tensor(h.mean, dtype=torch.float64))
        base.lengthscale = torch.tensor(h.lengthscale, dtype=torch.float64)
        parameters = h.build_kernel().parameters
        base.initialize(**{name: torch.tensor(value, dtype=torch.float64) for name, value in parameters.items()})
        self.covar_module.outputscale = torch.tensor(h.outputscale, dtype=torch.float64)
        likelihood.noise = torch.tensor(h.noise, dtype=torch.float64)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@pytest.mark.parametrize(
    ("kernel", "solver"),
    zip(
        [name for name, kind in KERNELS.items() if kind.gpytorch],
        itertools.cycle([OVERLAP, apviz.ConjugateGradient(tol=1e-8)]),
        strict=False,
    ),
)
def test_mean_and_variance_by_solves_agree_with_gpytorch_to_a_millionth(kernel, solver):
    p = problem(n=250, m=60, d=3)
    h = Hyperparameters(kernel, (0.3, 0.8, 0.5), 1.7, 0.05, -0.4)
    x, y, z = (torch.tensor(values) for values in (p.x, p.y, p.z))
    model = Exact(x, y, h).eval()
    with torch.no_grad(), gpytorch.settings.max_cholesky_size(10_000), gpytorch.settings.fast_pred_var(False):
        expected = model(z)
        observed = model.likelihood(expected)
    found = Posterior(x, y, h, solver, dtype=torch.float64, device=DEVICE)
    assert found.solution.converged
    np.testing.assert_allclose(found.mean(z), expected.mean, atol=1e-6, rtol=0)
    np.testing.assert_allclose(found.variance(z), expected.variance, atol=1e-6, rtol=0)
    np.testing.assert_allclose(found.variance(z, include_noise=True), observed.variance, atol=1e-6, rtol=0)
    assert all(solved.converged for solved in found.variance_solves)


@pytest.mark.parametrize(
    "solver",
    [
        None,
        apviz.AlternatingProjection(block_size=40),
        apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=20)),
        apviz.ConjugateGradient(
            preconditioner=apviz.TwoLevelSchwarz(
                block_size=40, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=20
            )
        ),
        apviz.Cholesky(),
    ],
    ids=["auto", "paper", "pcg", "schwarz", "cholesky"],
)
def test_the_mean_by_any_solver_to_a_hundredth_in_float32_predicts_as_well_as_the_exact_one(solver):
    p = problem(n=300, m=200)
    found = posterior(p, solver, dtype=torch.float32)
    assert found.solution.converged and found.solution.residual < 0.01
    mean = found.mean(p.z).numpy()
    assert np.sqrt(((mean - p.mean) ** 2).mean()) < 0.03 * p.y.std()
    y = np.sin(6 * p.z[:, 0]) + p.h.mean + 0.3 * np.random.default_rng(1).standard_normal(200)
    assert rmse(mean, y) == pytest.approx(rmse(p.mean, y), rel=0.01)


# --- the variance by solves is never too small ------------------------------------------------------------------------


class StopAtOnce(apviz.Hook):
    def on_start(self, run):
        run.request_stop("no more")


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 999), kernel=st.sampled_from(list(CORRELATIONS)), lengthscale=st.floats(0.05, 3),
    noise=st.floats(1e-3, 1), epochs=st.integers(1, 3), b=st.sampled_from([10, 60]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_a_solve_stopped_early_makes_the_variance_too_large_by_no_more_than_it_says(
    seed, kernel, lengthscale, noise, epochs, b, dtype
):
    p = problem(n=60, m=10, kernel=kernel, lengthscale=lengthscale, noise=noise, seed=seed)
    crude = apviz.AlternatingProjection(block_size=b, tol=1e-9, max_epochs=epochs)
    found = posterior(p, variance_solver=crude, weights=p.weights, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variance = found.variance(p.z).double().numpy()
    excess = found.variance_solves[0].excess.numpy()
    # rounding of entries and products in the dtype, amplified by K⁻¹ ⪯ 1/σ²
    rounding = 50 * torch.finfo(dtype).eps * np.linalg.norm(p.k, 2) / noise
    assert (variance >= p.variance - rounding).all()
    assert (variance <= np.minimum(p.variance + excess, p.h.outputscale) + rounding).all()


def test_the_error_of_the_variance_is_the_residual_in_the_norm_of_the_inverse():
    p = problem()
    crude = apviz.ConjugateGradient(tol=1e-9, max_epochs=4)
    found = posterior(p, variance_solver=crude)
    solution = apviz.solve(apviz.KernelSystem(p.x, p.c, p.h.build_kernel(), noise=0.1, dtype=torch.float64), crude)
    r = p.c - p.k @ solution.weights.numpy()
    with pytest.warns(UserWarning, match="not converged"):
        variance = found.variance(p.z).numpy()
    np.testing.assert_allclose(variance - p.variance, (r * np.linalg.solve(p.k, r)).sum(0), atol=1e-10)
    np.testing.assert_allclose(found.variance_solves[0].excess, (r**2).sum(0) / 0.1, rtol=1e-8)


def test_solves_that_did_not_converge_warn_once_and_are_listed():
    p = problem(m=30)
    found = posterior(p, variance_solver=apviz.ConjugateGradient(max_epochs=1), batch_size=10)
    with pytest.warns(UserWarning) as caught:
        found.variance(p.z)
    message = str(caught[0].message)
    assert len(caught) == 1 and "variances of rows 0 to 10 did not converge" in message
    assert re.search(r"too large, by at most \d", message) and "epoch limit" in message
    reasons = [solved.stop_reason for solved in found.variance_solves]
    assert reasons == [apviz.StopReason.MAX_EPOCHS] * 3 and not found.variance_solves[0].converged
    assert [solved.rows for solved in found.variance_solves] == [slice(0, 10), slice(10, 20), slice(20, 30)]


SMALL_NOISE = {"n": 100, "m": 100, "kernel": "rbf", "noise": 1e-4}
LOOSE = apviz.AlternatingProjection(block_size=20, partition=PrincipalAxisTree(overlap=0.5), step="subspace", tol=1e-4)


def test_a_solve_continues_while_variances_may_be_much_too_large():
    p = problem(**{**SMALL_NOISE, "m": 25})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = posterior(p, LOOSE, weights=p.weights)
        variance = found.variance(p.z).numpy()
    (solved,) = found.variance_solves
    assert ((variance + 1e-4) / (p.variance + 1e-4)).max() < 1.01
    assert (solved.excess.numpy() <= 0.01 * (variance + 1e-4)).all()
    assert solved.converged and solved.residual < LOOSE.tol


def test_variances_that_stay_much_too_large_warn_with_figures():
    p = problem(**SMALL_NOISE)
    found = posterior(p, variance_solver=LOOSE)  # a given solver is not continued
    with pytest.warns(UserWarning) as caught:
        variance = found.variance(p.z).numpy()
    excess = found.variance_solves[0].excess.numpy()
    too_large = (excess > 0.01 * (variance + 1e-4)) | (excess > (1 - 1 / 1.1**2) * variance)
    assert ((variance + 1e-4) / (p.variance + 1e-4)).max() > 2
    (message,) = [str(w.message) for w in caught]
    assert f"at {too_large.sum()} of 100 points" in message and "too large by any factor" in message
    assert "smaller tol" in message and "variance_solver=apviz.Cholesky()" in message


def test_variances_that_float32_cannot_resolve_warn_and_advise_float64():
    p = problem(**{**SMALL_NOISE, "noise": 1e-6})
    with pytest.warns(UserWarning, match="may be too large.*use float64"):
        posterior(p, apviz.Cholesky(), dtype=torch.float32, weights=p.weights).variance(p.z)


def test_continuing_for_smaller_variances_costs_a_bounded_multiple_of_the_work():
    p = problem(**{**SMALL_NOISE, "noise": 1e-7, "m": 25})
    found = posterior(p, LOOSE, weights=p.weights)
    with pytest.warns(UserWarning, match="may be too large"):
        found.variance(p.z)
    first = posterior(p, variance_solver=LOOSE, weights=p.weights)
    with pytest.warns(UserWarning):
        first.variance(p.z)
    # the last epoch, with its set-up, may end above the limit
    assert found.variance_solves[0].work < 13 * first.variance_solves[0].work


@pytest.mark.parametrize("batch", ["auto", 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_covariance_is_exact_and_has_the_variance_on_its_diagonal(dtype, batch):
    p = problem()
    found = posterior(p, OVERLAP if dtype is torch.float64 else apviz.Cholesky(), dtype=dtype, batch_size=batch)
    covariance = found.covariance(p.z)
    assert torch.equal(covariance.diagonal(), found.variance(p.z))
    assert torch.equal(found.covariance(p.z, include_noise=True).diagonal(), found.variance(p.z, include_noise=True))
    prior = p.h.outputscale * CORRELATIONS["matern32"](cdist(p.z, p.z) / 0.5)
    exact = prior - p.c.T @ np.linalg.solve(p.k, p.c)
    np.testing.assert_allclose(covariance, exact, atol=1e-8 if dtype is torch.float64 else 1e-5)


def test_a_covariance_stopped_early_is_above_the_exact_one():
    p = problem()
    crude = posterior(p, variance_solver=apviz.ConjugateGradient(tol=1e-9, max_epochs=4))
    with pytest.warns(UserWarning, match="not converged"):
        covariance = crude.covariance(p.z).numpy()
    prior = p.h.outputscale * CORRELATIONS["matern32"](cdist(p.z, p.z) / 0.5)
    exact = prior - p.c.T @ np.linalg.solve(p.k, p.c)
    assert np.linalg.eigvalsh(covariance - exact).min() > -1e-9


def test_a_solve_for_variances_that_a_hook_stops_warns():
    p = problem()
    with pytest.warns(UserWarning, match="stopped: no more"):
        variance = posterior(p).variance(p.z, hooks=[StopAtOnce()])
    assert (variance.numpy() >= p.variance).all() and (variance <= p.h.outputscale).all()


def test_a_missed_tolerance_with_negligible_excess_does_not_warn():
    """A user once saw "not converged … too large by at most 4.49e-30"."""
    p = problem()
    far = p.z + 14.0  # covariances of 1e-17 and less
    found = posterior(p, variance_solver=apviz.ConjugateGradient(tol=1e-9, max_epochs=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        variance = found.variance(far)
    (solved,) = found.variance_solves
    assert not solved.converged and float(solved.excess.max()) < 1e-15
    np.testing.assert_allclose(variance, p.h.outputscale, rtol=1e-12)


def test_an_unconverged_mean_warns():
    with pytest.warns(UserWarning, match=r"the solve for the mean did not converge \(residual .* epoch limit"):
        found = posterior(problem(), apviz.ConjugateGradient(max_epochs=1))
    assert found.solution.stop_reason is apviz.StopReason.MAX_EPOCHS


@pytest.mark.parametrize("solver", [PRECISE, OVERLAP, None], ids=["cg", "overlap", "auto"])
def test_far_from_all_data_the_posterior_is_the_prior(solver):
    p = problem()
    far = np.array([[1e6, 0.0], [-1e6, 1e6]])  # covariances of exactly zero
    found = posterior(p, variance_solver=solver)
    for points in (far, np.vstack([far, p.z])):
        assert (found.variance(points)[:2] == p.h.outputscale).all() and (found.mean(points)[:2] == p.h.mean).all()
    assert found.variance_solves[0].converged
    np.testing.assert_allclose(found.variance(np.vstack([far, p.z]))[2:], p.variance, atol=2e-3)


def test_at_a_training_point_with_little_noise_the_variance_is_small_and_never_negative():
    p = problem(noise=1e-4, kernel="rbf")
    found = posterior(p, apviz.Cholesky(tol=0.5), dtype=torch.float32)
    variance = found.variance(p.x).numpy()
    assert (variance >= 0).all() and (variance < 1e-3).all()


# --- chunks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", ["dense", "tiled"])
@pytest.mark.parametrize("method", ["solves", "lanczos"])
def test_chunks_give_what_the_whole_gives(method, operator):
    p = problem(m=101)
    whole, chunked = posterior(p, operator=operator), posterior(p, operator=operator, batch_size=7)
    assert torch.allclose(whole.mean(p.z), chunked.mean(p.z), rtol=1e-12)
    expected = whole.variance(p.z, method, 30)
    assert torch.allclose(expected, chunked.variance(p.z, method, 30), atol=1e-9)
    mean, variance = chunked.mean_and_variance(p.z, method, 30, include_noise=True)
    assert torch.allclose(mean, whole.mean(p.z), rtol=1e-12)
    assert torch.allclose(variance, expected + p.h.noise, atol=1e-9)


def test_a_test_set_on_disk_is_read_in_chunks(tmp_path):
    p = problem(m=50)
    file = np.memmap(tmp_path / "z.bin", np.float64, "w+", shape=p.z.shape)
    file[:] = p.z
    file.flush()
    on_disk = np.memmap(tmp_path / "z.bin", np.float64, "r", shape=p.z.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, variance = posterior(p, batch_size=20).mean_and_variance(on_disk)
    np.testing.assert_allclose(mean, p.mean, atol=1e-8)
    np.testing.assert_allclose(variance, p.variance, atol=1e-8)


def test_the_width_of_a_batch_follows_the_free_memory(monkeypatch):
    p = problem()
    found = posterior(p)
    assert found._methods.by_solves.width() == variances.MAX_BATCH
    # 8 bytes · n = 120 · 20 arrays is 19.2 kB a column, plus a chosen history
    monkeypatch.setattr(variances, "free_memory", lambda device: 2 * (35_000 + 100 * 19_200))
    narrow = found._methods.by_solves.width()
    assert 90 <= narrow <= 110
    with_history = apviz.AlternatingProjection(block_size=40, step=Subspace(length=20))
    assert posterior(p, variance_solver=with_history)._methods.by_solves.width() == narrow // 2
    monkeypatch.setattr(variances, "free_memory", lambda device: 0)
    assert found._methods.by_solves.width() == 1
    # a million rows in 16 GB: at least the eight columns of a sample, in 25 arrays of float32
    monkeypatch.setattr(variances, "free_memory", lambda device: 16e9)
    million = SimpleNamespace(n=10**6, d=3, x=torch.zeros(1), device="cpu")
    width = variances.Variances(million, None, apviz.Automatic(), True, "auto").width()
    assert 8 <= width <= 16e9 / (25 * 4 * 1e6)


def test_zero_test_points_give_empty_vectors():
    found = posterior(problem())
    nothing = np.empty((0, 2))
    assert found.mean(nothing).shape == found.variance(nothing).shape == (0,)


def test_a_single_input_may_be_a_vector():
    p = problem(d=1)
    found = posterior(p)
    np.testing.assert_allclose(found.mean(p.z[:, 0]), p.mean, atol=1e-8)
    np.testing.assert_allclose(found.variance(p.z[:, 0].tolist()), p.variance, atol=1e-8)


# --- weights and work -------------------------------------------------------------------------------------------------


def test_with_given_weights_nothing_is_solved():
    p = problem()
    found = posterior(p, weights=p.weights)
    assert found.solution is None and found.work == 0
    np.testing.assert_allclose(found.mean(p.z), p.mean, atol=1e-12)


def test_starting_from_the_exact_weights_costs_one_check():
    p = problem()
    found = posterior(p, initial_weights=p.weights)
    assert found.solution.converged and found.solution.epochs <= 1
    np.testing.assert_allclose(found.mean(p.z), p.mean, atol=1e-8)


def test_work_counts_the_solves_and_the_entries_of_predictions():
    p = problem(n=120, m=30)
    found = posterior(p, batch_size=15)
    work = found.solution.work
    assert found.work == work
    found.mean(p.z)
    work += 30 / 120
    assert found.work == pytest.approx(work)
    found.variance(p.z)
    work += sum(solved.work for solved in found.variance_solves) + 2 * 1.0 + 30 / 120
    work += 1.0  # the residual of the mean, from which errors are known
    assert found.work == pytest.approx(work)
    found.variance(p.z, "lanczos", 10)
    work += 1 + 10 + 30 / 120
    assert found.work == pytest.approx(work)
    found.variance(p.z, "lanczos", 4)  # the leading part of the existing basis
    assert found.work == pytest.approx(work + 30 / 120)


def test_hooks_of_the_mean_are_called_for_its_solve_only():
    p, recorder = problem(), apviz.Recorder()
    found = posterior(p, hooks=[recorder], dataset="waves")
    found.variance(p.z)
    assert len(recorder.traces) == 1 and recorder.trace.attrs["dataset"] == "waves"


# --- bad input --------------------------------------------------------------------------------------------------------


def with_nan(values, *positions):
    values = values.copy()
    for position in positions:
        values[position] = math.nan
    return values


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, z: f.mean(z[:, :1]), "x_star must have shape (m, 2) as x has 2 columns, got (40, 1)"),
        (lambda f, z: f.mean(z[0]), "x_star must have shape (m, 2) as x has 2 columns, got (2,)"),
        (
            lambda f, z: f.variance(with_nan(z, (3, 1), (5, 1))),
            "x_star has 2 NaN or infinite values in column 1 (in torch.float64)",
        ),
        (lambda f, z: f.mean_and_variance(with_nan(z, (3, 0))), "x_star has 1 NaN or infinite values in column 0"),
        (lambda f, z: f.mean(1e12 * z), "x_star spans"),
        (lambda f, z: f.variance(z, "exact"), "method must be one of solves, lanczos, neighbours, auto, got 'exact'"),
        (lambda f, z: f.variance(z, "lanczos", 0), "rank must be a whole number, at least 1, got 0"),
        (lambda f, z: f.variance(z, "lanczos", 2.5), "rank must be a whole number, at least 1, got 2.5"),
        (lambda f, z: f.variance_by_rank(z, [3, 0]), "each of ranks must be a whole number, at least 1, got 0"),
        (lambda f, z: f.variance_by_rank(z, []), "ranks must be at least one rank, got []"),
    ],
)
def test_bad_test_inputs_and_settings_are_refused_before_any_work(call, message):
    p = problem()
    found = posterior(p)
    before = found.work
    with pytest.raises(ValueError, match=re.escape(message)):
        call(found, p.z)
    assert found.work == before


def test_an_error_about_bad_values_in_a_long_test_set_names_their_rows():
    p = problem(m=CHUNK + 10)
    with pytest.raises(ValueError, match=re.escape("x_star[4101:8202] has 1 NaN or infinite values in column 1")):
        posterior(p, weights=p.weights).mean(with_nan(p.z, (-1, 1)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": np.ones(3)}, "weights must have shape (120,), got (3,)"),
        ({"weights": np.full(120, math.inf)}, "weights has 120 NaN or infinite values in column 0"),
        ({"weights": np.ones(120), "initial_weights": np.ones(120)}, "weights and initial_weights must be one or the"),
        ({"initial_weights": np.ones(3)}, "initial_weights must have the shape of b"),
        ({"batch_size": 0}, "batch_size must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_settings_of_a_posterior_are_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        posterior(problem(), **settings)


def test_bad_targets_are_refused():
    p = problem()
    with pytest.raises(
        ValueError, match=re.escape("y must have shape (n,), one target for each row of x, got (120, 1)")
    ):
        Posterior(p.x, p.y[:, None], p.h)
    with pytest.raises(ValueError, match="y has 1 NaN or infinite values"):
        Posterior(p.x, with_nan(p.y, 4), p.h)
    with pytest.raises(TypeError, match="hyperparameters must be apviz Hyperparameters, got dict"):
        Posterior(p.x, p.y, {})


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_the_metrics_agree_with_scipy():
    rng = np.random.default_rng(0)
    mean, y, variance = rng.standard_normal(50), rng.standard_normal(50), rng.uniform(0.1, 2, 50)
    assert rmse(mean, torch.tensor(y)) == pytest.approx(np.sqrt(((y - mean) ** 2).mean()), rel=1e-12)
    expected = -scipy.stats.norm.logpdf(y, mean, np.sqrt(variance)).mean()
    assert negative_log_likelihood(mean, variance, y) == pytest.approx(expected, rel=1e-12)


def test_the_metrics_reject_shapes_that_would_broadcast_and_variances_that_are_not_positive():
    with pytest.raises(
        ValueError, match=re.escape("mean and y must have the same shape (m,) with m ≥ 1, got mean (3,), y")
    ):
        rmse(np.ones(3), np.ones((3, 1)))
    with pytest.raises(ValueError, match=re.escape("got mean (0,), y (0,)")):
        rmse([], [])
    with pytest.raises(ValueError, match=re.escape("2 of 3 variances are not positive, the first in row 1: 0; ")):
        negative_log_likelihood(np.ones(3), [1.0, 0.0, math.nan], np.ones(3))


def test_a_covariance_by_float32_solves_is_float64():
    posterior = Posterior(
        torch.rand(30, 1).double() + 1e5, torch.zeros(30), Hyperparameters("rbf", (0.3,), 1.0, 0.1), dtype=torch.float32
    )
    z = torch.linspace(0, 1, 7).double()[:, None] + 1e5
    covariance = posterior.covariance(z)
    assert covariance.dtype == torch.float64
    torch.testing.assert_close(covariance.diagonal(), posterior.variance(z))


def test_noises_of_the_training_rows_are_those_of_the_exact_posterior():
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-1, 1, (200, 1)), rng.uniform(-1, 1, (30, 1))
    y, noises = rng.standard_normal(200), 10 ** rng.uniform(-3, 0, 200)
    h = Hyperparameters("rbf", lengthscale=(0.3,), outputscale=2.0, noise=0.5, mean=0.7)

    def k(a, b):
        return 2.0 * np.exp(-0.5 * ((a - b.T) / 0.3) ** 2)

    inverse = np.linalg.inv(k(x, x) + np.diag(noises))
    mean = 0.7 + k(z, x) @ inverse @ (y - 0.7)
    covariance = k(z, z) - k(z, x) @ inverse @ k(x, z)
    for solver in (apviz.Automatic(tol=1e-10), apviz.ConjugateGradient(tol=1e-10)):
        posterior = Posterior(x, y, h, solver, noises=noises, device=DEVICE)
        np.testing.assert_allclose(posterior.mean(z), mean, atol=1e-6)
        np.testing.assert_allclose(posterior.covariance(z), covariance, atol=1e-6)
        np.testing.assert_allclose(posterior.variance(z, include_noise=True), covariance.diagonal() + 0.5, atol=1e-6)
        truth = torch.from_numpy(covariance.diagonal().copy())
        loose = apviz.ConjugateGradient(tol=1e-2)
        crude = Posterior(x, y, h, solver, noises=noises, variance_solver=loose, device=DEVICE)
        found = crude.variance(z)
        excess = torch.cat([each.excess for each in crude.variance_solves])
        assert (found - truth >= -1e-9).all()
        assert (found - truth <= excess + 1e-9).all()
        assert (excess > 1e-9).any()
