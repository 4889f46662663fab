"""The photograph of the notebooks, as dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

import apviz
from apviz.rkhs import blocks_of
from tests.notebooks.statements import TWO, matern52


@pytest.fixture(scope="module")
def picture(pixels):
    """K of the 400 pixels, their grey values, and eight blocks of 50, scattered and neighbours."""
    x, h = pixels
    data = apviz.datasets.load("china", n=1000, seed=0)
    K = matern52(x, h.lengthscale, h.outputscale) + h.noise * np.eye(len(x))
    span = apviz.rkhs.Span(x, h.build_kernel(), h.noise)
    blocks = {partition: [list(block) for block in blocks_of(span, 50, partition)] for partition in TWO}
    return K, (data.train_y[:400].double() - h.mean).numpy(), blocks


@pytest.fixture(scope="module")
def pixels():
    """Inputs of the photograph in float64, and its hyperparameters."""
    data = apviz.datasets.load("china", n=1000, seed=0)
    return data.train_x[:400].double().numpy(), data.card.hyperparameters


@pytest.fixture(scope="module")
def photograph():
    """K of the 1,000 pixels of notebook 04, and their hyperparameters."""
    data = apviz.datasets.load("china", n=1000, seed=0)
    h = data.card.hyperparameters
    return matern52(data.train_x.double().numpy(), h.lengthscale, h.outputscale) + h.noise * np.eye(1000), h
