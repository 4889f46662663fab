"""Files that visitors bring: what is taken, and what is refused in words before anything is solved."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("panel")

from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import SystemChoice, Upload
from apviz.dashboard.settings.uploaded_file import check, receive

SMALL = Limits(max_upload_mb=1)


@pytest.fixture
def frame():
    return pd.DataFrame(np.random.default_rng(0).random((60, 3)), columns=["a", "b", "price"])


def csv(frame) -> bytes:
    return frame.to_csv(index=False).encode()


def taken(folder, frame, name="t.csv"):
    return receive(folder, name, csv(frame), SMALL)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "T.CSV", "../../t.csv", "/etc/t.csv", "..\\t.csv"])
def test_a_table_comes_to_lie_in_the_folder_of_the_session_whatever_its_name_says(tmp_path, frame, name):
    (folder := tmp_path / "session").mkdir()
    write = {"t.parquet": frame.to_parquet, "t.csv.gz": lambda file: file.write(gzip.compress(csv(frame)))}
    with (tmp_path / "written").open("wb") as file:
        write.get(name, lambda file: file.write(csv(frame)))(file)
    path, columns = receive(folder, name, (tmp_path / "written").read_bytes(), SMALL)
    assert path.parent == folder and columns == ["a", "b", "price"]
    assert check(path, "price") == 48
    assert [each.name for each in folder.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.pkl", b"x", "t.pkl: files ending in .csv"),
        (".t.csv", b"a,b\n1,2", "files ending in"),
        ("..", b"a,b\n1,2", "files ending in"),
        ("t\0.csv", b"a,b\n1,2", "is no name for a file here"),
        ("t" * 300 + ".csv", b"a,b\n1,2", "up to 100 characters are accepted"),
        ("t.csv", b"", "t.csv cannot be read as a table: No columns"),
        ("t.csv", b"a\n1\n2", "t.csv has one column"),
        ("t.csv", bytes(range(256)), "t.csv cannot be read as a table"),
        ("t.csv", b"a,b\n1,2\n1,2,3,4", "t.csv cannot be read as a table"),
        ("t.parquet", b"PAR1", "t.parquet cannot be read as a table"),
        ("t.csv.gz", b"plain", "t.csv.gz cannot be read as a table"),
        ("t.csv", b"1,2\n" * 300_000, "t.csv has 1.2 MB; up to 1 MB are accepted"),
        ("t.csv.gz", gzip.compress(b"1,2\n" * 3_000_000), "t.csv.gz unpacks to more than 10 MB"),
    ],
)
def test_anything_else_is_refused_and_nothing_of_it_is_left(tmp_path, name, content, reason):
    with pytest.raises(ValueError, match=reason) as refusal:
        receive(tmp_path, name, content, SMALL)
    assert str(tmp_path) not in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_a_parquet_file_of_a_few_kilobytes_that_holds_millions_of_numbers_is_refused(tmp_path):
    pd.DataFrame({"a": np.zeros(1_000_000), "price": 0.0}).to_parquet(tmp_path / "from")
    content = (tmp_path / "from").read_bytes()
    assert len(content) < 50_000
    with pytest.raises(ValueError, match="bomb.parquet unpacks to more than 10 MB"):
        receive(tmp_path, "bomb.parquet", content, SMALL)


def test_a_file_that_is_refused_leaves_the_one_before_it_as_it_was(tmp_path, frame):
    path, _ = taken(tmp_path, frame)
    with pytest.raises(ValueError, match="one column"):
        receive(tmp_path, "t.csv", b"a\n1\n", SMALL)
    assert path.read_bytes() == csv(frame)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.assign(b="low"), "t.csv: not numeric: b"),
        (lambda t: t.assign(a=t["a"].where(t.index != 3)), r"t.csv has NaN or infinite values in: a \(1\)"),
        (lambda t: t.assign(price=1.0), "t.csv: the target price is constant"),
        (lambda t: t.assign(a=1.0, b=2.0), "t.csv: no input column varies"),
        (lambda t: t.head(0), "t.csv"),
        (lambda t: t.head(1), "t.csv has 1 rows; at least 10"),
        (lambda t: t.head(11), "t.csv leaves 8 rows to train on; at least 10"),
    ],
)
def test_a_table_that_cannot_be_solved_is_refused_before_it_is_used(tmp_path, frame, change, reason):
    path, _ = taken(tmp_path, change(frame))
    with pytest.raises(ValueError, match=reason) as refusal:
        check(path, "price")
    assert str(tmp_path) not in str(refusal.value)


def test_a_small_file_takes_the_number_of_rows_along(tmp_path, frame):
    path, _ = taken(tmp_path, pd.concat([frame] * 2))  # every row twice
    system = SystemChoice(SMALL)
    system.uploads[path.name] = Upload(path, "price", check(path, "price"))
    system.offer_datasets()
    system.dataset = path.name
    assert system.n == 96
    assert len(system.spec().load().train_x) == 96


def test_what_is_wrong_with_a_file_when_it_is_solved_does_not_say_where_the_server_keeps_it(tmp_path, frame):
    path, _ = taken(tmp_path, frame)
    system = SystemChoice(SMALL, n=1000)
    system.uploads[path.name] = Upload(path, "price", 2000)
    system.offer_datasets()
    system.dataset = path.name
    with pytest.raises(ValueError, match="n = 1,000: t.csv has 48 training rows"):
        system.spec().load()
