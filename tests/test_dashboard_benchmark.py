"""The table of the dashboard's speed."""

from __future__ import annotations

import json

from benchmarks.dashboard.summary import GOALS, MARK, PATH, README, lines_of, write_table


def test_the_table_of_the_dashboard_matches_the_results():
    shown = README.read_text("utf-8").partition(MARK)[2].partition("\n\n")[0]
    assert shown.splitlines() == lines_of(json.loads(PATH.read_text("utf-8")))


def test_a_figure_that_misses_its_goal_is_bold_in_a_table_that_replaces_the_old_one(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"Before.\n\n{MARK}| old |\n\nAfter.\n", "utf-8")
    cpu = {"server CPU (s)": 0.52, "browser CPU (s)": 1.26}
    results = {"new": {"example painted (s)": 2.346, **cpu}, "watched": {"charts a second": 5.44}}
    write_table(results, page)
    text = page.read_text("utf-8")
    assert text.startswith(f"Before.\n\n{MARK}| | goal |") and text.endswith("\n\nAfter.\n") and "| old |" not in text
    assert "| 2 s | **2.35 s** | 0.52 s | 1.3 s |" in text
    assert "| charts a second meanwhile | 5 | 5.44 |  |  |" in text


def test_every_goal_has_its_own_row():
    assert len({(goal.part, goal.words) for goal in GOALS}) == len(GOALS)
