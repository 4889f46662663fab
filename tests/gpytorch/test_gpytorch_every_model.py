"""The models of GPyTorch's notebooks and issues, as `benchmarks.models` has them, against Cholesky in float64."""

from __future__ import annotations

import pytest

import apviz
from benchmarks.models import MODELS, distances

REFUSED = {"SGPR (inducing points)": "an approximation of low rank, which GPyTorch itself solves fast"}
# GPyTorch computes parts of these in float32, or distances with rounding that shows
ROUGH = {"KISS-GP (grid interpolation)": 1e-4, "additive, Newton–Girard": 1e-5, "Matérn-1/2": 1e-6}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in MODELS if name not in REFUSED])
def test_value_gradients_and_predictions_are_choleskys(name):
    found = distances(MODELS[name], apviz.Automatic(tol=1e-10))
    assert max(found.values()) < ROUGH.get(name, 1e-9), found


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name):
    with pytest.raises(TypeError, match=REFUSED[name]):
        distances(MODELS[name], apviz.Automatic())
