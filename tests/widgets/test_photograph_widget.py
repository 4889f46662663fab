"""The widget on the photograph in Python: its pixels, and the systems of the page."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

import apviz
from apviz.datasets.bundled import PICTURE_SHAPE
from apviz.widgets import Photograph
from apviz.widgets.photograph import LENGTHSCALE, NOISE, PIXELS


@pytest.mark.parametrize("pixels", PIXELS)
def test_rows_are_all_pixels_of_a_picture_with_standardised_greys(pixels):
    datasets = pytest.importorskip("sklearn.datasets")
    x, b = Photograph(pixels=pixels).rows
    assert x.shape == (pixels, 2) and len(np.unique(x, axis=0)) == pixels and np.abs(x).max() == 1
    assert abs(b.mean()) < 1e-12 and b.std() == pytest.approx(1)
    # in the order of the picture they equal it up to rounding to integer greys
    picture = datasets.load_sample_image("china.jpg") @ np.array([0.299, 0.587, 0.114])
    rows, columns = (len(np.unique(x[:, k])) for k in (0, 1))
    stride = -(-PICTURE_SHAPE[0] // rows)
    every = picture[::stride, ::stride]
    left = (every.shape[1] - columns) // 2
    seen = every[:, left : left + columns].ravel()
    order = np.lexsort((x[:, 1], x[:, 0]))
    assert len(seen) == pixels and np.corrcoef(b[order], seen)[0, 1] > 0.9999


def test_a_number_of_pixels_without_a_picture_is_rejected():
    with pytest.raises(ValueError, match=r"pixels must be one of 704, .*, 13696, got 1000"):
        Photograph(pixels=1000)


@pytest.mark.parametrize("preset", [each for each in Photograph.presets if "13,696" not in each])
def test_in_every_preset_blocks_of_neighbours_need_less_work_than_scattered_ones(preset):
    widget = Photograph()
    widget.choose(preset)
    done = {name: apviz.solve(widget.system, solver) for name, solver in widget.solvers.items()}
    assert done["neighbours"].converged
    assert done["neighbours"].work < done["scattered"].work


def residuals(widget: Photograph) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """Return the rows that blocks own, and the residual after `widget.step` updates, by side, from a dense matrix."""
    x, b = widget.rows
    q = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None], axis=-1) / LENGTHSCALE
    K = (1 + q + q**2 / 3) * np.exp(-q) + NOISE * np.eye(len(x))
    found = {}
    for name, solver in widget.solvers.items():
        parts = solver.prepare(widget.system.operator).partition
        owned, solved = ([parts.order[of(j)].numpy() for j in range(len(parts))] for of in (parts.owned, parts.solved))
        r = b.copy()
        for number in range(widget.step):
            norms = [np.linalg.norm(r[rows]) for rows in owned]
            rows = solved[number % len(owned) if widget.rule == "cyclic" else int(np.argmax(norms))]
            r -= K[:, rows] @ np.linalg.solve(K[np.ix_(rows, rows)], r[rows])
        found[name] = owned, r
    return found


@pytest.mark.parametrize("preset", [each for each in Photograph.presets if "13,696" not in each])
def test_at_the_first_step_of_every_preset_blocks_of_neighbours_lead(preset):
    """Scattered blocks lead in the first updates, which alone would teach the wrong lesson."""
    widget = Photograph()
    widget.choose(preset)
    left = {name: np.linalg.norm(r) for name, (_, r) in residuals(widget).items()}
    assert left["neighbours"] < 0.5 * left["scattered"]


def sizes_from_borders(widget: Photograph) -> dict[str, list[float]]:
    """Return the root mean square of the residual at 1 to 5 steps from another block, by side."""
    x, _ = widget.rows
    gaps = np.abs(x[:, None] - x[None]) / [np.diff(np.unique(x[:, k])).min() for k in (0, 1)]
    taxicab = gaps.sum(axis=2).round()
    found = {}
    for name, (owned, r) in residuals(widget).items():
        steps = np.zeros(len(x))
        for rows in owned:
            steps[rows] = taxicab[np.ix_(rows, np.setdiff1d(np.arange(len(x)), rows))].min(axis=1)
        found[name] = [float(np.sqrt(np.mean(r[steps == k] ** 2))) for k in range(1, 6) if (steps == k).any()]
    return found


def test_without_a_margin_what_neighbours_leave_is_along_borders_and_scattered_blocks_are_nothing_but_borders():
    found = sizes_from_borders(Photograph())
    assert len(found["scattered"]) == 1
    size = found["neighbours"]
    assert (np.diff(size) < 0).all() and size[0] > 10 * size[4]


def test_a_margin_removes_what_neighbours_leave_along_borders():
    size = sizes_from_borders(Photograph(overlap=1.0, step=15))["neighbours"]
    assert size[0] < size[1] < size[2]
