"""The first runs in a new folder."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.first_runs import FirstRuns, first_runs, sweep_noise, train
from apviz.dashboard.jobs.job import JobQueue
from apviz.dashboard.pages import PAGES
from apviz.dashboard.store.runs_folder import RunsFolder
from tests.dashboard.visiting import drawn, visitor


def opened(name, folder):
    """Open the page of a new visitor, and draw all pending charts."""
    page = PAGES[name](visitor(folder))
    page.main()
    page.open()
    drawn(page)
    page.shared.end()
    return page


@pytest.mark.slow
def test_the_first_training_has_settled_and_is_shown_at_once(tmp_path):
    train(tmp_path)
    page = opened("training", tmp_path)
    assert "It has settled: σ² = " in page.picker.state.object and page.picker.go_on.label == "Resume"
    assert all(page.charts.cards[name].chart.base for name in ("steps", "lengthscales"))
    assert not page.picker.nothing.visible


@pytest.mark.slow
def test_the_first_sweep_has_five_noises_and_two_methods_and_is_shown_at_once(tmp_path):
    sweep_noise(tmp_path)
    card = opened("conditioning", tmp_path)._cards["sweep"]
    assert card.chart.base and not card.text.is_empty
    assert len({(trace.method_name, trace.attrs["noise"]) for trace in card.drawn}) == 10


def test_a_folder_with_a_run_is_not_changed(folder):
    before = RunsFolder(folder).names()
    first_runs(RunsFolder(folder))
    assert RunsFolder(folder).names() == before


@pytest.mark.slow
def test_the_job_reports_its_progress_and_can_be_stopped(tmp_path):
    job = FirstRuns(JobQueue(1), RunsFolder(tmp_path))
    said, done = [], job._done

    def stop_after_two() -> None:
        done()
        said.append((job.status, job.fraction_done))
        if len(said) == 2:
            job.stop()

    job._done = stop_after_two
    job.start()
    job.join(120)
    assert job.state == "stopped"
    assert said == [
        ("a training; 1 of 20 runs are there", 1 / 20), ("a sweep over the noise; 2 of 20 runs are there", 2 / 20),
    ]  # fmt: skip
    assert len(RunsFolder(tmp_path).names()) in (2, 3)


@pytest.mark.slow
def test_the_landing_page_waits_for_the_first_runs(tmp_path):
    sweep_noise(tmp_path)
    runs, filling = RunsFolder(tmp_path), FirstRuns(JobQueue(1), RunsFolder(tmp_path))
    page = PAGES["compare"](visitor(runs, first_runs=filling))
    page.main()
    page.open()
    assert page.choice.runs == []
    filling.state = "done"
    page.open()
    assert page.choice.runs
    page.shared.end()


@pytest.mark.slow
def test_the_landing_page_shows_only_the_comparison_of_the_first_runs(tmp_path):
    first_runs(RunsFolder(tmp_path))
    compare = opened("compare", tmp_path)
    assert {trace.attrs["n"] for trace in compare._traces.values()} == {1712} and len(compare._traces) > 8
    inside = opened("inside", tmp_path)
    assert inside.choice.run and inside._map.chart.base
    sweep = opened("batch-size", tmp_path)._cards["sweep"]
    assert {trace.method.block_size for trace in sweep.drawn} == {100, 400}
