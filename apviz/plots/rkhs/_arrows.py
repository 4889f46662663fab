"""Arrows and angles in three dimensions, as plotly's data: shafts as lines, heads as cones of triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apviz.plots._axes import Floats

#: triangles around a head
SIDES = 14
#: width of a head ÷ its length; the longest head ÷ its arrow
SLIM, SHARE = 0.32, 0.4


def polyline(parts: Sequence[Floats]) -> dict[str, Floats]:
    """Lines of several points, (m, 3) each, as x, y and z with gaps between them."""
    gap = np.full((1, 3), np.nan)
    joined = np.concatenate([each for part in parts for each in (part, gap)] or [np.zeros((0, 3))])
    return {"x": joined[:, 0], "y": joined[:, 1], "z": joined[:, 2]}


def shafts(tails: Floats, tips: Floats, head: float) -> dict[str, Floats]:
    """Lines from tails to the feet of the heads: (m, 3) each; arrows of no length are left out."""
    return polyline(
        [np.array([tail, tip - 0.9 * size * way]) for tail, tip, way, size in _arrows(tails, tips, head)]
    )  # fmt: skip


def heads(tails: Floats, tips: Floats, head: float) -> dict[str, Any]:
    """Vertices and triangles of cones that end at the tips, `head` long, or less on short arrows."""
    points, triangles = [np.zeros((0, 3))], [np.zeros((0, 3), dtype=int)]
    turns = np.linspace(0, 2 * np.pi, SIDES, endpoint=False)
    for _, tip, way, size in _arrows(tails, tips, head):
        side = np.cross(way, np.eye(3)[np.abs(way).argmin()])
        side /= np.linalg.norm(side)
        ring = np.outer(np.cos(turns), side) + np.outer(np.sin(turns), np.cross(way, side))
        first = sum(len(each) for each in points)
        around = first + 2 + np.arange(SIDES)
        points.append(np.vstack([tip, tip - size * way, tip - size * way + SLIM * size * ring]))
        for apex in (first, first + 1):
            triangles.append(np.column_stack([np.full(SIDES, apex), around, np.roll(around, -1)]))
    vertices, corners = np.concatenate(points), np.concatenate(triangles)
    return dict(zip("xyzijk", [*vertices.T, *corners.T], strict=True))


def right_angle(corner: Floats, first: Floats, second: Floats, size: float) -> dict[str, Floats]:
    """Mark of a right angle between two directions; nothing where one of them is zero."""
    lengths = np.linalg.norm(first), np.linalg.norm(second)
    if min(lengths) <= 0.02 * size:
        return polyline([])
    size = min(size, 0.4 * float(min(lengths)))
    a, b = size * first / lengths[0], size * second / lengths[1]
    return polyline([np.array([corner + a, corner + a + b, corner + b])])


def arc(first: Floats, second: Floats, radius: float, places: int = 24) -> Floats:
    """Arc (places, 3) from one direction to another, around the origin."""
    a = first / np.linalg.norm(first)
    aside = second - (second @ a) * a
    angle = float(np.arctan2(np.linalg.norm(aside), second @ a))
    aside = aside / (np.linalg.norm(aside) or 1.0)
    turns = np.linspace(0, angle, places)
    return np.asarray(radius * (np.outer(np.cos(turns), a) + np.outer(np.sin(turns), aside)))


def rectangle(basis: Floats, held: Floats, margin: float) -> tuple[dict[str, Any], Floats]:
    """Part of a plane through the origin that holds points of it, as triangles, and its edge: (3, 2), (m, 3)."""
    places = held @ basis
    (left, down), (right, up) = places.min(0) - margin, places.max(0) + margin
    corners = np.array([[left, down], [right, down], [right, up], [left, up], [left, down]]) @ basis.T
    triangles = np.array([[0, 1, 2], [0, 2, 3]])
    return dict(zip("xyzijk", [*corners[:4].T, *triangles.T], strict=True)), corners


def _arrows(tails: Floats, tips: Floats, head: float) -> list[tuple[Floats, Floats, Floats, float]]:
    found = []
    for tail, tip in zip(tails, tips, strict=True):
        length = float(np.linalg.norm(tip - tail))
        if length > 1e-3 * head:
            found.append((tail, tip, (tip - tail) / length, min(head, SHARE * length)))
    return found
