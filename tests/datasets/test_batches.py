"""Tables read in batches: the same as at once, whatever comes late in the file; pandas is the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest

from apviz.datasets.tables import batches
from apviz.datasets.tables.distinct_texts import DistinctTexts
from apviz.datasets.tables.encoding import Encoding
from apviz.datasets.tables.new_rows import NewRows, read_new_rows

ENCODINGS = (
    Encoding(column="depth"),
    Encoding(column="when", kind="date", first="2020-01-01T00:00:00+00:00"),
    Encoding(column="kind", kind="text", texts=("sand", "rock"), others=("mud",)),
)
ROWS = 50


def table() -> pd.DataFrame:
    """A table with an ID, and what each column holds shown only by its last rows."""
    days = pd.date_range("2020-02-01", periods=ROWS)
    return pd.DataFrame({
        "depth": [*np.arange(ROWS - 1), 0.25],
        "when": days,
        "kind": np.resize(["sand", "rock", "mud"], ROWS),
        "id": [f"{place:05d}" for place in range(ROWS)],
        "count": pd.array([*range(ROWS - 1), None], dtype="Int64"),
        "code": [*map(str, range(ROWS - 1)), "A7"],
        "valid": [*[True, False] * (ROWS // 2 - 1), True, None],
    })  # fmt: skip


def write(path: Path, frame: pd.DataFrame, how: str) -> Path:
    if how == "parquet":
        frame.to_parquet(path.with_suffix(".parquet"), row_group_size=17)
        return path.with_suffix(".parquet")
    separator = ";" if how == "commas" else ","
    frame.to_csv(path, index=False, sep=separator, decimal="," if how == "commas" else ".", date_format="%d/%m/%Y")
    return path


def read(path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> tuple[NewRows, pd.DataFrame, np.ndarray]:
    monkeypatch.setattr(batches, "BATCH", size)
    rows = read_new_rows(path, ENCODINGS)
    frames, inputs = zip(*rows.batches(), strict=True)
    assert [len(frame) for frame in frames[:-1]] == [size] * (len(frames) - 1)
    parts = [pyarrow.Table.from_pandas(each, rows.schema, preserve_index=False) for each in frames]
    return rows, pyarrow.concat_tables(parts).to_pandas(), np.concatenate(inputs)


@pytest.mark.parametrize("how", ["points", "commas", "parquet"])
def test_batches_are_read_as_the_whole_table(tmp_path, monkeypatch, how):
    frame = table()
    path = write(tmp_path / "t.csv", frame, how)
    whole, at_once, inputs = read(path, 1_000, monkeypatch)
    rows, in_batches, again = read(path, 8, monkeypatch)
    pd.testing.assert_frame_equal(in_batches, at_once)
    np.testing.assert_array_equal(again, inputs)
    assert (rows.notes, rows.schema, rows.count) == (whole.notes, whole.schema, ROWS)
    days = (frame["when"] - pd.Timestamp("2020-01-01")).dt.days
    kinds = [frame["kind"] == "sand", frame["kind"] == "rock"]
    np.testing.assert_allclose(inputs, np.column_stack([frame["depth"], days, *kinds]))
    assert in_batches["id"].tolist() == frame["id"].tolist() and in_batches["code"].tolist() == frame["code"].tolist()
    assert in_batches["count"].dropna().tolist() == frame["count"].dropna().tolist()


def test_what_the_last_rows_lack_is_counted_before_anything_is_predicted(tmp_path, monkeypatch):
    frame = table().drop(columns="when")
    frame["depth"] = [*["inf"] * 2, *map(str, range(ROWS - 4)), "deep", ""]
    frame.loc[ROWS - 3, "kind"] = "gravel"
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = []
    for size in (1_000, 8):
        monkeypatch.setattr(batches, "BATCH", size)
        rows = read_new_rows(tmp_path / "t.csv", [ENCODINGS[0], ENCODINGS[2]], ranges={"depth": (0.0, 40.0)})
        found.append((rows.notes, rows.incomplete, rows.first_incomplete, rows.outside))
    assert found[0] == found[1]
    assert found[0][0] == (
        "1 values of depth are not numbers (“deep”) and count as missing; 2 infinite values of depth count as missing",
        "texts that no training row had count as missing: kind (gravel)",
    )
    assert found[0][1:] == (5, (0, "depth"), 5)


def test_a_row_that_is_too_long_is_named_though_it_comes_late(tmp_path):
    lines = ["a,b", *[f"{place},1" for place in range(200_000)], "1,2,3"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="row 200002 has 3 values, the header has 2"):
        read_new_rows(tmp_path / "t.csv", [Encoding(column="a")])


def test_a_table_that_changes_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 4)
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 10)
    rows = read_new_rows(tmp_path / "t.csv", [Encoding(column="a")])
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 11)
    with pytest.raises(ValueError, match="had 10 rows and now has 11"):
        list(rows.batches())


def test_a_sample_of_texts_has_exact_counts_and_every_shape_of_a_number_in_any_parts():
    rng = np.random.default_rng(0)
    texts = np.array([f"{value}" for value in rng.integers(0, 5_000, 20_000)] + ["0,5", "1.234"], dtype=object)
    samples = []
    for parts in (1, 7):
        sample = DistinctTexts(1_000)
        for part in np.array_split(texts, parts):
            sample.add(pyarrow.chunked_array([pyarrow.array(part, pyarrow.string())]))
        samples.append([each.tolist() for each in sample.levels_and_counts])
    assert samples[0] == samples[1] and 1_000 <= len(samples[0][0]) <= 1_002
    counts = pd.Series(texts).value_counts()
    assert counts[samples[0][0]].tolist() == samples[0][1]
    assert {"0,5", "1.234"} <= set(samples[0][0])
    # a random sample: about a fifth of the smallest numbers too
    assert 100 < sum(len(text) < 4 for text in samples[0][0]) < 300
