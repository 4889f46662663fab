"""A trace that cannot be read, for any reason, hides no other trace and ends no command."""

from __future__ import annotations

import json
import shutil
from itertools import product

import pytest
import torch

pytest.importorskip("panel")
from typer.testing import CliRunner

import apviz
from apviz.cli import app
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.dashboard.store.trainings import Trainings
from apviz.report import find_traces, page, write_report
from apviz.tracing import opening


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    x = torch.linspace(0, 1, 30, dtype=torch.float64)
    system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern32(lengthscale=0.2), noise=0.05, device="cpu")
    apviz.solve(system, apviz.ConjugateGradient(), hooks=[apviz.Recorder(folder / "good.zarr")])
    return folder


@pytest.fixture
def folder(good, tmp_path):
    shutil.copytree(good, tmp_path / "runs")
    shutil.copytree(good / "good.zarr", tmp_path / "runs" / "bad.zarr")
    return tmp_path / "runs"


def rewrite(path, change):
    """Change the metadata of a trace, in the files of the root and of the residual."""
    for file, here in ((path / "zarr.json", False), (path / "epoch/residual/zarr.json", True)):
        node = json.loads(file.read_text())
        inside = node if here else node["consolidated_metadata"]["metadata"]["epoch/residual"]
        change(inside)
        file.write_text(json.dumps(node))


def nested(path):
    (path / "zarr.json").write_text((path / "zarr.json").read_text().replace('"cpu"', "[" * 10**5 + "]" * 10**5, 1))


def chunks(*shape):
    return lambda node: node["chunk_grid"]["configuration"].update(chunk_shape=list(shape))


DAMAGES = {
    "arrays of terabytes": lambda path: rewrite(path, lambda node: node.update(shape=[10**13])),
    "a chunk of terabytes": lambda path: rewrite(path, chunks(10**13)),
    "a chunk of nothing": lambda path: rewrite(path, chunks(0)),
    "chunks without end": lambda path: rewrite(path, lambda node: (node.update(shape=[10**9]), chunks(1)(node))),
    "no shape": lambda path: rewrite(path, lambda node: node.pop("shape")),
    "an unknown decoder": lambda path: rewrite(path, lambda node: node.update(codecs=[{"name": "numcodecs.pickle"}])),
    "texts of gigabytes": lambda path: rewrite(path, lambda node: node.update(
        data_type={"name": "fixed_length_utf32", "configuration": {"length_bytes": 4 * 10**9}})),
    "metadata nested without end": nested,
    "a root that is a list": lambda path: (path / "zarr.json").write_text("[]"),
    "attributes that are a list": lambda path: (path / "zarr.json").write_text('{"attributes": []}'),
    "no root": lambda path: (path / "zarr.json").unlink(),
    "a folder for a root": lambda path: ((path / "zarr.json").unlink(), (path / "zarr.json").mkdir()),
    "an empty file": lambda path: (path / "epoch/residual/c/0").write_bytes(b""),
    "bytes of no text": lambda path: (path / "zarr.json").write_bytes(b"\xff\xfe\x00"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_trace_is_named_with_the_reason_and_the_others_are_reported(folder, damage):
    DAMAGES[damage](folder / "bad.zarr")
    with pytest.warns(UserWarning, match="bad.zarr is left out because it cannot be read: .+"):
        (found,) = find_traces(folder)
    assert found.converged
    with pytest.raises((ValueError, FileNotFoundError), match="bad.zarr"):
        apviz.open_trace(folder / "bad.zarr")


def test_the_commands_name_the_bad_trace_and_continue(folder, caplog):
    DAMAGES["arrays of terabytes"](folder / "bad.zarr")
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0 and "bad.zarr is left out" in caplog.text, done.output
    assert "conjugate gradient" in (folder / "report.html").read_text().lower()
    shown = CliRunner().invoke(app, ["show", str(folder / "bad.zarr")])
    said = shown.output.replace("\n", "")
    assert shown.exit_code == 2 and "error:" in said and "bad.zarr" in said and "larger than" in said
    entries = {each.name: each for each in RunsFolder(folder).entries()}
    assert entries["good"].finished and set(entries) == {"good", "bad"}


@pytest.mark.parametrize("damage", ["metadata nested without end", "a root that is a list", "bytes of no text"])
def test_the_dashboard_lists_the_bad_trace_with_the_reason_and_the_others(folder, damage):
    DAMAGES[damage](folder / "bad.zarr")
    (entry,) = [each for each in RunsFolder(folder).entries() if each.problem]
    assert entry.name == "bad" and "zarr.json" in entry.problem
    assert RunsFolder(folder).names() == ["good"] and Trainings(folder).names() == []


UNFORESEEN = [MemoryError(), RecursionError("too deep"), KeyError("x"), ZeroDivisionError("by 0"), AssertionError(),
              OverflowError("large"), NotImplementedError("codec"), AttributeError("'list' has no .get"),
              StopIteration(), UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), Exception("anything")]  # fmt: skip
PLACES = ("_loaded", "check_metadata", "_check_attributes")


@pytest.mark.parametrize(
    ("place", "error"),
    [*(("require_every_chunk", error) for error in UNFORESEEN), *product(PLACES, UNFORESEEN[:2])],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_an_error_while_a_trace_is_read_is_reported_for_it_alone(folder, monkeypatch, error, place):
    plain = getattr(opening, place)

    def fails(first, *rest):
        if "bad.zarr" in str(first) or getattr(first, "get", {}.get)("method_name") == "bad":
            raise error
        return plain(first, *rest)

    if place == "_check_attributes":
        root = json.loads((folder / "bad.zarr/zarr.json").read_text())
        root["attributes"]["method_name"] = "bad"
        (folder / "bad.zarr/zarr.json").write_text(json.dumps(root))
    monkeypatch.setattr(opening, place, fails)
    with pytest.warns(UserWarning, match="bad.zarr is left out because it cannot be read"):
        (found,) = find_traces(folder)
    assert found.converged
    with pytest.raises(ValueError, match=type(error).__name__ if place != "_loaded" else ".") as said:
        opening.check_complete(apviz.open_trace(folder / "bad.zarr"))
    assert str(said.value)


@pytest.mark.parametrize("error", UNFORESEEN, ids=lambda error: type(error).__name__)
def test_a_trace_that_cannot_be_drawn_is_omitted_from_the_page_with_the_reason(folder, monkeypatch, error):
    traces = find_traces(folder)
    # only the latest run of the same settings is drawn
    traces[0].tree.attrs |= {"method_name": "the bad one", "solver_settings": '{"tol": 1}'}

    def fails(drawn):
        if any(each.method_name == "the bad one" for each in drawn):
            raise error
        return [None]

    monkeypatch.setattr(page, "_figures", fails)
    with pytest.warns(UserWarning, match=f"the bad one is left out because it cannot be drawn: {type(error).__name__}"):
        found = page._sections(traces)
    assert [len(each.rows) for each in found] == [1]
    with pytest.raises(type(error)), pytest.warns(UserWarning, match="left out"):
        write_report(traces[:1], folder / "other.html")
    assert not (folder / "other.html").exists()
