"""A photograph solved with its pictures kept, against dense float64 algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from apviz.rkhs.photograph import STRIDES, photograph

PIXELS = 704


@pytest.fixture(scope="module")
def solved():
    return photograph(PIXELS, block_size=100, partition="kd-tree", overlap=1.0, tol=1e-4)


def dense(x: np.ndarray, lengthscale: float = 0.1) -> np.ndarray:
    r = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None], axis=2) / lengthscale
    return (1 + r + r**2 / 3) * np.exp(-r)


def test_every_pixel_of_the_thinned_photograph_is_a_row(solved):
    samples = pytest.importorskip("sklearn.datasets")
    stride = STRIDES[PIXELS]
    grey = samples.load_sample_image("china.jpg")[::stride, ::stride] @ np.array([0.299, 0.587, 0.114])
    rows = solved.trace["rows"]
    assert grey.size == PIXELS == len(rows["target"])
    place = np.rint((rows["coordinates"].values + 1) / 2 * (np.array(grey.shape) - 1)).astype(int)
    assert len({tuple(each) for each in place}) == PIXELS
    assert np.corrcoef(grey[tuple(place.T)], rows["target"])[0, 1] > 0.999999


def test_the_mean_at_the_end_is_the_posterior_mean(solved):
    rows = solved.trace["rows"]
    x, b = rows["coordinates"].values, rows["target"].values
    k = dense(x)
    mean = k @ scipy.linalg.solve(k + 0.05 * np.eye(PIXELS), b, assume_a="pos")
    assert solved.trace.converged
    assert np.abs(solved.mean[-1] - mean).max() < 2e-3 * np.abs(b).max()
    assert not solved.mean[0].any()


def test_the_mean_on_the_way_is_that_of_the_weights_so_far(solved):
    rows, snapshot = solved.trace["rows"], solved.trace["snapshot"]
    weights = snapshot["weights"].values
    np.testing.assert_allclose(solved.mean, weights @ dense(rows["coordinates"].values), atol=2e-4)


def test_the_residual_is_zero_on_the_rows_of_the_block_and_its_margin(solved):
    pairs, snapshot = solved.trace["rows"]["membership"].values, solved.trace["snapshot"]
    for number, block in zip(solved.updates[1:], solved.trace["update"]["block"].values, strict=False):
        rows = pairs[pairs[:, 1] == block, 0]
        assert len(rows) in (200, 8)
        assert np.abs(snapshot["residual"].sel(update=number).values[rows]).max() < 1e-4


def test_the_last_picture_is_where_the_solve_ended():
    long = photograph(PIXELS, block_size=50, tol=1e-2)
    assert long.updates[-1] == int(long.trace["update"]["update"][-1]) > 100
    last = long.trace["snapshot"]["residual"].values[-1]
    assert np.linalg.norm(last) / np.linalg.norm(long.mean[0] + long.trace["rows"]["target"]) < 1e-2
    shown = long.pictures(41)
    assert len(shown) == 41 and shown[:20] == list(range(20)) and shown[-1] == len(long.updates) - 1
    assert np.all(np.diff(shown) >= 1)


def test_a_short_solve_shows_every_picture(solved):
    assert solved.pictures(200) == list(range(len(solved.updates)))


def test_with_a_margin_compact_blocks_need_a_fraction_of_the_work(solved):
    works = [
        photograph(PIXELS, block_size=100, partition="kd-tree", overlap=overlap).trace.attrs["work"]
        for overlap in (0.0, 1.0)
    ]
    assert works[1] < works[0] / 2


def test_another_number_of_pixels_gets_a_message():
    with pytest.raises(ValueError, match="pixels must be one of 704, 1080, 1426, 1944, 2301, got 1000"):
        photograph(1000, block_size=100)
