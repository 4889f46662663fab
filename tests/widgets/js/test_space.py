"""The three-dimensional picture: a rotated right-handed frame, viewed along an axis, with one scale."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("seed", range(6))
def test_visible_lengths_omit_the_part_along_the_line_of_sight(compute, seed):
    draw = np.random.default_rng(seed)
    places, azimuth, elevation = draw.normal(size=(6, 3)), draw.uniform(-3, 3), draw.uniform(-1.5, 1.5)
    (found,) = compute("space", [
        {"azimuth": azimuth, "elevation": elevation, "centre": draw.normal(size=3), "half": 2.0, "places": places}
    ])  # fmt: skip
    eye = np.array(found["eye"])
    wanted = [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
    np.testing.assert_allclose(eye, wanted, atol=1e-12)
    pixels, gaps = np.array(found["pixels"]), places[:, None] - places
    seen = np.linalg.norm(pixels[:, None] - pixels, axis=2) / found["scale"]
    np.testing.assert_allclose(seen**2, (gaps**2).sum(2) - (gaps @ eye) ** 2, atol=1e-9)
    # not mirrored: the orientation of two arrows is that about the line of sight
    flat = (pixels[:1] - pixels[1:3]) * [1, -1]
    assert np.sign(np.linalg.det(flat)) == np.sign(np.cross(gaps[0, 1], gaps[0, 2]) @ eye)
    # the move that corresponds to this drag in the plane of the picture
    along = gaps[0, 1] - (gaps[0, 1] @ eye) * eye
    np.testing.assert_allclose(found["move"], along, atol=1e-9)
