"""The page Runs with many runs: groups and profiles, columns to choose, tags."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest

pytest.importorskip("panel")

from apviz.dashboard import address
from apviz.dashboard.pages.runs.viewing import RunsView
from apviz.dashboard.store.runs_folder import RunsFolder
from tests.dashboard.runs_page import cell, message, press, settle
from tests.dashboard.store.on_disk import files, rewrite


@pytest.mark.slow
def test_any_number_of_runs_can_be_chosen_and_drawn_in_one_chart(page, folder):
    for number in range(40):
        shutil.copytree(folder / "cg.zarr", folder / f"copy{number}.zarr")
    page.refresh()
    page.choose(page.table.names)
    settle(page)
    assert message(page) == "" and len(page.chosen) == 44 == len(page.table.table.ticked)
    drawn = json.loads(page.comparison.cards["residuals"].chart.base)["data"]
    # a training has no residual
    assert len({each["legendgroup"] for each in drawn if each.get("legendgroup")}) == 43
    assert "CG — 41 runs, 41 converged" in {each.get("name") for each in drawn}
    assert len(page.comparison.settings[0].object) == 43


def test_while_runs_are_opened_the_page_shows_their_number(page, monkeypatch):
    page.choose(["cg", "ap", "cut"])
    assert page.comparison.progress.object == "Opening runs: 0 of 3" and page.comparison.progress.visible
    settle(page)
    assert not page.comparison.progress.visible


# --- groups -------------------------------------------------------------------------------------------------------


def over_seeds(folder, seeds=3):
    """Return runs of two methods that differ only in the seed in their attributes."""
    for seed in range(seeds):
        for name in ("cg", "ap"):
            copy = shutil.copytree(folder / f"{name}.zarr", folder / f"{name}-{seed}.zarr")
            rewrite(copy, lambda attrs, seed=seed: attrs.update(seed=seed, data=f"{seed}"))
    return [f"{name}-{seed}" for seed in range(seeds) for name in ("cg", "ap")]


def entries(page, card):
    found = json.loads(page.comparison.cards[card].chart.base)["data"]
    return {each["name"].replace("<br>", " — ") for each in found if each.get("name")}


def test_grouped_curves_are_medians_over_seeds_with_a_table_of_the_groups(page, folder):
    names = over_seeds(folder)
    page.refresh()
    page.choose(names)
    settle(page)
    called = "Alternating projection (greedy, b = 20)"
    assert entries(page, "residuals") == {"CG — 3 runs, 3 converged", f"{called} — 3 runs, 3 converged"}
    said, _, shown = page.comparison.groups
    # which of the two is faster is this machine's to say
    assert said.object.startswith(("Over 3 seeds, CG solved it", f"Over 3 seeds, {called} solved it"))
    table = shown.object
    assert table["runs"].tolist() == table["converged"].tolist() == [3, 3]
    assert set(table["group"]) == {"CG", called}
    page.choice.group = False
    settle(page)
    assert not page.comparison.groups.visible and any("seed 2" in name for name in entries(page, "residuals"))


def test_runs_of_one_seed_are_not_grouped(page):
    page.choose(["cg", "ap"])
    settle(page)
    assert page.choice.group and not page.comparison.groups.visible
    assert not any("runs" in name for name in entries(page, "residuals"))


def test_a_profile_needs_methods_on_several_systems(page, folder):
    names = over_seeds(folder)
    page.refresh()
    page.choose(names[:2])
    settle(page)
    assert not page.comparison.cards["profiles"].view.visible
    page.choose(names)
    settle(page)
    assert page.comparison.cards["profiles"].view.visible
    assert "3 systems of 3 seeds" in page.comparison.cards["profiles"].chart.base


def test_of_many_runs_the_settings_that_differ_are_a_table_with_a_line_each(page, monkeypatch):
    monkeypatch.setattr("apviz.dashboard.pages.runs.comparing.SETTINGS_OF", 1)
    page.choose(["cg", "ap"])
    settle(page)
    (shown,) = page.comparison.settings
    assert list(shown.object.index) == ["cg", "ap"] and {"work", "seconds"} <= set(shown.object.columns)


# --- columns ------------------------------------------------------------------------------------------------------


def test_columns_can_be_chosen_and_are_kept_in_the_address(page):
    assert [cell(page, "ap", title) for title in ("b", "σ²", "seed")] == [20, 0.1, 0]
    page.choice.columns = ["dtype", "kappa", "d"]
    assert [title for title, _ in page.table.table.columns] == ["name", "d", "κ", "dtype"]
    trace = page.shared.runs.open("cg")
    assert cell(page, "cg", "dtype") == "float32" and cell(page, "cg", "d") == 2
    assert cell(page, "cg", "κ") == [float(trace["spectrum"]["kappa"]), ""]
    other = RunsView()
    assert address.apply(address.to_query([page.choice]), [other]) == []
    assert other.columns == page.choice.columns
    (problem,) = address.apply("columns=colour", [other])
    assert "one of ended, method, b, noise" in problem


def test_a_training_and_what_cannot_be_read_have_every_column_too(page, folder):
    (folder / "ap.zarr" / "zarr.json").write_text("{bad")
    page.refresh()
    page.choice.columns = list(page.choice.param.columns.objects)
    assert {len(row) for row in page.table.table.rows} == {2 + len(page.choice.columns)}
    assert cell(page, "fit", "of") == "training" and cell(page, "ap", "σ²") is None


# --- tags ---------------------------------------------------------------------------------------------------------


def test_tags_of_a_run_are_shown_filtered_and_kept_over_a_restart(page, folder):
    before = files(folder / "cg.zarr")
    page.choose(["cg"])
    settle(page)
    page.bar.tags.value = "paper,  figure 3 ,paper"
    press(page, "Tag")
    assert cell(page, "cg", "tags") == "paper, figure 3"
    page.choice.filter = "figure"
    assert page.table.names == ["cg"]
    assert {each.name: each.tags for each in RunsFolder(folder).entries()}["cg"] == ("paper", "figure 3")
    assert files(folder / "cg.zarr") == before


def test_tags_follow_a_run_through_renaming_trash_and_undo(folder):
    runs = RunsFolder(folder)
    runs.write_tags("cg", ["paper"])
    runs.write_note("cg", "a note")
    runs.rename("cg", "better")
    before = files(folder)
    deleted = runs.delete("better")
    assert {each.name: each.tags for each in runs.entries()} == dict.fromkeys(("ap", "cut", "fit"), ())
    runs.restore(deleted.key)
    assert files(folder) == before
    found = {each.name: (each.tags, each.note) for each in runs.entries()}
    assert found["better"] == (("paper",), "a note") and found["ap"] == ((), "")


def test_a_tag_can_be_added_to_and_removed_from_all_chosen_runs(page):
    page.choose(["cg", "cut"])
    settle(page)
    page.bar.tags.value = "week 2"
    press(page, "Tag")
    assert message(page) == "week 2: put on 2 runs"
    assert [cell(page, name, "tags") for name in ("cg", "cut", "ap")] == ["week 2", "week 2", None]
    page.bar.tags.value = "week 2, other"
    press(page, "Untag")
    assert cell(page, "cg", "tags") is None
    page.bar.tags.value = " "
    press(page, "Tag")
    assert "type a tag first" in message(page)


def test_an_invalid_tag_is_rejected_with_the_reason(page):
    page.choose(["cg"])
    settle(page)
    page.bar.tags.value = "x" * 41
    press(page, "Tag")
    assert "has 41 characters; up to 40" in message(page)
    page.bar.tags.value = ",".join(map(str, range(21)))
    press(page, "Tag")
    assert "21 tags are too many for one run; up to 20 are accepted" in message(page)


def test_all_chosen_solves_are_sent_to_compare_which_says_how_many_it_draws(page, folder):
    for number in range(20):
        shutil.copytree(folder / "cg.zarr", folder / f"copy{number}.zarr")
    page.refresh()
    shown = []
    page.shared.go = lambda name, prepare: prepare(SimpleNamespace(look_at=lambda runs, selected: shown.append(runs)))
    page.choose([name for name in page.table.names if name != "fit"])
    settle(page)
    page.compare()
    assert shown[0] == [name for name in page.choice.runs if name != "fit"] and len(shown[0]) > 12
