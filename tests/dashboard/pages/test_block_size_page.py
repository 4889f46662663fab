"""The page Block size without a browser: its settings, its job, and its first view."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard import address
from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.pages.sweeps.block_size import BlockSize
from apviz.dashboard.settings.methods import BlockSizeSweep
from apviz.dashboard.settings.systems import BY_HAND
from tests.dashboard.coming_back import comes_back_while_it_solves
from tests.dashboard.small_trainings import finished
from tests.dashboard.visiting import drawn, visitor


@pytest.fixture
def shared(tmp_path):
    return visitor(tmp_path, n=200, source=BY_HAND, rhs=1)


def sweep(shared, sizes, **settings):
    solvers = BlockSizeSweep(sizes=sizes, **settings).solvers(200)
    return finished(ComparisonJob(shared.queue, shared.limits, shared.runs, shared.system.spec(), solvers))


def test_the_page_opens_with_the_newest_sweep_of_the_folder(shared):
    sweep(shared, [10, 40], rule="cyclic", max_epochs=30)
    last = sweep(shared, [20, 50, 100])
    page = BlockSize(shared)
    page.open()
    assert page.choice.runs == last.done
    assert list(page.traces) == last.done


def test_a_sweep_is_drawn_and_the_slowest_or_the_chosen_run_is_diagnosed(shared):
    job = sweep(shared, [20, 50])
    page = BlockSize(shared)
    page.open()
    cards = drawn(page)._cards
    assert [trace.method.block_size for trace in cards["sweep"].drawn] == [20, 50]
    assert '"ring: b = ' in cards["sweep"].chart.base or "ring: b" in cards["sweep"].chart.base
    assert "the slowest run" in page._diagnosis._of.object
    cards["sweep"].chart.clicked = {"values": [1.0, 3.0], "count": 1}
    assert page.choice.selected == job.done[1]
    assert page._diagnosis._of.object == "Diagnosis of Alternating projection (greedy, b = 50)"


def test_the_button_runs_the_settings_of_the_page_and_shows_runs_as_they_finish(shared):
    page = BlockSize(shared)
    page.sweep.sizes = [20, 50]
    page.main()
    page.settings()
    page.run()
    page.job.join(60)
    page.tick()
    assert page.choice.runs == page.job.done and len(page.job.done) == 2


@pytest.mark.slow
def test_returning_to_the_page_during_a_sweep_shows_no_older_runs(shared):
    before = sweep(shared, [20, 50])
    page = BlockSize(shared)
    page.open()
    assert page.choice.runs == before.done
    page.sweep.param.update(sizes=[25, 40], tol=1e-14, max_epochs=100_000)
    comes_back_while_it_solves(page, lambda: page.traces)


@pytest.mark.slow
def test_a_selected_run_that_is_not_shown_is_rejected_and_removed_from_the_address(shared):
    job = sweep(shared, [20, 50])
    page = BlockSize(shared)
    address.apply(f"runs={','.join(job.done)}&selected=nosuch", page.models)
    page.open()
    assert page.choice.selected == "" and "nosuch is not among the runs shown" in page._bar._text.object


def test_an_impossible_setting_is_rejected_with_the_reason(shared):
    page = BlockSize(shared)
    shared.system.lengthscale = "wide"
    page.run()
    assert page.job is None and "lengthscale" in page._bar._text.object


def test_a_folder_with_other_files_opens(shared):
    (shared.runs.path / "broken.zarr").mkdir()
    (shared.runs.path / "broken.zarr" / "zarr.json").write_text("[]")
    page = BlockSize(shared)
    page.open()
    assert page.choice.runs == []
