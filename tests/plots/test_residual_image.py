"""The picture of the residual, as data and in a real browser."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

import apviz
from apviz import plots
from apviz.partitions import KDTree, Sequential
from apviz.plots._style import THEMES
from apviz.plots.blocks._snapshots import step as words_of_update

MODULE = sys.modules[plots.residual_image.__module__]
KD_TREE = apviz.AlternatingProjection(block_size=90, partition=KDTree(overlap=0.5), max_epochs=2)


def solved(x, y, solver=KD_TREE, dataset="", **recording):
    system = apviz.KernelSystem(x, y, apviz.Matern52(lengthscale=0.2), noise=0.05, dataset=dataset, device="cpu")
    recorder = apviz.Recorder(**{"rows": True, "snapshots": range(8), **recording})
    apviz.solve(system, solver, hooks=[recorder])
    return recorder.trace


@pytest.fixture(scope="module")
def china():
    return apviz.datasets.load("china", n=600, seed=0)


@pytest.fixture(scope="module")
def picture(china):
    """Return a solve of two right-hand sides on pixels of the photograph, with compact blocks and a margin."""
    targets = torch.stack([china.train_y, torch.randn(600, generator=torch.Generator().manual_seed(0))], 1)
    return solved(china.train_x, targets, dataset="china")


@pytest.fixture(scope="module")
def scattered(china):
    return solved(
        china.train_x,
        china.train_y,
        apviz.AlternatingProjection(block_size=90, partition=Sequential(overlap=0.5), max_epochs=1),
    )


@pytest.fixture(scope="module")
def points():
    x = torch.rand(300, 2, generator=torch.Generator().manual_seed(0))
    return solved(x, torch.sin(9 * x[:, 0]) * x[:, 1])


def edited(trace, **residuals):
    """Copy a trace, and replace the recorded residual of some snapshots (`at_3=...`)."""
    tree = trace.tree.copy(deep=True)
    snapshots = tree["snapshot"].to_dataset()
    values = snapshots["residual"].values.copy()
    for name, value in residuals.items():
        values[int(name.removeprefix("at_"))] = value
    snapshots["residual"] = snapshots["residual"].copy(data=values)
    tree["snapshot"].dataset = snapshots
    return apviz.Trace(tree)


def unit(figure):
    """Return the unit of the integers sent to the browser, as stated by the hover text."""
    power = figure.data[0].hovertemplate.partition("× 10<sup>")[2].partition("</sup>")[0]
    return 10.0 ** int(power.replace("−", "-") or 0)


def by_line(trace):
    """Return the order of the rows of a trace on a photograph, line by line."""
    row, column = trace["rows"]["coordinates"].values.T
    return np.lexsort((column, row))


def sides(x, y):
    """Return the total length of lines (x, y) separated by NaN."""
    steps = np.abs(np.diff(x)) + np.abs(np.diff(y))
    return np.nansum(steps)


# --- the picture ---------------------------------------------------------------------------------------------------


def test_the_picture_has_the_orientation_of_the_photograph(china, picture):
    # the residual before any update is the photograph itself, for its weights are zero
    samples = pytest.importorskip("sklearn.datasets")
    stride = china.grid_stride
    photograph = samples.load_sample_image("china.jpg")[::stride, ::stride] @ np.array([0.299, 0.587, 0.114])
    figure = plots.residual_image(picture)
    pixels = figure.data[0]
    assert np.corrcoef(pixels.z, photograph[pixels.y, pixels.x])[0, 1] > 0.999999
    # row 0 is on top, as in the file, and pixels are square
    assert list(figure.layout.yaxis.range) == [china.grid_shape[0] - 0.5, -0.5]
    assert list(figure.layout.xaxis.range) == [-0.5, china.grid_shape[1] - 0.5]
    assert figure.layout.yaxis.scaleanchor == "x" and figure.layout.yaxis.scaleratio in (None, 1)


def test_every_snapshot_is_a_frame_with_the_recorded_residual(picture):
    figure = plots.residual_image(picture)
    snapshots, order = picture["snapshot"], by_line(picture)
    assert [frame.name for frame in figure.frames] == [str(k) for k in snapshots["update"].values]
    for frame, residual in zip(figure.frames, snapshots["residual"].values[:, order], strict=True):
        np.testing.assert_allclose(frame.data[0].z * unit(figure), residual, atol=0.51 * unit(figure))
    assert unit(figure) <= np.abs(snapshots["residual"].values).max() / 3000
    np.testing.assert_array_equal(figure.data[0].z, figure.frames[0].data[0].z)


def test_cells_without_a_row_are_empty(china, picture):
    pixels = plots.residual_image(picture).data[0]
    assert len(pixels.z) == 600 < np.prod(china.grid_shape)
    assert len(set(zip(pixels.x.tolist(), pixels.y.tolist(), strict=True))) == 600


def test_all_updates_share_one_colour_scale_centred_at_zero(picture):
    figure = plots.residual_image(picture)
    pixels = figure.data[0]
    assert pixels.zmin == -pixels.zmax
    assert all(np.abs(frame.data[0].z).max() <= pixels.zmax for frame in figure.frames)
    assert all(frame.data[0].zmax is None for frame in figure.frames)
    places, colors = zip(*pixels.colorscale, strict=True)
    assert colors[places.index(0.5)] == "rgb(247, 247, 247)"
    red, blue = (tuple(int(c) for c in colors[end][4:-1].split(",")) for end in (-1, 0))
    assert red[0] > 2 * red[2] and blue[2] > 2 * blue[0]


def test_the_colour_bar_matches_the_colours_of_the_picture_at_every_label(picture):
    figure = plots.residual_image(picture)
    pixels, axis = figure.data[0], figure.layout.coloraxis
    colour_in_bar, colour_in_picture = dict(axis.colorscale), dict(pixels.colorscale)
    for place, label in zip(axis.colorbar.tickvals, axis.colorbar.ticktext, strict=True):
        value = float(label.replace("−", "-")) / unit(figure)
        nearest = min(colour_in_picture, key=lambda at: abs((2 * at - 1) * pixels.zmax - value))
        assert colour_in_bar[(place + 1) / 2] == colour_in_picture[nearest]


def test_a_long_record_is_thinned_with_a_note_and_keeps_both_ends(picture):
    assert "drawn" not in plots.residual_image(picture).layout.title.text
    figure = plots.residual_image(picture, values=3 * 600)
    assert [frame.name for frame in figure.frames] == ["0", "4", "7"]
    assert "3 of 8 pictures drawn" in figure.layout.title.text


@pytest.mark.slow
def test_thirteen_thousand_pixels_and_sixty_updates_stay_below_five_megabytes():
    row, column = torch.meshgrid(torch.arange(107.0), torch.arange(160.0), indexing="ij")
    x = torch.stack([row.ravel() / 53 - 1, column.ravel() / 80 - 1], 1)
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:13_696]]
    solver = apviz.AlternatingProjection(block_size=100, partition=KDTree(overlap=1.0), max_epochs=2, tol=1e-9)
    trace = solved(x, torch.sin(5 * x).sum(1), solver, snapshots=range(60))
    figure = plots.residual_image(trace)
    assert len(figure.frames) == 60 and len(figure.data[0].z) == 13_696
    assert len(figure.to_json()) < 5e6


def test_a_residual_that_is_not_finite_is_left_out_with_a_note(picture):
    figure = plots.residual_image(edited(picture, at_3=np.inf, at_5=np.nan))
    assert [frame.name for frame in figure.frames] == ["0", "1", "2", "4", "6", "7"]
    assert "2 non-finite pictures left out" in figure.layout.title.text
    with pytest.raises(ValueError, match="no recorded residual is finite"):
        plots.residual_image(edited(picture, **{f"at_{k}": np.nan for k in range(8)}))


def test_a_residual_of_zero_everywhere_is_a_white_picture(picture):
    figure = plots.residual_image(edited(picture, **{f"at_{k}": 0.0 for k in range(8)}))
    assert not figure.frames[3].data[0].z.any()


# --- the block and its margin --------------------------------------------------------------------------------------


def test_the_outline_encloses_the_rows_the_block_owns_and_no_others(picture):
    figure, rows = plots.residual_image(picture), picture["rows"]
    pixels, owner = figure.data[0], rows["owner"].values[by_line(picture)]
    for frame, block in zip(figure.frames[1:], picture["update"]["block"].values, strict=False):
        outline = frame.data[2]
        # a pixel is inside if a ray to the left crosses the outline an odd number of times
        x0, x1, y0, y1 = outline.x[0::3], outline.x[1::3], outline.y[0::3], outline.y[1::3]
        upright = x0 == x1
        crossed = (x0 < pixels.x[:, None]) & (y0 < pixels.y[:, None]) & (y1 > pixels.y[:, None]) & upright
        np.testing.assert_array_equal(crossed.sum(1) % 2 == 1, owner == block)


def test_the_shade_covers_the_margin_and_no_other_rows(picture):
    figure, rows = plots.residual_image(picture), picture["rows"]
    pixels, owner, pairs = figure.data[0], rows["owner"].values, rows["membership"].values
    for frame, block in zip(figure.frames[1:], picture["update"]["block"].values, strict=False):
        margin = [row for row, holder in pairs if holder == block and owner[row] != block]
        shade = frame.data[1]
        left, right, top, bottom = shade.x[0::5], shade.x[1::5], shade.y[0::5], shade.y[2::5]
        x, y = pixels.x[:, None], pixels.y[:, None]
        covered = ((left < x) & (x < right) & (top < y) & (y < bottom)).any(1)
        assert sorted(by_line(picture)[covered]) == sorted(margin)


def test_missing_pixels_leave_no_holes_in_the_outline():
    side = torch.arange(24.0)
    x = torch.cartesian_prod(side, side)
    kept = torch.rand(576, generator=torch.Generator().manual_seed(1)) > 0.2
    trace = solved(
        x[kept], torch.ones(int(kept.sum())), apviz.AlternatingProjection(block_size=116, partition="kd-tree")
    )
    for frame in plots.residual_image(trace).frames[1:]:
        # a block is about 12 × 12 cells
        assert 40 <= sides(frame.data[2].x, frame.data[2].y) <= 80


def test_scattered_blocks_are_marked_by_a_dot_per_row(scattered):
    figure, rows = plots.residual_image(scattered), scattered["rows"]
    block = int(scattered["update"]["block"][0])
    margin, owned = figure.frames[1].data[1:]
    mine = rows["owner"].values == block
    pixels, of_block = figure.data[0], mine[by_line(scattered)]
    expected = set(zip(pixels.x[of_block].tolist(), pixels.y[of_block].tolist(), strict=True))
    assert len(owned.x) == mine.sum() and set(zip(owned.x.tolist(), owned.y.tolist(), strict=True)) == expected
    assert len(margin.x) == int(scattered["block"]["solved_size"][block]) - mine.sum() > 0
    assert margin.marker.opacity < owned.marker.opacity


def test_before_any_update_no_block_is_marked(picture, scattered, points):
    for trace in (picture, scattered, points):
        assert all(len(mark.x) == 0 for mark in plots.residual_image(trace).frames[0].data[1:])


def test_a_solver_without_blocks_is_a_picture_without_marks(china):
    trace = solved(china.train_x, china.train_y, apviz.ConjugateGradient(max_epochs=4))
    figure = plots.residual_image(trace)
    assert [len(frame.data) for frame in figure.frames] == [1] * 5
    assert "block" not in figure.data[0].hovertemplate + figure.layout.title.text
    assert figure.layout.sliders[0].steps[1].label.startswith("update 1 · ")


# --- other inputs --------------------------------------------------------------------------------------------------


def test_inputs_off_a_grid_are_drawn_as_points(points):
    figure = plots.residual_image(points)
    np.testing.assert_allclose(np.stack([figure.data[0].x, figure.data[0].y], 1), points["rows"]["coordinates"])
    np.testing.assert_allclose(
        figure.frames[2].data[0].marker.color * unit(figure),
        points["snapshot"]["residual"].values[2],
        atol=0.51 * unit(figure),
    )
    assert figure.layout.xaxis.title.text == "first input" and figure.layout.yaxis.title.text == "second input"


def test_sparse_grids_and_repeated_inputs_are_drawn_as_points():
    sparse = torch.randint(0, 60, (200, 2), generator=torch.Generator().manual_seed(0)).float()
    side = torch.arange(15.0)
    grid = torch.cartesian_prod(side, side)
    for x in (sparse, torch.cat([grid, grid[:1]])):
        assert plots.residual_image(solved(x, torch.sin(x[:, 0]))).data[0].type == "scatter"
    assert plots.residual_image(solved(grid, torch.sin(grid[:, 0]))).data[0].type == "heatmap"


# --- words ---------------------------------------------------------------------------------------------------------


def test_each_step_states_block_residual_and_work(picture):
    steps = plots.residual_image(picture).layout.sliders[0].steps
    update, start = picture["update"], picture["epoch"].isel(epoch=0)
    assert steps[0].label == f"before any update · ‖r₁‖/‖b₁‖ = 1 · work {float(start['work']):.3g}"
    for k, step in enumerate(steps[1:]):
        residual, work = float(update["residual"][k, 0]), float(update["work"][k])
        expected = f"update {k + 1}: block {int(update['block'][k])} · ‖r₁‖/‖b₁‖ = {residual:.3g} · work {work:.3g}"
        assert step.label == expected
        assert list(step.args[0]) == [str(k + 1)]


def test_the_last_update_states_the_work_with_the_pass_after_it_as_other_pages_do(picture):
    last, total = picture["update"].isel(update=-1), float(picture["epoch"]["work"][-1])
    assert total > float(last["work"])
    words = words_of_update(picture, int(last["update"]))[1]
    assert words.endswith(f"work {float(last['work']):.3g} ({total:.3g} with the final check)")


def test_the_title_states_system_method_outcome_and_marks(picture, scattered):
    title = plots.residual_image(picture).layout.title.text
    for stated in (
        "china",
        "n = 600",
        "d = 2",
        "b = 90",
        "σ² = 0.05",
        "outline: block",
        "hatched: margin",
        "grey: no row",
    ):
        assert stated in title
    assert "Not converged" in plots.residual_image(scattered).layout.title.text
    assert "dots: block · faint dots: margin" in plots.residual_image(scattered).layout.title.text
    assert "residual r₁ at each point" in plots.residual_image(picture).layout.coloraxis.colorbar.title.text
    for line in title.split("<br>"):
        assert len(line.partition(">")[2].partition("<")[0]) <= 52


@pytest.mark.parametrize("theme", THEMES)
def test_the_figure_is_valid_json_in_both_themes_without_webgl(picture, points, theme):
    for trace in (picture, points):
        figure = plots.residual_image(trace, theme=theme)
        json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
        assert {each.type for each in figure.data} <= {"heatmap", "scatter"}


def test_updates_that_are_not_recorded_yet_are_drawn_next_time(china):
    seen = []

    class Look(apviz.Hook):
        def on_update(self, update):
            if update.number == 2:
                seen.append(plots.residual_image(recorder.trace))

    recorder = apviz.Recorder(rows=True, snapshots=range(5))
    system = apviz.KernelSystem(china.train_x, china.train_y, apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
    apviz.solve(system, KD_TREE, [recorder, Look()])
    assert [frame.name for frame in seen[0].frames] == ["0"]


# --- errors --------------------------------------------------------------------------------------------------------


def test_an_error_about_missing_rows_or_snapshots_says_how_to_record_them(china, picture):
    advice = r"hooks=\[apviz\.Recorder\(rows=True, snapshots=range\(0, 60\)\)\]"
    for recording, missing in (
        ({"rows": False}, "no rows"),
        ({"snapshots": ()}, "no snapshot"),
        ({"rows": False, "snapshots": ()}, "no rows and no snapshot"),
    ):
        with pytest.raises(ValueError, match=rf"has {missing}\. .*{advice}"):
            plots.residual_image(solved(china.train_x, china.train_y, **recording))
    with pytest.raises(ValueError, match=r"light, dark, got 'blue'"):
        plots.residual_image(picture, theme="blue")


@pytest.mark.parametrize("d", [1, 3])
def test_systems_without_two_inputs_are_rejected(d):
    x = torch.rand(100, d, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match=rf"d = 2 inputs.*has d = {d}"):
        plots.residual_image(solved(x, x[:, 0]))


# --- in a browser --------------------------------------------------------------------------------------------------


@pytest.fixture
def browser(browser):
    """Yield the browser of the module, and close all pages after the test."""
    yield browser
    for context in browser.contexts:
        context.close()


def open_figure(browser, figure, folder, width=1280):
    """Open the figure as an offline page, and collect its errors.

    An interrupted animation of Plotly rejects its promise with the reason `undefined`, which is not an error.
    """
    path = folder / "figure.html"
    figure.write_html(path, auto_play=False)
    context = browser.new_context(viewport={"width": width, "height": 760}, offline=True)
    tab, problems = context.new_page(), []
    tab.on("pageerror", lambda error: problems.append(str(error)) if str(error) != "undefined" else None)
    tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    tab.goto(path.as_uri())
    tab.wait_for_selector(".slider-label")
    return tab, problems


def step(tab, number):
    """Click the slider at a step, and wait for its picture."""
    box = tab.locator(".slider-rail-touch-rect").bounding_box()
    count = tab.evaluate("document.querySelector('.js-plotly-plot').layout.sliders[0].steps.length")
    tab.evaluate("document.querySelector('.js-plotly-plot').once('plotly_animated', () => { window.stepped = true; })")
    tab.mouse.click(box["x"] + 10 + (box["width"] - 20) * number / (count - 1), box["y"] + box["height"] / 2)
    tab.wait_for_function("window.stepped")
    tab.evaluate("window.stepped = false")
    said = tab.locator(".slider-label").first.text_content()
    assert said.startswith(f"update {number}:" if number else "before any update")


def drawn(tab):
    """Return the residuals in the picture, row by row, and the number of points of its marks."""
    return tab.evaluate(
        """() => {
            const [pixels, shade, outline] = document.querySelector('.js-plotly-plot').calcdata.map(each => each[0]);
            const marks = document.querySelector('.js-plotly-plot')._fullData.slice(1, 3).map(each => each.x.length);
            return [pixels.z.map(row => Array.from(row)), marks];
        }"""
    )


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.slow)])
def test_the_slider_moves_forward_and_back_between_the_recorded_residuals(browser, tmp_path, picture, width):
    figure = plots.residual_image(picture)
    tab, problems = open_figure(browser, figure, tmp_path, width)
    pixels = figure.data[0]
    for number in (3, 7, 0):
        step(tab, number)
        picture_drawn, marks = drawn(tab)
        values = np.array([[np.nan if z is None else z for z in row] for row in picture_drawn])
        np.testing.assert_array_equal(values[pixels.y, pixels.x], figure.frames[number].data[0].z)
        assert np.isnan(values).sum() == values.size - 600
        assert [count > 0 for count in marks] == [number > 0] * 2
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []


@pytest.mark.slow
def test_play_runs_through_the_updates_and_pause_stops(browser, tmp_path, picture):
    tab, problems = open_figure(browser, plots.residual_image(picture), tmp_path)
    active = "document.querySelector('.js-plotly-plot').layout.sliders[0].active || 0"
    tab.locator(".updatemenu-button", has_text="play").click()
    tab.wait_for_function(f"({active}) >= 1")
    tab.locator(".updatemenu-button", has_text="pause").click()
    tab.wait_for_timeout(200)
    stopped = tab.evaluate(active)
    # longer than the pause between two frames
    tab.wait_for_timeout(700)
    assert tab.evaluate(active) == stopped < 7
    assert problems == []


@pytest.mark.slow
def test_the_hover_text_states_row_column_block_and_residual(browser, tmp_path, picture):
    figure = plots.residual_image(picture)
    tab, problems = open_figure(browser, figure, tmp_path)
    pixels = figure.data[0]
    at = tab.evaluate(
        """([x, y]) => {
            const chart = document.querySelector('.js-plotly-plot'), box = chart.getBoundingClientRect();
            const {xaxis, yaxis} = chart._fullLayout;
            return [box.x + xaxis._offset + xaxis.c2p(x), box.y + yaxis._offset + yaxis.c2p(y)];
        }""",
        [int(pixels.x[5]), int(pixels.y[5])],
    )
    tab.mouse.move(*at)
    said = tab.locator(".hoverlayer .hovertext").text_content()
    assert f"row {pixels.y[5]}, column {pixels.x[5]}" in said
    assert f"block {picture['rows']['owner'].values[by_line(picture)[5]]}" in said
    assert f"{abs(int(pixels.z[5])):,}" in said
    assert problems == []
