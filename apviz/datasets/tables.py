"""Your own table: a CSV or Parquet file with a target column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from apviz.datasets.cards import Card
from apviz.datasets.preprocessing import (
    Dataset,
    RawTable,
    check_settings,
    check_values,
    prepare,
    varying_inputs,
)

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")


def load_table(
    path: str | Path,
    target: str | int,
    *,
    seed: int = 0,
    n: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Dataset:
    """Read a table of numbers and preprocess it as `load` does; every column but the target is an input.

    `target` as a name: the first line of a CSV file holds the names. `target` as a position (−1 is the last
    column): a CSV file has no header. A Parquet file has names in any case and takes either.
    """
    check_settings(seed, n, dtype)
    path = Path(path)
    table = read_table(path, target)
    check_values(table, str(path))
    card = Card(
        # whole: no data set of apviz is called so, and houses.2023.csv is not houses.2024.csv
        name=path.name,
        title=path.name,
        n=len(table.target),
        d=int(varying_inputs(table).sum()),
        d_raw=table.inputs.shape[1],
        target=table.target_name,
        licence="not stated: your own table",
        citation="",
        page="",
        documented="",
        reading="Every column but the target is an input.",
        files=(path.name,),
    )
    return prepare(table, card, seed=seed, n=n, dtype=dtype, source=str(path))


def read_table(path: Path, target: str | int) -> RawTable:
    """The raw table of a CSV or Parquet file (see `load_table` for `target`)."""
    frame = _read_frame(path, headerless=not isinstance(target, str))
    position = _target_position(frame, target, path)
    _check_numeric(frame, path, headerless=frame.columns.inferred_type == "integer")
    columns = [str(name) for name in frame.columns]
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return RawTable(
        inputs=np.delete(values, position, axis=1),
        target=values[:, position],
        feature_names=tuple(columns[:position] + columns[position + 1 :]),
        target_name=columns[position],
    )


def _read_frame(path: Path, headerless: bool) -> pd.DataFrame:
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise ValueError(f"{path}: expected a file ending in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise FileNotFoundError(f"No such file: {path}")
    try:
        if name.endswith((".parquet", ".pq")):
            return pd.read_parquet(path)
        return pd.read_csv(path, header=None if headerless else 0)
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty") from error
    except (pd.errors.ParserError, UnicodeDecodeError, OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error


def _target_position(frame: pd.DataFrame, target: str | int, path: Path) -> int:
    count = len(frame.columns)
    if count < 2:
        raise ValueError(f"{path} has {count} column: a target and at least one input are needed, separated by commas")
    if not isinstance(target, str):
        if not -count <= target < count:
            raise ValueError(f"target = {target}: {path} has {count} columns, so −{count} to {count - 1} are accepted")
        return target % count
    columns = [str(name) for name in frame.columns]
    if target not in columns:
        raise ValueError(f"target = {target!r}: {path} has no such column; its columns are {', '.join(columns)}")
    return columns.index(target)


def _check_numeric(frame: pd.DataFrame, path: Path, headerless: bool) -> None:
    bad = [
        str(name)
        for name, kind in frame.dtypes.items()
        if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind)
    ]
    if bad:
        hint = " If the first line holds column names, give the target by name." if headerless else ""
        raise ValueError(f"{path}: not numeric: {', '.join(bad)}. Encode these columns as numbers or drop them.{hint}")
