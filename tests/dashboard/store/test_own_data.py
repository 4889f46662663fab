"""Tables that visitors upload: which are accepted, which are rejected, and what is kept next to the runs."""

from __future__ import annotations

import gzip
import io
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard import address
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.system_choice import OWN_N, SystemChoice
from apviz.dashboard.settings.systems import BY_HAND, spec_of
from apviz.dashboard.store import own_data
from apviz.dashboard.store.own_data import OwnData, check, discard, look_into, receive
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.datasets.tables.table import TableChoices

SMALL_MB = 1
SMALL = Limits(max_upload_mb=SMALL_MB)


@pytest.fixture
def frame():
    return pd.DataFrame(np.random.default_rng(0).random((60, 3)), columns=["a", "b", "price"])


@pytest.fixture
def own(tmp_path):
    return OwnData(tmp_path / "runs" / ".data")


def csv(frame) -> bytes:
    return frame.to_csv(index=False).encode()


def uploaded(folder, name, content):
    path = Path(tempfile.mkdtemp(dir=folder)) / "content"
    path.write_bytes(content)
    return receive(path, name)


def taken(folder, frame, name="t.csv"):
    return uploaded(folder, name, csv(frame))


def checked(path, target="price", **choices):
    return check(look_into(path, SMALL_MB), TableChoices(target=target, **choices))


def npz(frame) -> bytes:
    file = io.BytesIO()
    np.savez(file, **{name: frame[name].to_numpy() for name in frame})
    return file.getvalue()


def parquet(frame) -> bytes:
    return frame.to_parquet()


# --- what arrives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "t.npz", "T.CSV", "../../t.csv", "/etc/t.csv", "..\\t.csv"]
)
def test_a_table_is_stored_in_the_folder_of_the_session_whatever_its_name(tmp_path, frame, name):
    (folder := tmp_path / "session").mkdir()
    write = {
        "t.parquet": parquet, "t.npz": npz, "t.csv.gz": lambda frame: gzip.compress(csv(frame)),
        "t.tsv": lambda frame: frame.to_csv(index=False, sep="\t").encode(),
    }  # fmt: skip
    path = uploaded(folder, name, write.get(name, csv)(frame))
    assert path.parent.parent == folder
    assert checked(path).rows == 48
    assert [each for each in folder.rglob("*") if each.is_file()] == [path]
    discard(path)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.pkl", b"x", "t.pkl: files ending in .csv"),
        (".t.csv", b"a,b\n1,2", "files ending in"),
        ("..", b"a,b\n1,2", "files ending in"),
        ("t\0.csv", b"a,b\n1,2", "is not an accepted file name"),
        ("t" * 300 + ".csv", b"a,b\n1,2", "at most 100 printable characters"),
    ],
)
def test_another_type_of_file_is_rejected(tmp_path, name, content, reason):
    with pytest.raises(ValueError, match=reason):
        uploaded(tmp_path, name, content)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.csv", b"", "t.csv is empty"),
        ("t.csv", b"a\n1\n2", "t.csv has 1 column: a target and at least one input are needed"),
        ("t.csv", bytes(range(256)), "t.csv cannot be read as a table"),
        ("t.csv", b"a,b\n1,2\n1,2,3,4", "t.csv: row 3 has 4 values, the header has 2"),
        ("t.csv", b",".join(b"c%d" % k for k in range(5000)), "t.csv has 5,000 columns; up to 2,000 are accepted"),
        ("t.parquet", b"PAR1", "t.parquet cannot be read as a table"),
        ("t.npz", b"PK", "t.npz cannot be read as a table"),
        ("t.csv.gz", b"plain", "t.csv.gz cannot be read as a table"),
        ("t.csv.gz", gzip.compress(b"1,2\n" * 3_000_000), "t.csv.gz unpacks to more than 10 MB"),
    ],
)
def test_a_file_that_is_not_a_table_is_rejected_without_a_path_of_the_server(tmp_path, name, content, reason):
    path = uploaded(tmp_path, name, content)
    with pytest.raises(ValueError, match=reason) as refusal:
        look_into(path, SMALL_MB)
    assert str(tmp_path) not in str(refusal.value)


def test_a_text_of_too_many_values_is_rejected_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(own_data, "MAX_VALUES", 1000)
    look_into(uploaded(tmp_path, "most.csv", b"1,2\n" * 500), SMALL_MB)
    monkeypatch.setattr(own_data, "inspect_table", None)
    for name, content in {"a.csv": b"1,2\n" * 501, "b.csv.gz": gzip.compress(b"1 2\n" * 501), "c.csv": b"1\n" * 1001,
                          "d.csv": b";" * 1001}.items():  # fmt: skip
        with pytest.raises(ValueError, match="has more than 1,000 values, the limit"):
            look_into(uploaded(tmp_path, name, content), SMALL_MB)


def test_a_small_parquet_file_of_millions_of_numbers_is_rejected(tmp_path):
    content = parquet(pd.DataFrame({"a": np.zeros(1_000_000), "price": 0.0}))
    assert len(content) < 50_000
    with pytest.raises(ValueError, match="bomb.parquet unpacks to more than 10 MB"):
        look_into(uploaded(tmp_path, "bomb.parquet", content), SMALL_MB)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.assign(price=1.0), "t.csv: the target price is constant"),
        (lambda t: t.assign(price=["low", "high"] * 30), "t.csv: the target price is text"),
        (lambda t: t.assign(a=1.0, b=2.0), "t.csv: no input column varies"),
        (lambda t: t.head(2), "t.csv has 2 rows; at least 13"),
        (lambda t: t.head(12), "t.csv has 12 rows; at least 13"),
        (lambda t: t.head(14).assign(a=t["a"].where(t.index > 1)), "t.csv has 12 rows; at least 13"),
        (lambda t: t.head(14).assign(a=t["a"].where(t.index > 5)), "t.csv has 8 rows; at least 13"),
        (lambda t: t.assign(a=t["a"].where(t.index == 3)), "t.csv has .* rows|always"),
        (lambda t: t.assign(a=np.where(t.index == 3, 1e200, t["a"])), "values of a, .* are left in float64"),
    ],
)
def test_a_table_that_cannot_be_solved_is_rejected_before_it_is_used(tmp_path, frame, change, reason):
    path = taken(tmp_path, change(frame))
    try:
        found = checked(path)
    except ValueError as refusal:
        assert str(tmp_path) not in str(refusal)
        with pytest.raises(ValueError, match=reason):
            raise
    else:
        assert "because every row has the same value: a" in " ".join(found.notes)


# --- what is kept -----------------------------------------------------------------------------------------------------


def kept(own, path, target="price", **choices):
    return own.add(checked(path, target, **choices))


def chosen(own, name, **settings):
    system = SystemChoice(SMALL, own, **settings)
    system.dataset = name
    return system


def recorded_on(system):
    """Return the attributes of the trace of a solve on the chosen data."""
    loaded = replace(system.spec(), source=BY_HAND, rhs=1).build(SMALL)
    recorder = apviz.Recorder()
    apviz.solve(loaded.system, apviz.ConjugateGradient(max_epochs=1), [recorder])
    return recorder.trace.attrs


def test_a_table_survives_a_restart_with_its_choices_and_address(tmp_path, own, frame):
    frame.loc[:5, "a"] = np.nan
    name = kept(own, taken(tmp_path, frame), inputs=("b", "a"), missing="fill", duplicates="drop")
    query = address.to_query([chosen(own, name, seed=[3])])
    again = SystemChoice(SMALL, OwnData(own.path))
    assert address.apply(query, [again]) == []
    spec = again.spec()
    assert (again.dataset, again.seed, again.n) == ("t.csv", [3], 48)
    assert spec.own.choices == TableChoices(
        target="price", inputs=("b", "a"), missing="fill", duplicates="drop", header=None
    )
    assert spec.load().feature_names == ("b", "a") and len(spec.load().train_x) == 48
    assert spec.own.path.read_bytes() == csv(frame)


def test_a_folder_of_runs_with_tables_lists_the_same_runs(tmp_path, own, frame, recorded_runs):
    kept(own, taken(tmp_path, frame))
    assert RunsFolder(own.path.parent).names() == []


def test_all_rows_up_to_the_limit_of_the_server_are_used(tmp_path, own):
    many = pd.DataFrame(np.random.default_rng(0).random((4800, 2)).round(4), columns=["a", "price"])
    system = SystemChoice(Limits(max_n=3000), own)
    assert system.n == 1712
    system.use_own(checked(taken(tmp_path, many)))
    assert system.n == 3000
    system = SystemChoice(Limits(), own)
    system.dataset = "t.csv"
    assert system.n == 3840 <= OWN_N
    with pytest.raises(ValueError, match="3840"):
        system.n = 3841
    # an address keeps a smaller n whatever its order
    assert address.apply("n=500&dataset=t.csv", [other := SystemChoice(Limits(), own)]) == []
    assert (other.dataset, other.n) == ("t.csv", 500)


def test_a_run_on_a_data_set_is_repeated_on_it_even_if_a_file_has_its_name(tmp_path, own, frame):
    name = kept(own, taken(tmp_path, frame, "china.csv"))
    assert name == "china.csv" and own.find("china") is None
    on_china, on_file = (recorded_on(chosen(own, each, n=40)) for each in ("china", name))
    assert (on_china["dataset"], on_file["dataset"]) == ("china", "china.csv")
    assert spec_of(on_china, own.find).own is None
    assert spec_of(on_file, own.find).own == own.find(name)


def test_a_run_is_repeated_on_its_own_data_after_another_file_or_other_choices(tmp_path, own, frame):
    first = taken(tmp_path, frame)
    uses = [
        (first, "price", {}), (taken(tmp_path, 2 * frame), "price", {}), (first, "a", {}),
        (first, "price", {"inputs": ("b",)}), (first, "price", {"duplicates": "drop"}),
    ]  # fmt: skip
    names = [kept(own, path, target, **choices) for path, target, choices in uses]
    assert names == ["t.csv", *(f"t.csv ({number})" for number in range(2, 6))]
    for name, (path, target, choices) in zip(names, uses, strict=True):
        found = spec_of(recorded_on(chosen(own, name)), own.find).own
        assert found.path.read_bytes() == path.read_bytes() and found.choices.target == target
        assert (
            found.choices.inputs == choices.get("inputs", tuple({"a", "b", "price"} - {target}))
            or "inputs" not in choices
        )


def test_the_same_table_uploaded_again_keeps_its_name(tmp_path, own, frame):
    assert {kept(own, taken(tmp_path, frame)) for _ in range(2)} == {"t.csv"}
    assert own.names() == ["t.csv"]


def test_repeating_a_run_of_a_removed_or_replaced_table_is_rejected_with_a_remedy(tmp_path, own, frame):
    attrs = recorded_on(chosen(own, kept(own, taken(tmp_path, frame))))
    own.remove("t.csv")
    with pytest.raises(ValueError, match=r"this run, t\.csv, are not on this server; upload .* under the name t\.csv"):
        spec_of(attrs, own.find)
    kept(own, taken(tmp_path, 2 * frame))
    with pytest.raises(ValueError, match=r"the table of that name is another file, or has other columns"):
        spec_of(attrs, own.find)
    own.remove("t.csv")
    kept(own, taken(tmp_path, frame))
    assert spec_of(attrs, own.find).own == own.find("t.csv")


def test_a_data_set_that_was_deleted_is_rejected_with_a_remedy(tmp_path, own, frame, monkeypatch):
    attrs = recorded_on(chosen(own, kept(own, taken(tmp_path, frame)), n=40))
    for variable in ("APVIZ_DATA", "APVIZ_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="'sgemm' is not on this machine. Run `apviz datasets fetch sgemm`"):
        spec_of({**attrs, "dataset": "sgemm"}, own.find)


def test_settings_with_a_removed_table_are_reported(tmp_path, own, frame):
    system = chosen(own, kept(own, taken(tmp_path, frame)))
    spec = system.spec()
    own.remove("t.csv")
    with pytest.raises(ValueError, match=r"the table t\.csv was removed; choose other data"):
        system.spec()
    with pytest.raises(ValueError, match=r"t\.csv has been removed; upload the file again"):
        spec.load()


def test_removing_a_table_does_not_remove_foreign_files_next_to_it(tmp_path, own, frame):
    for name in ("t.csv", "u.csv"):
        kept(own, taken(tmp_path, frame, name))
    (theirs := own.path / "t.csv" / "thesis.tex").write_text("mine")
    own.remove("t.csv")
    assert own.names() == ["u.csv"] and theirs.read_text() == "mine"
    assert [each.name for each in theirs.parent.iterdir()] == ["thesis.tex"]
    # a folder at its path cannot be written to
    assert kept(own, taken(tmp_path, frame)) == "t.csv (2)"
    own.remove("u.csv")
    assert not (own.path / "u.csv").exists()
    with pytest.raises(FileNotFoundError, match="no table u.csv here"):
        own.remove("u.csv")


@pytest.mark.parametrize("name", ["", "..", "../runs", "a/b", ".hidden", "nothing"])
def test_a_name_outside_the_folder_finds_nothing(own, name):
    assert own.find(name) is None


@pytest.mark.parametrize("record", ["", "{}", '{"file": "t.csv", "choices": 3, "rows": 1, "sha256": "", "notes": []}'])
def test_an_unreadable_record_is_not_a_table(tmp_path, own, frame, record):
    kept(own, taken(tmp_path, frame))
    (own.path / "t.csv" / "table.json").write_text(record)
    assert own.find("t.csv") is None
