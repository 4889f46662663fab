import gzip
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import torch
from typer.testing import CliRunner

from apviz.cli import app
from apviz.datasets import load_table


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(20, 3)), columns=["a", "b", "price"])


def save(frame, path, **options):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, **options)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_csv_compressed_csv_and_parquet_give_the_same_data_set(tmp_path, frame, name):
    data = load_table(save(frame, tmp_path / name), "price", dtype=torch.float64)
    expected = (frame["price"] - frame["price"].mean()) / frame["price"].std()
    found = torch.cat([data.train_y, data.test_y]).numpy()
    np.testing.assert_allclose(np.sort(found), np.sort(expected))
    assert data.feature_names == ("a", "b") and data.target_name == "price"
    assert (data.card.n, data.card.d, data.card.name) == (20, 2, name)
    assert len(data.train_x) == 16


def test_a_position_means_a_file_without_header(tmp_path, frame):
    named = load_table(save(frame, tmp_path / "a.csv"), "price")
    headerless = save(frame, tmp_path / "b.csv", header=False)
    for target in (2, -1):
        assert torch.equal(load_table(headerless, target).train_x, named.train_x)


def test_n_and_seed_work_as_in_load(tmp_path, frame):
    path = save(frame, tmp_path / "a.csv")
    assert len(load_table(path, "price", n=5, seed=3).train_x) == 5
    with pytest.raises(ValueError, match="has 16 training rows"):
        load_table(path, "price", n=17)


def test_a_missing_file_and_an_unknown_ending_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file: .*nothing.csv"):
        load_table(tmp_path / "nothing.csv", "y")
    with pytest.raises(ValueError, match="expected a file ending in .csv"):
        load_table(tmp_path / "a.xlsx", "y")


def test_an_error_about_a_missing_column_lists_the_columns(tmp_path, frame):
    path = save(frame, tmp_path / "a.csv")
    with pytest.raises(ValueError, match="no such column; its columns are a, b, price"):
        load_table(path, "cost")
    with pytest.raises(ValueError, match="target = 3: .* has 3 columns"):
        load_table(save(frame, tmp_path / "b.csv", header=False), 3)


def test_infinite_values_count_as_missing(tmp_path, frame):
    frame.loc[:3, "a"] = np.nan
    frame.loc[5, "price"] = np.inf
    with pytest.raises(ValueError, match=r"missing or infinite values in: a \(4\), price \(1\)"):
        load_table(save(frame, tmp_path / "a.csv"), "price", missing="refuse")
    with pytest.warns(UserWarning, match="1 infinite values of price count as missing"):
        assert len(load_table(save(frame, tmp_path / "a.csv"), "price").train_x) == 12


def test_too_few_rows_a_constant_target_and_an_empty_file_are_refused(tmp_path, frame):
    with pytest.raises(ValueError, match="5 rows; at least 10"):
        load_table(save(frame[:5], tmp_path / "a.csv"), "price")
    with pytest.raises(ValueError, match="target price is constant"):
        load_table(save(frame.assign(price=1.0), tmp_path / "a.csv"), "price")
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(ValueError, match="is empty"):
        load_table(tmp_path / "e.csv", "y")
    with pytest.raises(ValueError, match="has 1 column"):
        load_table(save(frame[["a"]], tmp_path / "a.csv"), "a")


# --- rows, names and values that could be misread silently ----------------------------------------------------------


def written(path, header, rows):
    text = "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("values", [4, 5, 2])
@pytest.mark.parametrize("from_row", [0, 12])
def test_a_row_longer_or_shorter_than_the_header_is_rejected_with_its_line(tmp_path, name, values, from_row):
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=values if number >= from_row else 3).round(3) for number in range(30)]
    path = written(tmp_path / name, "x0,x1,y", rows)
    with pytest.raises(
        ValueError, match=rf"row {from_row + 2} has {values} values, the header has 3 .*; every row needs"
    ):
        load_table(path, "y")


def test_a_row_of_another_length_is_rejected_without_a_header_too(tmp_path):
    rows = np.random.default_rng(0).normal(size=(30, 3)).round(3).tolist()
    for other in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0]):
        path = written(tmp_path / "t.csv", "0.5,0.5,0.5", [*rows, other])
        with pytest.raises(ValueError, match=rf"row 32 has {len(other)} values, the first has 3"):
            load_table(path, -1)


def test_commas_at_the_ends_of_rows_are_rejected(tmp_path):
    rows = [[*row, ""] for row in np.random.default_rng(0).normal(size=(30, 3)).tolist()]
    with pytest.raises(ValueError, match="row 2 has 4 values, the header has 3 .*; .* a surplus or missing separator"):
        load_table(written(tmp_path / "t.csv", "x0,x1,y", rows), "y")


def test_blank_lines_and_quoted_commas_do_not_change_the_length_of_rows(tmp_path, frame):
    text = '\n"a,1",b,price\n\n' + frame.to_csv(index=False, header=False).replace("\n", "\n\n")
    (tmp_path / "t.csv").write_text(text)
    assert load_table(tmp_path / "t.csv", "price").feature_names == ("a,1", "b")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("twice", ["price", "a"])
def test_two_columns_of_one_name_are_rejected(tmp_path, frame, name, twice):
    columns = [twice, "b", "price"] if twice == "price" else ["a", "a", "price"]
    if name == "t.parquet":
        arrays = [pyarrow.array(frame.iloc[:, place]) for place in range(3)]
        pyarrow.parquet.write_table(pyarrow.table(arrays, names=columns), tmp_path / name)
        path = tmp_path / name
    else:
        path = written(tmp_path / name, ",".join(columns), frame.to_numpy().tolist())
    with pytest.raises(ValueError, match=f"has more than one column called {twice}; give each a name of its own"):
        load_table(path, "price")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("large", [2**62, 2**63, -(2**62)])
def test_integers_that_are_equal_in_float64_stay_distinct(tmp_path, frame, name, large):
    whole = [large + k for k in np.random.default_rng(0).permutation(20).tolist()]
    path = save(frame.assign(when=np.array(whole)), tmp_path / name)
    found = load_table(path, "price", dtype=torch.float64)
    small = load_table(
        save(frame.assign(when=np.array(whole) - large), tmp_path / f"s{name}"), "price", dtype=torch.float64
    )
    assert found.feature_names == ("a", "b", "when") and torch.equal(found.train_x, small.train_x)
    target = load_table(path, "when", dtype=torch.float64)
    np.testing.assert_allclose(
        sorted(torch.cat([target.train_y, target.test_y])), sorted((np.arange(20) - 9.5) / np.arange(20).std(ddof=1))
    )


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_omitted_columns_and_duplicate_rows_are_reported(tmp_path, frame, name):
    path = save(pd.concat([frame.assign(c=3.0, d=4), frame[:5].assign(c=3.0, d=4)]), tmp_path / name)
    with pytest.warns(UserWarning) as said:
        data = load_table(path, "price")
    assert data.notes == (
        "left out because every row has the same value: c, d",
        "5 of 25 rows have the inputs of an earlier row, 5 of them with the same targets (rows 21, 22, 23, 24, 25)",
    )
    assert [str(each.message) for each in said] == [f"{path}: {note}" for note in data.notes]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_an_index_that_pandas_wrote_as_an_unnamed_column_is_reported(tmp_path, frame, name):
    frame.to_csv(tmp_path / name)
    with pytest.warns(
        UserWarning, match="a column without a name in the file is an input: Unnamed: 0; if it only counts"
    ):
        data = load_table(tmp_path / name, "price")
    assert data.feature_names == ("Unnamed: 0", "a", "b") and len(data.notes) == 1
    # reading and writing the file again adds a second such column
    pd.read_csv(tmp_path / name).to_csv(tmp_path / name)
    with pytest.warns(UserWarning, match=r"is an input: Unnamed: 0(\.1)?, Unnamed: 0"):
        load_table(tmp_path / name, "price")


def test_a_table_without_oddities_has_no_notes(tmp_path, frame, recwarn):
    assert load_table(save(frame, tmp_path / "t.csv"), "price").notes == () and not recwarn.list


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet"])
def test_a_truncated_or_damaged_file_is_rejected_in_one_sentence(tmp_path, frame, name):
    whole = save(frame, tmp_path / name).read_bytes()
    for length in (1, 11, len(whole) // 2, len(whole) - 4):
        (tmp_path / name).write_bytes(whole[:length])
        with pytest.raises(ValueError, match=f"{name} cannot be read as a table: |{name} is empty"):
            load_table(tmp_path / name, "price")
    (tmp_path / name).write_bytes(whole[: len(whole) // 2] + bytes(40) + whole[len(whole) // 2 + 40 :])
    if name == "t.csv.gz":
        with pytest.raises(ValueError, match=r"t.csv.gz( cannot be read as a table|: row \d+ has)"):
            load_table(tmp_path / name, "price")


def test_a_column_that_pandas_wrote_as_an_index_is_a_column(tmp_path, frame):
    frame.set_index("a").to_parquet(tmp_path / "t.parquet")
    assert load_table(tmp_path / "t.parquet", "price").feature_names == ("a", "b")
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "s.parquet")
    assert load_table(tmp_path / "s.parquet", "price").feature_names == ("a", "b")


@pytest.mark.parametrize("column", ["a", "price"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_cell_so_large_that_others_become_equal_is_rejected_with_its_row(tmp_path, frame, column, dtype):
    frame.loc[6, column] = 1e200
    path = save(frame, tmp_path / "t.csv")
    with pytest.raises(
        ValueError, match=rf"of 20 different values of {column}, from .* to 1e\+200, 2 are left in float64"
    ):
        load_table(path, "price", dtype=dtype)
    with pytest.raises(ValueError, match=r"farthest from the others is row 7 with 1e\+200. Correct or drop such rows"):
        load_table(path, "price", dtype=dtype)


def test_rows_that_become_equal_by_rounding_are_counted(tmp_path):
    """Seconds since 1970, with one row of an unset clock."""
    rng = np.random.default_rng(0)
    seconds = np.append(1_700_000_000 + np.arange(999), 0)
    path = save(pd.DataFrame({"t": seconds, "y": rng.normal(size=1000)}), tmp_path / "t.csv")
    scaled = (2 * (seconds / seconds.max()) - 1).astype(np.float32)
    left = len(np.unique(scaled))
    with pytest.warns(UserWarning):
        data = load_table(path, "y")
    assert (
        data.notes[-1]
        == f"of 1,000 different rows of inputs {left} are left in float32; float64 keeps more of them different"
    )
    assert f"different values of t, from 0 to 1.7e+09, {left} are left in float32" in data.notes[1]
    assert "row 1000 with 0" in data.notes[1]
    (note,) = load_table(path, "y", dtype=torch.float64).notes
    assert note.startswith("t is 0 in row 1,000, ")


def with_ids(folder: Path) -> Path:
    """Write a table in which `id` numbers the rows, `day` is a date, and y depends on a alone."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"id": np.arange(80) * 5 + 3, "a": rng.normal(size=80), "day": pd.date_range("2020", periods=80)}
    )
    frame.assign(y=np.sin(frame["a"])).to_csv(folder / "ids.csv", index=False)
    return folder / "ids.csv"


def test_columns_that_number_the_rows_are_dropped_by_a_word_unless_they_are_named(tmp_path):
    path = with_ids(tmp_path)
    with pytest.warns(UserWarning, match="id only counts the rows"):
        assert load_table(path, "y").feature_names == ("id", "a", "day")
    with pytest.warns(UserWarning, match="left out because it only counts the rows: id"):
        assert load_table(path, "y", ids="drop").feature_names == ("a", "day")
    with pytest.warns(UserWarning, match="id only counts the rows"):
        assert load_table(path, "y", ids="drop", inputs=["id", "a"]).feature_names == ("id", "a")
    with pytest.raises(ValueError, match="ids = 'no': expected keep or drop"):
        load_table(path, "y", ids="no")


def test_a_table_of_row_numbers_alone_is_a_design_and_keeps_them(tmp_path):
    rows = np.random.default_rng(0).permutation(60)
    pd.DataFrame({"a": np.arange(60), "b": rows, "y": np.sin(rows)}).to_csv(tmp_path / "grid.csv", index=False)
    assert load_table(tmp_path / "grid.csv", "y", ids="drop").feature_names == ("a", "b")


@pytest.mark.parametrize("command", ["compare", "advise", "fit"])
def test_every_command_that_solves_a_table_selects_its_columns(tmp_path, command):
    def run(table, *words):
        source = ["--dataset", table] if command == "compare" else [table]
        more = {"compare": ["--methods", "cholesky"], "advise": [], "fit": ["--check", "0", "--force"]}[command]
        out = [] if command == "advise" else ["--out", str(tmp_path / "out")]
        given = ["--lengthscale", "1", "--outputscale", "1", "--noise", "0.01"]
        level = logging.getLogger("apviz").level
        done = CliRunner().invoke(app, [command, *source, "--target", "y", *given, *more, *out, *words])
        logging.captureWarnings(False)
        logging.getLogger("apviz").setLevel(level)
        return done.exit_code, " ".join(done.output.split())

    path = str(with_ids(tmp_path))
    code, said = run(path, "--ids", "drop")
    assert code == 0 and "left out because it only counts the rows: id" in said
    code, said = run(path, "--inputs", "day")
    assert code == 0 and "not an input: id (counts the rows), a" in said
    code, said = run("diabetes", "--ids", "drop")
    assert code == 2 and "--inputs and --ids are for your own tables" in said
