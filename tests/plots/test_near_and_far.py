"""The figure of near and far: its curves add up, and its spectra are those of numerical integrals."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import j0

import apviz
from apviz.operators import FourierOperator
from apviz.operators.fourier.near_far import without_near
from apviz.plots._style import THEMES
from tests.device import only_on_the_cpu

pytestmark = only_on_the_cpu("the Fourier operator runs there")


def split_of(kernel, d=2, error=1e-5):
    x = torch.rand(1_000, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return FourierOperator(x, kernel, 0.1, error=error).splits[0]


@pytest.fixture(scope="module")
def split():
    return split_of(apviz.Matern32(lengthscale=0.05))


def curves(split, row):
    data = apviz.plots.near_and_far(split).data
    return {each.name: (np.array(each.x), np.array(each.y, float)) for each in data[3 * (row - 1) : 3 * row]}


def test_the_kernel_is_near_plus_far_and_near_ends_at_its_cut_off(split):
    found = curves(split, 1)
    r, k = found["kernel k"]
    near, far = found["near"][1], found["far = k − near"][1]
    np.testing.assert_allclose(k, (1 + r) * np.exp(-r), atol=1e-12)  # features are √3 r/ℓ
    np.testing.assert_allclose(near + far, k, atol=1e-12)
    assert (near[r > split.near.cutoff] == 0).all()
    assert abs(near[0]) > 1e-3


def test_spectra_are_integrals_over_distances(split):
    found = curves(split, 2)
    w, near = found["near"]
    of_k = found["kernel k"][1]

    def transform(function, frequency, end):
        return quad(lambda r: 2 * np.pi * r * function(r) * j0(frequency * r), 0, end, limit=500)[0]

    def kernel(r):
        return (1 + r) * np.exp(-r)

    size = transform(kernel, w[0], 60)
    for at in (10, 150, 250):
        values = transform(lambda r: split.near.values(np.array(r)), w[at], split.near.cutoff)
        assert near[at] == pytest.approx(abs(values) / size, rel=1e-4, abs=1e-8)
        assert of_k[at] == pytest.approx(transform(kernel, w[at], 60) / size, rel=1e-3, abs=1e-7)


def test_beyond_the_band_near_takes_nearly_all_of_the_spectrum(split):
    found = curves(split, 2)
    w, k = found["kernel k"]
    beyond = w > 1.1 * split.band
    left = np.nan_to_num(found["far = k − near"][1][beyond])
    assert left.max() < 0.05 * k[beyond].max()
    layout = apviz.plots.near_and_far(split).layout
    assert split.band in [shape.x0 for shape in layout.shapes]


def test_without_a_near_part_far_is_the_kernel_and_the_caption_says_so(split):
    alone = without_near(split.radial, 20.0)
    assert "near is empty" in apviz.plots.near_and_far(alone).layout.title.text
    found = curves(alone, 1)
    np.testing.assert_array_equal(found["far = k − near"][1], found["kernel k"][1])


def test_both_themes_colour_the_figure_and_other_objects_are_refused(split):
    for name, theme in THEMES.items():
        figure = apviz.plots.near_and_far(split, theme=name)
        assert figure.layout.template.layout.paper_bgcolor == theme.paper
        json.loads(figure.to_json(), parse_constant=pytest.fail)
    with pytest.raises(TypeError, match=r"split must be one of FourierOperator.splits, got ndarray"):
        apviz.plots.near_and_far(np.zeros(3))
    with pytest.raises(ValueError, match=r"light, dark, got 'blue'"):
        apviz.plots.near_and_far(split, theme="blue")
