"""Traces in object stores, given by URL: writing, kills, locks, saving, opening and reports work as on a disk."""

from __future__ import annotations

import json
import os
import warnings
from itertools import count

import fsspec
import numpy as np
import pytest
import torch
import xarray as xr
from typer.testing import CliRunner

import apviz
import apviz.tracing.recorder
from apviz import cli
from apviz.comparison import compare
from apviz.places import place_of
from apviz.report import find_traces, write_report
from apviz.tracing.lock import Lock
from tests.device import DEVICE

NUMBERS = count()
SOLVER = apviz.AlternatingProjection(block_size=10, rule="cyclic", tol=1e-300, max_epochs=20)


@pytest.fixture
def store():
    """Return the URL of an empty place in a store."""
    url = f"memory://bucket{next(NUMBERS)}/runs"
    yield url
    if objects(url):
        fsspec.filesystem("memory").rm(url, recursive=True)


@pytest.fixture
def flushed_after_every_epoch(monkeypatch):
    monkeypatch.setattr(apviz.tracing.recorder, "FLUSH_SHARE", 0)


def a_system():
    x, b = np.random.default_rng(0).uniform(size=(60, 2)), np.random.default_rng(1).standard_normal((60, 2))
    return apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=0.1, dtype=torch.float64, device=DEVICE)


def objects(url):
    memory = fsspec.filesystem("memory")
    return {name: memory.cat_file(name) for name in memory.find(url)} if memory.exists(url) else {}


def as_on_disk(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("flushed_after_every_epoch")
def test_a_trace_in_a_store_equals_that_on_a_disk_byte_for_byte_except_seconds_and_opens(store, tmp_path):
    recorder = apviz.Recorder(f"{store}/a.zarr", rows=True, snapshots=range(3))
    disk = apviz.Recorder(tmp_path / "a.zarr", rows=True, snapshots=range(3))
    apviz.solve(a_system(), SOLVER, [recorder, disk])
    opened = apviz.open_trace(f"{store}/a.zarr")
    assert opened.tree.identical(recorder.trace.tree) and opened.outcome == "max_epochs"
    place = place_of(f"{store}/a.zarr")
    found = {name: (place / name).read_bytes() for name in place.files()}
    expected = as_on_disk(tmp_path / "a.zarr")
    assert found.keys() == expected.keys()
    assert {name for name in found if found[name] != expected[name]} <= {"zarr.json"}  # which holds the trace's own id
    assert not [name for name in objects(store) if name.endswith(".lock")]


class Killed(BaseException):
    """Ends a process as a kill does, without cleaning up."""


class DieAfter(apviz.Hook):
    """Ends the process after `puts` objects were written, as a kill does."""

    def __init__(self, monkeypatch, puts):
        memory, left = type(fsspec.filesystem("memory")), count(puts, -1)
        put = memory.pipe_file

        def pipe_file(self, path, *arguments, **named):
            if next(left) <= 0:
                raise Killed
            put(self, path, *arguments, **named)

        monkeypatch.setattr(memory, "pipe_file", pipe_file)


@pytest.fixture(scope="module")
def whole():
    recorder = apviz.Recorder()
    apviz.solve(a_system(), SOLVER, [recorder])
    return recorder.trace


@pytest.mark.usefixtures("flushed_after_every_epoch")
@pytest.mark.parametrize("puts", [3, 40, 61, 62, 70, 100, 150, 301])
def test_a_kill_after_any_object_leaves_no_trace_or_the_beginning_marked_as_interrupted(
    store, monkeypatch, whole, puts
):
    with monkeypatch.context() as patch:
        hook = DieAfter(patch, puts)
        with pytest.raises(Killed):
            apviz.solve(a_system(), SOLVER, [apviz.Recorder(f"{store}/a.zarr"), hook])
    if not place_of(f"{store}/a.zarr/zarr.json").exists():
        assert puts < 70
        with pytest.raises(FileNotFoundError, match="no trace at"):
            apviz.open_trace(f"{store}/a.zarr")
        return
    trace = apviz.open_trace(f"{store}/a.zarr")
    assert trace.outcome == "interrupted" and not trace.finished
    for group in {"update", "epoch"} & set(trace.tree.children):
        found = trace[group].drop_vars("seconds")
        xr.testing.assert_identical(found, whole[group].drop_vars("seconds").isel({group: slice(found.sizes[group])}))


def test_a_second_lock_of_one_url_raises_and_names_the_holder_and_a_remedy(store):
    lock = Lock(place_of(f"{store}/a.zarr"))
    with pytest.raises(
        FileExistsError, match=rf"a.zarr is being written by process {os.getpid()} on .* since .*remove "
    ):
        Lock(place_of(f"{store}/a.zarr"))
    assert place_of(store).files() == {".a.zarr.lock"}
    lock.release()
    assert objects(store) == {}
    Lock(place_of(f"{store}/a.zarr")).release()


def test_a_trace_is_never_written_over_another(store):
    apviz.solve(a_system(), SOLVER, [apviz.Recorder(f"{store}/a.zarr")])
    before = objects(store)
    again = apviz.Recorder(f"{store}/a.zarr")
    with pytest.raises(FileExistsError, match="choose another path"):
        apviz.solve(a_system(), SOLVER, [again])
    with pytest.raises(FileExistsError, match="choose another path"):
        apviz.open_trace(f"{store}/a.zarr").save(f"{store}/a.zarr")
    assert objects(store) == before


class Replace(apviz.Hook):
    """Replaces the trace by another one during the run."""

    def __init__(self, url):
        self.url = url

    def on_epoch(self, epoch):
        if epoch.number == 5:
            fsspec.filesystem("memory").rm(self.url, recursive=True)
            place_of(f"{self.url}/zarr.json").write_bytes(b'{"attributes": {"mine": true}}')


@pytest.mark.usefixtures("flushed_after_every_epoch")
def test_a_trace_replaced_during_a_run_continues_under_another_name_and_the_other_is_unchanged(store):
    recorder = apviz.Recorder(f"{store}/a.zarr")
    with pytest.warns(UserWarning, match=r"something else has replaced .*a.zarr.* in .*a-continued.zarr"):
        apviz.solve(a_system(), SOLVER, [recorder, Replace(f"{store}/a.zarr")])
    assert place_of(f"{store}/a.zarr").files() == {"zarr.json"}
    assert apviz.open_trace(f"{store}/a-continued.zarr").tree.identical(recorder.trace.tree)


class Refusing(type(fsspec.filesystem("memory"))):
    """A store that rejects writes with an error of its own."""

    protocol = "refusing"

    def pipe_file(self, path, value, mode="overwrite", **named):
        raise RuntimeError("SlowDown: please reduce your request rate")


@pytest.mark.usefixtures("flushed_after_every_epoch")
def test_a_store_that_rejects_writes_causes_one_warning_and_the_solve_continues():
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    recorder = apviz.Recorder("refusing://bucket/a.zarr")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        solution = apviz.solve(a_system(), SOLVER, [recorder])
    (warning,) = [str(each.message) for each in said if "could not be written" in str(each.message)]
    assert "SlowDown" in warning and "it is kept in memory" in warning
    assert solution.epochs == 20 and recorder.trace.finished


@pytest.mark.usefixtures("flushed_after_every_epoch")
def test_a_first_flush_that_failed_halfway_is_repeated_at_the_same_url(store, monkeypatch):
    memory, left = type(fsspec.filesystem("memory")), count(30, -1)
    put = memory.pipe_file

    def pipe_file(self, path, *arguments, **named):
        if next(left) == 0:
            raise TimeoutError("slow")
        put(self, path, *arguments, **named)

    monkeypatch.setattr(memory, "pipe_file", pipe_file)
    recorder = apviz.Recorder(f"{store}/a.zarr")
    with pytest.warns(UserWarning, match="could not be written") as said:
        apviz.solve(a_system(), SOLVER, [recorder])
    assert not any("something else" in str(each.message) for each in said)
    assert apviz.open_trace(f"{store}/a.zarr").tree.identical(recorder.trace.tree)


def test_a_saved_trace_opens_by_its_url_and_an_error_names_a_lost_object(store):
    recorder = apviz.Recorder(f"{store}/a.zarr")
    apviz.solve(a_system(), SOLVER, [recorder])
    recorder.trace.save(f"{store}/b.zarr")
    assert apviz.open_trace(f"{store}/b.zarr").tree.identical(recorder.trace.tree)
    place_of(f"{store}/b.zarr/epoch/energy/c/0").unlink()
    with pytest.raises(ValueError, match="lacks epoch/energy/c/0, a part of its data"):
        apviz.open_trace(f"{store}/b.zarr")


def test_an_interrupted_save_leaves_no_trace_that_opens(store, monkeypatch, whole):
    with monkeypatch.context() as patch:
        DieAfter(patch, 50)
        with pytest.raises(Killed):
            whole.save(f"{store}/b.zarr")
    assert len(objects(store)) == 50
    with pytest.raises(FileNotFoundError):
        apviz.open_trace(f"{store}/b.zarr")


def test_a_comparison_and_its_report_are_written_to_a_url_and_read_from_it(store):
    outcomes = [*compare(a_system(), [SOLVER, apviz.Cholesky(), SOLVER], store)]
    assert [outcome.path.name for outcome in outcomes] == [
        "n60-alternating-projection-cyclic-b-10.zarr", "n60-cholesky.zarr",
        "n60-alternating-projection-cyclic-b-10-run2.zarr",
    ]  # fmt: skip
    assert sorted(trace.method_name for trace in find_traces(store)) == [
        *["Alternating projection (cyclic, b = 10)"] * 2, "Cholesky",
    ]  # fmt: skip
    page = write_report(find_traces(store), place_of(store) / "report.html")
    assert str(page) == f"{store}/report.html" and b"Cholesky" in page.read_bytes()
    # apviz replaces its own page
    assert write_report(find_traces(store)[:1], place_of(store) / "report.html") == page


def test_the_command_line_writes_to_a_url_and_shows_and_reports_from_it(store):
    run = CliRunner().invoke
    compared = run(cli.app, [
        "compare", "--dataset", "diabetes", "--methods", "cholesky,cg", "--rhs", "2", "--device", "cpu", "--out", store,
    ])  # fmt: skip
    assert compared.exit_code == 0, compared.output
    assert f"2 traces in {store}" in compared.output.replace("\n", " ")
    shown = run(cli.app, ["show", f"{store}/diabetes-n353-cholesky.zarr"])
    assert shown.exit_code == 0 and "Cholesky on diabetes" in shown.output
    reported = run(cli.app, ["report", store])
    assert reported.exit_code == 0 and "report.html" in reported.output


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nowhere://bucket/a.zarr", "is in no store that fsspec knows"),
        ("gs://bucket/a.zarr", "gs:// needs a package that is not installed"),
    ],
)
def test_a_url_of_an_unknown_store_or_a_missing_package_raises_with_a_remedy_before_the_solve(url, message):
    for use in (apviz.Recorder, apviz.open_trace):
        with pytest.raises(ValueError, match=message):
            use(url)


def test_a_training_rejects_a_url_and_makes_no_folder_named_after_its_protocol(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="path must be a local path, because the checkpoint is a file"):
        apviz.Training(np.linspace(0, 1, 30), np.ones(30), path="memory://bucket/t.zarr")
    assert os.listdir(tmp_path) == []


def test_xarray_reads_a_trace_in_a_store_without_apviz(store):
    apviz.solve(a_system(), SOLVER, [apviz.Recorder(f"{store}/a.zarr")])
    with xr.open_datatree(f"{store}/a.zarr", engine="zarr") as tree:
        assert json.loads(tree.attrs["solver_settings"])["block_size"] == 10
        assert tree["epoch"].sizes["epoch"] == 21
