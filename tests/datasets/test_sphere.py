"""Points of a sphere: distances against the law of haversines, and the encoding in files."""

from __future__ import annotations

import numpy as np
import pytest

from apviz.datasets import points_on_sphere
from apviz.datasets.sphere import (
    SphereEncoding,
    encoding_from_plain,
    latitude_and_longitude,
    range_in_degrees,
)
from apviz.datasets.tables.encoding import Encoding

LAT, LON = np.random.default_rng(0).uniform([-90, -180], [90, 180], (40, 2)).T


def test_a_chord_is_that_of_the_great_circle_distance():
    phi, theta = np.radians(LAT), np.radians(LON)
    half = np.sin((phi[:, None] - phi) / 2) ** 2
    half += np.cos(phi[:, None]) * np.cos(phi) * np.sin((theta[:, None] - theta) / 2) ** 2
    points = points_on_sphere(LAT, LON, radius=3.0)
    chords = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_allclose(chords, 6.0 * np.sqrt(half), atol=1e-14)


def test_degrees_are_read_back_from_points():
    np.testing.assert_allclose(latitude_and_longitude(points_on_sphere(LAT, LON)), (LAT, LON), atol=1e-10)


def test_gstools_has_the_same_points():
    gstools = pytest.importorskip("gstools")
    theirs = gstools.tools.geometric.latlon2pos((LAT, LON), radius=6371.0).T
    np.testing.assert_allclose(points_on_sphere(LAT, LON), theirs, rtol=1e-12)


def test_the_range_of_longitudes_is_the_shortest_arc():
    low, high = range_in_degrees(points_on_sphere([0.0, 10.0, -5.0], [170.0, -175.0, 179.0]))
    np.testing.assert_allclose((low, high), ((-5.0, 170.0), (10.0, 185.0)), atol=1e-9)


@pytest.mark.parametrize(
    ("lat", "lon", "words"),
    [
        ([100.0], [0.0], "a latitude must be in degrees from −90 to 90, got 100; check that latitude comes first"),
        ([0.0], [-400.0], "a longitude must be in degrees from −360 to 360, got -400"),
        ([0.0, 1.0], [0.0], r"must both have shape \(n,\), got \(2,\) and \(1,\)"),
    ],
)
def test_what_is_no_degree_is_refused(lat, lon, words):
    with pytest.raises(ValueError, match=words):
        points_on_sphere(lat, lon)


def test_a_missing_value_makes_the_whole_point_missing():
    assert np.isnan(points_on_sphere([1.0, np.nan], [np.nan, 2.0])).all()


def test_the_encoding_is_read_back_from_a_file_and_checked():
    encoding = SphereEncoding(latitude=Encoding(column="lat"), longitude=Encoding(column="lon"), radius=6371.0)
    plain = encoding.as_plain()
    assert encoding_from_plain(plain) == encoding
    assert encoding_from_plain(Encoding(column="lat").as_plain()) == Encoding(column="lat")
    for name, value, words in (
        ("radius", -1.0, "radius must be finite and positive"),
        ("radius", "far", "columns on a sphere must have"),
        ("latitude", {}, "a column must have"),
        ("latitude", plain["latitude"] | {"kind": "text"}, "latitude and longitude must be numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            encoding_from_plain(plain | {name: value})
