"""`ResidualMap` and `FittedFunction`: one update as a figure, and the others as its frames."""

from __future__ import annotations

import json
import sys

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

import apviz
from apviz import plots
from apviz.analysis import geometry
from apviz.partitions import KDTree
from apviz.plots._style import THEMES

MODULE = sys.modules[plots.ResidualMap.__module__]
FILMS = plots.ResidualMap, plots.FittedFunction


def solved(x, solver, targets=1, **recording):
    b = torch.stack([torch.sin(4 * x.sum(1) + k) for k in range(targets)], 1)
    system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.3), noise=0.05, dataset="waves", device="cpu")
    recorder = apviz.Recorder(**{"rows": True, "snapshots": range(6), "weights": x.shape[1] == 1} | recording)
    apviz.solve(system, solver, [recorder])
    return recorder.trace


def inputs(n, d):
    return 2 * torch.rand(n, d, generator=torch.Generator().manual_seed(d)) - 1


@pytest.fixture(scope="module")
def traces():
    blocks = apviz.AlternatingProjection(block_size=30, rule="cyclic", partition=KDTree(overlap=0.5), max_epochs=2)
    side = torch.linspace(-1, 1, 14)
    return {
        "line": solved(inputs(150, 1), blocks),
        "plane": solved(inputs(200, 2), blocks, targets=2),
        "many": solved(inputs(200, 5), blocks),
        "grid": solved(torch.cartesian_prod(side, side), blocks),
        "cg": solved(inputs(120, 1), apviz.ConjugateGradient(max_epochs=6)),
    }


def films(traces):
    """Yield every animation of each trace."""
    for name, trace in traces.items():
        yield name, trace, plots.ResidualMap(trace)
        if trace.attrs["d"] == 1:
            yield name, trace, plots.FittedFunction(trace)


def after(figure, frame):
    """Return the figure as a browser shows it after a frame."""
    plain, change = figure.to_plotly_json(), frame.to_plotly_json()

    def blend(old, new):
        if isinstance(old, dict) and isinstance(new, dict):
            return old | {key: blend(old.get(key), value) for key, value in new.items()}
        if isinstance(old, list | tuple) and isinstance(new, list | tuple) and new and isinstance(new[0], dict):
            return [blend(a, b) for a, b in zip(old, new, strict=True)]
        return new

    for place, each in zip(change["traces"], change["data"], strict=True):
        plain["data"][place] = blend(plain["data"][place], each)
    plain["layout"] = blend(plain["layout"], change["layout"])
    return go.Figure(plain)


def test_a_frame_turns_one_figure_of_a_run_into_another(traces):
    for _, _, film in films(traces):
        moved = after(film.figure(film.updates[0]), film.frame(film.updates[3]))
        assert json.loads(moved.to_json()) == json.loads(film.figure(film.updates[3]).to_json())


def test_the_colours_show_the_recorded_residual_on_one_scale_for_all_updates(traces):
    for name, trace in traces.items():
        film = plots.ResidualMap(trace)
        scales = set()
        for update, residual in zip(film.updates, trace["snapshot"]["residual"].values, strict=True):
            figure = film.figure(update)
            drawn = figure.data[0] if name == "grid" else figure.data[1]
            codes, top = (drawn.z, drawn.zmax) if name == "grid" else (drawn.marker.color, drawn.marker.cmax)
            largest = np.abs(trace["snapshot"]["residual"].values).max()
            np.testing.assert_allclose(codes / top * largest, residual, rtol=0.11, atol=largest / 1000)
            scales.add(top)
        assert len(scales) == 1


def test_maps_that_are_compared_share_a_colour_scale(traces):
    """One colour is then one residual in both."""
    tree = traces["plane"].tree.copy(deep=True)
    tree["snapshot"]["residual"] *= 3
    pair = apviz.Trace(tree), traces["many"]
    figures = [plots.ResidualMap(trace, compared_with=pair).figure(1) for trace in pair]
    limits = {figure.layout.coloraxis.colorbar.ticktext[-1] for figure in figures}
    largest = max(np.abs(trace["snapshot"]["residual"].values).max() for trace in pair)
    assert len(limits) == 1
    limit = float(limits.pop())
    assert largest <= limit < 1.1 * largest
    for trace, figure in zip(pair, figures, strict=True):
        marker = figure.data[1].marker
        residual = trace["snapshot"]["residual"].sel(update=1).values
        np.testing.assert_allclose(marker.color / marker.cmax * limit, residual, atol=limit / 1000)
    assert plots.ResidualMap(pair[1]).figure(1).layout.coloraxis.colorbar.ticktext[-1] != f"{limit:.2g}"


def test_rings_mark_the_rows_of_the_block_and_a_halo_its_margin(traces):
    trace = traces["many"]
    owner, pairs = trace["rows"]["owner"].values, trace["rows"]["membership"].values
    for update in (1, 4):
        block = int(trace["update"]["block"][update - 1])
        halo, rows, rings = plots.ResidualMap(trace).figure(update).data[:3]
        owned = owner == block
        np.testing.assert_array_equal(rings.x, rows.x[owned])
        margin = sorted(row for row, holder in pairs if holder == block and owner[row] != block)
        np.testing.assert_array_equal(np.sort(halo.x), np.sort(rows.x[margin]))
    assert all(len(mark.x) == 0 for mark in (plots.ResidualMap(trace).figure(0).data[k] for k in (0, 2)))
    assert all(len(plots.ResidualMap(traces["cg"]).figure(2).data[k].x) == 0 for k in (0, 2))


@pytest.mark.parametrize("name", ["line", "plane"])
def test_compact_blocks_are_outlined_and_their_margins_are_hatched(traces, name):
    trace = traces[name]
    x, owner, pairs = (trace["rows"][key].values for key in ("coordinates", "owner", "membership"))
    figure = plots.ResidualMap(trace).figure(3)
    shade, _, outline = figure.data[:3]
    assert "outline: block · hatched: margin" in figure.layout.title.text
    assert shade.fill == "toself" and shade.fillpattern.shape and outline.mode == shade.mode == "lines"
    block = int(trace["update"]["block"][2])
    solved = pairs[pairs[:, 1] == block, 0]
    angles = np.linspace(0, 2 * np.pi, 60)
    directions = np.stack([np.cos(angles), np.sin(angles)])[: x.shape[1]]
    for mark, rows in ((outline, x[owner == block]), (shade, x[solved])):
        corners = np.stack([mark.x, mark.y], 1)[: None if mark is outline else len(mark.x) - len(outline.x) - 1]
        reached = (corners[:, : x.shape[1]] @ directions).max(axis=0)
        np.testing.assert_allclose(reached, (rows @ directions).max(axis=0), rtol=1e-5, atol=1e-6)
    # with the opposite orientation: a hole
    np.testing.assert_array_equal(shade.x[-len(outline.x) :], outline.x[::-1])
    assert all(len(plots.ResidualMap(trace).figure(0).data[k].x) < 2 for k in (0, 2))


def test_without_a_margin_nothing_is_hatched():
    trace = solved(
        inputs(200, 2), apviz.AlternatingProjection(block_size=40, rule="cyclic", partition="kd-tree", max_epochs=1)
    )
    figure = plots.ResidualMap(trace).figure(2)
    assert np.isnan(figure.data[0].x).all() and "margin" not in figure.layout.title.text


def test_scattered_blocks_are_ringed_not_outlined(traces):
    trace = solved(
        inputs(200, 2), apviz.AlternatingProjection(block_size=40, rule="cyclic", partition="shuffled", max_epochs=1)
    )
    assert "rings: block" in plots.ResidualMap(trace).figure(2).layout.title.text
    assert "rings: block · yellow halo: margin" in plots.ResidualMap(traces["many"]).figure(2).layout.title.text


def test_one_input_is_drawn_against_the_residual_two_directly_more_by_principal_axes(traces):
    line = plots.ResidualMap(traces["line"]).figure(2)
    np.testing.assert_allclose(line.data[1].y, traces["line"]["snapshot"]["residual"][2], atol=1e-3)
    assert line.layout.yaxis.title.text == "residual r"
    plane = plots.ResidualMap(traces["plane"]).figure(2).data[1]
    np.testing.assert_allclose(np.stack([plane.x, plane.y], 1), traces["plane"]["rows"]["coordinates"], rtol=1e-6)
    many = plots.ResidualMap(traces["many"]).figure(2)
    np.testing.assert_allclose(
        many.data[1].x, geometry.principal_plane(traces["many"])["position"][:, 0], rtol=1e-5, atol=1e-6
    )
    assert "of variance" in many.layout.xaxis.title.text
    assert plots.ResidualMap(traces["grid"]).figure(2).data[0].type == "heatmap"


def test_for_many_rows_a_sample_of_every_block_is_drawn_with_a_note(traces, monkeypatch):
    monkeypatch.setattr(MODULE, "DRAWN_ROWS", 50)
    trace = traces["many"]
    figure = plots.ResidualMap(trace).figure(1)
    assert "50 of 200 rows drawn, evenly from all blocks" in figure.layout.title.text
    assert len(figure.data[1].x) == 50
    drawn = np.bincount(np.asarray(figure.data[1].text, dtype=int), minlength=7)
    assert (np.abs(drawn - 50 * trace["block"]["owned_size"].values / 200) < 1.01).all()


def test_the_function_after_the_update_fits_its_block_and_the_previous_one_is_drawn_behind(traces):
    trace = traces["line"]
    found = geometry.functions(trace)["value"].values
    figure = plots.FittedFunction(trace).figure(3)
    margin, targets, owned, before, now = figure.data
    np.testing.assert_allclose(now.y, found[3], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(before.y, found[2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(targets.y, trace["rows"]["target"])
    block = int(trace["update"]["block"][2])
    assert len(owned.x) == int(trace["block"]["owned_size"][block])
    assert len(margin.x) == int(trace["block"]["solved_size"][block]) - len(owned.x)
    # s + σ²w = target on the rows of the block, so s misses the targets by little
    near = np.interp(owned.x, now.x, now.y)
    assert np.abs(near - owned.y).max() < np.abs(np.interp(owned.x, before.x, before.y) - owned.y).max() / 3


def test_the_axes_of_an_animation_are_constant(traces):
    for _, _, film in films(traces):
        figure = film.figure(film.updates[1])
        if figure.layout.yaxis.range is not None:
            assert figure.layout.yaxis.range == film.figure(film.updates[-1]).layout.yaxis.range
    assert plots.FittedFunction(traces["line"]).figure(1).layout.yaxis.range is not None


@pytest.mark.parametrize("theme", THEMES)
def test_both_themes_state_run_update_and_outcome_without_webgl(traces, theme):
    for name, trace in traces.items():
        for film in FILMS:
            if film is plots.FittedFunction and trace.attrs["d"] != 1:
                continue
            figure = film(trace, theme=theme).figure(2)
            json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
            assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
            assert {each.type for each in figure.data} <= {"heatmap", "scatter"}
            title = figure.layout.title.text
            assert "waves" in title and f"n = {trace.attrs['n']}" in title
            assert ("Not converged" in title) == (not trace.converged)
            assert figure.layout.annotations[0].text.startswith("update 2")
            assert all(len(line.partition(">")[2].partition("<")[0]) <= 52 for line in title.split("<br>"))
            assert ("block" in figure.layout.annotations[0].text) == (name != "cg")


def test_the_colour_bar_states_the_right_hand_side(traces):
    assert "residual r₁" in plots.ResidualMap(traces["plane"]).figure(1).layout.coloraxis.colorbar.title.text


def test_an_unfinished_run_is_marked(traces):
    tree = traces["line"].tree.copy(deep=True)
    tree.attrs.update(status="interrupted")
    del tree.attrs["stop_reason"]
    for film in FILMS:
        assert "Unfinished" in film(apviz.Trace(tree)).figure(1).layout.title.text.replace("<br>", " ")


@pytest.mark.parametrize("film", FILMS)
def test_errors_list_what_is_recorded_and_how_to_record_more(film, traces):
    with pytest.raises(ValueError, match=r"was not recorded, or is not finite; there are 6 updates from 0 to 5"):
        film(traces["line"]).figure(77)
    with pytest.raises(ValueError, match=r"light, dark, got 'blue'"):
        film(traces["line"], theme="blue")
    bare = solved(inputs(40, 1), apviz.Cholesky(), snapshots=())
    with pytest.raises(ValueError, match=rf"{film.__name__} needs the groups rows and snapshot.*no snapshot"):
        film(bare)
