"""Messy tables are read as they were meant, and every decision is reported."""

from __future__ import annotations

import gzip
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
import torch

import apviz
from apviz import comparison
from apviz.datasets import inspect_table, load_table
from apviz.datasets.tables.arrays import SizeLimits
from apviz.datasets.tables.columns import MAX_LEVELS

warnings_are_read_as_notes = pytest.mark.filterwarnings("ignore::UserWarning")
pytestmark = warnings_are_read_as_notes


def numbers(rows=40, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 3)).round(3)


def all_rows(data):
    """Return inputs and target of training and test rows together, sorted, because the shuffle does not matter here."""
    x, y = torch.cat([data.train_x, data.test_x]), torch.cat([data.train_y, data.test_y])
    found = torch.cat([x, y[:, None]], dim=1).numpy()
    return found[np.lexsort(found.T)]


def scaled(columns, target):
    """Return the same rows after the paper's preprocessing, written independently of apviz."""
    x = np.column_stack(columns).astype(float)
    x = 2 * (x - x.min(0)) / (x.max(0) - x.min(0)) - 1
    y = (target - target.mean()) / target.std(ddof=1)
    found = np.column_stack([x, y])
    return found[np.lexsort(found.T)]


def write(path, header, rows, separator=",", decimal=".", encoding="utf-8"):
    lines = [separator.join(header)] if header else []
    for row in rows:
        lines.append(separator.join(cell if isinstance(cell, str) else f"{cell}".replace(".", decimal) for cell in row))
    content = ("\r\n".join(lines) + "\r\n").encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


# --- forms of files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize(
    ("separator", "decimal"), [(",", "."), (";", ","), (";", "."), ("\t", ","), ("|", "."), (" ", ".")]
)
def test_separators_decimals_and_encodings_are_found(tmp_path, encoding, separator, decimal):
    rows = numbers()
    path = write(
        tmp_path / ("t.txt.gz" if separator == ";" else "t.csv"),
        ["größe", "b", "price"],
        rows.tolist(),
        separator,
        decimal,
        encoding,
    )
    data = load_table(path, "price", dtype=torch.float64)
    assert data.feature_names == ("größe", "b") and data.notes == ()
    np.testing.assert_allclose(all_rows(data), scaled(rows[:, :2].T, rows[:, 2]), atol=1e-12)


def test_a_line_that_names_the_separator_as_excel_writes_it_is_not_the_header(tmp_path):
    rows = numbers()
    path = write(tmp_path / "t.csv", ["a", "b", "y"], rows.tolist(), ";", ",")
    path.write_text("sep=;\n" + path.read_text())
    np.testing.assert_allclose(
        all_rows(load_table(path, "y", dtype=torch.float64)), scaled(rows[:, :2].T, rows[:, 2]), atol=1e-12
    )


def test_english_and_german_thousands_separators_are_read(tmp_path):
    rows = numbers()
    large = np.arange(40) * 1234.5 + 1000
    english = [[f'"{value:,.1f}"', *row] for value, row in zip(large, rows[:, 1:].tolist(), strict=True)]
    german = [
        [f"{value:,.1f}".translate(str.maketrans(",.", ".,")), *row]
        for value, row in zip(large, rows[:, 1:].tolist(), strict=True)
    ]
    expected = scaled([large, rows[:, 1]], rows[:, 2])
    for path in (
        write(tmp_path / "e.csv", ["a", "b", "y"], english),
        write(tmp_path / "g.csv", ["a", "b", "y"], german, ";", ","),
    ):
        np.testing.assert_allclose(all_rows(load_table(path, "y", dtype=torch.float64)), expected, atol=1e-12)


def test_commas_within_texts_do_not_separate_columns(tmp_path):
    rows = [[*row, "Oslo, Norway" if k % 2 else "Rome, Italy"] for k, row in enumerate(numbers().tolist())]
    table = inspect_table(write(tmp_path / "t.csv", ["a", "b", "y", "town"], rows, ";"))
    assert table.text.separator == ";" and [each.kind for each in table.columns] == ["number"] * 3 + ["text"]


def test_a_file_without_names_is_recognised_and_its_columns_are_numbered(tmp_path):
    rows = [[*row, "a" if k % 2 else "b"] for k, row in enumerate(numbers().tolist())]
    path = write(tmp_path / "t.csv", None, rows)
    table = inspect_table(path)
    assert [each.name for each in table.columns] == ["column 1", "column 2", "column 3", "column 4"]
    assert table.rows == 40 and "no names in the first line" in str(table.text)
    for target in ("column 3", 2, -2):
        assert load_table(path, target).target_name == "column 3"
    with pytest.raises(ValueError, match="'y': .* no such column; .* column 1, .*numbers instead of names"):
        load_table(path, "y")


def test_numeric_names_are_names_if_one_of_them_is_requested(tmp_path):
    path = write(tmp_path / "t.csv", ["2019", "2020", "2021"], numbers().tolist())
    assert load_table(path, "2021").feature_names == ("2019", "2020")
    assert inspect_table(path, header=True).rows == 40 and inspect_table(path).rows == 41


def test_a_column_may_be_given_by_position_even_if_the_file_has_names(tmp_path):
    path = write(tmp_path / "t.csv", ["a", "b", "y"], numbers().tolist())
    assert torch.equal(load_table(path, -1).train_x, load_table(path, "y").train_x)


def test_numpy_arrays_are_tables(tmp_path):
    rows = numbers()
    np.save(tmp_path / "t.npy", rows)
    np.savez(tmp_path / "t.npz", x=rows[:, :2], y=rows[:, 2])
    expected = scaled(rows[:, :2].T, rows[:, 2])
    for name, target in (("t.npy", "column 3"), ("t.npz", "y")):
        np.testing.assert_allclose(
            all_rows(load_table(tmp_path / name, target, dtype=torch.float64)), expected, atol=1e-12
        )
    np.savez(tmp_path / "u.npz", x=rows, y=rows[:9, 0])
    with pytest.raises(ValueError, match="arrays differ in length: x 1 has 40, .* y has 9"):
        load_table(tmp_path / "u.npz", "y")
    np.save(tmp_path / "o.npy", np.array([object()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be read as a table"):
        load_table(tmp_path / "o.npy", 0)


def test_a_binary_file_called_csv_is_rejected(tmp_path):
    (tmp_path / "t.csv").write_bytes(bytes(range(256)) * 9)
    with pytest.raises(ValueError, match="t.csv cannot be read as a table: it holds bytes that are not text"):
        inspect_table(tmp_path / "t.csv")


def test_a_long_text_repeated_in_every_row_of_a_parquet_file_is_stored_once(tmp_path):
    once = pyarrow.array(["x" * 4_000_000])
    text = pyarrow.DictionaryArray.from_arrays(pyarrow.array(np.zeros(1_500, dtype=np.int32)), once)
    values = pyarrow.array(np.arange(1_500.0))
    # without the stored schema, the file declares texts
    pyarrow.parquet.write_table(
        pyarrow.table({"a": values, "text": text, "y": values}), tmp_path / "t.parquet", store_schema=False
    )
    assert pyarrow.parquet.read_schema(tmp_path / "t.parquet").field("text").type == pyarrow.string()
    assert inspect_table(tmp_path / "t.parquet").column("text").kind == "constant"


def test_too_many_columns_are_rejected_before_they_are_read(tmp_path):
    (tmp_path / "t.csv").write_text(",".join(f"c{k}" for k in range(50_000)) + "\n")
    with pytest.raises(ValueError, match="50,000 columns; up to 20,000 are accepted"):
        inspect_table(tmp_path / "t.csv", limits=SizeLimits(columns=20_000))


# --- contents of columns ----------------------------------------------------------------------------------------------


def table_with(tmp_path, column, **others):
    frame = pd.DataFrame({"a": np.arange(len(column)) * 1.0, "c": column, "y": np.arange(len(column)) ** 2.0} | others)
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_each_text_of_a_column_becomes_an_input_and_two_texts_become_one(tmp_path):
    towns = (["Oslo"] * 20 + ["Rome"] * 12 + ["Bonn"] * 8)[:40]
    path = table_with(tmp_path, towns, smoker=["no", "no", "yes", "no"] * 10)
    data = load_table(path, "y", dtype=torch.float64)
    assert data.feature_names == ("a", "c=Oslo", "c=Rome", "c=Bonn", "smoker=yes")
    a, y = np.arange(40.0), np.arange(40) ** 2.0
    towns, smoker = np.array(towns), np.array(["no", "no", "yes", "no"] * 10)
    expected = scaled([a, *(towns == town for town in ("Oslo", "Rome", "Bonn")), smoker == "yes"], y)
    np.testing.assert_allclose(all_rows(data), expected, atol=1e-12)
    assert "c: 3 inputs of 0 or 1 for 3 texts" in data.notes
    assert "smoker: 1 where it is yes, 0 where it is no" in data.notes


def test_of_many_texts_the_most_common_become_inputs_and_the_others_are_not_distinguished(tmp_path):
    column = [f"t{k}" for k in range(30) for _ in range(31 - k)]
    data = load_table(table_with(tmp_path, column), "y")
    assert data.feature_names == ("a", *(f"c=t{k}" for k in range(MAX_LEVELS)))
    others = sum(31 - k for k in range(MAX_LEVELS, 30))
    assert (
        f"c: 20 inputs of 0 or 1 for 30 texts, the 20 most common; the others, in {others} rows, are not distinguished"
        in data.notes
    )


def test_texts_that_name_rows_are_left_out_with_a_note_unless_requested(tmp_path):
    path = table_with(tmp_path, [f"id-{k}" for k in range(60)])
    data = load_table(path, "y")
    assert data.feature_names == ("a",)
    assert "left out because nearly every row has its own text: c (60 different: id-0, id-1, id-2, …)" in data.notes
    assert len(load_table(path, "y", inputs=["c"]).feature_names) == MAX_LEVELS


@pytest.mark.parametrize(
    "form",
    ["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M", "%d %b %Y", "%B %d, %Y"],
)
def test_dates_become_days_since_the_first(tmp_path, form):
    days = np.array([0, 3, 45, 365, 12, 800, 77, 500, 31, 200, 150, 99])
    when = pd.Timestamp("2019-12-30") + pd.to_timedelta(days, unit="D")
    data = load_table(table_with(tmp_path, when.strftime(form)), "y", dtype=torch.float64)
    np.testing.assert_allclose(all_rows(data), scaled([np.arange(12), days], np.arange(12) ** 2.0), atol=1e-12)
    assert "c: days since 2019-12-30" in data.notes


def test_dates_and_booleans_of_a_parquet_file_become_inputs_and_lists_do_not(tmp_path):
    when = pd.date_range("2024-01-01", periods=30, tz="Europe/Zurich")
    frame = pd.DataFrame({
        "when": when, "ok": [k % 3 == 0 for k in range(30)], "list": [[k] for k in range(30)],
        "kind": pd.Categorical(["x", "y", "y"] * 10), "y": np.arange(30.0),
    })  # fmt: skip
    frame.to_parquet(tmp_path / "t.parquet")
    table = inspect_table(tmp_path / "t.parquet")
    assert [each.kind for each in table.columns] == ["date", "number", "unusable", "text", "number"]
    data = load_table(tmp_path / "t.parquet", "y")
    assert data.feature_names == ("when", "ok", "kind=x")
    assert any(note.startswith("left out because no input can be made of it: list") for note in data.notes)
    with pytest.raises(ValueError, match="list holds .*, which cannot be used as an input"):
        load_table(tmp_path / "t.parquet", "y", inputs=["list"])


def test_a_few_words_among_numbers_count_as_missing_and_are_reported(tmp_path):
    column = [*map(str, range(58)), "error", "<5"]
    data = load_table(table_with(tmp_path, column), "y")
    assert "2 values of c are not numbers (“error”, “<5”) and count as missing" in data.notes
    assert "2 of 60 rows are dropped because a value is missing: c (2)" in data.notes
    assert len(data.train_x) + len(data.test_x) == 58


# --- missing values, constants and duplicates -------------------------------------------------------------------------


def gaps(tmp_path):
    """Write 40 rows; `c` is missing in rows 0 to 3, `town` in 2 to 5, the target in 10, `other` in all but one."""
    frame = pd.DataFrame({
        "c": np.arange(40) % 7 * 1.0, "town": np.array(["Oslo", "Rome"])[np.arange(40) % 2], "y": np.arange(40) ** 2.0,
        "other": np.nan,
    }).astype({"town": object})  # fmt: skip
    frame.loc[:3, "c"] = np.nan
    frame.loc[2:5, "town"] = None
    frame.loc[10, "y"] = np.nan
    frame.loc[0, "other"] = 3.0
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    return tmp_path / "gaps.csv", frame


def test_rows_with_missing_values_are_dropped_and_counted(tmp_path):
    path, frame = gaps(tmp_path)
    data = load_table(path, "y", dtype=torch.float64)
    left = frame.drop(columns="other").dropna()
    # of two texts, the more common is 0
    expected = scaled([left["c"], left["town"] == "Oslo"], left["y"].to_numpy())
    np.testing.assert_allclose(all_rows(data), expected, atol=1e-12)
    assert f"{40 - len(left)} of 40 rows are dropped because a value is missing: c (4), town (4), y (1)" in data.notes
    # a constant column drops no rows
    assert "left out because every row has the same value: other" in data.notes


def test_missing_inputs_are_filled_on_request_and_missing_targets_never(tmp_path):
    path, frame = gaps(tmp_path)
    data = load_table(path, "y", missing="fill", dtype=torch.float64)
    left = frame[frame["y"].notna()]
    c = left["c"].fillna(left["c"].median())
    town, none = left["town"], left["town"].isna()
    columns = {"c": c, "town=Rome": town == "Rome", "town=Oslo": town == "Oslo", "town is missing": none}
    expected = scaled([columns[name] for name in data.feature_names], left["y"].to_numpy())
    np.testing.assert_allclose(all_rows(data), expected, atol=1e-12)
    assert set(data.feature_names) == set(columns)
    assert "1 of 40 rows are dropped because a value is missing: y (1)" in data.notes
    assert "8 missing values are filled: c (4, by the median), town (4, as a separate text)" in data.notes


def test_missing_values_are_rejected_on_request(tmp_path):
    with pytest.raises(ValueError, match=r"missing or infinite values in: c \(4\), town \(4\), y \(1\)\. Drop or fill"):
        load_table(gaps(tmp_path)[0], "y", missing="refuse")


def test_missing_values_of_an_unselected_column_drop_no_rows(tmp_path):
    data = load_table(gaps(tmp_path)[0], "y", inputs=["town"])
    assert data.feature_names == ("town=Oslo",) and len(data.train_x) + len(data.test_x) == 35


def test_an_error_about_too_few_remaining_rows_states_the_reason(tmp_path):
    path = table_with(tmp_path, [1.0, 2.0] * 4 + [None] * 32)
    with pytest.raises(
        ValueError, match=r"has 8 rows; .* of 40 rows, values are missing in: c \(32\); leave such columns out"
    ):
        load_table(path, "y")
    assert len(load_table(path, "y", missing="fill").train_x) == 32


def test_duplicate_rows_are_dropped_on_request(tmp_path):
    rows = numbers(60)
    path = write(tmp_path / "t.csv", ["a", "b", "y"], np.concatenate([rows, rows[:15]]).tolist())
    data = load_table(path, "y", duplicates="drop", dtype=torch.float64)
    np.testing.assert_allclose(all_rows(data), scaled(rows[:, :2].T, rows[:, 2]), atol=1e-12)
    assert data.notes == ("15 of 75 rows equal another in inputs and target, and are dropped",)
    (note,) = load_table(path, "y").notes
    assert note.startswith("15 of 75 rows have the inputs of an earlier row, 15 of them with the same targets (rows 61")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("one", r"the target one is constant \(always 1\)\. Choose another column"),
        ("c", r"the target c is text \(2 different: low, high\): only numbers and dates can be predicted"),
    ],
)
def test_a_target_that_cannot_be_predicted_is_refused(tmp_path, target, why):
    path = table_with(tmp_path, ["low", "high"] * 20, one=1)
    with pytest.raises(ValueError, match=why):
        load_table(path, target)


def test_an_error_about_fewer_rows_than_n_states_their_number(tmp_path):
    with pytest.raises(ValueError, match=r"n = 40: .* has 26 training rows, 80% of 33 that are left of 40"):
        load_table(gaps(tmp_path)[0], "y", n=40)


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"missing": "guess"}, "missing = 'guess': expected drop or fill or refuse"),
        ({"duplicates": "mark"}, "duplicates = 'mark': expected keep or drop"),
        ({"inputs": []}, "expected names of columns, at least one, or None for all"),
        ({"inputs": ["nothing"]}, "no such column; its columns are"),
        ({"inputs": ["y"]}, "y is the target, so it cannot also be an input"),
    ],
)
def test_an_unknown_choice_is_rejected(tmp_path, choice, why):
    with pytest.raises(ValueError, match=why):
        load_table(gaps(tmp_path)[0], "y", **choice)


# --- records of the preparation ---------------------------------------------------------------------------------------


def test_a_trace_and_its_report_describe_the_preparation_of_the_table(tmp_path):
    path, _ = gaps(tmp_path)
    data = load_table(path, "y", missing="fill")
    system = comparison.build_system(
        data, comparison.choose_hyperparameters(data, "rbf", [0.5], 1.0, 0.1), rhs=1, device="cpu"
    )
    runs = tmp_path / "runs"
    (outcome,) = comparison.compare(system, [apviz.Cholesky()], runs)
    trace = apviz.open_trace(outcome.path)
    assert trace.preparation["missing"] == "fill" and trace.preparation["inputs"] == ["c", "town"]
    assert trace.preparation["file"] == "gaps.csv" and trace.preparation["rows"] == 40
    assert tuple(trace.preparation["notes"]) == data.notes
    assert trace.attrs["data_preparation"] == json.dumps(trace.preparation, ensure_ascii=False)
    from apviz.report import find_traces, write_report

    said = write_report(find_traces(runs), runs / "report.html").read_text("utf-8")
    assert "About the data: " in said
    assert "8 missing values are filled: c (4, by the median), town (4, as a separate text)" in said


def test_data_that_are_not_a_table_have_no_preparation(tmp_path):
    data = apviz.datasets.load("diabetes")
    assert data.preparation == ""
    system = comparison.build_system(data, comparison.choose_hyperparameters(data), rhs=1, device="cpu")
    recorder = apviz.Recorder()
    apviz.solve(system, apviz.Cholesky(), hooks=[recorder])
    assert recorder.trace.preparation == {} and "data_preparation" not in recorder.trace.attrs


def test_every_note_is_also_a_warning(tmp_path):
    path, _ = gaps(tmp_path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = load_table(path, "y")
    assert [str(each.message) for each in said] == [f"{path}: {note}" for note in data.notes]
