"""The table of the folder: its description of runs, and ticks."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.pages.runs.listing import FolderTable
from apviz.dashboard.store.run_entry import RunEntry
from apviz.dashboard.store.runs_folder import RunsFolder


def test_the_table_of_the_folder_marks_unreadable_runs_and_missing_values():
    shown = FolderTable(lambda names: None, lambda name: None, lambda names: None)
    broken = RunEntry("broken", 0.0, ending="cannot be read", problem="it has no zarr.json")
    shown.show([broken], total=3, chosen=[])
    ((_, *cells),) = shown.table.rows
    row = dict(zip([title for title, _ in shown.table.columns], cells, strict=True))
    assert row["ended"] == "Cannot be read" and row["note"] == "it has no zarr.json"
    assert row["b"] is None and row["residual"] is None and row["method"] is None
    assert shown._count.object.startswith("1 of 3 runs.")


def test_only_ticks_by_a_person_count_and_those_of_removed_rows_are_dropped(folder):
    chosen = []
    shown = FolderTable(chosen.append, lambda name: None, lambda names: None)
    entries = RunsFolder(folder).entries()
    shown.show(entries, total=len(entries), chosen=["cut", "cg"])
    assert set(shown.table.ticked) == {"cut", "cg"}
    assert shown.table.ticked == [name for name in shown.names if name in ("cut", "cg")]
    shown.tick(["ap", "gone"])
    assert shown.table.ticked == ["ap"] and chosen == []
    shown.table.ticked = ["ap", "cg"]
    assert chosen == [["ap", "cg"]]
    shown.show([entry for entry in entries if entry.name == "fit"], total=len(entries), chosen=["ap", "cg"])
    assert shown.table.ticked == [] and len(chosen) == 1
    shown.mark("fit")
    assert shown.table.selected == "fit"
