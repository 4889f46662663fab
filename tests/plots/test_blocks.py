"""The two figures of a run block by block."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from apviz import plots


def test_every_update_is_drawn_at_its_block_in_the_colour_of_its_energy(runs):
    updates = runs["cyclic"]["update"]
    marks = plots.block_timeline(runs["cyclic"]).data[0]
    np.testing.assert_array_equal(marks.x, updates["update"].values)
    np.testing.assert_array_equal(marks.y, updates["block"].values)
    np.testing.assert_allclose(10.0**marks.marker.color, updates["energy_decrease"].values, rtol=1e-12)
    np.testing.assert_array_equal(marks.customdata[:, 1], updates["energy_decrease"].values)


def test_a_long_run_is_thinned_with_a_note_and_still_shows_every_block(runs, monkeypatch):
    # with a cyclic rule over 8 blocks, every 8th update would always be block 0
    total = runs["cyclic"]["update"].sizes["update"]
    module = sys.modules[plots.block_timeline.__module__]
    monkeypatch.setattr(module, "DRAWN_UPDATES", total // 8)
    figure = plots.block_timeline(runs["cyclic"])
    assert len(figure.data[0].x) == total // 8
    assert f"of {total:,} updates drawn" in " ".join(re.sub("<[^>]*>", " ", figure.layout.title.text).split())
    assert len(set(figure.data[0].y)) > 4


def test_a_short_run_is_drawn_completely_without_a_note(runs):
    assert "drawn" not in plots.block_timeline(runs["cyclic"]).layout.title.text


def test_updates_that_removed_no_energy_are_crosses_outside_the_colour_scale(runs):
    tree = runs["cut"].tree.copy(deep=True)
    updates = tree["update"].to_dataset()
    decrease = updates["energy_decrease"].values.copy()
    decrease[[0, 3]] = [0.0, -1e-9]
    updates["energy_decrease"] = updates["energy_decrease"].copy(data=decrease)
    tree["update"].dataset = updates
    coloured, crosses = plots.block_timeline(type(runs["cut"])(tree)).data
    assert crosses.marker.symbol == "x"
    assert list(crosses.x) == [1, 4]
    assert crosses.name == "removed no energy"
    assert np.isfinite(coloured.marker.color).all()


def test_the_heat_map_shows_the_norm_of_every_block_after_every_epoch(runs):
    blocks = runs["ap"]["block"]
    (cells,) = plots.block_norms(runs["ap"]).data
    norms = blocks["residual_norm"].transpose("block", "epoch").values
    np.testing.assert_array_equal(cells.customdata[..., 0], norms)
    np.testing.assert_allclose(10.0**cells.z, norms, rtol=1e-12)
    np.testing.assert_array_equal(cells.x, blocks["epoch"].values)


def test_a_long_heat_map_keeps_the_last_epoch_and_has_a_note_on_thinning(runs, monkeypatch):
    module = sys.modules[plots.block_norms.__module__]
    monkeypatch.setattr(module, "DRAWN_CELLS", runs["ap"]["block"]["residual_norm"].size // 3)
    figure = plots.block_norms(runs["ap"])
    assert figure.data[0].x[-1] == runs["ap"]["block"]["epoch"].values[-1]
    assert "drawn" in figure.layout.title.text


def test_several_runs_share_one_colour_scale(runs):
    several = [runs["ap"], runs["cyclic"]]
    assert [each.coloraxis for each in plots.block_norms(several).data] == ["coloraxis"] * 2
    coloured = [each for each in plots.block_timeline(several).data if each.name is None]
    assert [each.marker.coloraxis for each in coloured] == ["coloraxis"] * 2


def test_titles_of_panels_name_the_runs_and_their_outcomes(runs):
    names = [each.text for each in plots.block_timeline([runs["ap"], runs["cut"]]).layout.annotations]
    assert "Converged" in names[0]
    assert "Not converged: epoch limit (residual " in names[1]


def test_norms_of_exactly_zero_are_blank_cells_and_do_not_stretch_the_colour_scale(runs):
    tree = runs["ap"].tree.copy(deep=True)
    blocks = tree["block"].to_dataset()
    norms = blocks["residual_norm"].values.copy()
    norms[1:, 0] = 0.0
    blocks["residual_norm"] = blocks["residual_norm"].copy(data=norms)
    tree["block"].dataset = blocks
    figure = plots.block_norms(type(runs["ap"])(tree))
    assert np.isnan(figure.data[0].z[0, 1:]).all()
    assert np.isfinite([figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax]).all()


@pytest.mark.parametrize("plot", [plots.block_timeline, plots.block_norms])
def test_a_solver_without_blocks_is_an_error_that_names_it(runs, plot):
    with pytest.raises(ValueError, match=r"CG has no blocks"):
        plot([runs["ap"], runs["cg"]])


def test_energies_with_skeletons_are_marked_as_approximate_without_a_guarantee(runs):
    figure = plots.block_timeline([runs["ap"], runs["skeletons"]])
    assert "energies by its skeletons" in " ".join(re.sub("<[^>]*>", " ", figure.layout.title.text).split())
    exact, approximate = (each.hovertemplate for each in figure.data)
    assert "guaranteed" in exact and "guaranteed" not in approximate
