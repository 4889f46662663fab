"""The three figures of two blocks: points and functions, the fan of angles, errors per sweep."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.linalg

import apviz
from apviz.plots._style import THEMES
from apviz.plots.rkhs import angle_fan, closest_functions, sweep_errors
from apviz.rkhs import Span, friedrichs_angle, principal_angles, principal_pair, sweeps_of, trajectory_on, two_blocks


def every_figure(theme="light", shared=2, noise=0.05, sweeps=8):
    blocks = two_blocks(5, 0.1, shared)
    span = Span(blocks.x, apviz.Matern52(lengthscale=0.3), noise)
    sets = (blocks.first, blocks.second)
    found = trajectory_on(span, np.cos(3 * blocks.x), sets, rule="cyclic", steps=2 * sweeps)
    angles = principal_angles(span, *sets)
    figures = [
        closest_functions(span, blocks, principal_pair(span, *sets), friedrichs_angle(span, *sets), theme=theme),
        angle_fan(span, angles, shared, theme=theme),
        sweep_errors(found, sweeps_of(found), theme=theme),
    ]
    return figures, span, blocks, found


def named(figure, name):
    return next(each for each in figure.data if (each.name or "").startswith(name))


@pytest.mark.parametrize("shared", [0, 1, 2])
def test_every_point_is_drawn_once_with_its_block(shared):
    (figure, *_), _, blocks, _ = every_figure(shared=shared)
    drawn = [np.asarray(named(figure, name).x) for name in ("first only:", "second only:", "in both:")]
    np.testing.assert_allclose(np.sort(np.concatenate(drawn)), blocks.x)
    np.testing.assert_allclose(drawn[2], blocks.x[list(blocks.shared)])
    assert f"{5 + -(-shared // 2)} and {5 + shared // 2} points, {shared} in both" in figure.layout.title.text


@pytest.mark.parametrize("shared", [0, 2])
def test_the_rays_are_the_principal_angles_and_the_friedrichs_angle_is_lit(shared):
    figures, span, blocks, _ = every_figure(shared=shared)
    first, second = (span.factor[list(rows)].T for rows in (blocks.first, blocks.second))
    theirs = np.sort(scipy.linalg.subspace_angles(first, second))
    lit = named(figures[1], "the Friedrichs angle")
    assert np.arctan2(lit.y[1], lit.x[1]) == pytest.approx(theirs[shared], rel=1e-6)
    others = named(figures[1], "other principal angles")
    np.testing.assert_allclose(np.arctan2(others.y, others.x)[1::3], theirs[shared + 1 :], rtol=1e-6)
    zero = named(figures[1], "0° for each")
    assert len(zero.x) == 3 * shared and bool(zero.showlegend) == bool(shared)
    assert f"cos²θ = {np.cos(theirs[shared]) ** 2:.4g}" in figures[1].layout.title.text


def test_errors_are_those_of_the_walk_and_the_bound_is_dotted():
    figures, span, _, found = every_figure(shared=0)
    bound, measured = figures[2].data
    goal = np.linalg.solve(span.gram, found.b)
    gaps = [step.weights - goal for step in found.steps[::2]]
    errors = np.sqrt([gap @ span.gram @ gap for gap in gaps])
    np.testing.assert_allclose(measured.y, errors / errors[0], rtol=1e-6)
    assert bound.line.dash == "dot" and (np.asarray(measured.y) <= np.asarray(bound.y) * (1 + 1e-9)).all()


def test_what_is_solved_in_the_first_sweep_is_said_to_be():
    blocks = two_blocks(3, 50.0)
    span = Span(blocks.x, apviz.RBF(lengthscale=0.1), 0.1)
    found = trajectory_on(span, np.ones(6), (blocks.first, blocks.second), rule="cyclic", steps=6)
    figure = sweep_errors(found, sweeps_of(found))
    assert "solved in the first sweep" in figure.layout.title.text
    assert np.isfinite(figure.layout.yaxis.range).all()


@pytest.mark.parametrize("theme", THEMES)
def test_the_theme_colours_all(theme):
    for figure in every_figure(theme)[0]:
        assert figure.layout.template.layout.paper_bgcolor == THEMES[theme].paper
        json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_the_same_traces_with_and_without_overlap_and_captions_that_fit_a_phone():
    names = [[[each.type for each in figure.data] for figure in every_figure(shared=shared)[0]] for shared in (0, 3)]
    assert names[0] == names[1]
    for figure in every_figure()[0]:
        title = figure.layout.title.text
        assert all(part in title for part in ("n = 10", "Matérn-5/2", "ℓ = 0.3", "σ² = 0.05"))
        assert all(len(each.partition(">")[2].partition("<")[0]) <= 52 for each in title.split("<br>"))
