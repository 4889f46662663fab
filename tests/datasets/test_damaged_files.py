"""Files that were read wrongly or raised unclear errors in the campaign `input-tables` of `python -m tests.trust`."""

from __future__ import annotations

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from apviz.datasets import inspect_table, load_table


def refusal(path, **settings) -> str:
    with pytest.raises(ValueError) as refused:
        load_table(path, **{"target": 0} | settings)
    said = str(refused.value)
    assert "\n" not in said and len(said) < 600
    return said


def test_an_error_of_a_library_in_several_lines_becomes_one_sentence(tmp_path):
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": list(range(1000)), "b": list(range(1000))}), path)
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)  # the header of the first page
    path.write_bytes(content)
    assert "t.parquet cannot be read as a table" in refusal(path)


def test_an_npz_file_called_npy_is_rejected(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.arange(20.0), b=np.arange(20.0) ** 2)
    (tmp_path / "t.npz").rename(tmp_path / "t.npy")
    assert "t.npy cannot be read as a table" in refusal(tmp_path / "t.npy")


def test_an_array_of_undecodable_texts_is_rejected(tmp_path):
    array = np.array([["a", "1"]] * 20)
    array.view(np.uint32)[3] = 0x7FFFFFFF
    np.save(tmp_path / "t.npy", array)
    assert "texts with invalid characters" in refusal(tmp_path / "t.npy")


@pytest.mark.parametrize("seconds", [10**13, -(10**13)])
def test_dates_outside_the_calendar_are_not_an_input(tmp_path, seconds):
    dates = pyarrow.array([seconds + day * 86_400 for day in range(20)], pyarrow.timestamp("s"))
    pyarrow.parquet.write_table(
        pyarrow.table({"y": np.arange(20.0) ** 2, "x": np.arange(20.0), "far": dates}), tmp_path / "t.parquet"
    )
    far = inspect_table(tmp_path / "t.parquet").column("far")
    assert far.kind == "unusable" and far.about == "dates beyond the years 1 to 9999"
    with pytest.warns(UserWarning, match=r"far \(dates beyond the years 1 to 9999\)"):
        assert load_table(tmp_path / "t.parquet", "y").feature_names == ("x",)


def test_a_line_that_names_a_tab_as_separator_is_not_a_header(tmp_path):
    rows = "\n".join(f"{k}\t{k**2}" for k in range(20))
    (tmp_path / "t.csv").write_text(f"sep=\t\nx\ty\n{rows}\n")
    table = inspect_table(tmp_path / "t.csv")
    assert [each.name for each in table.columns] == ["x", "y"]
    np.testing.assert_array_equal(table.column("y").values, np.arange(20.0) ** 2)


@pytest.mark.parametrize("inputs", [[None], [1.5], "size", 5, []])
def test_inputs_that_are_not_a_list_of_names_are_rejected_and_quoted(tmp_path, inputs):
    (tmp_path / "t.csv").write_text("y,size\n" + "\n".join(f"{k**2},{k}" for k in range(20)))
    given = tuple(inputs) if isinstance(inputs, list) else inputs
    assert f"inputs = {given!r}: expected names of columns" in refusal(tmp_path / "t.csv", inputs=inputs)


def test_a_table_of_integers_without_rows_is_rejected(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.zeros((0, 2), dtype=np.int64))
    assert "t.npz" in refusal(tmp_path / "t.npz")


def test_a_seed_too_large_for_a_generator_is_rejected_by_name(tmp_path):
    (tmp_path / "t.csv").write_text("y,size\n" + "\n".join(f"{k**2},{k}" for k in range(20)))
    assert refusal(tmp_path / "t.csv", seed=2**70).startswith("seed = ")
