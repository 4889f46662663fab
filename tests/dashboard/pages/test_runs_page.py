"""The page Runs without a browser: choosing, filtering, settings, and actions on runs."""

from __future__ import annotations

import io
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.analysis.diagnosis import Diagnosis, Limit, diagnose
from apviz.dashboard import address
from apviz.dashboard.pages.runs.viewing import RunsView
from apviz.dashboard.store.runs_folder import RunsFolder
from tests.dashboard.dropping import drop
from tests.dashboard.runs_page import message, press, settle


def settings(page):
    return page.comparison.settings[0].object


def test_the_table_has_every_run_and_chosen_ones_are_drawn_together(page):
    assert set(page.table.names) == {"cg", "ap", "cut", "fit"}
    page.choose(["cg", "cut", "fit"])
    settle(page)
    assert set(page.chosen) == {"cg", "cut", "fit"}
    drawn = page.comparison.cards["residuals"].chart
    assert "CG" in drawn.base and "Not converged" in drawn.base
    assert "Adam step" in page.comparison.cards["training"].chart.base


def test_a_selected_training_is_diagnosed_and_resumed_on_another_page(page):
    page.select("fit")
    settle(page)
    page.select("fit")
    card = page.details.diagnosis
    assert card.view.visible and "σ²" in card._evidence.object and not card._button.visible


def test_missing_runs_in_an_address_are_named_and_removed_from_it(page):
    page.choice.param.update(runs=["cg", "nosuch"], selected="nosuch")
    settle(page)
    assert "nosuch" in message(page)
    assert page.choice.runs == ["cg"] and page.choice.selected == ""


def test_a_click_selects_the_run_of_the_clicked_curve_even_at_equal_work(page):
    shutil.copytree(page.shared.runs.path_of("ap"), page.shared.runs.path_of("again"))
    page.refresh()
    page.choose(["ap", "again", "fit"])
    settle(page)
    chart = page.comparison.cards["residuals"].chart
    groups = {each.get("legendgroup"): None for each in json.loads(chart.base)["data"]}
    drawn = [group for group in groups if group]
    for count, (group, name) in enumerate(zip(drawn, ("ap", "again"), strict=True), start=1):
        chart.clicked = {"x": 1.0, "y": 1.0, "values": [1.0, 1.33, 0.1, 0.5], "group": group, "count": count}
        assert page.choice.selected == name


def test_without_a_training_there_is_no_chart_of_trainings(page):
    page.choose(["cg"])
    settle(page)
    assert page.comparison.cards["residuals"].view.visible and not page.comparison.cards["training"].view.visible


def test_runs_with_commas_in_their_names_are_chosen_and_kept_in_the_address(page, folder):
    """The names of trainings have commas: `training Alternating projection (greedy, b = 100)`."""
    names = ["one, two", "cg", "a,b", "c,,"]
    for name in names[:1] + names[2:]:
        shutil.copytree(folder / "cg.zarr", folder / f"{name}.zarr")
    page.refresh()
    page.choose(names)
    other = RunsView()
    assert address.apply(address.to_query([page.choice]), [other]) == []
    assert other.runs == page.choice.runs == names


def test_the_filter_does_not_change_the_choice(page):
    page.choose(["cg", "cut"])
    page.choice.filter = "not converged"
    assert page.table.names == ["cut"] and page.table.table.ticked == ["cut"]
    page.choose([])
    assert page.choice.runs == ["cg"]


def test_only_different_settings_are_shown_unless_all_are_requested(page):
    page.choose(["ap", "cut"])
    settle(page)
    assert set(settings(page).index) == {"method", "block size", "tol", "max epochs"}
    assert list(settings(page).columns) == ["ap", "cut"]
    page.choice.differences = False
    assert {"kernel", "noise", "dataset", "device name"} < set(settings(page).index)


def test_runs_without_differences_are_reported_as_equal(page, folder):
    shutil.copytree(folder / "cg.zarr", folder / "same.zarr")
    page.refresh()
    page.choose(["cg", "same"])
    settle(page)
    assert settings(page) == "These runs do not differ in any setting."


def test_a_broken_trace_is_named_with_the_reason_and_can_be_deleted(page, folder):
    (folder / "ap.zarr" / "zarr.json").write_text("{bad")
    page.refresh()
    assert page.listing.broken.visible and "ap: its zarr.json cannot be read" in page.listing.broken.object
    page.choose(["ap", "cg"])
    settle(page)
    assert set(page.chosen) == {"cg"}
    page.choose(["ap"])
    settle(page)
    press(page, "Delete 1 chosen")
    assert not page.listing.broken.visible and "ap" not in page.table.names


def test_a_trace_whose_data_are_damaged_is_named_and_the_others_are_drawn(page, folder):
    (folder / "ap.zarr" / "epoch" / "work" / "c" / "0").write_bytes(b"truncated")
    page.choose(["ap", "cg"])
    settle(page)
    assert set(page.chosen) == {"cg"} and message(page).startswith("ap does not open as a Zarr trace")


def test_renaming_applies_wherever_the_run_is_shown(page):
    page.choose(["cg", "ap"])
    page.select("cg")
    settle(page)
    page.details.name.value = "ap"
    press(page, "Rename")
    assert message(page) == "there is a run ap already; choose another name"
    page.details.name.value = "better"
    press(page, "Rename")
    settle(page)
    assert page.choice.runs == ["better", "ap"] and page.choice.selected == "better"
    assert set(page.chosen) == {"better", "ap"}


def test_a_note_is_kept_and_shown(page, folder):
    page.select("cg")
    page.details.note.value = "for the lecture"
    press(page, "Keep note")
    titles = [title for title, _ in page.table.table.columns]
    (row,) = [row for row in page.table.table.rows if row[0] == "cg"]
    assert row[1 + titles.index("note")] == "for the lecture"
    assert {each.name: each.note for each in RunsFolder(folder).entries()}["cg"] == "for the lecture"


def test_undo_restores_deleted_runs(page):
    page.choose(["cg", "ap"])
    page.select("cg")
    settle(page)
    page.delete()
    assert page.choice.runs == [] and page.choice.selected == "" and set(page.table.names) == {"cut", "fit"}
    assert message(page) == "Deleted: cg, ap" and page.editor.undo_button.visible
    page.editor.undo()
    settle(page)
    assert set(page.chosen) == {"cg", "ap"} and not page.editor.undo_button.visible


def test_deleted_runs_can_be_restored_for_days(page):
    page.choose(["cg"])
    page.delete()
    page.editor.say("something else")
    assert list(page.deleted.list.options) == ["cg (just now)"]
    page.bring_back(page.deleted.list.value)
    assert "cg" in page.table.names and page.deleted.list.options == {}


@pytest.mark.parametrize(
    ("suffix", "filename"),
    [
        (".zarr.zip", "apviz-2-runs.zarr.zip"),
        ("-epochs.csv", "apviz-2-runs-epochs.csv"),
        (".html", "apviz-2-runs.html"),
    ],
)
def test_chosen_runs_are_written_into_one_file(page, suffix, filename):
    page.choose(["cg", "ap"])
    page.transfer.format.value = suffix
    page.transfer.export()
    settle(page)
    assert message(page) == "" and page.transfer.download.visible and page.transfer.download.filename == filename
    assert (page.shared.folder / filename).stat().st_size > 1000


def test_an_exported_table_has_every_update_of_every_run(page, folder):
    page.choose(["ap", "cut"])
    page.transfer.format.value = "-updates.csv"
    page.transfer.export()
    settle(page)
    table = pd.read_csv(page.shared.folder / "apviz-2-runs-updates.csv")
    for name in ("ap", "cut"):
        update = RunsFolder(folder).open(name)["update"]
        of_run = table[table["run"] == name]
        np.testing.assert_array_equal(of_run["update"], update["update"].values)
        np.testing.assert_allclose(of_run["energy_decrease"], update["energy_decrease"].values, rtol=1e-12)


def test_an_export_without_content_is_rejected(page):
    page.choose(["cg"])
    page.transfer.format.value = "-steps.csv"
    page.transfer.export()
    settle(page)
    assert message(page) == "no chosen run has recorded a single step"
    page.choose(["fit"])
    page.transfer.format.value = ".html"
    page.transfer.export()
    settle(page)
    assert "a report shows solves" in message(page)


def test_an_exported_run_is_imported_again_and_shown(page):
    page.choose(["cg"])
    page.transfer.export()
    settle(page)
    content = (page.shared.folder / "cg.zarr.zip").read_bytes()
    drop(page.transfer.drop, "cg.zarr.zip", content)
    settle(page)
    assert message(page) == "Imported: cg-2" and page.choice.runs == ["cg", "cg-2"]


def test_a_bad_import_is_rejected_with_the_reason(page):
    drop(page.transfer.drop, "<b>bad.zip", b"hello")
    settle(page)
    assert message(page).startswith("b-bad was not imported: it cannot be unpacked as a zip file")
    assert not list(page.shared.folder.glob("upload-*"))


def test_archives_dropped_together_are_imported_one_after_another(page, folder):
    content = io.BytesIO()
    RunsFolder(folder).export(["cg"], content)
    for name in ("one.zip", "two.zip", "three.zip"):
        drop(page.transfer.drop, name, content.getvalue(), pieces=3)
    for _ in range(3):
        settle(page)
    assert {"one", "two", "three"} <= set(RunsFolder(folder).names())
    assert not list(page.shared.folder.glob("upload-*"))


def test_the_view_is_saved_in_the_address_and_restored_from_it(page):
    page.choose(["cg", "ap"])
    chosen = {"filter": "a b", "x": "epochs", "selected": "ap", "differences": False}
    chosen |= {"group": False, "columns": ["b", "rmse"]}
    chosen |= {"hidden": ["cut"], "show_hidden": True, "thresholds": ["seconds > 10", "b < 3"]}
    page.choice.param.update(**chosen)
    other = RunsView()
    assert address.apply(address.to_query([page.choice]), [other]) == []
    assert {name: getattr(other, name) for name in address.settings(other)} == chosen | {"runs": ["cg", "ap"]}


def test_a_selected_solve_has_a_diagnosis(page):
    page.select("cut")
    settle(page)
    assert page.details.diagnosis.view.visible


def test_a_solve_of_gpytorch_shows_the_cause_found_in_its_model(folder, request):
    linear_operator = pytest.importorskip("linear_operator")
    recorder, cause = (
        apviz.Recorder(),
        Diagnosis(Limit.DUPLICATES, "400 of 500 rows are copies.", "Merge them.", {"rows": "distinct"}),
    )
    with apviz.gpytorch.record_cg(recorder):
        linear_operator.utils.linear_cg(2 * torch.eye(30), torch.ones(30, 1), tolerance=0.1)
    trace = recorder.trace
    cause.write_into(trace)
    trace.save(folder / "mine.zarr")
    page = request.getfixturevalue("page")
    page.select("mine")
    settle(page)
    card = page.details.diagnosis
    assert card.view.visible and card._limit.object.startswith("Duplicate rows")
    assert (card._evidence.object, card._advice.object) == (cause.evidence, cause.advice) and not card._button.visible


def test_running_again_and_comparing_happen_on_the_page_compare(page):
    opened, done = [], []
    compare = SimpleNamespace(
        look_at=lambda runs, selected: done.append((runs, selected)),
        rerun=lambda trace, diagnosis: done.append((trace, diagnosis)),
    )
    page.shared.go = lambda name, prepare: (prepare(compare), opened.append(name))
    page.choose(["ap", "cut", "fit"])
    page.select("cut")
    settle(page)
    page.compare()
    assert (opened, done) == (["compare"], [(["ap", "cut"], "cut")])
    trace = page.loader.traces["cut"]
    found = diagnose(trace)
    page.rerun(trace, found)
    assert opened == ["compare", "compare"] and done[1:] == [(["cut"], "cut"), (trace, found)]


def test_a_run_that_another_process_writes_is_drawn_as_it_grows(page, folder):
    shutil.copytree(folder / "cut.zarr", folder / "growing.zarr")
    page.refresh()
    page.choose(["growing"])
    settle(page)
    before = page.loader.traces["growing"]
    shutil.rmtree(folder / "growing.zarr")
    shutil.copytree(folder / "ap.zarr", folder / "growing.zarr")
    (folder / "growing.zarr" / "zarr.json").touch()
    page.refresh()
    settle(page)
    assert page.loader.traces["growing"] is not before
    assert page.loader.traces["growing"].method_name == page.shared.runs.open("ap").method_name
