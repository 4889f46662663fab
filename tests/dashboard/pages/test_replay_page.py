"""The page Replay without a browser: recording, playing, and its address."""

from __future__ import annotations

import json
import shutil
from itertools import product

import numpy as np
import pytest

pytest.importorskip("panel")

from apviz.analysis import geometry
from apviz.analysis.diagnosis import diagnose
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.pages.replay.page import CHOOSE, Replay
from apviz.dashboard.pages.replay.side import function_table, matching_update, rows_table
from apviz.dashboard.settings.recording import RecordChoice
from apviz.dashboard.store.runs_folder import RunsFolder
from tests.dashboard.store.on_disk import rewrite
from tests.dashboard.visiting import drawn, visitor


@pytest.fixture
def shared(tmp_path):
    shared = visitor(tmp_path, rhs=2)
    shared.system.dataset, shared.system.n = "china-profile", 120
    return shared


def record(shared, snapshots=5, **settings):
    """Record a run with pictures, and return its name."""
    solver = RecordChoice(**{"block_size": 20, "max_epochs": 3} | settings).solver(120, 0)
    job = ComparisonJob(shared.queue, shared.limits, shared.runs, shared.system.spec(), [solver], snapshots=snapshots)
    job.start()
    job.join(60)
    assert job.state == "done" and not job.failures
    return job.done[0]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a folder with a solve by projections and one by CG, and their names."""
    folder = tmp_path_factory.mktemp("recorded")
    shared = visitor(folder, rhs=2)
    shared.system.dataset, shared.system.n = "china-profile", 120
    return folder, [record(shared, method=method) for method in ("ap", "cg")]


@pytest.fixture
def both(recorded, shared):
    """Return the names of the two solves, in the folder of the test."""
    for name in recorded[1]:
        shutil.copytree(RunsFolder(recorded[0]).path_of(name), shared.runs.path_of(name))
    return recorded[1]


@pytest.fixture
def page(recorded, shared):
    shutil.copytree(RunsFolder(recorded[0]).path_of(recorded[1][0]), shared.runs.path_of(recorded[1][0]))
    page = Replay(shared)
    page.main()
    page.open()
    return page


@pytest.mark.parametrize("method", ["ap", "cg", "pcg"])
def test_a_run_of_any_method_is_recorded_with_rows_residuals_and_weights(shared, method):
    trace = shared.runs.open(record(shared, method=method, rule="cyclic", rank=5))
    updates = [0, *trace["update"]["update"].values[:5]]
    np.testing.assert_array_equal(trace["snapshot"]["update"], updates)
    assert "weights" in trace["snapshot"] and "coordinates" in trace["rows"]


def test_examples_are_shown_next_to_each_other_until_the_second_is_taken_away(shared):
    for name in [record(shared), record(shared, rule="cyclic")]:
        shared.runs.path_of(name).rename(shared.runs.path_of(f"example {name}"))
    page = Replay(shared)
    page.main()
    page.open()
    assert {page.choice.run, page.choice.other} == set(shared.runs.with_pictures())
    page.choice.other = ""
    page.open()
    assert page.choice.other == ""


def test_only_runs_with_pictures_can_be_chosen(shared):
    plain = record(shared, snapshots=0)
    with_pictures = record(shared)
    assert shared.runs.with_pictures() == [with_pictures] and plain != with_pictures


def test_a_run_of_a_removed_table_is_shown_first_only_if_there_is_no_other(both, shared):
    newest, older = shared.runs.with_pictures()
    rewrite(shared.runs.path_of(newest), lambda attributes: attributes.update(dataset="mine.csv"))
    for expected in (older, newest):
        page = Replay(shared)
        page.main()
        page.open()
        assert page.choice.run == expected
        shutil.rmtree(shared.runs.path_of(older), ignore_errors=True)


def test_without_a_run_the_page_says_what_to_do(shared):
    page = Replay(shared)
    page.main()
    page.open()
    drawn(page)
    assert page.choice.run == "" and "press Record a solve" in page._hint.object and page._hint.visible
    assert not page._player.view.visible and not page._first.map.view.visible


def test_the_newest_run_with_pictures_is_shown_with_its_function_and_its_diagnosis(page):
    drawn(page)
    trace = page.shared.runs.open(page.choice.run)
    assert page._player.view.visible and page._player.view.end == trace["snapshot"].sizes["update"] - 1
    assert page._first.map.chart.base and page._first.function.chart.base and page._first.function.view.visible
    assert page._first.marked["timeline"].chart.cursor == [1.0]
    assert diagnose(trace).evidence == page._diagnosis._evidence.object


def test_a_step_by_hand_changes_the_address_and_playing_does_not(page):
    drawn(page)
    page._player.view.value = 3
    assert page.choice.update == 3
    page._player.view.direction = 1
    page._player.view.value = 4
    assert page.choice.update == 3
    page._player.view.direction = 0
    assert page.choice.update == 4


def test_an_update_from_the_address_or_the_timeline_is_shown(page):
    drawn(page)
    page.choice.update = 2
    assert page._player.update == 2
    page._first.marked["timeline"].chart.clicked = {"name": "", "x": 4.0, "y": 1.0, "values": [], "count": 1}
    assert page.choice.update == 4 and page._player.update == 4
    page._first.marked["timeline"].chart.clicked = {"name": "", "x": 6.0, "y": 1.0, "values": [], "count": 2}
    assert page.choice.update == 4 and "update 6 has no picture" in page._bar._text.object


def test_a_missing_run_in_the_address_is_reported(page):
    page.choice.param.update(run="gone")
    page.open()
    assert "there is no run gone with pictures" in page._bar._text.object and page.choice.run != "gone"
    page.choice.other = "lost"
    page.open()
    assert "there is no run lost with pictures" in page._bar._text.object and page.choice.other == ""


def test_the_tables_contain_every_row_and_the_function_on_its_grid(recorded):
    trace = RunsFolder(recorded[0]).open(recorded[1][0])
    table = rows_table(trace, 2)
    np.testing.assert_array_equal(table["residual after update 2"], trace["snapshot"]["residual"][2])
    assert list(table.columns) == ["row", "input 1", "block", "target", "residual after update 2"]
    np.testing.assert_array_equal(function_table(trace, 2).iloc[:, 1], geometry.functions(trace)["value"][2])


@pytest.fixture
def pair(shared, both):
    """Return the page with a solve by projections and one by CG, and their traces."""
    first, second = both
    page = Replay(shared)
    page.main()
    page.choice.param.update(run=first, other=second)
    page.open()
    return drawn(page), shared.runs.open(first), shared.runs.open(second)


def test_two_maps_have_one_scale_and_one_map_its_own(pair):
    """Side by side one colour is one residual; each figure has ± its largest residual at both ends of its axis."""
    page, *traces = pair

    def ends(side):
        return tuple(json.loads(side.map.chart.base)["layout"]["yaxis"]["range"])

    largest = [float(np.abs(trace["snapshot"]["residual"].values).max()) for trace in traces]
    assert ends(page._first) == ends(page._second) and max(largest) <= ends(page._first)[1] < 1.2 * max(largest)
    for name, most in zip((page.choice.run, page.choice.other), largest, strict=True):
        page.choice.param.update(run=name, other="")
        drawn(page)
        assert most <= ends(page._first)[1] < 1.2 * most


def test_two_maps_begin_at_one_height_though_their_titles_differ(pair):
    page, *_ = pair
    left, right = page._first.map, page._second.map
    assert left.title != right.title
    assert (left.chart.level_with, right.chart.level_with) == (right.title, left.title)
    page.choice.other = ""
    drawn(page)
    assert left.chart.level_with == ""


def test_a_second_solve_has_at_most_the_work_seconds_or_number_of_an_update(recorded):
    ap, cg = (RunsFolder(recorded[0]).open(name) for name in recorded[1])
    for same, update in product(("work", "seconds", "update"), (1, 3, 5)):
        most = float(ap["update"][same].sel(update=update)) * (1 + 1e-9)
        costs = zip(cg["update"]["update"].values, cg["update"][same].values, strict=True)
        expected = max((number for number, cost in costs if cost <= most), default=0)
        assert matching_update(cg, ap, update, same) == expected
    assert matching_update(ap, ap, 4, "work") == 4


def test_every_chart_of_two_solves_shows_the_same_moment(pair):
    page, ap, cg = pair
    page.choice.same, page._player.view.value = "update", 3
    drawn(page)
    for side in page._sides:
        side.map.chart.drawn += 1  # as a browser reports
    page.tick()
    assert page._first.update == page._second.update == page.choice.update == 3
    assert page._first.map.shown == page._second.map.shown == 3
    assert page._first.marked["timeline"].chart.cursor == [3.0] and not page._second.marked["timeline"].view.visible
    residual, _ = page._curves
    assert residual.drawn == [ap, cg]
    epochs = [float(each["update"]["epoch_of_update"].sel(update=3)) for each in (ap, cg)]
    assert residual.chart.cursor == epochs
    page.choice.same = "work"
    page.tick()
    works = [float(each["update"]["work"].sel(update=side.update)) if side.update else float(each["epoch"]["work"][0])
             for each, side in ((ap, page._first), (cg, page._second))]  # fmt: skip
    assert residual.chart.cursor == list(dict.fromkeys(works)) and works[1] <= works[0]


def test_a_click_on_either_curve_moves_both_solves(pair):
    page, ap, cg = pair
    groups = [curve.legendgroup for curve in page._curves[0].figure.data if "lines" in (curve.mode or "")]
    for group, trace, epoch in zip(groups, (ap, cg), (1, 2), strict=False):
        page._curves[0].chart.clicked = {"name": "", "x": 0.0, "y": 0.0, "values": [epoch], "group": group}
        last = int(np.searchsorted(trace["update"]["epoch_of_update"].values, epoch, side="right"))
        expected = last if trace is ap else matching_update(ap, cg, last, "work")
        assert page.choice.update == expected or f"update {expected} has no picture" in page._bar._text.object


def test_pictures_that_end_early_and_other_systems_are_said(shared, pair):
    page, *_ = pair
    assert not page._note.visible
    short = record(shared, snapshots=2, method="ap", rule="cyclic")
    page.choice.param.update(other=short, same="update", update=4)
    drawn(page)
    assert "end with update 2. It has made 4 updates" in page._note.object and page._note.visible
    shared.system.n = 100
    page.choice.other = record(shared)
    assert "The two solves are of different systems." in page._note.object
    page.choice.other = ""
    assert not page._second.map.view.visible and not page._note.visible and not page._same.visible


def test_runs_are_offered_by_what_people_call_them_and_by_name_where_these_are_equal(pair):
    page, *_ = pair
    options = page._others.options
    assert next(iter(options.items())) == (CHOOSE, "")
    names = [name for name in options.values() if name]
    entries = {entry.name: entry for entry in page.shared.runs.entries()}
    for label, name in list(options.items())[1:]:
        assert label.startswith(f"{entries[name].method}, {entries[name].dataset} with {entries[name].n:,} rows")
    assert set(page._runs.options.values()) == set(names) and len(names) == len(options) - 1
