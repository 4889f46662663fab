"""Make a data set of a table: texts become 0 and 1, dates become days, missing values are dropped or filled."""

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
from apviz.datasets.columns import Column, encode, quoted
from apviz.datasets.oddities import OddityKind, find_oddities
from apviz.datasets.preprocessing import (
    MINIMUM_ROWS,
    Dataset,
    RawTable,
    check_settings,
    check_values,
    prepare,
    scaled,
    varying_inputs,
)
from apviz.datasets.tables import Copies, Decimal, Missing, Table, TableChoices, inspect_table, without_dates
from apviz.rounding import lost, merged_rows

#: how pandas calls a column whose name is empty
UNNAMED = r"Unnamed: \d+(\.\d+)?"


def prepare_table(table: Table, choices: TableChoices) -> RawTable:
    """Makes numbers of a table: texts become 0 and 1, dates days, missing values go or are filled.

    Raises:
        ValueError: a column that is not there or cannot be used; too few rows are left.
    """
    inputs, target = table.inputs_for(choices)
    notes = [each.note for each in (*inputs, target) if each.note]
    unused = [each for each in table.columns if each is not target and each not in inputs]
    notes += _left_out(unused)
    rows, said = _rows_with_values(table, inputs, target, choices)
    notes += said
    if choices.copies == "drop":
        again = pd.DataFrame({place: each.values[rows] for place, each in enumerate((*inputs, target))}).duplicated()
        rows[np.flatnonzero(rows)[again.to_numpy()]] = False
        if again.any():
            notes.append(f"{int(again.sum()):,} of {len(again):,} rows were exact copies of another, and are dropped")
    parts = [encode(each, rows, choices.missing == "fill") for each in inputs]
    names = [name for _, encoded, _ in parts for name in encoded]
    raw = RawTable(
        inputs=np.column_stack([values for values, _, _ in parts]),
        target=target.values[rows],
        feature_names=tuple(names),
        target_name=target.name,
    )
    check_values(raw, str(table.path))
    notes += [how for *_, how in parts if how]
    if target.first is not None:
        notes.append(f"{target.name}: days since {target.first}")
    constant = [name for name, varies in zip(names, varying_inputs(raw), strict=True) if not varies]
    constant += [each.name for each in unused if each.kind == "constant"]
    if constant:
        notes.append(f"left out, for every row has the same value: {quoted(constant)}")
    odd = find_oddities(raw.inputs, raw.target, (*names, target.name), numbers=np.flatnonzero(rows))
    odd = without_dates(odd, inputs)
    # what is constant is said above
    notes += [each.message for each in odd if each.kind is not OddityKind.CONSTANT_COLUMN]
    return replace(raw, notes=tuple(notes), dropped=table.rows - int(rows.sum()))


def _left_out(unused: Sequence[Column]) -> list[str]:
    """Why columns are no inputs; constants are told with those that became so."""
    by_name = [f"{each.name} ({each.about})" for each in unused if each.names_rows]
    unusable = [f"{each.name} ({each.about})" for each in unused if each.kind == "unusable"]
    others = [each.name for each in unused if each.is_usable]
    return [
        *([f"left out, for nearly every row has a text of its own: {quoted(by_name)}"] if by_name else []),
        *([f"left out, for no input can be made of it: {quoted(unusable)}"] if unusable else []),
        *([f"left out, as chosen: {quoted(others)}"] if others else []),
    ]


def _rows_with_values(
    table: Table, inputs: Sequence[Column], target: Column, choices: TableChoices
) -> tuple[NDArray[np.bool_], list[str]]:
    """Rows that are kept, and what is said of the others.

    Raises:
        ValueError: missing values where they are refused; too few rows.
    """
    # a column that is always the same takes no rows with it
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
        notes.append(f"{int(dropped.sum()):,} of {table.rows:,} rows are dropped, for a value is missing: {quoted(of)}")
    if rows.sum() < MINIMUM_ROWS:
        hint = "" if choices.missing == "fill" or not without else "; leave such columns out, or fill what is missing"
        said = f"; of {table.rows:,}, a value is missing in: {quoted(counts)}{hint}" if dropped.any() else ""
        raise ValueError(f"{table.path} has {int(rows.sum())} rows; at least {MINIMUM_ROWS} are needed{said}")
    by = {each.name: each for each in inputs}
    left = {name: where & rows for name, where in filled.items() if (where & rows).any()}
    if left:
        said = quoted([
            f"{name} ({int(where.sum()):,}, "
            + ("as a text of its own)" if by[name].kind == "text" else "by the median)")
            for name, where in left.items()
        ])  # fmt: skip
        notes.append(f"{sum(int(where.sum()) for where in left.values()):,} missing values are filled: {said}")
    return rows, notes


def load_table(
    path: str | Path,
    target: str | int,
    *,
    inputs: Sequence[str] | None = None,
    missing: Missing = "drop",
    copies: Copies = "keep",
    header: bool | None = None,
    decimal: Decimal = None,
    seed: int = 0,
    n: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Dataset:
    r"""Reads a table of one's own and preprocesses it as `load` does.

    Separators, decimal commas and the encoding are found (see `inspect_table`). Texts become inputs of 0 and 1, one for
    each of the 20 commonest; dates become days since the first. What was made of the table, what is left out of it, and
    what becomes alike by rounding, is warned about and in the `notes` of the data set.

    Args:
        target: what is predicted: a name, or a position (−1 is the last column).
        inputs: names of columns; None: every column but the target that varies, without texts that name the rows.
        missing: `drop` rows in which a value of target or inputs is missing or infinite; `fill` inputs with the
            column's median, over all rows as in scaling, and texts with a text of their own; or `refuse`.
        copies: `keep` rows that are exact copies of another, or `drop` all but the first.
        header: whether the first line of a text file holds names; None: it does unless it has numbers where names
            would stand.
        decimal: decimal mark, `.` or `,`, of numbers that can be read in two ways, such as 70,567 in a column without
            0,5 or 1,234,567; for all such columns, or by the name of each. Without it such columns are refused.
        seed: of the shuffle before the split.
        n: keeps the first n of the shuffled training rows; all test rows stay.
        dtype: torch.float32 or torch.float64.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no table: a row that is longer or shorter than the header, two columns of one name; a target that is
            constant or text; too few rows; or a column whose values its largest leaves no room for.

    Examples:
        >>> import apviz, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rents.csv"
        >>> rows = [f"{k % 7},5;{'Oslo' if k % 3 else 'Bergen'};{k},0" for k in range(40)]
        >>> _ = path.write_text("size;city;rent\\n" + "\\n".join(rows))
        >>> data = apviz.datasets.load_table(path, "rent")  # doctest: +SKIP
        >>> data.feature_names  # doctest: +SKIP
        ('size', 'city=Bergen')
    """
    check_settings(seed, n, dtype)
    several: Any = tuple(inputs) if isinstance(inputs, Iterable) and not isinstance(inputs, str) else inputs
    choices = TableChoices(
        target=target, inputs=several, missing=missing, copies=copies, header=header, decimal=decimal
    )
    data = dataset_of(
        inspect_table(path, header=header, target=target, decimal=decimal), choices, seed=seed, n=n, dtype=dtype
    )
    for note in data.notes:
        warnings.warn(f"{path}: {note}", stacklevel=2)
    return data


def dataset_of(
    table: Table, choices: TableChoices, *, seed: int = 0, n: int | None = None, dtype: torch.dtype = torch.float32
) -> Dataset:
    """Data set of a table that was read; see `load_table`."""
    raw, path = prepare_table(table, choices), table.path
    card = Card(
        # whole: no data set of apviz is called so, and houses.2023.csv is not houses.2024.csv
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
            f"{f' that are left of {table.rows:,}' if raw.dropped else ''}; ask for at most that many"
        )
    data = prepare(raw, card, seed=seed, n=n, dtype=dtype, source=str(path))
    inputs = [each.name for each in table.inputs_for(choices)[0] if each.kind != "constant"]
    record = asdict(choices) | {
        "file": path.name, "sha256": table.sha256, "written": str(table.text or ""), "rows": table.rows,
        "rows_used": len(raw.target), "target": raw.target_name, "inputs": inputs, "notes": notes,
    }  # fmt: skip
    return replace(data, notes=notes, preparation=json.dumps(record, ensure_ascii=False))


def _rounding_notes(table: RawTable, path: Path, dtype: torch.dtype) -> list[str]:
    """What nobody gave a name, or becomes alike by rounding to dtype.

    Raises:
        ValueError: a column of which not even float64 keeps the values apart.
    """
    notes, varying = [], varying_inputs(table)
    names = tuple(name for name, varies in zip(table.feature_names, varying, strict=True) if varies)
    unnamed = pd.Index(names)[pd.Index(names).str.fullmatch(UNNAMED)].tolist()
    if unnamed:
        notes.append(
            f"a column without a name in the file is an input: {', '.join(unnamed)}; if it only numbers the rows, as "
            "pandas writes them, write the file with index=False, or drop it"
        )
    raw = np.column_stack([table.inputs[:, varying], table.target])
    exact, columns = np.column_stack(scaled(table)), (*names, table.target_name)
    rounded = exact.astype(str(dtype).removeprefix("torch."))
    fewer = lost(columns, raw, rounded)
    # what is lost in float64 is lost in float32 too
    hopeless = lost(columns, raw, exact) if fewer else []
    if hopeless:
        raise ValueError(f"{path}: {hopeless[0]}. Correct or drop such rows, or take the logarithm of the column")
    return [*notes, *fewer, *merged_rows(raw[:, :-1], exact[:, :-1], rounded[:, :-1])]


def read_table(path: Path, target: str | int) -> RawTable:
    """Raw table of a file in which no value may be missing (see `load_table` for `target`).

    Raises:
        FileNotFoundError: no such file.
        ValueError: no table, or missing values.
    """
    choices = TableChoices(target=target, missing="refuse")
    return prepare_table(inspect_table(path, target=target), choices)
