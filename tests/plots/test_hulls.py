"""The hulls that outline blocks of points, checked by directions and by Delaunay's triangles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import Delaunay

from apviz.plots.blocks._marks import hull, within

POINTS = np.random.default_rng(0).normal(size=(80, 2)) * (3.0, 0.2)


def test_a_hull_is_closed_and_has_the_support_function_of_its_points():
    ring = hull(POINTS)
    angles = np.linspace(0, 2 * np.pi, 360)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    np.testing.assert_allclose((ring @ directions).max(axis=0), (POINTS @ directions).max(axis=0))
    np.testing.assert_array_equal(ring[0], ring[-1])
    assert len(np.unique(ring, axis=0)) == len(ring) - 1


def test_points_inside_a_hull_are_those_in_a_delaunay_triangle():
    others = np.random.default_rng(1).normal(size=(500, 2)) * (3.0, 0.2)
    inside = within(others, hull(POINTS))
    np.testing.assert_array_equal(inside, Delaunay(POINTS).find_simplex(others) >= 0)
    assert 0 < inside.sum() < len(others)
    assert within(POINTS, hull(POINTS)).all()


@pytest.mark.parametrize(
    ("points", "ends"),
    [
        (np.array([(1.0, 2.0)]), [(1, 2), (1, 2)]),
        (np.array([(1.0, 2.0), (0.0, 1.0)]), [(0, 1), (1, 2)]),
        (np.array([(0.5, 1.0), (0.5, 3.0), (0.5, 2.0), (0.5, 1.5)]), [(0.5, 1), (0.5, 3)]),
    ],
)
def test_the_hull_of_collinear_points_is_a_segment_without_interior(points, ends):
    ring = hull(points)
    np.testing.assert_array_equal(ring, [*ends, ends[0]])
    assert not within(points, ring).any()


def test_no_points_have_no_hull():
    assert len(hull(np.empty((0, 2)))) == 0
