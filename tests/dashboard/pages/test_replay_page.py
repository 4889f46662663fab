"""The page Replay without a browser: recording, playing, and its address."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("panel")

from apviz.analysis import geometry
from apviz.analysis.diagnosis import diagnose
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.pages.replay import Replay, function_table, rows_table, update_at_work
from apviz.dashboard.settings.recording import RecordChoice
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


@pytest.fixture
def page(shared):
    record(shared)
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


def test_only_runs_with_pictures_can_be_chosen(shared):
    plain = record(shared, snapshots=0)
    with_pictures = record(shared)
    assert shared.runs.with_pictures() == [with_pictures] and plain != with_pictures


def test_without_a_run_the_page_says_what_to_do(shared):
    page = Replay(shared)
    page.main()
    page.open()
    drawn(page)
    assert page.choice.run == "" and "press Record a solve" in page._hint.object and page._hint.visible
    assert not page._player.view.visible and not page._map.view.visible


def test_the_newest_run_with_pictures_is_shown_with_its_function_and_its_diagnosis(page):
    drawn(page)
    trace = page.shared.runs.open(page.choice.run)
    assert page._player.view.visible and page._player.view.end == trace["snapshot"].sizes["update"] - 1
    assert page._map.chart.base and page._function.chart.base and page._function.view.visible
    assert page._timeline.chart.cursor == [1.0]
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
    page._timeline.chart.clicked = {"name": "", "x": 4.0, "y": 1.0, "values": [], "count": 1}
    assert page.choice.update == 4 and page._player.update == 4
    page._timeline.chart.clicked = {"name": "", "x": 12.0, "y": 1.0, "values": [], "count": 2}
    assert page.choice.update == 4 and "update 12 was not recorded" in page._bar._text.object


def test_a_missing_run_in_the_address_is_reported(page):
    page.choice.param.update(run="gone")
    page.open()
    assert "there is no run gone with pictures" in page._bar._text.object and page.choice.run != "gone"
    page.choice.other = "lost"
    page.open()
    assert "there is no run lost with pictures" in page._bar._text.object and page.choice.other == ""


def test_the_tables_contain_every_row_and_the_function_on_its_grid(shared):
    trace = shared.runs.open(record(shared))
    table = rows_table(trace, 2)
    np.testing.assert_array_equal(table["residual after update 2"], trace["snapshot"]["residual"][2])
    assert list(table.columns) == ["row", "input 1", "block", "target", "residual after update 2"]
    np.testing.assert_array_equal(function_table(trace, 2).iloc[:, 1], geometry.functions(trace)["value"][2])


def test_a_second_solve_is_shown_at_the_work_of_the_first(shared):
    first, second = record(shared, method="ap"), record(shared, method="cg")
    page = Replay(shared)
    page.main()
    page.choice.param.update(run=first, other=second)
    page.open()
    drawn(page)
    assert page._other_map.view.visible and page._other_map.chart.base
    ap, cg = shared.runs.open(first), shared.runs.open(second)
    works = cg["update"]["work"].values
    for update in (1, 3, 5):
        work = float(ap["update"]["work"].sel(update=update))
        expected = max((number for number, each in zip(cg["update"]["update"].values, works, strict=True)
                        if each <= work * (1 + 1e-9)), default=0)  # fmt: skip
        assert update_at_work(cg, ap, update) == expected
    assert update_at_work(ap, ap, 4) == 4
    page.choice.other = ""
    assert not page._other_map.view.visible
