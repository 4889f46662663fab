"""Odd values for the parameters of kernels are rejected with their names."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz

ODD = [10**400, np.array([]), "a", None, {"a": 1}, object(), 1 + 2j, float("nan"), [float("inf")]]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["lengthscale", "outputscale"])
def test_scales_that_are_not_positive_are_rejected_by_name(name, odd):
    with pytest.raises(ValueError, match=f"{name} must be"):
        apviz.RBF(**{name: odd})


@pytest.mark.parametrize("odd", ["meta", torch.tensor(0.5), [1.5], None, [0, 0], []])
def test_invalid_columns_are_rejected_by_name(odd):
    with pytest.raises(ValueError, match="columns must be different whole numbers from 0"):
        apviz.RBF().on(odd)


@pytest.mark.parametrize("name", ["weights", "means", "scales"])
@pytest.mark.parametrize("odd", [["a"], None, [], np.zeros(0)])
def test_invalid_parts_of_a_spectrum_are_rejected_by_name(name, odd):
    good = {"weights": [1.0], "means": [[0.5]], "scales": [[1.0]]}
    with pytest.raises(ValueError, match=name):
        apviz.SpectralMixture(**good | {name: odd})


@pytest.mark.parametrize("name", ["factor", "variances"])
def test_invalid_parameters_of_groups_are_rejected_by_name(name):
    with pytest.raises(ValueError, match=f"{name} must be numbers"):
        apviz.Groups(**{"factor": [[1.0], [0.5]], "variances": [0.1, 0.1]} | {name: ["a"]})


def test_a_degree_may_be_an_integer_valued_float_and_nothing_else():
    assert apviz.Polynomial(degree=2.0) == apviz.Polynomial(degree=2)
    for odd in (np.array([]), "2", 2.5, None):
        with pytest.raises(ValueError, match="degree must be a whole number"):
            apviz.Polynomial(degree=odd)
