"""Preparation of a table: texts become 0 and 1, dates become days, missing values are dropped or filled."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from apviz.datasets.cards import Card
from apviz.datasets.preprocessing import (
    MINIMUM_ROWS,
    Dataset,
    RawTable,
    check_enough,
    check_settings,
    check_values,
    prepare,
    scaled,
    shuffle,
    varying_inputs,
)
from apviz.datasets.tables.columns import Column, days_since, quoted
from apviz.datasets.tables.encoding import encode
from apviz.datasets.tables.oddities import OddityKind, find_oddities
from apviz.datasets.tables.table import (
    Dates,
    Decimal,
    Duplicates,
    Ids,
    Missing,
    Table,
    TableChoices,
    inspect_table,
    without_dates,
)
from apviz.rounding import lost, merged_rows

#: pandas' name for a column with an empty name
UNNAMED = r"Unnamed: \d+(\.\d+)?"


def prepare_table(
    table: Table, choices: TableChoices, *, n: int | None = None, seed: int = 0, fewest: int = MINIMUM_ROWS
) -> RawTable:
    """Convert a table to numbers: texts become 0 and 1, dates days; missing values are dropped or filled.

    Args:
        n: keep this number of random rows, by the seed; None: all.
        fewest: number of rows with values that are needed.

    Raises:
        ValueError: a missing or unusable column, or too few remaining rows.
    """
    inputs, target = table.inputs_for(choices)
    notes = [each.note for each in (*inputs, target) if each.note]
    unused = [each for each in table.columns if each is not target and each not in inputs]
    counting = table.counting_columns() if choices.inputs else []
    notes += _left_out(
        unused, "not an input" if choices.inputs else "left out because it only counts the rows", counting
    )
    rows, row_notes = _rows_with_values(table, inputs, target, choices, fewest)
    notes += row_notes
    if choices.duplicates == "drop":
        again = pd.DataFrame({place: each.values[rows] for place, each in enumerate((*inputs, target))}).duplicated()
        rows[np.flatnonzero(rows)[again.to_numpy()]] = False
        if again.any():
            notes.append(
                f"{int(again.sum()):,} of {len(again):,} rows equal another in inputs and target, and are dropped"
            )
    dropped = table.rows - int(rows.sum())
    if n is not None:
        check_enough(int(rows.sum()), n, str(table.path))
        rows = _at_random(rows, n, seed)
    parts = [encode(each, rows, choices.missing == "fill") for each in inputs]
    names = [name for encoding, _ in parts for name in encoding.names]
    made = [encoding.inputs(each)[rows] for each, (encoding, _) in zip(inputs, parts, strict=True)]
    unit = f" ({days_since(target.first)})" if target.first else ""  # predictions are numbers, and have its name
    raw = RawTable(np.column_stack(made), target.values[rows], tuple(names), f"{target.name}{unit}")
    check_values(raw, str(table.path))
    notes += [how for _, how in parts if how]
    if target.first is not None:
        notes.append(f"{target.name}: {days_since(target.first)}")
    constant = [name for name, varies in zip(names, varying_inputs(raw), strict=True) if not varies]
    constant += [each.name for each in unused if each.kind == "constant"]
    if constant:
        notes.append(f"left out because every row has the same value: {quoted(constant)}")
    odd = find_oddities(raw.inputs, raw.target, (*names, target.name), numbers=np.flatnonzero(rows))
    odd = without_dates(odd, inputs)
    # constant columns are reported above
    notes += [each.message for each in odd if each.kind is not OddityKind.CONSTANT_COLUMN]
    encodings = tuple(encoding for encoding, _ in parts)
    return replace(raw, notes=tuple(notes), dropped=dropped, encodings=encodings)


def _at_random(rows: NDArray[np.bool_], n: int, seed: int) -> NDArray[np.bool_]:
    """Return a mask of n of the rows, at random."""
    kept = np.zeros_like(rows)
    kept[np.flatnonzero(rows)[shuffle(int(rows.sum()), seed)[:n].numpy()]] = True
    return kept


def _left_out(unused: Sequence[Column], why: str, counting: Sequence[str] = ()) -> list[str]:
    """Explain why columns are not inputs, except constant ones; `why` is the reason of those that could be.

    Args:
        counting: names of columns that are known to count the rows.
    """
    by_name = [f"{each.name} ({each.about})" for each in unused if each.names_rows]
    unusable = [f"{each.name} ({each.about})" for each in unused if each.kind == "unusable"]
    others = [f"{each.name} (counts the rows)" if each.name in counting else each.name
              for each in unused if each.is_usable]  # fmt: skip
    return [
        *([f"left out because nearly every row has its own text: {quoted(by_name)}"] if by_name else []),
        *([f"left out because no input can be made of it: {quoted(unusable)}"] if unusable else []),
        *([f"{why}: {quoted(others)}"] if others else []),
    ]


def _rows_with_values(
    table: Table, inputs: Sequence[Column], target: Column, choices: TableChoices, fewest: int
) -> tuple[NDArray[np.bool_], list[str]]:
    """Return a mask of the kept rows, and notes on the others; ValueError for refused values, or too few rows."""
    # a constant column drops no rows
    varying = [each for each in (*inputs, target) if each.kind != "constant"]
    missing = {each.name: np.isnan(each.values) for each in varying if each.missing}
    counts = [f"{name} ({int(where.sum()):,})" for name, where in missing.items()]
    if missing and choices.missing == "refuse":
        raise ValueError(f"{table.path} has missing or infinite values in: {quoted(counts)}. Drop or fill these rows")
    filled = {name: where for name, where in missing.items() if choices.missing == "fill" and name != target.name}
    without = [where for name, where in missing.items() if name not in filled]
    dropped = np.logical_or.reduce(without) if without else np.zeros(table.rows, dtype=bool)
    rows, notes = ~dropped, []
    if dropped.any():
        of = [each for each in counts if each.rsplit(" (", 1)[0] not in filled]
        lost_rows = f"{int(dropped.sum()):,} of {table.rows:,} rows"
        notes.append(f"{lost_rows} are dropped because a value is missing: {quoted(of)}")
    if rows.sum() < fewest:
        hint = "" if choices.missing == "fill" or not without else "; leave such columns out, or fill missing values"
        details = f"; of {table.rows:,} rows, values are missing in: {quoted(counts)}{hint}" if dropped.any() else ""
        raise ValueError(f"{table.path} has {int(rows.sum())} rows; at least {fewest} are needed{details}")
    by = {each.name: each for each in inputs}
    left = {name: where & rows for name, where in filled.items() if (where & rows).any()}
    if left:
        columns = quoted([
            f"{name} ({int(where.sum()):,}, "
            + ("as a separate text)" if by[name].kind == "text" else "by the median)")
            for name, where in left.items()
        ])  # fmt: skip
        notes.append(f"{sum(int(where.sum()) for where in left.values()):,} missing values are filled: {columns}")
    return rows, notes


def load_table(
    path: str | Path,
    target: str | int,
    *,
    inputs: Sequence[str] | None = None,
    missing: Missing = "drop",
    duplicates: Duplicates = "keep",
    header: bool | None = None,
    decimal: Decimal = None,
    ids: Ids = "keep",
    dates: Dates = None,
    seed: int = 0,
    n: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Dataset:
    r"""Read your own table and preprocess it as `load` does.

    The format is detected (see `inspect_table`). Texts become inputs of 0 and 1, one for each of the 20 most common;
    dates become days since the first. Warnings, and `notes` of the data set, tell what was converted or left out.

    Args:
        target: name or position of the column to predict (−1 is the last column).
        inputs: names of columns; None: every column that varies, without the target and texts that identify rows.
        missing: `drop` rows with a missing or infinite value in target or inputs; `fill` inputs with the column's
            median over all rows, and texts with a separate text; or `refuse`.
        duplicates: `keep` rows whose inputs and target equal those of another, or `drop` all but the first.
        header: whether the first line of a text file holds names; None: yes, unless it has numbers instead of names.
        decimal: decimal mark, `.` or `,`, of ambiguous numbers, such as 70,567 in a column without 0,5 or 1,234,567;
            one for all such columns, or one per column name. Without it such columns are refused.
        ids: `keep` columns that number the rows, such as an ID, or `drop` them (see `find_oddities`), unless `inputs`
            names them.
        dates: order of ambiguous dates, `day-first` or `month-first`, such as 03/04/2020 in a column without
            31/12/2020; one for all such columns, or one per column name. Without it such columns are refused.
        seed: of the shuffle before the split.
        n: keep the first n of the shuffled training rows; all test rows stay.
        dtype: torch.float32 or torch.float64.

    Raises:
        ValueError: not a table: a row that is longer or shorter than the header, or two columns of one name; a constant
            or text target; too few rows; or a column whose largest value leaves too few digits for the others.

    Examples:
        >>> import apviz, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rents.csv"
        >>> rows = [f"{k % 7},5;{'Oslo' if k % 3 else 'Bergen'};{k},0" for k in range(40)]
        >>> _ = path.write_text("size;city;rent\\n" + "\\n".join(rows))
        >>> apviz.datasets.load_table(path, "rent").feature_names  # doctest: +SKIP
        ('size', 'city=Bergen')
    """
    check_settings(seed, n, dtype)
    several: Any = tuple(inputs) if isinstance(inputs, Iterable) and not isinstance(inputs, str) else inputs
    choices = TableChoices(
        target=target, inputs=several, missing=missing, duplicates=duplicates, header=header, decimal=decimal,
        ids=ids, dates=dates,
    )  # fmt: skip
    table = inspect_table(path, header=header, target=target, decimal=decimal, dates=dates)
    data = dataset_of(table, choices, seed=seed, n=n, dtype=dtype)
    for note in data.notes:
        warnings.warn(f"{path}: {note}", stacklevel=2)
    return data


def dataset_of(
    table: Table, choices: TableChoices, *, seed: int = 0, n: int | None = None, dtype: torch.dtype = torch.float32
) -> Dataset:
    """Make a data set of a table that was read; see `load_table`."""
    raw, path = prepare_table(table, choices), table.path
    card = Card(
        # the whole file name: no data set of apviz is called so, and houses.2023.csv differs from houses.2024.csv
        name=path.name,
        title=path.name,
        n=len(raw.target),
        d=raw.d,
        d_raw=raw.inputs.shape[1],
        target=raw.target_name,
        licence="not stated: your own table",
        citation="",
        page="",
        documented="",
        reading="Texts as 0 and 1, dates as days.",
        files=(path.name,),
    )
    notes = (*raw.notes, *_rounding_notes(raw, path, dtype))
    if n is not None and n > raw.train_rows:
        raise ValueError(
            f"n = {n:,}: {path} has {raw.train_rows:,} training rows, 80% of {len(raw.target):,}"
            f"{f' that are left of {table.rows:,}' if raw.dropped else ''}; n must be at most that number"
        )
    data = prepare(raw, card, seed=seed, n=n, dtype=dtype, source=str(path))
    inputs, predicted = table.inputs_for(choices)
    record = asdict(choices) | {
        "file": path.name, "sha256": table.sha256, "written": str(table.text or ""), "rows": table.rows,
        "rows_used": len(raw.target), "target": predicted.name, "notes": notes,
        "inputs": [each.name for each in inputs if each.kind != "constant"],
    }  # fmt: skip
    return replace(data, notes=notes, preparation=json.dumps(record, ensure_ascii=False))


def _rounding_notes(table: RawTable, path: Path, dtype: torch.dtype) -> list[str]:
    """Report unnamed inputs, and values that rounding to dtype makes equal; ValueError if float64 does."""
    notes, varying = [], varying_inputs(table)
    names = tuple(name for name, varies in zip(table.feature_names, varying, strict=True) if varies)
    unnamed = pd.Index(names)[pd.Index(names).str.fullmatch(UNNAMED)].tolist()
    if unnamed:
        notes.append(
            f"a column without a name in the file is an input: {', '.join(unnamed)}; if it only counts the rows, as "
            "in files that pandas wrote, write the file with index=False, or drop it"
        )
    raw = np.column_stack([table.inputs[:, varying], table.target])
    exact, columns = np.column_stack(scaled(table)), (*names, table.target_name)
    rounded = exact.astype(str(dtype).removeprefix("torch."))
    fewer = lost(columns, raw, rounded)
    # a loss in float64 implies one in float32
    hopeless = lost(columns, raw, exact) if fewer else []
    if hopeless:
        raise ValueError(f"{path}: {hopeless[0]}. Correct or drop such rows, or take the logarithm of the column")
    return [*notes, *fewer, *merged_rows(raw[:, :-1], exact[:, :-1], rounded[:, :-1])]


def read_table(path: Path, target: str | int) -> RawTable:
    """Return the raw table of a file without missing values (see `load_table` for `target`)."""
    choices = TableChoices(target=target, missing="refuse")
    return prepare_table(inspect_table(path, target=target), choices)
