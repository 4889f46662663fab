"""The three figures of a projection: what is drawn is what was computed, to scale."""

from __future__ import annotations

import json

import numpy as np
import pytest

import apviz
from apviz.plots._style import THEMES
from apviz.plots.rkhs import projection_functions, projection_step, two_norms
from apviz.rkhs import Span, step_geometry, trajectory_on

SETS = {"plane": [(0, 1), (2,)], "lines": [(0,), (1,), (2,)], "two planes": [(0, 1), (1, 2)]}


def walked(sets="plane", noise=0.05, lengthscale=0.4, steps=6):
    span = Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=lengthscale), noise)
    return trajectory_on(span, np.array([1.0, 0.3, -0.5]), SETS[sets], rule="cyclic", steps=steps)


def every_figure(number=2, theme="light", picture="residual", sets="plane"):
    found = walked(sets)
    geometry = step_geometry(found, number)
    return [
        projection_step(geometry, picture=picture, theme=theme),
        projection_functions(geometry, picture=picture, theme=theme),
        two_norms(found, number, theme=theme),
    ]


def line(figure, name):
    trace = next(each for each in figure.data if each.type == "scatter3d" and each.name == name)
    return np.column_stack([trace.x, trace.y, trace.z])


def vertices(figure):
    """Of planes and heads of arrows, the tips among them: (m, 3)."""
    return np.concatenate([np.column_stack([each.x, each.y, each.z]) for each in figure.data if each.type == "mesh3d"])


@pytest.mark.parametrize("picture", ["residual", "solution"])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_arrows_end_where_the_functions_are(picture, number):
    geometry = step_geometry(walked(), number)
    start = geometry.goal - geometry.before if picture == "solution" else np.zeros(3)
    drawn = vertices(projection_step(geometry, picture=picture))
    for end in [*geometry.kernels, start + geometry.before, start + geometry.projection]:
        assert np.linalg.norm(drawn - end, axis=1).min() < 1e-12


def test_the_solution_ends_at_g_and_the_residual_at_zero():
    found = walked(steps=40, noise=0.5)
    geometry = step_geometry(found, len(found.steps) - 1)
    path = line(projection_step(geometry, picture="solution"), "path of s⁽⁰⁾, s⁽¹⁾, …")
    np.testing.assert_allclose(path[[0, -1]], [np.zeros(3), geometry.goal], atol=1e-8)
    path = line(projection_step(geometry), "path of r⁽⁰⁾, r⁽¹⁾, …")
    np.testing.assert_allclose(path[[0, -1]], [geometry.goal, np.zeros(3)], atol=1e-8)


@pytest.mark.parametrize("sets", SETS)
def test_scales_are_equal_in_all_directions_and_the_same_at_every_step(sets):
    found = walked(sets)
    ranges = []
    for number in range(len(found.steps)):
        scene = projection_step(step_geometry(found, number)).layout.scene
        ranges.append([scene.xaxis.range, scene.yaxis.range, scene.zaxis.range])
        assert scene.aspectmode == "cube"
    sides = np.ptp(np.array(ranges), axis=-1)
    np.testing.assert_allclose(sides, sides[0, 0])
    assert (np.array(ranges) == np.array(ranges)[0]).all()


def test_a_plane_is_drawn_for_two_points_and_a_line_for_one():
    planes = [len(projection_step(step_geometry(walked(), number)).data[0].x) for number in (0, 1, 2)]
    assert planes == [0, 4, 0]
    geometry = step_geometry(walked(), 2)
    edge = line(projection_step(geometry), "span of {3}")[:2]
    along = (edge[1] - edge[0]) / np.linalg.norm(edge[1] - edge[0])
    assert abs(along @ geometry.kernels[2]) == pytest.approx(np.linalg.norm(geometry.kernels[2]))


def test_the_mark_of_the_right_angle_is_at_a_right_angle():
    figure = projection_step(step_geometry(walked(), 1))
    a, b, c = next(
        np.column_stack([each.x, each.y, each.z])[:3]
        for each in figure.data
        if each.type == "scatter3d" and each.mode == "lines" and each.line.width == 4
    )
    assert abs((a - b) @ (c - b)) < 1e-12 < np.linalg.norm(a - b)


def test_angles_are_stated_in_degrees():
    geometry = step_geometry(walked(), 1)
    title = projection_step(geometry).layout.title.text
    degrees = np.degrees(geometry.kernel_angles)
    assert f"k₁k₂ {degrees[0, 1]:.1f}°" in title and f"k₂k₃ {degrees[1, 2]:.1f}°" in title
    assert f"r⁽⁰⁾ {np.degrees(geometry.angle_before):.1f}°" in title and "r⁽¹⁾ 90.0°" in title


def test_functions_are_drawn_with_the_spike_at_points_and_without_elsewhere():
    geometry = step_geometry(walked(), 2)
    span, weights = geometry.trajectory.span, geometry.trajectory.goal - geometry.trajectory.steps[2].weights
    drawn = [each for each in projection_functions(geometry).data if each.name == "r⁽²⁾, what is left"]
    np.testing.assert_allclose(drawn[0].y, span.values(weights, np.asarray(drawn[0].x)), atol=1e-12)
    np.testing.assert_allclose(drawn[1].y, geometry.trajectory.steps[2].residual, atol=1e-12)
    assert abs(drawn[1].y[2]) < 1e-12


def test_rises_of_the_euclidean_norm_are_marked_and_the_other_never_rises():
    found = walked("lines", noise=0.1, lengthscale=1.0, steps=12)
    figure = two_norms(found, 0)
    euclidean = np.array([np.linalg.norm(step.residual) for step in found.steps])
    rises = np.flatnonzero(np.diff(euclidean) > 0) + 1
    assert len(rises) and list(figure.data[2].x) == list(rises)
    said = f"‖r‖<sub>H</sub> rose never, Euclidean ‖r‖ {len(rises)} times"
    assert said in figure.layout.title.text.replace("<br>", " ")
    assert (np.diff(np.asarray(figure.data[0].y)) < 0).all()


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("picture", ["residual", "solution"])
def test_every_step_has_the_same_traces(sets, picture):
    kinds = [
        [[(each.type, each.mode if each.type != "mesh3d" else "") for each in figure.data] for figure in figures]
        for figures in (every_figure(number, picture=picture, sets=sets) for number in range(4))
    ]
    assert all(kind == kinds[0] for kind in kinds)


@pytest.mark.parametrize("theme", THEMES)
def test_the_theme_colours_all(theme):
    for figure in every_figure(theme=theme):
        assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
        json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_axes_have_titles_captions_fit_a_phone_and_nothing_is_dashed():
    for figure in every_figure():
        title = figure.layout.title.text
        assert all(part in title for part in ("n = 3", "Matérn-5/2", "ℓ = 0.4", "σ² = 0.05"))
        assert all(len(each.partition(">")[2].partition("<")[0]) <= 52 for each in title.split("<br>"))
        flat = [figure.layout.xaxis, figure.layout.yaxis] if figure.data[0].type == "scatter" else []
        solid = [figure.layout.scene[f"{name}axis"] for name in "xyz"] if not flat else []
        assert all(axis.title.text for axis in flat + solid)
        assert not any(each.type == "scatter" and each.line.dash for each in figure.data)


def test_data_of_zeros_are_drawn():
    span = Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.4), 0.1)
    found = trajectory_on(span, np.zeros(3), SETS["plane"], steps=4)
    for number in range(len(found.steps)):
        geometry = step_geometry(found, number)
        assert projection_step(geometry).data and projection_functions(geometry).data
        assert np.isfinite(two_norms(found, number).layout.yaxis.range).all()


def test_points_in_one_place_are_drawn():
    span = Span([0.4, 0.4, 0.4], apviz.Matern52(lengthscale=0.4), 0.1)
    geometry = step_geometry(trajectory_on(span, np.ones(3), SETS["lines"], steps=3), 2)
    figure = projection_functions(geometry)
    assert projection_step(geometry).data and figure.layout.xaxis.range[0] < figure.layout.xaxis.range[1]


def test_curves_go_from_end_to_end_of_an_axis_that_is_given():
    geometry = step_geometry(walked(), 2)
    figure = projection_functions(geometry, ends=(-0.5, 1.5))
    assert figure.layout.xaxis.range == (-0.5, 1.5)
    assert [figure.data[0].x[0], figure.data[0].x[-1]] == [-0.5, 1.5]
    q = np.sqrt(5) * np.abs(np.array([-0.5, 1.5])[:, None] - [0.1, 0.4, 0.8]) / 0.4
    weights = geometry.trajectory.goal - geometry.trajectory.steps[2].weights
    after = next(each for each in figure.data if each.name == "r⁽²⁾, what is left")
    np.testing.assert_allclose(np.array(after.y)[[0, -1]], (1 + q + q**2 / 3) * np.exp(-q) @ weights, atol=1e-12)


def test_bad_input_gets_a_message():
    four = Span([0.0, 0.3, 0.6, 0.9], apviz.Matern52(lengthscale=0.4), 0.1)
    geometry = step_geometry(trajectory_on(four, np.ones(4), [(0, 1), (2, 3)], steps=2), 1)
    with pytest.raises(ValueError, match="projection_step draws three points, this trajectory has 4"):
        projection_step(geometry)
    with pytest.raises(ValueError, match="picture must be one of residual, solution, got 'both'"):
        projection_step(step_geometry(walked(), 1), picture="both")
    with pytest.raises(ValueError, match="number must be from 0 to 6"):
        two_norms(walked(), 7)
    flat = Span(np.random.default_rng(0).uniform(size=(3, 2)), apviz.Matern52(lengthscale=0.4), 0.1)
    with pytest.raises(ValueError, match="functions of one input, this trajectory has 2"):
        projection_functions(step_geometry(trajectory_on(flat, np.ones(3), SETS["plane"], steps=2), 1))
