"""The seven data sets of the paper (Wu et al., 2024), each read from the file format that its source documents.

Every reader takes the path of a downloaded archive, or of the file inside, and returns the raw table. A broken or wrong
archive raises ValueError. `apviz.datasets.load` checks the numbers of rows and inputs, so that the readers also work on
a few rows.
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from apviz.datasets.preprocessing import RawTable

SGEMM_RUNS = ("Run1 (ms)", "Run2 (ms)", "Run3 (ms)", "Run4 (ms)")
AIR_QUALITY_FILES = "_20130301-20170228.csv"
AIR_QUALITY_DROPPED = ("No", "PM10", "year", "day")
BUZZ_QUANTITIES = ("NCD", "AI", "AS(NA)", "BL", "NAC", "AS(NAC)", "CS", "AT", "NA", "ADL", "NAD")


def read_sgemm(path: Path) -> RawTable:
    """Read kernel settings → log of the mean run time."""
    for _, handle in members(path, "sgemm_product.csv"):
        frame = pd.read_csv(handle)
    runs = frame[list(SGEMM_RUNS)].mean(axis=1).to_numpy()
    return _table(frame.drop(columns=list(SGEMM_RUNS)), np.log(runs), "log run time")


def read_airquality(path: Path) -> RawTable:
    """Read twelve stations' hourly weather and gases → PM2.5. Rows with any missing value are dropped."""
    frame = pd.concat([pd.read_csv(handle) for _, handle in members(path, AIR_QUALITY_FILES)], ignore_index=True)
    frame = frame.dropna().drop(columns=list(AIR_QUALITY_DROPPED))
    for column in ("wd", "station"):
        frame[column] = np.unique(frame[column].to_numpy(dtype=str), return_inverse=True)[1]
    return _table(frame.drop(columns="PM2.5"), frame["PM2.5"], "PM2.5")


def read_3droad(path: Path) -> RawTable:
    """Read OSM id, longitude, latitude → altitude."""
    frame = _headerless(path, "3D_spatial_network.txt", ["OSM id", "longitude", "latitude", "altitude"])
    return _table(frame.drop(columns="altitude"), frame["altitude"], "altitude")


def read_song(path: Path) -> RawTable:
    """Read 90 timbre features → year; the year is the first column."""
    timbre = [f"average {i}" for i in range(1, 13)] + [f"covariance {i}" for i in range(1, 79)]
    frame = _headerless(path, "YearPredictionMSD.txt", ["year", *timbre])
    return _table(frame.drop(columns="year"), frame["year"], "year")


def read_buzz(path: Path) -> RawTable:
    """Read 11 quantities at 7 times → log(1 + mean number of active discussions)."""
    features = [f"{quantity}_{time}" for quantity in BUZZ_QUANTITIES for time in range(7)]
    frame = _headerless(path, "Twitter.data", [*features, "discussions"])
    return _table(frame[features], np.log1p(frame["discussions"].to_numpy(dtype=float)), "log(1 + discussions)")


def read_houseelectric(path: Path) -> RawTable:
    """Read date, time, reactive power, voltage, intensity, sub-meterings → log of global active power."""
    for _, handle in members(path, "household_power_consumption.txt"):
        frame = pd.read_csv(handle, sep=";", na_values="?", engine="c", low_memory=False).dropna()
    moment = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H:%M:%S").dt
    inputs = frame.drop(columns=["Date", "Time", "Global_active_power"])
    for position, part in enumerate(("day", "month", "year", "hour", "minute", "second")):
        inputs.insert(position, part, getattr(moment, part))
    return _table(inputs, np.log(frame["Global_active_power"].to_numpy()), "log global active power")


def read_gassensors(path: Path) -> RawTable:
    """Read time and 16 sensors → methane concentration; the ethylene column is left out."""
    sensors = [f"sensor {i}" for i in range(1, 17)]
    frame = _headerless(path, "ethylene_methane.txt", ["time", "methane", "ethylene", *sensors], sep=r"\s+", skiprows=1)
    return _table(frame[["time", *sensors]], frame["methane"], "methane")


def _headerless(path: Path, member: str, names: list[str], sep: str = ",", skiprows: int = 0) -> pd.DataFrame:
    for name, handle in members(path, member):
        try:
            return pd.read_csv(
                handle, header=None, names=names, index_col=False, sep=sep, skiprows=skiprows, dtype=np.float64,
            )  # fmt: skip
        except (ValueError, pd.errors.ParserError) as error:
            raise ValueError(f"{path}: {name} is not in the documented format ({error})") from error
    raise AssertionError("members raises if it finds nothing")


def _table(inputs: pd.DataFrame, target: pd.Series | NDArray[np.float64], target_name: str) -> RawTable:
    return RawTable(
        inputs=inputs.to_numpy(dtype=np.float64),
        target=np.asarray(target, dtype=np.float64),
        feature_names=tuple(str(name) for name in inputs.columns),
        target_name=target_name,
    )


def members(path: Path, suffix: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield (name, open file) for every file under `path` whose name ends with `suffix`, in archive order.

    Archives inside archives are opened, and `path` may be that file itself. Each file is closed when the next one is
    requested.

    Raises:
        ValueError: not an archive, or an archive without such a file.
    """
    if path.name.endswith(suffix):
        with path.open("rb") as handle:
            yield path.name, handle
        return
    found = False
    try:
        with path.open("rb") as archive:
            for name, member in _walk(path.name, archive, suffix):
                found = True
                yield name, member
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is not a readable archive ({error}); delete it and fetch it again") from error
    if not found:
        raise ValueError(f"{path} holds no file named …{suffix}; is it the archive of another data set?")


def _walk(name: str, archive: IO[bytes], suffix: str) -> Iterator[tuple[str, IO[bytes]]]:
    for inner_name, inner in _open_each(name, archive, suffix):
        if inner_name.endswith(suffix):
            yield inner_name, inner
        else:
            # in memory: seeking backwards inside a compressed member would unpack it from the start each time
            yield from _walk(inner_name, BytesIO(inner.read()), suffix)


def _open_each(name: str, archive: IO[bytes], suffix: str) -> Iterator[tuple[str, IO[bytes]]]:
    if _is_tar(name):
        with tarfile.open(fileobj=archive) as tar:
            for member in tar:
                if member.isfile() and _wanted(member.name, suffix):
                    handle = tar.extractfile(member)
                    if handle is not None:
                        yield member.name, handle
        return
    with zipfile.ZipFile(archive) as zipped:
        for inner in zipped.namelist():
            if _wanted(inner, suffix):
                with zipped.open(inner) as handle:
                    yield inner, handle


def _is_tar(name: str) -> bool:
    return name.lower().endswith((".tar.gz", ".tgz", ".tar"))


def _wanted(name: str, suffix: str) -> bool:
    if name.startswith("__MACOSX"):
        return False
    return name.endswith(suffix) or name.lower().endswith(".zip") or _is_tar(name)
