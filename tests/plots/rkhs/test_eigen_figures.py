"""What the figures of CG beside alternating projection draw, against what was computed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import apviz
from apviz.method import PLAIN_CG
from apviz.plots._style import THEMES, method_color, rule_color
from apviz.plots.rkhs import eigen_paths, eigen_shares, error_by_work
from apviz.rkhs import Span, eigen_path, toy_problem, trajectory


@pytest.fixture(scope="module")
def paths():
    x, _ = toy_problem("even", 20)
    span, b = Span(x, apviz.Matern52(lengthscale=0.2), 0.05), np.random.default_rng(3).standard_normal(20)
    return eigen_path(trajectory(span, b, method="cg", steps=10)), eigen_path(
        trajectory(span, b, block_size=5, steps=40)
    )


@pytest.fixture(params=["eigen_paths", "eigen_shares", "error_by_work"])
def draw(request, paths):
    def figure(work=3, theme="light"):
        if request.param == "eigen_paths":
            return eigen_paths(*paths, (0, 9), work, theme=theme)
        if request.param == "eigen_shares":
            return eigen_shares(*paths, work, pair=(0, 9), theme=theme)
        return error_by_work(*paths, work, theme=theme)

    return figure


def test_every_work_has_the_same_traces(draw):
    kinds = [[(each.type, each.name, each.yaxis) for each in draw(work).data] for work in (0, 1, 5, 10)]
    assert all(each == kinds[0] for each in kinds)


def test_axes_are_named_and_the_system_is_stated(draw, paths):
    figure = draw()
    axes = [each for each in figure.layout.to_plotly_json() if each[1:].startswith("axis")]
    assert all(figure.layout[axis].title.text for axis in axes)
    for stated in ("n = 20", "b = 5", "Matérn-5/2, ℓ = 0.2", "σ² = 0.05", f"κ = {paths[0].kappa:,.0f}", "work 3: CG 3"):
        assert stated in figure.layout.title.text


def test_every_line_of_the_title_fits_a_phone(draw):
    lines = [line.partition(">")[2].rpartition("</span>")[0] for line in draw().layout.title.text.split("<br>")]
    assert all(len(line.replace("<sub>", "").replace("</sub>", "")) <= 52 for line in lines)


@pytest.mark.parametrize("theme", THEMES)
def test_both_themes_colour_the_whole_figure_and_it_is_json(draw, theme):
    figure = draw(theme=theme)
    assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
    drawn = {each.line.color for each in figure.data}
    assert {method_color(PLAIN_CG, theme), rule_color("gauss-southwell", theme)} <= drawn
    json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_an_unknown_theme_gets_a_message(draw):
    with pytest.raises(ValueError, match="light, dark, got 'blue'"):
        draw(theme="blue")


def test_the_start_lies_on_the_circle_and_on_the_ellipse(paths):
    circle, ellipse = eigen_paths(*paths, (0, 9), 2).data[:2]
    across, up = paths[0].coordinates[0, [9, 0]]
    np.testing.assert_allclose(np.hypot(circle.x, circle.y), np.hypot(across, up), rtol=1e-9)
    values = paths[0].eigenvalues[[9, 0]]
    residual = values[0] * np.square(ellipse.x) + values[1] * np.square(ellipse.y)
    np.testing.assert_allclose(residual, values @ [across**2, up**2], rtol=1e-9)


def test_paths_are_walked_as_far_as_the_work_reaches(paths):
    figure = eigen_paths(*paths, (0, 9), 3)
    walked = {each.name: each for each in figure.data if each.mode == "lines+markers"}
    for path in paths:
        drawn = walked[path.trajectory.method.label]
        assert len(drawn.x) == path.at(3) + 1 and drawn.customdata[-1] <= 3
        np.testing.assert_array_equal(np.array([drawn.x, drawn.y]).T, path.coordinates[: path.at(3) + 1, [9, 0]])


def test_the_paths_keep_right_angles(paths):
    layout = eigen_paths(*paths, (0, 9), 3).layout
    assert layout.yaxis.scaleanchor == "x" and layout.yaxis.scaleratio in (None, 1)


def test_before_the_blocks_are_factored_alternating_projection_has_no_point(paths):
    figure = eigen_paths(*paths, (0, 9), 0)
    drawn = {each.name: len(each.x) for each in figure.data if each.mode == "lines+markers"}
    assert drawn == {"CG": 1, "AP gauss-southwell b=5": 0}
    assert "AP still factors its blocks" in figure.layout.title.text


def test_shares_of_error_and_residual_differ_by_lambda(paths):
    figure = eigen_shares(*paths, 4)
    for path in paths:
        error, residual = (each for each in figure.data if each.name == path.trajectory.method.label)
        ratio = np.asarray(residual.y) / np.asarray(error.y) / path.eigenvalues
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
        assert np.sum(error.y) == pytest.approx(path.error[path.at(4)].sum() / path.error[0].sum())


def test_the_curves_over_work_are_error_residual_and_bound(paths):
    data = error_by_work(*paths, 4).data
    for path, name in zip(paths, ("bound of CG by κ", "Theorem 1, by κ′"), strict=True):
        error, residual = (each for each in data if each.name == path.trajectory.method.label)
        gaps = path.trajectory.errors() ** 2
        np.testing.assert_allclose(error.y, gaps / gaps[0], rtol=1e-6, atol=1e-14)
        norms = path.trajectory.residual_norms()
        np.testing.assert_allclose(residual.y, norms / norms[0], rtol=1e-6, atol=1e-12)
        bound = next(each for each in data if each.name == name)
        assert bound.line.dash == "dot" and bound.showlegend
        assert (np.asarray(bound.y) >= np.asarray(error.y)).all()


def test_a_rule_without_a_bound_has_none_in_the_legend(paths):
    cyclic = trajectory(paths[0].trajectory.span, paths[0].trajectory.b, block_size=5, rule="cyclic", steps=20)
    data = error_by_work(paths[0], eigen_path(cyclic), 4).data
    bound = next(each for each in data if each.name == "Theorem 1, by κ′")
    assert not bound.showlegend and np.isnan(np.asarray(bound.y, dtype=float)).all()
