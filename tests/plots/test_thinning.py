"""Long curves are drawn with fewer points and a note."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from apviz import plots
from apviz.plots._curves import DRAWN_POINTS, THINNED, thinned
from apviz.tracing import Trace


@pytest.mark.parametrize("total", [0, 1, DRAWN_POINTS])
def test_a_short_curve_is_drawn_completely(total):
    np.testing.assert_array_equal(thinned(np.zeros(total)), np.arange(total))


@pytest.mark.parametrize("total", [DRAWN_POINTS + 1, 100_000])
def test_a_long_curve_keeps_its_ends_and_the_peaks_of_every_interval(total):
    values = np.random.default_rng(0).normal(size=total)
    spikes = [7, total // 3, total - 5]
    values[spikes] = [50, -50, 60]
    kept = thinned(values)
    assert len(kept) <= DRAWN_POINTS + 2
    assert {0, total - 1, *spikes} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


def test_values_that_are_not_finite_are_not_peaks():
    values = np.random.default_rng(0).normal(size=10_000)
    values[::2] = np.nan
    kept = thinned(values)
    assert np.isfinite(values[kept[1:-1]]).all()


def long(trace, epochs=5_000):
    """Return the trace stretched to `epochs` epochs."""
    nodes = {name: node.to_dataset() for name, node in trace.tree.children.items() if name in ("epoch", "spectrum")}
    rows = np.resize(np.arange(nodes["epoch"].sizes["epoch"]), epochs)
    grown = nodes["epoch"].isel(epoch=rows).assign_coords(epoch=np.arange(epochs))
    nodes["epoch"] = grown.assign(
        work=("epoch", np.arange(epochs) + 1.0), residual=("epoch", np.geomspace(1, 1e-6, epochs))
    )
    tree = xr.DataTree.from_dict(nodes)
    tree.attrs = dict(trace.attrs)
    return Trace(tree)


@pytest.mark.parametrize("plot", [plots.residuals, plots.test_rmse, plots.k_norm_error])
def test_a_figure_of_a_long_run_draws_few_points_with_a_note(runs, plot):
    figure, short = plot(long(runs["cg"])), plot(runs["cg"])
    assert max(len(each.x) for each in figure.data) <= 2 * (DRAWN_POINTS + 2)
    words = " ".join(figure.layout.title.text.replace("</span>", " ").replace("<br>", " ").split(">"))
    for word in THINNED.format(DRAWN_POINTS, DRAWN_POINTS // 2).split():
        assert word in words
    assert "stretches" not in short.layout.title.text
