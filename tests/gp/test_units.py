"""The model is the one the user wrote: in raw units without scaling, and in scaled units after conversion."""

from __future__ import annotations

import warnings
from functools import reduce

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import apviz
from apviz.gp import Scaling
from tests.device import DEVICE

EXACT = {"solver": apviz.Cholesky(tol=1e-8), "dtype": "float64", "device": DEVICE}
CASES = 40


# --- kernels of apviz, and their formulas in NumPy on raw numbers -----------------------------------------------------


def distance(x, z, lengthscale):
    return np.sqrt((((x[:, None] - z[None]) / np.asarray(lengthscale)) ** 2).sum(-1))


MATERN = {
    "Matern12": lambda r: np.exp(-r),
    "Matern32": lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
    "Matern52": lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r),
    "RBF": lambda r: np.exp(-(r**2) / 2),
}


def leaf(kind, rng, span, largest):
    """Return a kernel and its formula; lengthscales are about the span of each column, or its largest value."""
    d, scale = len(span), float(rng.uniform(0.3, 3))
    several = rng.integers(2) or (d > 1 and span.max() > 10 * span.min())
    lengthscale = span * rng.uniform(0.3, 2, d) if several else float(span[0] * rng.uniform(0.3, 2))
    if kind in MATERN:
        made = getattr(apviz, kind)(lengthscale=lengthscale, outputscale=scale)
        return made, lambda x, z: scale * MATERN[kind](distance(x, z, lengthscale))
    if kind == "RationalQuadratic":
        made = apviz.RationalQuadratic(lengthscale=lengthscale, alpha=0.7, outputscale=scale)
        return made, lambda x, z: scale * (1 + distance(x, z, lengthscale) ** 2 / 1.4) ** -0.7
    if kind == "PiecewisePolynomial":
        made = apviz.PiecewisePolynomial(q=0, lengthscale=lengthscale, outputscale=scale)
        return made, lambda x, z: scale * np.maximum(1 - distance(x, z, lengthscale), 0) ** (d // 2 + 1)
    if kind == "Periodic":
        made = apviz.Periodic(lengthscale=0.8, period=lengthscale, outputscale=scale)
        return (
            made,
            lambda x, z: (
                scale * np.exp(-2 * (np.sin(np.pi * (x[:, None] - z[None]) / lengthscale) ** 2 / 0.64).sum(-1))
            ),
        )
    if kind == "SpectralMixture":
        means, scales = 0.7 / span, 0.3 / span
        made = apviz.SpectralMixture(weights=[scale], means=[means.tolist()], scales=[scales.tolist()])

        def mixture(x, z):
            delta = x[:, None] - z[None]
            return scale * np.prod(
                np.exp(-2 * np.pi**2 * delta**2 * scales**2) * np.cos(2 * np.pi * delta * means), axis=-1
            )

        return made, mixture
    if kind in ("Linear", "Polynomial"):
        lengthscale = largest * rng.uniform(0.5, 2, d)
        if kind == "Linear":
            made = apviz.Linear(lengthscale=lengthscale, outputscale=scale)
            return made, lambda x, z: scale * (x / lengthscale) @ (z / lengthscale).T
        made = apviz.Polynomial(degree=3, lengthscale=lengthscale, offset=0.6, outputscale=scale)
        return made, lambda x, z: scale * ((x / lengthscale) @ (z / lengthscale).T + 0.6) ** 3
    if kind == "White":
        made = apviz.White(outputscale=scale)
        return made, lambda x, z: scale * (x[:, None] == z[None]).all(-1)
    assert kind == "Constant"
    return apviz.Constant(outputscale=scale), lambda x, z: np.full((len(x), len(z)), scale)


KINDS = [
    *MATERN, "RationalQuadratic", "PiecewisePolynomial", "Periodic", "SpectralMixture", "Linear", "Polynomial", "White",
    "Constant",
]  # fmt: skip
#: kernels that depend on the position of zero
OF_PLACE = {"Linear", "Polynomial"}


def term(rng, x):
    """Return a leaf on some columns, its formula, the columns, and its kind."""
    columns = sorted(rng.choice(x.shape[1], size=rng.integers(1, x.shape[1] + 1), replace=False).tolist())
    kind, part = str(rng.choice(KINDS)), x[:, columns]
    span = np.where(np.ptp(part, axis=0) > 0, np.ptp(part, axis=0), 1.0)
    made, formula = leaf(kind, rng, span, np.abs(part).max(0) + (part == 0).all(0))
    return made.on(columns), lambda a, b: formula(a[:, columns], b[:, columns]), columns, kind


def case(seed):
    """Return a random sum of products, and data in any units."""
    rng = np.random.default_rng(seed)
    n, d = 24, int(rng.integers(1, 4))
    units = 10.0 ** rng.uniform(-6, 6, d)
    x = rng.uniform(-1, 1, (n, d))
    x[0], x[1] = -1, 1  # so that the centre is 0
    x[3] = x[2]
    offset = units * rng.choice([0.0, 0.0, 3.0, -1e3, 1e5], d)
    x = x * units + offset
    if seed % 6 == 0:
        x[:, 0] = offset[0]
    unit = 10.0 ** rng.uniform(-5, 5)
    y = unit * (rng.standard_normal(n) + rng.choice([0.0, 5.0, -100.0]))
    sums, seen = [], []
    for _ in range(rng.integers(1, 3)):
        factors = [term(rng, x) for _ in range(rng.integers(1, 3))]
        seen += [(columns, kind) for *_, columns, kind in factors]
        sums.append((
            reduce(lambda a, b: a * b, [made for made, *_ in factors]),
            lambda a, b, factors=factors: np.prod([formula(a, b) for _, formula, *_ in factors], axis=0),
        ))  # fmt: skip
    kernel = float(unit**2) * reduce(lambda a, b: a + b, [made for made, _ in sums])
    z = x[:6] + 0.1 * np.ptp(x, axis=0) * rng.uniform(-1, 1, (6, d))
    z[0] = x[0]
    h = apviz.Hyperparameters.of(kernel, 0.05 * unit**2, float(y.mean() + 0.3 * unit))
    return x, y, z, h, lambda a, b: unit**2 * sum(formula(a, b) for _, formula in sums), seen


def dense(x, y, z, h, k):
    """Return mean, deviation of f, and log likelihood on the raw numbers."""
    factor = np.linalg.cholesky(k(x, x) + h.noise * np.eye(len(x)))
    white, c = np.linalg.solve(factor, y - h.mean), np.linalg.solve(factor, k(x, z))
    variance = np.diag(k(z, z)) - (c**2).sum(0)
    nats = -0.5 * white @ white - np.log(np.diag(factor)).sum() - 0.5 * len(x) * np.log(2 * np.pi)
    return h.mean + c.T @ white, np.sqrt(variance.clip(0)), nats


def assert_same_model(gp, z, expected, unit):
    mean, std = gp.predict(z, return_std=True, include_noise=False)
    np.testing.assert_allclose(mean, expected[0], atol=1e-7 * unit, rtol=1e-9)
    np.testing.assert_allclose(std, expected[1], atol=1e-4 * unit)  # a square root near 0 amplifies rounding
    assert gp.log_marginal_likelihood() == pytest.approx(expected[2], abs=1e-5, rel=1e-8)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_kernel_agrees_with_dense_algebra_in_raw_units_and_after_conversion_to_scaled_ones(seed):
    x, y, z, h, k, seen = case(seed)
    expected, unit = dense(x, y, z, h, k), np.sqrt(h.noise / 0.05)
    assert_same_model(apviz.GaussianProcess(hyperparameters=h, scale=False, **EXACT).fit(x, y), z, expected, unit)
    scaling = Scaling.of(x, y)
    centred, constant = scaling.centre != 0, scaling.half_width == 0
    kinds_of = [kind for columns, kind in seen if kind in OF_PLACE and centred[columns].any()]
    ignored = [kind for columns, kind in seen if constant[columns].any() and kind not in ("White", "Constant")]
    if kinds_of or ignored:
        with pytest.raises(ValueError, match=r"depends on the origin of its inputs|does not vary in the training rows"):
            scaling.to_scaled(h)
        return
    converted = scaling.to_scaled(h)
    assert_same_model(apviz.GaussianProcess(hyperparameters=converted, **EXACT).fit(x, y), z, expected, unit)
    back = scaling.to_raw(converted)
    expected_numbers = [h.noise, h.mean, *h.build_kernel()(torch.tensor(x)).flatten().tolist()]
    found = [back.noise, back.mean, *back.build_kernel()(torch.tensor(x)).flatten().tolist()]
    np.testing.assert_allclose(found, expected_numbers, rtol=1e-9, atol=1e-9 * unit**2)


def test_the_random_cases_include_every_kind_of_kernel():
    assert {kind for seed in range(CASES) for _, kind in case(seed)[-1]} == set(KINDS)


@pytest.mark.parametrize("operator", ["dense", "tiled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_engines_compute_entries_in_raw_units_to_rounding_accuracy(operator, dtype):
    for seed in range(CASES):
        x, y, _, h, k, _ = case(seed)
        system = apviz.KernelSystem(
            x, y, h.build_kernel(), noise=h.noise, operator=operator, dtype=dtype, device=DEVICE
        )
        expected = k(x, x) + h.noise * np.eye(len(x))
        found = system.operator.matmul(torch.eye(len(x), dtype=dtype, device=DEVICE)).numpy()
        np.testing.assert_allclose(found, expected, atol=20 * torch.finfo(dtype).eps * np.abs(expected).max())


# --- kernels that cannot be converted ---------------------------------------------------------------------------------


class Warped(apviz.RBF):
    """A user's kernel: RBF of the logarithm of its inputs."""

    def embed(self, x, centre, values):
        return x.log() / values["lengthscale"]


def test_a_kernel_with_custom_features_is_accepted_in_raw_units_only():
    rng = np.random.default_rng(0)
    x = 1e6 * rng.uniform(1, 9, (20, 1))
    y, kernel = np.sin(x[:, 0] / 1e6), Warped(lengthscale=1.5)
    h = apviz.Hyperparameters.of(kernel, 0.01)
    expected = dense(x, y, x, h, lambda a, b: np.exp(-((np.log(a) - np.log(b).T) ** 2) / 1.5**2))
    assert_same_model(apviz.GaussianProcess(hyperparameters=h, scale=False, **EXACT).fit(x, y), x, expected, 1.0)
    with pytest.raises(ValueError, match=r"needs inputs in their own units.* use scale=False"):
        apviz.GaussianProcess(kernel, device=DEVICE).fit(x, y)


def test_groups_are_never_scaled():
    x = np.column_stack([np.linspace(0, 1, 20), np.full(20, 1.0)])
    kernel = apviz.RBF().on(0) * apviz.Groups(factor=[1.0, 2.0], variances=[0.1, 0.1]).on(1)
    with pytest.raises(ValueError, match=r"Groups\(.*\) needs inputs in their own units.* use scale=False"):
        apviz.GaussianProcess(kernel, device=DEVICE).fit(x, x[:, 0])
    h = apviz.Hyperparameters.of(kernel, 0.1)
    gp = apviz.GaussianProcess(hyperparameters=h, scale=False, **EXACT).fit(x, x[:, 0])
    expected = dense(x, x[:, 0], x, h, lambda a, b: 4.1 * np.exp(-((a[:, :1] - b[:, :1].T) ** 2) / 2))
    assert_same_model(gp, x, expected, 1.0)


def test_one_lengthscale_stays_one_if_all_units_are_equal():
    assert apviz.RBF(lengthscale=3.0).rescaled([1.0, 5.0], [2.0, 2.0]) == apviz.RBF(lengthscale=1.5)
    assert apviz.RBF(lengthscale=3.0).rescaled([1.0, 5.0], [2.0, 3.0]) == apviz.RBF(lengthscale=(1.5, 1.0))
    with pytest.raises(ValueError, match="3 lengthscales were given for inputs with 2 columns"):
        apviz.RBF(lengthscale=(1.0, 2.0, 3.0)).rescaled([0.0, 0.0], [2.0, 2.0])


# --- far from zero, in float32 ----------------------------------------------------------------------------------------


def test_inputs_far_from_zero_keep_their_differences_in_float32_and_through_a_file(tmp_path):
    rng = np.random.default_rng(0)
    x = 1.7e9 + np.sort(rng.uniform(0, 100, 60))[:, None]  # seconds; float32 resolves 128 of them
    y, z = np.sin(x[:, 0] / 8), x[:9] + 0.3
    h = apviz.Hyperparameters.of(apviz.Matern32(lengthscale=10.0) + apviz.White(outputscale=1e-3), 1e-3)
    settings = {"solver": apviz.Cholesky(tol=1e-4), "scale": False, "dtype": "float32", "device": DEVICE}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = apviz.GaussianProcess(hyperparameters=h, **settings).fit(x, y)
    expected = dense(x, y, z, h, lambda a, b: MATERN["Matern32"](distance(a, b, 10.0)) + 1e-3 * (a == b.T))
    gp.save(tmp_path / "gp.npz")
    for each in (gp, apviz.GaussianProcess.load(tmp_path / "gp.npz", device=DEVICE)):
        assert each.posterior_.system.dtype is torch.float32
        np.testing.assert_allclose(each.predict(z), expected[0], atol=1e-3)
        assert each.log_marginal_likelihood() == pytest.approx(expected[2], abs=1e-6)


def test_a_checkpoint_distinguishes_data_that_are_equal_in_float32(tmp_path):
    x = np.linspace(0, 20, 30)[:, None]
    how = {"scale": False, "dtype": "float32", "optimiser": "adam", "max_steps": 1, "device": DEVICE}
    with pytest.warns(ConvergenceWarning):
        apviz.GaussianProcess("rbf", path=tmp_path / "t.zarr", **how).fit(1e9 + x, np.sin(x[:, 0]))
    with pytest.raises(ValueError, match="belongs to another training: data was"):
        apviz.GaussianProcess("rbf", path=tmp_path / "t.zarr", **how).fit(1e9 + 2 * x, np.sin(x[:, 0]))
