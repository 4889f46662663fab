"""The earth's relief, on small grids written here, and on the real one checked against maps."""

import hashlib
import math
import sys

import numpy as np
import pytest
import torch

from apviz import datasets
from apviz.datasets.fetching import locate
from apviz.datasets.relief import read_earth, sphere_points

h5py = pytest.importorskip("h5py")


def written(path, grid, name="Altitude"):
    with h5py.File(path, "w") as file:
        file.create_dataset(name, data=grid, compression="gzip")
    return path


def degrees(points):
    """Return latitude and longitude of points on the sphere."""
    x, y, z = np.asarray(points, dtype=np.float64).T
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def test_a_byte_counts_28_metres_from_minus_450_and_no_data_means_sea_level(tmp_path):
    raw = read_earth(written(tmp_path / "a.h5", np.array([[0, 1, 16], [100, 254, 255]], dtype=np.uint8)))
    assert raw.target.tolist() == [-450, -422, -2, 2350, 6662, 0]
    assert raw.feature_names == ("x", "y", "z") and raw.inputs.shape == (6, 3)


def test_rows_go_from_north_to_south_and_columns_from_west_to_east_through_the_centres_of_cells():
    latitude, longitude = degrees(sphere_points(2160, 4320))
    np.testing.assert_allclose(latitude.reshape(2160, 4320)[:, 7], 90 - (np.arange(2160) + 0.5) / 12)
    np.testing.assert_allclose(longitude.reshape(2160, 4320)[1080], -180 + (np.arange(4320) + 0.5) / 12)


def test_points_lie_on_the_sphere_and_their_distances_are_chords():
    points = sphere_points(6, 12)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)
    # two neighbours at 15 degrees north, 30 degrees of longitude apart: the haversine formula
    haversine = math.cos(math.radians(15)) ** 2 * math.sin(math.radians(15)) ** 2
    np.testing.assert_allclose(np.linalg.norm(points[24] - points[25]), 2 * math.sqrt(haversine))


@pytest.mark.parametrize(
    ("grid", "name", "message"),
    [
        (np.zeros((2, 2), dtype=np.uint8), "Depth", "with the data set Altitude .*fetch it again"),
        (np.zeros((2, 2), dtype=np.int32), "Altitude", "Altitude is int32 of shape .2, 2.; expected a grid of bytes"),
        (np.zeros(4, dtype=np.uint8), "Altitude", "expected a grid of bytes"),
    ],
)
def test_an_error_about_another_file_says_what_was_expected(tmp_path, grid, name, message):
    with pytest.raises(ValueError, match=message):
        read_earth(written(tmp_path / "a.h5", grid, name))


def test_a_file_that_is_not_hdf5_is_rejected(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"a\.h5 is not an HDF5 file"):
        read_earth(tmp_path / "a.h5")


def test_without_h5py_the_error_says_what_to_install(tmp_path, monkeypatch):
    path = written(tmp_path / "a.h5", np.zeros((2, 2), dtype=np.uint8))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="pip install h5py"):
        read_earth(path)


@pytest.fixture(scope="module")
def relief():
    """Return the table of the real file."""
    try:
        return read_earth(locate(datasets.card("earth")))
    except datasets.DatasetUnavailable:
        pytest.skip("the file of earth is not on this machine")


def unit_vector(latitude, longitude):
    phi, along = math.radians(latitude), math.radians(longitude)
    return np.array([math.cos(phi) * math.cos(along), math.cos(phi) * math.sin(along), math.sin(phi)])


def height(relief, latitude, longitude):
    """Return the height of the nearest point."""
    return relief.target[(relief.inputs @ unit_vector(latitude, longitude)).argmax()]


PLACES = {  # latitude, longitude and metres above the sea; towns on plains, low and high
    "Denver": (39.74, -104.99, 1609),
    "Madrid": (40.42, -3.70, 657),
    "Johannesburg": (-26.20, 28.05, 1753),
    "Alice Springs": (-23.70, 133.88, 545),
    "Mexico City": (19.43, -99.13, 2240),
    "El Alto": (-16.51, -68.17, 4090),
    "Moscow": (55.75, 37.62, 156),
    "Dead Sea": (31.50, 35.48, -430),
}


@pytest.mark.parametrize("place", PLACES)
def test_places_have_the_heights_on_maps(relief, place):
    *position, metres = PLACES[place]
    assert abs(height(relief, *position) - metres) < 150  # pvlib warns of errors of more than 100 m


@pytest.mark.parametrize("position", [(0, -150), (45, -35), (-40, 80), (88, 0)])
def test_the_seas_are_flat(relief, position):
    assert height(relief, *position) == 0


def test_the_highest_point_is_in_the_cell_of_everest_or_a_neighbouring_one(relief):
    chord = np.linalg.norm(relief.inputs[relief.target.argmax()] - unit_vector(27.988, 86.925))
    assert chord < math.radians(1.5 * 5 / 60)
    assert 5800 < relief.target.max() < 8849  # the mean over a cell is below the summit


def test_two_thirds_are_at_sea_level(relief):
    assert 0.66 < (relief.target == 0).mean() < 0.70
    north = relief.inputs[:, 2] > 0
    assert (relief.target[north] == 0).mean() < (relief.target[~north] == 0).mean()  # more land in the north


@pytest.mark.slow
def test_a_million_rows_lie_on_the_sphere_and_no_two_are_equal_in_float32(relief):
    data = datasets.load("earth", n=1_000_000)
    assert data.train_x.dtype == torch.float32 and len(data.test_x) == 1_866_240
    assert torch.allclose(data.train_x.norm(dim=1), torch.ones(1_000_000))
    rows = data.train_x.numpy()
    rows = rows[np.lexsort(rows.T)]
    assert (rows[1:] != rows[:-1]).any(axis=1).all()


def test_the_checksum_on_the_card_equals_that_of_the_file(relief):
    found = hashlib.sha256(locate(datasets.card("earth")).read_bytes()).hexdigest()
    assert datasets.card("earth").sha256 == found
