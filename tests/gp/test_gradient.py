"""The gradient of the marginal likelihood against autograd through a dense Cholesky factor, in float64."""

from __future__ import annotations

import math

import pytest
import torch

import apviz
from apviz.gp.training.gradient import marginal_likelihood_gradient, step_system
from apviz.gp.training.probes import draw, rademacher
from apviz.kernels.formula import pairwise_distances
from apviz.operators import CountingOperator, make_operator, native
from apviz.partitions import PrincipalAxisTree

N, D, NOISE, SCALE, MEAN = 60, 3, 0.3, 1.7, 0.4
LENGTHSCALE = [0.5, 0.9, 1.3]
CORRELATIONS = {
    apviz.Matern12: lambda r: torch.exp(-r),
    apviz.Matern32: lambda r: (1 + math.sqrt(3) * r) * torch.exp(-math.sqrt(3) * r),
    apviz.Matern52: lambda r: (1 + math.sqrt(5) * r + 5 * r**2 / 3) * torch.exp(-math.sqrt(5) * r),
    apviz.RBF: lambda r: torch.exp(-(r**2) / 2),
    apviz.RationalQuadratic: lambda r: 1 / (1 + r**2 / 2),
}


def data(n=N):
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(n, D, generator=generator, dtype=torch.float64)
    return x, torch.sin(5 * x).sum(1) + 0.3 * torch.randn(n, generator=generator, dtype=torch.float64)


def dense_gradient(kind, lengthscale, x, y):
    """Return ∂ℓ/∂(mean, noise, outputscale, lengthscales) by autograd."""
    theta = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (MEAN, NOISE, SCALE, lengthscale)]
    mean, noise, scale, ell = theta
    gaps = ((x[:, None] - x[None]) / ell).square().sum(-1)
    # the square root has no derivative at distance 0, but the correlation on the diagonal is constant
    eye = torch.eye(len(x), dtype=torch.float64)
    k = scale * torch.where(eye > 0, 1.0, CORRELATIONS[kind]((gaps + eye).sqrt())) + noise * eye
    factor = torch.linalg.cholesky(k)
    white = torch.linalg.solve_triangular(factor, (y - mean)[:, None], upper=False)
    loss = 0.5 * white.square().sum() + factor.diagonal().log().sum()
    return [g.reshape(-1) for g in torch.autograd.grad(loss, theta)]


def estimated(kind, lengthscale, x, y, z, dual, compiled=False):
    operator = make_operator("tiled", x, kind(lengthscale=lengthscale, outputscale=SCALE), NOISE)
    if compiled:
        operator.prepare()
    else:
        operator.fix_engine(0.0, 1)
    k = kind(lengthscale=lengthscale, outputscale=SCALE)(x) + NOISE * torch.eye(len(x), dtype=torch.float64)
    weights = torch.linalg.solve(k, torch.cat([(y - MEAN)[:, None], z], dim=1))
    counting = CountingOperator(operator)
    g = marginal_likelihood_gradient(counting, weights, dual)
    assert counting.work == 1.0
    of_kernel = [g.kernel["outputscale"], g.kernel["lengthscale"]]
    return [torch.tensor([v], dtype=torch.float64) for v in (g.mean, g.noise)] + of_kernel


@pytest.mark.parametrize("compiled", [False, True], ids=["in-place tiles", "compiled"])
@pytest.mark.parametrize("lengthscale", [0.7, LENGTHSCALE], ids=["isotropic", "ARD"])
@pytest.mark.parametrize("kind", CORRELATIONS)
def test_with_the_n_scaled_unit_vectors_as_probes_the_gradient_is_exact(kind, lengthscale, compiled):
    x, y = data()
    probes = math.sqrt(N) * torch.eye(N, dtype=torch.float64)
    for found, exact in zip(
        estimated(kind, lengthscale, x, y, probes, probes, compiled), dense_gradient(kind, lengthscale, x, y),
        strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-9)


def test_the_exact_gradient_holds_over_many_tiles():
    """n exceeds a tile, a group of rows and a vector of columns, and is a multiple of none."""
    x, _ = data(1100)
    w = torch.randn(1100, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    k = apviz.Matern52(lengthscale=LENGTHSCALE, outputscale=SCALE)
    results = []
    for compiled in (True, False):
        operator = make_operator("tiled", x, k, NOISE)
        operator.prepare() if compiled else operator.fix_engine(0.0, 1)
        results.append(operator.bilinear_derivatives(w, w))
    ell = torch.tensor(LENGTHSCALE, dtype=torch.float64, requires_grad=True)
    gaps = ((x[:, None] - x[None]) / ell).square().sum(-1)
    eye = torch.eye(1100, dtype=torch.float64)
    corr = torch.where(eye > 0, 1.0, CORRELATIONS[apviz.Matern52]((gaps + eye).sqrt()))
    (exact,) = torch.autograd.grad(((w.T @ (SCALE * corr)) * w.T).sum(), ell)
    for found in results:
        torch.testing.assert_close(found.kernel["lengthscale"], exact)
        torch.testing.assert_close(found.kernel["outputscale"][0], ((w.T @ corr.detach()) * w.T).sum())
        torch.testing.assert_close(found.noise, w.square().sum())


@pytest.mark.parametrize(
    "solver",
    [
        apviz.AlternatingProjection(block_size=20),
        apviz.ConjugateGradient(),
        apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=10)),
        apviz.ConjugateGradient(preconditioner=apviz.RandomlyPivotedCholesky(rank=10)),
        apviz.ConjugateGradient(
            preconditioner=apviz.TwoLevelSchwarz(
                block_size=20, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=10
            )
        ),
    ],
    ids=lambda s: s.method.name,
)
def test_the_estimate_is_unbiased_with_the_probes_of_every_solver(solver):
    """The mean of 40 estimates of 100 probes each is within four of its standard errors."""
    x, y = data()
    operator = CountingOperator(
        make_operator("dense", x, apviz.Matern52(lengthscale=LENGTHSCALE, outputscale=SCALE), NOISE)
    )
    estimates = []
    for seed in range(40):
        probes, _ = draw(solver, operator, 100, seed)
        estimates.append(torch.cat(estimated(apviz.Matern52, LENGTHSCALE, x, y, probes.z, probes.dual)))
    found = torch.stack(estimates)
    exact = torch.cat(dense_gradient(apviz.Matern52, LENGTHSCALE, x, y))
    error = found.std(0) / math.sqrt(len(found))
    assert ((found.mean(0) - exact).abs() <= 4 * error + 1e-9).all()


@pytest.mark.parametrize("name", ["dense", "tiled"])
def test_derivatives_weighted_by_a_matrix_equal_those_weighted_by_its_factors(name):
    x, _ = data()
    operator = CountingOperator(
        make_operator(name, x, apviz.Matern52(lengthscale=LENGTHSCALE, outputscale=SCALE), NOISE)
    )
    a, b = (torch.randn(len(x), 3, dtype=x.dtype, generator=torch.Generator().manual_seed(s)) for s in (0, 1))
    found, expected = operator.weighted_derivatives(a @ b.T), operator.bilinear_derivatives(a, b)
    torch.testing.assert_close(found.kernel, expected.kernel)
    torch.testing.assert_close(found.noise, expected.noise)
    assert operator.entries == 2 * len(x) ** 2
    with pytest.raises(ValueError, match="m must have shape"):
        operator.weighted_derivatives(a)
    with pytest.raises(ValueError, match="a and b must have the same shape"):
        operator.bilinear_derivatives(a, b[:, :2])


@pytest.mark.parametrize("kernel", [apviz.Matern52, apviz.RationalQuadratic])
def test_the_compiled_engine_differentiates_weighted_entries_as_torch_does(kernel):
    generator = torch.Generator().manual_seed(0)
    x, m = (torch.rand(37, width, dtype=torch.float64, generator=generator) for width in (3, 37))
    operator = make_operator("dense", x, kernel(lengthscale=LENGTHSCALE, outputscale=SCALE), NOISE)
    if not native.supports(operator.formula):
        pytest.skip("no C++ compiler on this machine")
    inputs = operator.inputs
    found = native.weighted_gradients(operator.formula, inputs, inputs, m + m.T)
    expected = operator.formula.gradients(inputs, inputs, m + m.T, pairwise_distances)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_probes_from_a_low_rank_preconditioner_have_its_covariance():
    """E[zzᵀ] = P, dual = P⁻¹z, and the solve gets the P they were drawn with, whose entries are counted once."""
    x, _ = data()
    operator = make_operator("dense", x, apviz.Matern52(lengthscale=LENGTHSCALE, outputscale=SCALE), NOISE)
    asked = apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=10))
    probes, prepared = draw(asked, operator, 40_000, seed=0)
    assert prepared.solver == asked
    built = prepared.preconditioner
    p = torch.linalg.inv(built(torch.eye(N, dtype=torch.float64)))
    covariance = probes.z @ probes.z.T / probes.z.shape[1]
    assert (covariance - p).norm() < 0.05 * p.norm()
    torch.testing.assert_close(p @ probes.dual, probes.z)
    assert prepared.cost.entries == 10 * N


def test_rademacher_probes_are_plus_and_minus_one_and_the_same_for_the_same_seed():
    x, _ = data()
    first, again, other = (rademacher(N, 7, seed, x).z for seed in (1, 1, 2))
    assert set(first.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_gradient_without_probes_is_rejected():
    x, y = data()
    operator = CountingOperator(make_operator("dense", x, apviz.Matern52(lengthscale=1.0), NOISE))
    with pytest.raises(ValueError, match=r"dual \(n, l\) with p, l ≥ 1, got \(60, 1\) and \(60, 0\)"):
        marginal_likelihood_gradient(operator, y[:, None], y[:, None][:, :0])


def test_one_probe_is_enough_and_zero_probes_are_rejected():
    x, y = data(12)
    operator = CountingOperator(make_operator("dense", x, apviz.RBF(lengthscale=0.5), NOISE))
    z = rademacher(12, 1, 0, x).z
    assert marginal_likelihood_gradient(operator, torch.stack([y, y], 1), z).kernel["lengthscale"].shape == (1,)
    with pytest.raises(ValueError, match="with p, l ≥ 1"):
        marginal_likelihood_gradient(operator, y[:, None], z[:, :0])


def test_the_derivative_with_respect_to_the_mean_is_summed_in_float64():
    x = torch.linspace(0, 1, 3)
    operator = CountingOperator(make_operator("dense", x[:, None], apviz.RBF(lengthscale=0.5), NOISE))
    w = torch.tensor([1e8, 1.0, -1e8])
    assert marginal_likelihood_gradient(operator, torch.stack([w, w], 1), w[:, None]).mean == -1.0


@pytest.mark.parametrize("estimator", ["standard", "pathwise"])
@pytest.mark.parametrize("name", ["projections", "preconditioned"])
def test_the_right_hand_sides_of_a_step_are_the_centred_targets_and_the_probes(name, estimator):
    x, y = data()
    h = apviz.Hyperparameters("matern52", tuple(LENGTHSCALE), SCALE, NOISE, mean=MEAN)
    solver = apviz.AlternatingProjection(block_size=20)
    if name == "preconditioned":
        solver = apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=10))
    step = step_system(
        x, y, h, solver, 5, 7, operator="tiled", dataset="made", dtype=torch.float32, estimator=estimator
    )
    s = step.system
    torch.testing.assert_close(s.b[:, 0], (y - MEAN).float())
    torch.testing.assert_close(s.b[:, 1:], step.probes.z.float())
    assert (s.kernel, s.noise, s.dataset, s.seed) == (h.build_kernel(), NOISE, "made", 7)
    assert s.dtype is s.operator.x.dtype is torch.float32 and s.operator.name == "tiled" and s.device == x.device
    # probes drawn from a preconditioner come with its set-up, which is used again
    assert (step.prepared is not None) == (name == "preconditioned" and estimator == "standard")
    assert (step.probes.dual is None) == (estimator == "pathwise")
    if (name, estimator) == ("projections", "standard"):
        assert torch.equal(step.probes.z, rademacher(N, 5, 7, s.x).z)
    elif estimator == "pathwise":
        again = step_system(x, y, h, solver, 5, 8, operator="tiled", dtype=torch.float32, estimator=estimator)
        assert not torch.equal(again.probes.z, step.probes.z)
    of_x = step_system(x, y, h, solver, 5, 7)
    assert of_x.system.dtype is torch.float64 and of_x.system.operator.name == "dense" and of_x.system.dataset == ""
