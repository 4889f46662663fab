"""The figure of claimed residuals and those found by passes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from apviz import plots


def line_and_marks(figure):
    line, marks = figure.data[:2]
    assert line.mode == "lines+markers" and marks.mode == "markers"
    return line, marks


def test_the_line_jumps_from_the_claimed_residual_to_that_of_the_pass(runs):
    trace = runs["skeletons"]
    line, marks = line_and_marks(plots.passes(trace))
    found = trace["pass"]
    np.testing.assert_array_equal(marks.x, found["work"])
    np.testing.assert_array_equal(marks.y, found["residual"])
    for claimed, residual, work in zip(found["claimed_residual"], found["residual"], found["work"], strict=True):
        (at,) = np.flatnonzero((line.x == float(work)) & (line.y == float(claimed)))
        assert (line.x[at + 1], line.y[at + 1]) == (float(work), float(residual))
    # every update is on the line, in order
    updates = trace["update"]
    assert len(line.x) == 1 + updates.sizes["update"] + 2 * found.sizes["pass"]
    assert set(updates["work"].values) <= set(line.x) and (np.diff(line.x) >= 0).all()


def test_only_passes_in_float64_have_filled_marks_and_each_kind_is_in_the_legend(runs):
    trace = runs["skeletons"]
    figure = plots.passes(trace)
    is_exact = trace["pass"]["is_exact"].values
    assert set(is_exact) == {0, 1}
    _, marks = line_and_marks(figure)
    assert [not symbol.endswith("-open") for symbol in marks.marker.symbol] == list(is_exact == 1)
    explained = {"filled: float64 pass, may claim convergence", "open: float32 pass"}
    assert explained <= {each.name for each in figure.data}
    drifts = trace["pass"]["drift"].values
    assert all(f"drift {drift:.3g}" in text for drift, text in zip(drifts, marks.text, strict=True))


def test_runs_of_one_colour_differ_in_the_shape_of_their_marks(runs, edited):
    method = runs["skeletons"].attrs["method"]
    several = [edited(runs["skeletons"], {"method": method | {"skeleton_rank": rank}}) for rank in (5, 8, 20)]
    drawn = plots.passes(several).data
    lines = [each for each in drawn if each.mode == "lines+markers"]
    assert len({line.marker.color for line in lines}) == 1 and len({line.marker.symbol for line in lines}) == 3
    marks = [each for each in drawn if each.mode == "markers" and not each.showlegend and each.text]
    shapes = [{symbol.removesuffix("-open") for symbol in each.marker.symbol} for each in marks]
    assert shapes == [{line.marker.symbol} for line in lines]


def test_against_epochs_updates_are_spread_and_a_pass_is_at_the_end_of_its_epoch(runs):
    line, marks = line_and_marks(plots.passes(runs["skeletons"], x="epochs"))
    assert (np.diff(line.x) >= 0).all() and not np.equal(np.mod(line.x, 1), 0).all()
    np.testing.assert_array_equal(marks.x, runs["skeletons"]["pass"]["epoch"])


def test_a_check_that_cg_does_not_adopt_is_a_mark_off_its_line(runs, edited):
    trace = edited(runs["cg"])
    found = trace["pass"].isel({"pass": [-1, -1]})
    found["claimed_residual"] = "pass", [0.5, 0.005]
    found["residual"] = "pass", [0.6, 0.009]
    found["is_adopted"] = "pass", [0, 1]
    trace.tree["pass"] = found
    line, marks = line_and_marks(plots.passes(trace))
    assert list(marks.y) == [0.6, 0.009] and 0.6 not in line.y and 0.009 in line.y


def test_runs_without_passes_are_named_and_raise_if_there_are_no_others(runs):
    title = plots.passes([runs["ap"], runs["interrupted"]]).layout.title.text
    words = " ".join(re.sub("<[^>]*>", " ", title).split())
    assert "no pass recorded for Alternating projection (shuffled, b = 50)" in words
    with pytest.raises(ValueError, match="no trace has a pass"):
        plots.passes(runs["interrupted"])


def test_a_direct_solve_has_its_passes_on_the_line_without_claims(runs):
    line, marks = line_and_marks(plots.passes(runs["cholesky"]))
    assert marks.y[-1] == line.y[-1] == runs["cholesky"].attrs["residual"]
    assert np.isfinite(line.y).all() and marks.text[0] == "pass 1"


def test_a_run_that_did_not_converge_ends_in_a_cross(runs, edited):
    cut = edited(runs["skeletons"], {"stop_reason": "max_epochs"})
    assert [each.marker.symbol for each in plots.passes(cut).data].count("x") == 1
    assert [each.marker.symbol for each in plots.passes(runs["skeletons"]).data].count("x") == 0
