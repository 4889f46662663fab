"""Zip files of traces: traces are unpacked unchanged, and nothing else is accepted."""

from __future__ import annotations

import io
import json
import stat
import zipfile

import pytest
import torch
import xarray as xr
import zarr

import apviz
from apviz.tracing.archive import pack, unpack
from apviz.tracing.opening import check_complete


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Return two traces on disk by name; `saved` was written by `Trace.save`."""
    folder = tmp_path_factory.mktemp("traces")
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    system = apviz.KernelSystem(
        x, x[:, :1], apviz.Matern52(lengthscale=0.5), noise=0.1, operator="dense", dataset="made"
    )
    recorder = apviz.Recorder(folder / "recorded.zarr")
    apviz.solve(system, apviz.AlternatingProjection(block_size=20), hooks=[recorder])
    recorder.trace.save(folder / "saved.zarr")
    return {name: folder / f"{name}.zarr" for name in ("recorded", "saved")}


def zipped(traces):
    file = io.BytesIO()
    pack(traces, file)
    return file


def changed(file, change):
    """Return the zip file after `change` edited its members, given by name."""
    with zipfile.ZipFile(file) as archive:
        members = {each.filename: archive.read(each) for each in archive.infolist()}
    change(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out


def with_metadata(file, node, **values):
    """Return the zip file with changes to an array's metadata, in its own file and in that of the root."""

    def change(members):
        own = json.loads(members[f"{node}/zarr.json"]) | values
        root = json.loads(members["zarr.json"])
        root["consolidated_metadata"]["metadata"][node] |= values
        members |= {f"{node}/zarr.json": json.dumps(own).encode(), "zarr.json": json.dumps(root).encode()}

    return changed(file, change)


@pytest.mark.parametrize("name", ["recorded", "saved"])
def test_a_trace_is_unpacked_unchanged(tmp_path, traces, name):
    (path,) = unpack(zipped({name: traces[name]}), tmp_path).values()
    trace = apviz.open_trace(path)
    check_complete(trace)
    assert trace.tree.identical(apviz.open_trace(traces[name]).tree)


def test_several_traces_are_unpacked_under_their_names(tmp_path, traces):
    found = unpack(zipped(traces), tmp_path)
    assert set(found) == set(traces)
    for name, path in found.items():
        assert apviz.open_trace(path).tree.identical(apviz.open_trace(traces[name]).tree)


def test_the_zip_of_one_trace_is_a_zip_store_of_zarr(tmp_path, traces):
    (tmp_path / "a.zarr.zip").write_bytes(zipped({"recorded": traces["recorded"]}).getvalue())
    with zarr.storage.ZipStore(tmp_path / "a.zarr.zip", mode="r") as store:
        tree = xr.open_datatree(store, engine="zarr").load()
    assert tree.identical(apviz.open_trace(traces["recorded"]).tree)


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "a.zarr/../../evil", "C:\\evil", "..\\evil", "epoch/../../../evil", "run.py",
     "epoch/energy/c/0/../../../../x", "a\x00b", ".hidden", "epoch/energy/deeper/zarr.json"],
)  # fmt: skip
def test_a_file_that_does_not_belong_to_a_trace_is_rejected_before_anything_is_written(tmp_path, traces, name):
    file = changed(zipped({"recorded": traces["recorded"]}), lambda members: members.update({name: b"x"}))
    with pytest.raises(ValueError, match="not a file of a trace|damaged"):
        unpack(file, tmp_path)
    assert not any(tmp_path.iterdir())


def test_links_are_refused(tmp_path, traces):
    file = zipped({"recorded": traces["recorded"]})
    with zipfile.ZipFile(file, "a") as archive:
        link = zipfile.ZipInfo("epoch/link/zarr.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match="is a link"):
        unpack(file, tmp_path)


def test_an_archive_that_unpacks_to_too_much_is_rejected_by_its_table_of_contents(tmp_path, traces):
    file = zipped({"recorded": traces["recorded"]})
    with pytest.raises(ValueError, match=r"it unpacks to .* MB; up to .* MB are accepted"):
        unpack(file, tmp_path, most_bytes=1000)
    with zipfile.ZipFile(file) as archive:
        most = len(archive.namelist()) - 1
    with pytest.raises(ValueError, match=rf"it has {most + 1} files; up to {most} are accepted"):
        unpack(file, tmp_path, most_files=most)


def test_a_member_larger_than_the_table_of_contents_says_is_not_unpacked(tmp_path, traces):
    content = bytearray(zipped({"recorded": traces["recorded"]}).getvalue())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = archive.getinfo("epoch/energy/c/0")
    at = content.rindex(b"epoch/energy/c/0") - 46 + 24  # its uncompressed size in the central directory
    content[at : at + 4] = (member.file_size // 8).to_bytes(4, "little")
    with pytest.raises(ValueError, match="cannot be unpacked"):
        unpack(io.BytesIO(content), tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shape": [10**12], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**12]}}}, "larger"),
        ({"shape": [10**7], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}}, "larger"),
        ({"codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 0}}]}, "plain bytes are accepted"),
        ({"codecs": [{"name": "numcodecs.pickle"}]}, "plain bytes are accepted"),
        ({"data_type": "string"}, "an array of 'string'"),
        ({"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}}, "an array of"),
        ({"zarr_format": 2}, "not in the format Zarr v3"),
        ({"shape": [-1]}, "without a shape"),
        ({"shape": ["many"]}, "without a shape|describe no array"),
        ({"chunk_grid": {}}, "describe no array"),
    ],
)
def test_only_arrays_of_plain_numbers_and_bounded_size_are_accepted(tmp_path, traces, values, message):
    file = with_metadata(zipped({"recorded": traces["recorded"]}), "epoch/work", **values)
    with pytest.raises(ValueError, match=message):
        unpack(file, tmp_path)


@pytest.mark.parametrize("node", ["../secret", "epoch/../../secret", "/etc", "epoch//work", "a/b/c", ""])
def test_an_array_that_refers_to_files_outside_the_trace_is_rejected(tmp_path, traces, node):
    def change(members):
        root = json.loads(members["zarr.json"])
        nodes = root["consolidated_metadata"]["metadata"]
        nodes[node] = nodes["epoch/work"]
        members["zarr.json"] = json.dumps(root).encode()

    with pytest.raises(ValueError, match="strange nodes"):
        unpack(changed(zipped({"recorded": traces["recorded"]}), change), tmp_path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe", b"[]", b"{}", b"null"])
def test_invalid_metadata_are_rejected(tmp_path, traces, content):
    file = changed(zipped({"recorded": traces["recorded"]}), lambda members: members.update({"zarr.json": content}))
    with pytest.raises(ValueError, match="not Zarr metadata|describe no array"):
        unpack(file, tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 and no more"])
def test_a_file_that_is_not_a_zip_file_is_rejected(tmp_path, content):
    with pytest.raises(ValueError, match="cannot be unpacked as a zip file"):
        unpack(io.BytesIO(content), tmp_path)


def test_a_table_of_contents_with_too_many_files_is_rejected_before_it_is_read(tmp_path, traces, monkeypatch):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(600):
            archive.writestr(f"epoch/seconds/c/{number}", b"")
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(ValueError, match="lists more files than the 100 that are accepted"):
        unpack(file, tmp_path, most_files=100)


def test_a_zip_without_a_trace_is_refused(tmp_path):
    file = io.BytesIO()
    zipfile.ZipFile(file, "w").close()
    with pytest.raises(ValueError, match="there is no trace in it"):
        unpack(file, tmp_path)


def test_files_that_archive_tools_add_are_ignored(tmp_path, traces):
    litter = {"__MACOSX/._zarr.json": b"x", ".DS_Store": b"x"}
    file = changed(zipped({"a": traces["recorded"]}), lambda members: members.update(litter))
    (path,) = unpack(file, tmp_path).values()
    assert {each.name for each in path.iterdir()} == {each.name for each in traces["recorded"].iterdir()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("method"), "no attribute method"),
        (lambda a: a.update(solver_settings="nonsense"), "its solver_settings is not JSON"),
        (lambda a: a["method"].update(rule=3), "rule of a method must be str, got '3'"),
        (lambda a: a.update(n="many"), "its n must be int, got 'many'"),
        (lambda a: a.update(method_name="A\u202eP"), "its method_name is too long, or has characters"),
        (lambda a: a.update(method="AP"), "its method must be dict, got 'AP'"),
        (lambda a: a.update(lengthscale=["x"]), "its lengthscale must be numbers"),
        (lambda a: a.update(status="fine"), "its status must be finished or interrupted, got 'fine'"),
        (lambda a: a.update(created="today"), "no valid date of creation"),
        (lambda a: a.update(choices="[]"), "its choices is not JSON as apviz writes it"),
        (lambda a: a.update(kind="training"), "no attribute training_settings"),
    ],
)
def test_a_trace_without_an_attribute_that_pages_need_is_not_complete(traces, change, message):
    trace = apviz.open_trace(traces["recorded"])
    change(trace.attrs)
    if trace.attrs.get("kind") == "training":
        trace = apviz.tracing.TrainingTrace(trace.tree)
    with pytest.raises(ValueError, match=message):
        check_complete(trace)


def test_a_trace_without_a_group_or_a_variable_is_not_complete(traces):
    trace = apviz.open_trace(traces["recorded"])
    del trace.tree["epoch"]["energy"]
    with pytest.raises(ValueError, match="its group epoch has no energy"):
        check_complete(trace)
    del trace.tree["spectrum"]
    del trace.tree["epoch"]
    with pytest.raises(ValueError, match="it has no group epoch"):
        check_complete(trace)
