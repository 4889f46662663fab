"""Files that visitors bring: what is taken, and what is refused in words before anything is solved."""

from __future__ import annotations

import gzip
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.settings.systems import BY_HAND, spec_of
from apviz.dashboard.settings.uploaded_file import Upload, check, receive

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
    assert path.parent.parent == folder and columns == ["a", "b", "price"]
    assert check(path, "price") == 48
    assert [each for each in folder.rglob("*") if each.is_file()] == [path]


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


@pytest.mark.parametrize("content", [b"a\n1\n", b"a,b\n1,2\n"])
def test_another_file_of_its_name_leaves_the_one_before_it_as_it_was(tmp_path, frame, content):
    path, _ = taken(tmp_path, frame)
    with suppress(ValueError):  # the first has one column
        assert receive(tmp_path, "t.csv", content, SMALL)[0] != path
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


def offered(system, path, target="price"):
    return system.add_upload(Upload(path, target, check(path, target)))


def recorded_on(system, name):
    """The attributes of the trace of a solve on data of that name."""
    system.dataset = name
    loaded = replace(system.spec(), source=BY_HAND, rhs=1).build(SMALL)
    recorder = apviz.Recorder()
    apviz.solve(loaded.system, apviz.ConjugateGradient(max_epochs=1), [recorder])
    return recorder.trace.attrs


def test_a_small_file_takes_the_number_of_rows_along(tmp_path, frame):
    path, _ = taken(tmp_path, pd.concat([frame] * 2))  # every row twice
    system = SystemChoice(SMALL)
    system.dataset = offered(system, path)
    assert system.n == 96
    assert len(system.spec().load().train_x) == 96


def test_what_is_wrong_with_a_file_when_it_is_solved_does_not_say_where_the_server_keeps_it(tmp_path, frame):
    path, _ = taken(tmp_path, frame)
    system = SystemChoice(SMALL, n=1000)
    system.dataset = system.add_upload(Upload(path, "price", 2000))
    with pytest.raises(ValueError, match="n = 1,000: t.csv has 48 training rows"):
        system.spec().load()


def test_a_run_on_a_data_set_is_run_again_on_it_although_a_file_has_its_name(tmp_path, frame):
    system = SystemChoice(SMALL, n=40)
    name = offered(system, taken(tmp_path, frame, "china.csv")[0])
    assert name == "china.csv" and "china" not in system.uploads
    on_china, on_file = recorded_on(system, "china"), recorded_on(system, name)
    assert (on_china["dataset"], on_file["dataset"]) == ("china", "china.csv")
    assert spec_of(on_china, system.uploads.get).upload is None
    assert spec_of(on_file, system.uploads.get).upload == system.uploads[name]


def test_files_whose_names_differ_behind_the_first_dot_are_told_apart(tmp_path, frame):
    system = SystemChoice(SMALL, n=40)
    names = [offered(system, taken(tmp_path, frame, f"houses.{year}.csv")[0]) for year in (2023, 2024)]
    for name in names:
        upload = spec_of(recorded_on(system, name), system.uploads.get).upload
        assert upload.path.name == name


def test_a_run_is_run_again_on_what_it_was_run_on_after_another_file_of_that_name_or_another_target(tmp_path, frame):
    system = SystemChoice(SMALL, n=40)
    first = taken(tmp_path, frame)[0]
    uses = [(first, "price"), (taken(tmp_path, 2 * frame)[0], "price"), (first, "a")]
    names = [offered(system, path, target) for path, target in uses]
    assert names == ["t.csv", "t.csv (2)", "t.csv (3)"]
    for name, (path, target) in zip(names, uses, strict=True):
        spec = spec_of(recorded_on(system, name), system.uploads.get)
        assert (spec.upload.path, spec.upload.target) == (path, target)


def test_the_same_file_once_more_keeps_its_name(tmp_path, frame):
    system = SystemChoice(SMALL)
    assert {offered(system, taken(tmp_path, frame)[0]) for _ in range(2)} == {"t.csv"}


def test_a_run_on_data_that_are_not_here_any_more_is_refused_with_what_to_do(tmp_path, frame, monkeypatch):
    system = SystemChoice(SMALL, n=40)
    attrs = recorded_on(system, offered(system, taken(tmp_path, frame)[0]))
    for other in ("t.csv.gz", "T.csv", "t.parquet"):
        system.uploads = {other: system.uploads.popitem()[1]}
        with pytest.raises(ValueError, match=r"this run, t\.csv, are not here; upload .* under the name t\.csv"):
            spec_of(attrs, system.uploads.get)
    for variable in ("APVIZ_DATA", "APVIZ_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="'sgemm' is not on this machine. Run `apviz datasets fetch sgemm`"):
        spec_of(attrs | {"dataset": "sgemm"}, system.uploads.get)
