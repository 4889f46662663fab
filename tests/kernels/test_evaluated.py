"""Kernels from user code work like built-in ones in every tile, sum and product, with derivatives by autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.kernels import Evaluated, to_plain
from apviz.operators import derivatives
from apviz.spectrum import spectrum
from tests.device import DEVICE

X = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (70, 2)))


def entries(x, z, values):
    distance = ((x[:, None] - z[None]) / values["scale"]).square().sum(-1)
    return values["height"] * torch.exp(-0.5 * distance)


RBF = Evaluated(entries, {"scale": (0.4, 0.7), "height": (1.5,)}, {"scale": (2,), "height": ()}, "Theirs")
OWN = apviz.RBF(lengthscale=(0.4, 0.7), outputscale=1.5)
PAIRS = {
    "alone": (RBF, OWN),
    "in a sum": (RBF + apviz.Linear(), OWN + apviz.Linear()),
    "in a product, scaled, of some columns": (
        3.0 * RBF.on([1, 0]) * apviz.Matern32(lengthscale=0.5),
        3.0 * OWN.on([1, 0]) * apviz.Matern32(lengthscale=0.5),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_entries_products_and_diagonal_equal_those_of_the_built_in_kernel(name):
    theirs, own = PAIRS[name]
    torch.testing.assert_close(theirs(X), own(X))
    a, b = (apviz.operators.make_operator("tiled", X, kernel, 0.1) for kernel in (theirs, own))
    v = torch.randn(70, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(a.matmul(v), b.matmul(v))
    torch.testing.assert_close(a.diagonal(), b.diagonal())
    torch.testing.assert_close(a.cross_columns(X[:5] + 0.1), b.cross_columns(X[:5] + 0.1))
    assert theirs.is_evaluated
    assert not own.is_evaluated


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_in_parameters_and_inputs_equal_those_of_the_built_in_kernel(name):
    theirs, own = (apviz.operators.make_operator("tiled", X, kernel, 0.1) for kernel in PAIRS[name])
    a, b = (torch.randn(70, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    found, expected = (each.bilinear_derivatives(a, b, with_inputs=True) for each in (theirs, own))
    torch.testing.assert_close(found.inputs, expected.inputs)
    scales = [value for key, value in found.kernel.items() if key.endswith("scale") and len(value) == 2]
    assert len(scales) == 1
    of_own = [value for key, value in expected.kernel.items() if key.endswith("lengthscale") and len(value) == 2]
    torch.testing.assert_close(scales[0], of_own[0])
    z, m = X[:6] + 0.05, torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    of_z = [each.cross_derivatives(z, b[:6], b).z for each in (theirs, own)]
    torch.testing.assert_close(*of_z)
    torch.testing.assert_close(*(each.prior_derivatives(z, m + m.T).z for each in (theirs, own)))


@pytest.mark.parametrize("solver", [apviz.Automatic(tol=1e-8), apviz.ConjugateGradient(tol=1e-8)])
def test_systems_of_it_are_solved_and_its_spectrum_is_bounded(solver):
    y = torch.sin(3 * X[:, 0])
    systems = [apviz.KernelSystem(X, y, kernel, noise=0.1, device=DEVICE) for kernel in (RBF, OWN)]
    torch.testing.assert_close(*(apviz.solve(each, solver).weights for each in systems), rtol=1e-5, atol=1e-5)
    largest = torch.linalg.eigvalsh(OWN(X))[-1] + 0.1
    for method in ("exact", "lanczos", "subsample"):
        assert spectrum(systems[0], (), method).lambda_max.bound >= largest - 1e-8


def test_it_is_equal_if_function_and_parameters_are_and_cannot_be_saved():
    assert Evaluated(entries, dict(RBF.parameters), dict(RBF.shapes), "Theirs") == RBF
    other = RBF.with_hyperparameters({"height": 2.0})
    assert other != RBF
    assert other.hyperparameters == {"scale": (0.4, 0.7), "height": (2.0,)}
    assert repr(RBF + OWN).startswith("Theirs + RBF(")
    with pytest.raises(ValueError, match="a kernel of the class Evaluated cannot be saved"):
        to_plain(RBF)
    with pytest.raises(ValueError, match="Theirs has no hyperparameter width; it has scale, height"):
        RBF.with_hyperparameters({"width": 1.0})
    with pytest.raises(ValueError, match="parameters and shapes must have the same names"):
        Evaluated(entries, {"scale": (1.0,)}, {}, "Theirs")


def test_the_compiled_engine_is_not_used_for_it():
    operator = apviz.operators.make_operator("tiled", X, RBF, 0.1)
    operator.prepare()
    assert operator.engine == "in-place torch tiles, direct differences"


def test_a_trace_names_it():
    recorder = apviz.Recorder()
    apviz.solve(apviz.KernelSystem(X, X[:, 0], RBF, noise=0.1, device=DEVICE), apviz.Automatic(), [recorder])
    assert recorder.trace.attrs["kernel"] == "Theirs"


def shortcut(looks_equal):
    """Return the same kernel by code that takes the features of the left side for the right one if they look equal."""

    def of(x, z, values):
        left = x / values["scale"]
        right = left if looks_equal(x, z) else z / values["scale"]
        return values["height"] * torch.exp(-0.5 * (left[:, None] - right[None]).square().sum(-1))

    return Evaluated(of, dict(RBF.parameters), dict(RBF.shapes), "Shortcut")


SHORTCUTS = {
    "equal": torch.equal,
    "one object": lambda x, z: x is z,
    "close": lambda x, z: x.shape == z.shape and torch.allclose(x, z, atol=0.1),
}
# the second tile of 35 rows repeats the first, and the third has rows of both, slightly shifted
TWICE = torch.cat([X[:35], X[:35], X[:35] + 1e-3])


@pytest.mark.parametrize("name", SHORTCUTS)
@pytest.mark.parametrize("tile", [1024, 35, 21])
def test_shortcuts_for_equal_sides_do_not_change_derivatives(name, tile, monkeypatch):
    monkeypatch.setattr(derivatives, "DERIVATIVE_TILE", tile)
    theirs, plain = (
        apviz.operators.make_operator("tiled", TWICE, kernel, 0.1) for kernel in (shortcut(SHORTCUTS[name]), OWN)
    )
    a, b = (torch.randn(105, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    found, expected = (each.bilinear_derivatives(a, b, with_inputs=True) for each in (theirs, plain))
    torch.testing.assert_close(found.inputs, expected.inputs)
    torch.testing.assert_close(found.kernel["scale"], expected.kernel["lengthscale"])
    m = torch.randn(105, 105, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(*(each.weighted_derivatives(m, True).inputs for each in (theirs, plain)))
    # test points equal to the training points
    found, expected = (each.cross_derivatives(TWICE.clone(), a, b) for each in (theirs, plain))
    torch.testing.assert_close(found.z, expected.z)
    torch.testing.assert_close(found.inputs, expected.inputs)
    torch.testing.assert_close(*(each.prior_derivatives(TWICE[:8], m[:8, :8]).z for each in (theirs, plain)))


@pytest.mark.parametrize("name", SHORTCUTS)
def test_shortcuts_do_not_change_first_and_second_derivatives_at_training_points(name):
    theirs, plain = (apviz.operators.make_operator("tiled", X, k, 0.1) for k in (shortcut(SHORTCUTS[name]), OWN))
    weights = torch.randn(70, 70, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for of in ("differentiable_columns", "differentiable_prior"):
        slopes = []
        for operator in (theirs, plain):
            z = X.clone().requires_grad_()
            (first,) = torch.autograd.grad((getattr(operator, of)(z) * weights).sum(), z, create_graph=True)
            slopes += [first, *torch.autograd.grad(first.square().sum(), z)]
        torch.testing.assert_close(slopes[:2], slopes[2:])
