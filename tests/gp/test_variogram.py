"""Variograms in the words of GSTools and PyKrige, against their published formulas and, if installed, themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import gamma, kv

import apviz
from apviz.gp import Variogram
from apviz.kernels import Transformed

H = np.array([1.0, 40.0, 150.0, 400.0])


def matern(r, nu):
    return 2 ** (1 - nu) / gamma(nu) * r**nu * kv(nu, r)


#: correlations of range L at distance h, as the documentation of the packages writes them
FORMULAS = {
    ("gstools", "exponential", None): lambda h, length: np.exp(-h / length),
    ("gstools", "gaussian", None): lambda h, length: np.exp(-((math.sqrt(math.pi) / 2 * h / length) ** 2)),
    **{
        ("gstools", "matern", nu): lambda h, length, nu=nu: matern(math.sqrt(nu) * h / length, nu)
        for nu in (0.5, 1.5, 2.5)
    },
    ("pykrige", "exponential", None): lambda h, length: np.exp(-h / (length / 3)),
    ("pykrige", "gaussian", None): lambda h, length: np.exp(-(h**2) / (length * 4 / 7) ** 2),
    **{
        (name, "spherical", None): lambda h, length: np.where(
            h < length, 1 - 1.5 * h / length + (h / length) ** 3 / 2, 0
        )
        for name in ("gstools", "pykrige")
    },
}


@pytest.mark.parametrize(("convention", "model", "nu"), FORMULAS)
def test_it_is_the_formula_of_its_package(convention, model, nu):
    ours = Variogram(model, sill=2.0, range=120.0, nugget=0.3, nu=nu, convention=convention)
    expected = 0.3 + 1.7 * (1 - FORMULAS[convention, model, nu](H, 120.0))
    np.testing.assert_allclose(ours(H), expected, rtol=1e-12)


@pytest.mark.parametrize(("model", "nu"), [("exponential", None), ("gaussian", None), ("matern", 1.5), ("matern", 2.5)])
def test_at_the_effective_range_95_per_cent_of_the_partial_sill_are_reached(model, nu):
    ours = Variogram(model, sill=2.0, range=120.0, nugget=0.3, nu=nu, convention="effective")
    assert ours(120.0) == pytest.approx(0.3 + 0.95 * 1.7, rel=1e-12)


@pytest.mark.parametrize("to", ["gstools", "effective", "pykrige"])
@pytest.mark.parametrize(("convention", "model", "nu"), FORMULAS)
def test_another_convention_changes_the_numbers_and_not_the_variogram(convention, model, nu, to):
    ours = Variogram(model, sill=2.0, range=120.0, nu=nu, convention=convention, anis=(0.5, 3.0), angles=(0.3, -1, 2))
    if to == "pykrige" and nu in (1.5, 2.5):
        with pytest.raises(ValueError, match="PyKrige has exponential, gaussian, spherical, but no matern model"):
            ours.in_convention(to)
        return
    other = ours.in_convention(to)
    np.testing.assert_allclose(other(H), ours(H), rtol=1e-12)
    np.testing.assert_allclose(other.rotation, ours.rotation, atol=1e-14)
    assert other.kernel.kernel.lengthscale == pytest.approx(ours.kernel.kernel.lengthscale, rel=1e-12)


@pytest.mark.parametrize("angles", [(0.6,), (-2.9,), (0.3, -1.0, 2.0), (0.3, math.pi / 2, 0.0)])
def test_hyperparameters_are_read_back_in_the_same_words(angles):
    anis = (0.4, 2.0)[: 1 if len(angles) == 1 else 2]
    ours = Variogram("gaussian", sill=2.0, range=120.0, nugget=0.3, convention="gstools", anis=anis, angles=angles)
    scaling = apviz.gp.Scaling(np.arange(1.0, 2.0 + len(anis)), np.array([3.0, 70.0, 0.5])[: 1 + len(anis)], 5.0, 2.0)
    raw = scaling.to_raw(scaling.to_scaled(ours.hyperparameters(mean=4.0)))
    for h in (ours.hyperparameters(), raw):
        found = Variogram.of(h, convention="gstools")
        assert (found.range, found.sill, found.nugget) == pytest.approx((120.0, 2.0, 0.3), rel=1e-12)
        assert found.anis == pytest.approx(anis, rel=1e-12)
        assert found.angles == pytest.approx(angles, abs=1e-7)
    assert raw.mean == pytest.approx(4.0)


def test_the_first_axis_points_where_the_angle_says_and_the_second_has_the_ratio():
    ours = Variogram(
        "exponential", sill=1.0, range=300.0, nugget=0.1, convention="effective", anis=0.25, angles=math.degrees(0.5)
    )
    first, second = np.array([math.cos(0.5), math.sin(0.5)]), np.array([-math.sin(0.5), math.cos(0.5)])
    x = torch.from_numpy(np.stack([0 * first, 300 * first, 75 * second]))
    np.testing.assert_allclose(ours.kernel(x)[0, 1:].numpy(), 0.9 * 0.05, rtol=1e-9)


def test_equal_ranges_need_no_rotation_and_unrotated_axes_no_matrix():
    plain = {"sill": 1.0, "range": 2.0, "convention": "gstools"}
    assert Variogram("gaussian", anis=1.0, angles=0.3, **plain).kernel == Variogram("gaussian", **plain).kernel
    assert not isinstance(Variogram("gaussian", anis=0.5, **plain).kernel, Transformed)


def test_a_string_names_the_numbers_as_the_package_does():
    ours = Variogram("matern", sill=2.0, range=120.0, nugget=0.5, nu=2.5, convention="gstools", anis=0.5, angles=0.25)
    assert str(ours) == "Matern, nu = 2.5, var = 1.5, len_scale = 120, nugget = 0.5, anis = 0.5, angles = 0.25"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "circular"}, "model must be one of exponential, gaussian, matern, spherical, got 'circular'"),
        ({"convention": "gslib"}, "convention must be one of gstools, pykrige, effective"),
        ({"nugget": 2.0}, "sill must be a number above the nugget of 2: it includes it"),
        ({"nugget": -0.1}, "nugget must be at least 0"),
        ({"range": 0.0}, "range must be finite and positive"),
        ({"nu": 1.5}, "nu of the model exponential must be None"),
        ({"model": "matern", "nu": 1.0}, "nu of the model matern must be one of 0.5, 1.5, 2.5"),
        ({"angles": 0.3}, "0 anisotropy ratios take no angles"),
        ({"anis": (1.0, 2.0), "angles": 0.3}, "2 anisotropy ratios take three angles"),
    ],
)
def test_what_has_no_meaning_is_refused(change, words):
    good = {"model": "exponential", "sill": 2.0, "range": 1.0, "convention": "gstools"}
    with pytest.raises(ValueError, match=words):
        Variogram(**(good | change))


def test_kernels_that_no_variogram_here_has_are_refused():
    for kernel in (apviz.RBF() + apviz.Linear(), apviz.RationalQuadratic(), Transformed(apviz.RBF(), [[1, 0], [1, 1]])):
        with pytest.raises(ValueError, match="a variogram needs"):
            Variogram.of(apviz.Hyperparameters.of(kernel, noise=0.1), convention="gstools")


def test_a_nugget_of_0_has_no_hyperparameters():
    with pytest.raises(ValueError, match=r"nugget must be positive, got 0.* such as 2e-06"):
        Variogram("gaussian", sill=2.0, range=1.0, convention="gstools").hyperparameters()


@pytest.mark.parametrize("name", ["Exponential", "Gaussian", "Matern", "Spherical"])
def test_models_of_gstools_are_read(name):
    gstools = pytest.importorskip("gstools")
    shape = {"nu": 2.5} if name == "Matern" else {}
    model = getattr(gstools, name)(
        dim=3, var=1.7, len_scale=120.0, nugget=0.3, anis=[0.5, 0.2], angles=[0.3, -1, 2], rescale=1.3, **shape
    )
    ours = Variogram.from_gstools(model)
    np.testing.assert_allclose(ours(H), model.variogram(H), rtol=1e-10)
    x = np.random.default_rng(0).normal(size=(20, 3)) * 100
    expected = model.cov_spatial(x.T)
    found = ours.kernel(torch.from_numpy(x), torch.zeros(1, 3, dtype=torch.float64))[:, 0]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)
