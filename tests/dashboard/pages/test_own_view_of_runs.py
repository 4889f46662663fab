"""The page Runs as a visitor arranges it: hidden runs, thresholds, trainings among the runs, damaged ones."""

from __future__ import annotations

import html
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("panel")

from apviz.dashboard import address
from apviz.dashboard.pages.runs.thresholds import threshold
from apviz.dashboard.pages.runs.viewing import RunsView
from tests.dashboard.runs_page import cell, message, press, settle
from tests.dashboard.store.on_disk import files, rewrite


def curves(page, card="residuals"):
    """Return the lines of the runs in a chart: colour and name, by the beginning of the name."""
    drawn = json.loads(page.comparison.cards[card].chart.base)["data"]
    return {each["name"].split(" — ")[0]: (each["line"]["color"], each["name"]) for each in drawn if "line" in each}


# --- hidden runs --------------------------------------------------------------------------------------------------


def test_a_hidden_run_loses_its_row_and_its_curve_and_nothing_on_disk(page, folder):
    before = files(folder)
    page.choose(["cg", "ap", "cut"])
    settle(page)
    drawn = curves(page)
    page.table.table.hidden = ["ap"]
    settle(page)
    assert set(page.table.names) == {"cg", "cut", "fit"} and "3 of 4 runs, 1 hidden" in page.table._count.object
    left = curves(page)
    assert len(left) == len(drawn) - 1 and left.items() <= drawn.items()
    assert list(page.comparison.settings[0].object.columns) == ["cg", "cut"]
    assert page.choice.runs == ["cg", "ap", "cut"] and files(folder) == before
    page.choice.show_hidden = True
    assert set(page.table.names) == {"cg", "ap", "cut", "fit"} and page.table.table.hidden == ["ap"]
    page.table.table.hidden = []
    settle(page)
    assert curves(page) == drawn and not page._show_hidden.visible


def test_hiding_a_run_never_changes_a_median(page, folder):
    names = []
    for seed in range(3):
        for name in ("cg", "ap"):
            copy = shutil.copytree(folder / f"{name}.zarr", folder / f"{name}-{seed}.zarr")
            rewrite(copy, lambda attrs, seed=seed: attrs.update(seed=seed, data=f"{seed}"))
            names.append(copy.stem)
    page.refresh()
    page.choose(names)
    settle(page)
    chart, table = page.comparison.cards["residuals"].chart.base, page.comparison.groups[2].object
    profile = page.comparison.cards["profiles"].chart.base
    page.hide(["ap-0", "cg-1"])
    settle(page)
    assert page.comparison.cards["residuals"].chart.base == chart
    assert page.comparison.cards["profiles"].chart.base == profile
    assert page.comparison.groups[2].object.equals(table)


def test_chosen_runs_are_hidden_and_shown_together_and_follow_renaming_and_deleting(page):
    page.choose(["cg", "ap"])
    press(page, "Hide")
    assert page.choice.hidden == ["cg", "ap"] and set(page.table.names) == {"cut", "fit"}
    page.select("cg")
    page.rename("better")
    assert page.choice.hidden == ["better", "ap"]
    page.choose(["cut"])
    assert page.choice.runs == ["better", "ap", "cut"]
    press(page, "Unhide")
    assert page.choice.hidden == []
    press(page, "Hide")
    page.delete()
    assert page.choice.hidden == [] and page.table.names == ["fit"]


# --- thresholds ---------------------------------------------------------------------------------------------------


def test_thresholds_mark_numbers_beyond_them_are_counted_and_kept_in_the_address(page):
    page.choice.thresholds = ["work > 3", "work < 2", "σ² > 0.05"]
    assert page.table.table.marks == {"work": [[">", 3.0], ["<", 2.0]], "σ²": [[">", 0.05]]}
    works = np.array([entry.work for entry in page.listing.entries])
    said = f"Marked: work > 3 ({(works > 3).sum()}), work < 2 ({(works < 2).sum()}), σ² > 0.05 (3)."
    assert said in html.unescape(page.table._count.object)
    other = RunsView()
    assert address.apply(address.to_query([page.choice]), [other]) == []
    assert other.thresholds == page.choice.thresholds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("seconds", "has no form like seconds > 10"), ("method > 3", "“method” is not a column of numbers"),
        ("seconds > ten", "“ten” is not a finite number"), ("seconds > nan", "not a finite number"),
        ("1 < b < 2", "has no form"), ("<b>", "has no form"),
    ],
)  # fmt: skip
def test_another_text_is_no_threshold_and_says_why(page, text, why):
    with pytest.raises(ValueError, match=why):
        threshold(text)
    (problem,) = address.apply(f"thresholds={text}", [RunsView()])
    assert why in problem
    (field,) = [each.widget for each in page.fields._own]
    field.value = text
    assert why in field.helper_text and page.choice.thresholds == []
    field.value = "seconds > 10, b<50"
    assert field.helper_text == "" and page.choice.thresholds == ["seconds > 10", "b<50"]


def test_a_missing_number_crosses_no_threshold(page):
    training = page.listing.entry("fit")
    assert not threshold("residual > 0").is_crossed(training, 0.0)
    assert not threshold("residual < 1e9").is_crossed(training, 0.0)
    assert threshold("epochs > 1").is_crossed(training, 0.0)


# --- trainings, damaged runs --------------------------------------------------------------------------------------


def test_a_training_among_the_runs_has_its_own_status_and_opens_on_its_page(page):
    opened, picked = [], []
    page.shared.go = lambda name, prepare: (prepare(SimpleNamespace(select=picked.append)), opened.append(name))
    assert cell(page, "fit", "ended") == "Finished"
    page.select("cg")
    assert not page.details._training.visible
    page.select("fit")
    assert page.details._training.visible
    press(page, "Open in Training")
    assert (opened, picked) == (["training"], ["fit"])


def test_a_run_damaged_while_the_page_is_open_becomes_damaged_and_changes_no_other(page, folder):
    page.choose(["cg", "cut"])
    settle(page)
    drawn = curves(page)
    (folder / "ap.zarr" / "epoch" / "work" / "c" / "0").write_bytes(b"half")
    page.choose(["cg", "cut", "ap"])
    settle(page)
    page.refresh()
    assert message(page).startswith("ap does not open") and curves(page) == drawn
    assert cell(page, "ap", "ended") == "Damaged" and cell(page, "ap", "residual") is None
    assert page.table.names[-1] == "ap" and "ap: it does not open" in page.listing.broken.object
