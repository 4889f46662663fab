"""Latitude and longitude as points of a sphere, between which a distance is a chord.

A kernel of the distance in three dimensions is a valid covariance on the sphere; one of the great-circle distance need
not be. The chord is 2R sin(s/2R) for a great-circle distance s: on the Earth 0.1% shorter at 1,000 km, and 1% at 3,100.
GSTools' `latlon=True` does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apviz.datasets.preprocessing import RawTable
from apviz.datasets.tables.columns import Array, Column
from apviz.datasets.tables.encoding import Encoding
from apviz.settings import positive, shown

#: mean radius of the Earth, in km, as in GSTools
EARTH_RADIUS: Final = 6371.0
#: largest absolute value of a latitude and of a longitude, in degrees
LARGEST: Final = (90.0, 360.0)
#: entries of this encoding in a file
_ENTRIES: Final = ("latitude", "longitude", "radius")


def points_on_sphere(latitude: ArrayLike, longitude: ArrayLike, *, radius: float = EARTH_RADIUS) -> Array:
    """Return points of a sphere as inputs: latitudes (n,) and longitudes (n,) in degrees, to (n, 3).

    Args:
        radius: of the sphere, in the unit of lengthscales: 6371 for km, 1 for radians. NaN stays NaN.

    Raises:
        TypeError: values that are no numbers.
        ValueError: values that are no degrees, or of different shapes.

    Examples:
        >>> import numpy as np, apviz
        >>> equator, pole = apviz.datasets.points_on_sphere([0.0, 90.0], [0.0, 0.0])
        >>> float(np.linalg.norm(equator - pole).round())  # the chord of a quarter, √2 R
        9010.0
    """
    lat, lon = _degrees("latitude", latitude), _degrees("longitude", longitude)
    if lat.ndim != 1 or lat.shape != lon.shape:
        raise ValueError(f"latitude and longitude must both have shape (n,), got {lat.shape} and {lon.shape}")
    for name, values, most in zip(("latitude", "longitude"), (lat, lon), LARGEST, strict=True):
        if (np.abs(values) > most).any():
            worst = values[np.nanargmax(np.abs(values))]
            raise ValueError(
                f"a {name} must be in degrees from −{most:g} to {most:g}, got {worst:g}; check that latitude comes "
                "first"
            )
    phi, theta = np.radians(lat), np.radians(lon)
    along = np.cos(phi)
    points = np.stack([along * np.cos(theta), along * np.sin(theta), np.sin(phi)], axis=1)
    return np.asarray(positive("radius", radius) * np.where(np.isnan(lat + lon)[:, None], np.nan, points))


def _degrees(name: str, values: Any) -> Array:
    try:
        # a tensor that wants gradients, or is on a GPU, is no array
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise TypeError(f"{name} must be numbers of shape (n,), got {shown(values)}") from error


def latitude_and_longitude(points: Array) -> tuple[Array, Array]:
    """Return the latitudes and longitudes, in degrees, of points (n, 3) of a sphere."""
    x, y, z = points.T
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


@dataclass(frozen=True, kw_only=True)
class SphereEncoding:
    """How latitudes and longitudes, in degrees, become three inputs: a point of a sphere with this radius."""

    latitude: Encoding
    longitude: Encoding
    radius: float = EARTH_RADIUS
    kind = "sphere"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.latitude.column, self.longitude.column

    @property
    def column(self) -> str:
        """Both columns, for messages."""
        return " or ".join(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(f"{axis} of {self.latitude.column}, {self.longitude.column}" for axis in "xyz")

    def inputs(self, latitude: Column, longitude: Column) -> Array:
        """Return the inputs (n, 3) of both columns of any table; NaN where a value is missing."""
        return self.of_degrees(self.latitude.inputs(latitude)[:, 0], self.longitude.inputs(longitude)[:, 0])

    def of_degrees(self, latitude: Array, longitude: Array) -> Array:
        """Return the inputs (n, 3) of latitudes (n,) and longitudes (n,); ValueError for values that are no degrees."""
        try:
            return points_on_sphere(latitude, longitude, radius=self.radius)
        except ValueError as error:
            raise ValueError(f"{', '.join(self.columns)}: {error}") from error

    def unseen(self, latitude: Column, longitude: Column) -> list[str]:
        """Return no texts: both columns hold numbers."""
        return []

    def as_plain(self) -> dict[str, Any]:
        """Return plain values by name, for files."""
        plain = (self.latitude.as_plain(), self.longitude.as_plain(), self.radius)
        return dict(zip(_ENTRIES, plain, strict=True))


AnyEncoding = Encoding | SphereEncoding


def is_on_sphere(encodings: Sequence[AnyEncoding]) -> bool:
    """Return whether the first three inputs are a point of the Earth."""
    return any(isinstance(each, SphereEncoding) for each in encodings)


def encoding_from_plain(found: Any) -> AnyEncoding:
    """Return an encoding of plain values; a ValueError names one that is missing or invalid."""
    if not isinstance(found, Mapping) or "latitude" not in found:
        return Encoding.from_plain(found)
    if sorted(found) != sorted(_ENTRIES) or not isinstance(found["radius"], float):
        raise ValueError(f"columns on a sphere must have {', '.join(_ENTRIES)}, got {found!r:.80}")
    both = [Encoding.from_plain(found[name]) for name in _ENTRIES[:2]]
    if {each.kind for each in both} != {"number"}:
        raise ValueError("latitude and longitude must be numbers")
    return SphereEncoding(latitude=both[0], longitude=both[1], radius=positive("radius", found["radius"]))


def put_on_sphere(raw: RawTable, latitude: str, longitude: str) -> RawTable:
    """Return the table with points of a sphere, its first three inputs, instead of latitude and longitude."""
    encodings = raw.encodings or tuple(Encoding(column=name) for name in raw.feature_names)
    numbers = ("number", "constant")
    known = {each.column: each for each in encodings if isinstance(each, Encoding) and each.kind in numbers}
    for name in (latitude, longitude):
        if name not in known:
            raise ValueError(f"no input {name} holds numbers; there are {', '.join(known)}")
    as_numbers = [replace(known[name], kind="number") for name in (latitude, longitude)]
    sphere = SphereEncoding(latitude=as_numbers[0], longitude=as_numbers[1])
    places = [raw.feature_names.index(name) for name in (latitude, longitude)]
    points = sphere.of_degrees(*(raw.inputs[:, place] for place in places))
    return replace(
        raw,
        inputs=np.column_stack([points, np.delete(raw.inputs, places, axis=1)]),
        feature_names=(*sphere.names, *(each for each in raw.feature_names if each not in (latitude, longitude))),
        notes=(*raw.notes, f"{latitude} and {longitude}: points of a sphere with a radius of {EARTH_RADIUS:g} km"),
        encodings=(sphere, *(each for each in encodings if each.column not in (latitude, longitude))),
    )


def range_in_degrees(points: NDArray[np.float64]) -> tuple[Array, Array]:
    """Return the smallest and largest latitude and longitude of points (n, 3), (2,) each.

    Longitudes are those of the shortest arc that holds all points, so the largest may exceed 180°.
    """
    latitude, longitude = latitude_and_longitude(points)
    around = np.sort(longitude)
    gaps = np.diff(around, append=around[0] + 360.0)
    widest = int(gaps.argmax())
    west = around[(widest + 1) % len(around)]
    return np.array([latitude.min(), west]), np.array([latitude.max(), west + 360.0 - gaps[widest]])
