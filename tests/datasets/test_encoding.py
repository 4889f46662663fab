"""Encodings decide on the training rows how a column becomes inputs, and do the same for other tables."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from apviz.datasets.tables.columns import column_of
from apviz.datasets.tables.encoding import Encoding, encode
from apviz.datasets.tables.new_rows import read_new_rows


def encoded(values, fill=False):
    column = column_of("a", pd.Series(values))
    return encode(column, np.ones(len(values), dtype=bool), fill)[0]


def inputs(encoding, values):
    return encoding.inputs(column_of("a", pd.Series(values)))


def test_numbers_stay_also_whole_numbers_that_float64_cannot_tell_apart():
    assert inputs(encoded([1.5, 2.5, 9.0]), [7.25, -1.0])[:, 0].tolist() == [7.25, -1.0]
    large = 2**60
    encoding = encoded([large, large + 1, large + 5])
    assert inputs(encoding, [large + 3, large + 2])[:, 0].tolist() == [3.0, 2.0]
    assert inputs(encoding, [large + 1, large + 1])[:, 0].tolist() == [1.0, 1.0]


def test_dates_are_days_since_the_first_training_row_whatever_the_first_new_row_is():
    encoding = encoded(pd.to_datetime(["2020-01-02 06:00", "2020-03-01 06:00", "2020-02-01 00:00"]))
    new = pd.to_datetime(["2020-01-12 18:00", "2020-01-01 06:00"])
    np.testing.assert_allclose(inputs(encoding, new)[:, 0], [10.5, -1.0], atol=1e-9)
    np.testing.assert_allclose(inputs(encoding, new[[0, 0]])[:, 0], [10.5, 10.5], atol=1e-9)


def test_texts_keep_their_inputs_and_an_unknown_text_is_missing():
    encoding = encoded(["x", "y", "x", "z", "x", "y"])
    assert encoding.names == ("a=x", "a=y", "a=z")
    assert inputs(encoding, ["z", "y"]).tolist() == [[0, 0, 1], [0, 1, 0]]
    assert inputs(encoding, ["y", "y"]).tolist() == [[0, 1, 0], [0, 1, 0]]
    found = inputs(encoding, ["z", "new"])
    assert found[0].tolist() == [0, 0, 1] and np.isnan(found[1]).all()


def test_of_two_texts_the_common_one_is_zero_and_an_unknown_one_is_not():
    encoding = encoded(["x", "y", "x"])
    assert encoding.names == ("a=y",)
    assert inputs(encoding, ["y", "x"]).tolist() == [[1], [0]]
    assert np.isnan(inputs(encoding, ["w", "x"])[0, 0])


def test_rare_texts_that_are_not_distinguished_stay_so():
    texts = [f"t{place}" for place in range(25)]
    encoding = encoded([text for place, text in enumerate(texts) for _ in range(30 - place)])
    assert len(encoding.names) == 20
    assert inputs(encoding, ["t24", "new", "t0"]).sum(axis=1).tolist() == [0, 0, 1]


def test_missing_values_are_filled_as_in_the_training_rows():
    encoding = encoded([1.0, np.nan, 5.0, 9.0], fill=True)
    assert inputs(encoding, [np.nan, 2.0])[:, 0].tolist() == [5.0, 2.0]
    assert np.isnan(inputs(encoded([1.0, 5.0]), [np.nan, 2.0])[0, 0])
    encoding = encoded(["x", "y", None, "x"], fill=True)
    assert encoding.names == ("a=x", "a=y", "a is missing")
    assert inputs(encoding, [None, "y", "x"]).tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("training", "new", "message"),
    [
        ([1.0, 2.0], ["red", "blue"], "a holds texts .* but numbers in the training rows"),
        (["x", "y", "z"], [1.0, 2.0], "a holds numbers .* but texts"),
        ([1.0, 2.0], pd.to_datetime(["2020-01-01", "2020-02-01"]), "a holds dates .* but numbers"),
        ([1.0, 2.0], [[1], [2]], "a holds unusable values"),
    ],
)
def test_a_column_of_another_kind_is_refused(training, new, message):
    with pytest.raises(ValueError, match=message):
        inputs(encoded(training), new)


@pytest.mark.parametrize(
    "values", [[1.0, 2.0], [2**60, 2**60 + 1], ["x", "y", "x", "z"], pd.to_datetime(["2020-01-02", "2020-03-01"])]
)
def test_an_encoding_survives_a_file(values):
    encoding = encoded(values)
    assert Encoding.from_plain(json.loads(json.dumps(encoding.as_plain()))) == encoding


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("column", 1), ("kind", "picture"), ("kind", ["number"]), ("first", "today"), ("offset", 0.5), ("texts", "abc"),
        ("others", [1]), ("fill", "x"), ("fill", float("inf")), ("has_missing", 1), ("order", "year-first"),
    ],
)  # fmt: skip
def test_an_invalid_value_in_a_file_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} of a column is invalid"):
        Encoding.from_plain(Encoding(column="a").as_plain() | {name: value})
    with pytest.raises(ValueError, match="a column must have column, kind"):
        Encoding.from_plain({"column": "a"})


def test_codes_with_leading_zeros_and_whole_numbers_next_to_gaps_are_copied_as_they_are(tmp_path):
    written = "zip,a,b\n00123,1,5\n10117,2,\n,3,7\n"
    (tmp_path / "t.csv").write_text(written)
    found = read_new_rows(tmp_path / "t.csv", [Encoding(column="zip"), Encoding(column="b")])
    ((frame, inputs),) = found.batches()
    assert frame.to_csv(index=False) == written
    np.testing.assert_array_equal(inputs, [[123, 5], [10117, np.nan], [np.nan, 7]])


def test_new_rows_need_one_column_only_and_name_the_row_without_a_value(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    found = read_new_rows(tmp_path / "t.csv", [Encoding(column="a")])
    assert found.inputs().tolist() == [[1], [2]] and not found.incomplete
    (tmp_path / "t.csv").write_text("b,a\n1,\n2,3\n")
    assert read_new_rows(tmp_path / "t.csv", [Encoding(column="a")]).first_incomplete == (0, "a")
    (tmp_path / "t.csv").write_text("a;b\n70,567;1\n80,123;2\n")
    with pytest.raises(ValueError, match="can be read in two ways"):
        read_new_rows(tmp_path / "t.csv", [Encoding(column="a")])
    found = read_new_rows(tmp_path / "t.csv", [Encoding(column="a")], decimal=",")
    assert found.inputs()[:, 0].tolist() == [70.567, 80.123]
