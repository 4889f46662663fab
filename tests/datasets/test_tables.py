import numpy as np
import pandas as pd
import pytest
import torch

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


def test_a_position_for_a_file_with_header_is_explained(tmp_path, frame):
    with pytest.raises(ValueError, match="If the first line holds column names, give the target by name"):
        load_table(save(frame, tmp_path / "a.csv"), -1)


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


def test_a_missing_column_gets_the_list_of_columns(tmp_path, frame):
    path = save(frame, tmp_path / "a.csv")
    with pytest.raises(ValueError, match="no such column; its columns are a, b, price"):
        load_table(path, "cost")
    with pytest.raises(ValueError, match="target = 3: .* has 3 columns"):
        load_table(save(frame, tmp_path / "b.csv", header=False), 3)


def test_columns_that_are_not_numbers_are_named(tmp_path, frame):
    path = save(frame.assign(city="Oslo", day=pd.Timestamp("2020-01-01")), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="not numeric: city, day. Encode these columns as numbers or drop them"):
        load_table(path, "price")


def test_missing_and_infinite_values_are_counted(tmp_path, frame):
    frame.loc[:3, "a"] = np.nan
    frame.loc[5, "price"] = np.inf
    with pytest.raises(ValueError, match=r"NaN or infinite values in: a \(4\), price \(1\)"):
        load_table(save(frame, tmp_path / "a.csv"), "price")


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
