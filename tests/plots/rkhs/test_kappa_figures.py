"""The figures of κ and κ′."""

from __future__ import annotations

import json

import numpy as np
import pytest

import apviz
from apviz.plots._style import THEMES, partition_color
from apviz.plots.rkhs import block_eigenvalues, bound_and_error, largest_block_eigenvalue
from apviz.rkhs import BoundComparison, Span, compare_with_bound, lambda_max_by_size

SIZES = (10, 20, 30)


@pytest.fixture(scope="module")
def solves() -> dict[str, BoundComparison]:
    draws = np.random.default_rng(0)
    x = draws.uniform(-1, 1, (60, 2))
    span, b = Span(x, apviz.Matern52(lengthscale=0.3), 0.1), np.sin(4 * x[:, 0]) + 0.1 * draws.standard_normal(60)
    return {
        each: compare_with_bound(span, b, block_size=20, partition=each, epochs=6) for each in ("sequential", "kd-tree")
    }


@pytest.fixture(scope="module")
def growth(solves):
    span = solves["kd-tree"].trajectory.span
    return {each: lambda_max_by_size(span, SIZES, each) for each in solves}


def draw_growth(solves, growth, size=20, theme="light"):
    found = solves["kd-tree"]
    return largest_block_eigenvalue(found.trajectory.span, found.spectrum.eigenvalues, SIZES, growth, size, theme=theme)


def test_no_curve_of_a_block_is_above_that_of_k(solves):
    figure = block_eigenvalues(solves)
    whole = np.asarray(figure.data[0].y)
    for curve in figure.data[1:3]:
        x, y = np.asarray(curve.x), np.asarray(curve.y)
        there = np.isfinite(y)
        assert there.sum() == 60 and (~there).sum() == 3
        assert (y[there] <= whole[x[there].astype(int) - 1] * (1 + 1e-12)).all()
    for mark, name in zip(figure.data[3:5], solves, strict=True):
        assert mark.y[0] == solves[name].spectrum.lambda_max_block and mark.marker.color == partition_color(name)


def test_the_largest_eigenvalues_lie_under_both_bounds_and_the_size_in_use_is_marked(solves, growth):
    figure = draw_growth(solves, growth)
    curves, bounds = figure.data[:2], figure.data[2:]
    for curve in curves:
        assert list(curve.x) == list(SIZES) and list(curve.marker.size) == [8, 15, 8]
        assert max(curve.y) <= bounds[0].y[0] and (np.asarray(curve.y) <= 1.1 * np.asarray(SIZES)).all()
    assert [bound.line.dash for bound in bounds] == ["dot", "dot"]
    np.testing.assert_allclose(bounds[1].y, [11, 33])


def test_measured_errors_lie_under_the_dotted_bounds(solves):
    figure = bound_and_error(solves, 0.01)
    for measured, promised in zip(figure.data[:2], figure.data[2:], strict=True):
        assert (np.asarray(measured.y) <= np.asarray(promised.y) * (1 + 1e-9)).all()
        assert promised.line.dash == "dot" and not measured.line.dash
        assert promised.line.color == measured.line.color
    assert figure.layout.shapes[0].y0 == 0.01


def test_captions_hold_the_numbers(solves, growth):
    spectra = {name: solve.spectrum for name, solve in solves.items()}
    text = block_eigenvalues(solves).layout.title.text
    assert f"κ = {spectra['kd-tree'].kappa:.3g}" in text
    for spectrum in spectra.values():
        assert f"{spectrum.kappa_prime:.3g}" in text and f"{spectrum.kappa_coupled:.3g}" in text
    text = bound_and_error(solves, 0.1).layout.title.text
    for solve in solves.values():
        assert f"{solve.epochs_to(0.1):.3g} (Theorem 1: {solve.bound_epochs_to(0.1):,.0f};" in text
    assert "sequential: over 6 (" in bound_and_error(solves, 1e-20).layout.title.text
    assert f"sequential {growth['sequential'][1]:.3g}" in draw_growth(solves, growth).layout.title.text


@pytest.mark.parametrize("theme", THEMES)
def test_both_themes_colour_the_whole_figure_and_lines_fit_a_phone(solves, growth, theme):
    figures = [block_eigenvalues(solves, theme=theme), bound_and_error(solves, 0.01, theme=theme)]
    for figure in (*figures, draw_growth(solves, growth, theme=theme)):
        assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
        found = [line.partition(">")[2].partition("<")[0] for line in figure.layout.title.text.split("<br>")]
        assert all(len(line) <= 52 for line in found) and "n = 60 · Matérn-5/2, ℓ = 0.3 · σ² = 0.1" in found[1]
        assert {each.line.color for each in figure.data if each.line.color} - {None}
        json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda solves, growth: block_eigenvalues({}), "no solve to draw"),
        (lambda solves, growth: bound_and_error({}, 0.1), "no solve to draw"),
        (lambda solves, growth: draw_growth(solves, growth, 25), "block_size must be one of 10, 20, 30, got 25"),
        (lambda solves, growth: bound_and_error(solves, 0.1, theme="blue"), "light, dark, got 'blue'"),
        (lambda solves, growth: partition_color("kd"), "partition must be one of sequential, kd-tree"),
    ],
)
def test_what_cannot_be_drawn_gets_a_message(solves, growth, make, message):
    with pytest.raises(ValueError, match=message):
        make(solves, growth)
