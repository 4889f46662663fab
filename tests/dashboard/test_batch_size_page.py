"""The page Batch size without a browser: its settings, its job, what it shows first."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.comparison import choose_block_sizes
from apviz.dashboard import Limits, address
from apviz.dashboard.comparison_job import ComparisonJob
from apviz.dashboard.jobs import Gate
from apviz.dashboard.pages.batch_size import BatchSize, BatchSizeSweep
from apviz.dashboard.pages.sweep_page import SweepView, newest_sweep
from apviz.dashboard.runs_folder import RunsFolder
from apviz.dashboard.session import Shared, View
from apviz.dashboard.systems import HAND, SystemChoice, SystemSpec


@pytest.fixture
def shared(tmp_path):
    limits = Limits()
    system = SystemChoice(limits, n=200, source=HAND, rhs=1)
    return Shared(limits, Gate(1), RunsFolder(tmp_path), False, View(), system)


def run(job):
    job.start()
    job.join(60)
    return job


def sweep(shared, sizes, limits=None, **settings):
    solvers = BatchSizeSweep(sizes=sizes, **settings).solvers(200)
    return run(ComparisonJob(shared.gate, limits or Limits(), shared.runs, shared.system.spec(), solvers))


@pytest.mark.parametrize(
    ("n", "sizes"), [(1712, [27, 54, 110, 210, 430, 860]), (50_000, [780, 1600, 3100, 6200, 12000, 25000])]
)
def test_without_a_choice_b_goes_by_halves_of_n(n, sizes):
    assert choose_block_sizes(n) == sizes
    assert [solver.block_size for solver in BatchSizeSweep().solvers(n)] == sizes


def test_a_tiny_system_has_fewer_sizes_and_none_of_zero():
    assert choose_block_sizes(4) == [1, 2]


def test_every_b_that_was_asked_for_has_one_solver_with_the_settings():
    sweep = BatchSizeSweep(sizes=[50, 20, 50], rule="cyclic", partition="kd-tree", overlap=0.5, tol=0.1, max_epochs=7)
    solvers = sweep.solvers(200)
    assert [solver.block_size for solver in solvers] == [20, 50]
    assert {(s.rule, s.partition, s.overlap, s.tol, s.max_epochs) for s in solvers} == {
        ("cyclic", "kd-tree", 0.5, 0.1, 7)
    }


def test_the_settings_survive_the_address():
    before = [BatchSizeSweep(sizes=[20, 50], rule="random", tol=1e-3), SweepView(runs=["a", "b=2"], selected="b=2")]
    after = [BatchSizeSweep(), SweepView()]
    assert address.apply(address.to_query(before), after) == []
    for old, new in zip(before, after, strict=True):
        assert old.param.values() == {**new.param.values(), "name": old.name}


def test_no_chosen_b_survives_the_address_too():
    after = [BatchSizeSweep(sizes=[3])]
    assert address.apply(address.to_query([BatchSizeSweep()]), after) == []
    assert after[0].sizes == []


def test_a_sweep_records_a_run_for_every_b(shared):
    job = sweep(shared, [20, 50, 100])
    assert job.state == "done" and job.share == 1.0
    assert [shared.runs.open(name).attrs["block_size"] for name in job.done] == [20, 50, 100]


def test_a_b_above_the_memory_limit_is_refused_and_the_others_run(shared):
    job = sweep(shared, [20, 100], Limits(max_block_gb=2e-5))
    assert job.state == "done" and len(job.done) == 1
    (failure,) = job.failures
    assert "b=100" in failure and "take smaller blocks" in failure
    assert "1 of 1 runs" in job.message


def test_where_no_b_fits_nothing_is_run(shared):
    job = sweep(shared, [50, 100], Limits(max_block_gb=1e-6))
    assert job.state == "failed" and job.message.count("the block factors take") == 2
    assert shared.runs.names() == []


def test_stop_keeps_what_was_recorded_and_starts_no_other_b(shared):
    solvers = BatchSizeSweep(sizes=[20, 50], tol=1e-7).solvers(200)
    job = ComparisonJob(shared.gate, Limits(), shared.runs, shared.system.spec(), solvers)
    job.stop()
    run(job)
    assert job.state == "stopped" and len(job.done) <= 1


def test_the_page_opens_with_the_newest_sweep_of_the_folder(shared):
    sweep(shared, [10, 40], rule="cyclic", max_epochs=30)
    last = sweep(shared, [20, 50, 100])
    page = BatchSize(shared)
    page.open()
    assert page.choice.runs == last.done
    assert list(page.traces) == last.done


def test_of_equal_runs_the_page_takes_the_last(shared):
    sweep(shared, [20, 50])
    again = sweep(shared, [20, 50])
    assert newest_sweep(shared.runs, "block_size") == again.done


def test_one_b_is_no_sweep_and_another_system_is_another_sweep(shared):
    sweep(shared, [20])
    shared.system.noise = 0.5
    sweep(shared, [50])
    assert newest_sweep(shared.runs, "block_size") == []


def test_a_folder_with_something_else_in_it_opens(shared):
    (shared.runs.path / "broken.zarr").mkdir()
    (shared.runs.path / "broken.zarr" / "zarr.json").write_text("[]")
    assert newest_sweep(shared.runs, "block_size") == []
    BatchSize(shared).open()


def test_a_run_draws_itself_and_its_diagnosis_is_of_the_slowest_or_the_chosen_one(shared):
    job = sweep(shared, [20, 50])
    page = BatchSize(shared)
    page.open()
    while page._to_draw:
        page._next_drawing = 0.0
        page.tick()
    cards = page._cards
    assert [trace.attrs["block_size"] for trace in cards["sweep"].drawn] == [20, 50]
    assert '"ring: b = ' in cards["sweep"].chart.base or "ring: b" in cards["sweep"].chart.base
    assert "the slowest run" in page._diagnosis._of.object
    cards["sweep"].chart.clicked = {"values": [1.0, 3.0], "count": 1}
    assert page.choice.selected == job.done[1]
    assert page._diagnosis._of.object == "Diagnosis of AP gauss-southwell b=50"


def test_the_button_runs_the_settings_of_the_page_and_shows_the_runs_as_they_come(shared):
    page = BatchSize(shared)
    page.sweep.sizes = [20, 50]
    page.main()
    page.sidebar()
    page.run()
    page.job.join(60)
    page.tick()
    assert page.choice.runs == page.job.done and len(page.job.done) == 2


def test_a_setting_that_cannot_be_run_is_refused_in_words(shared):
    page = BatchSize(shared)
    shared.system.lengthscale = "wide"
    page.run()
    assert page.job is None and "lengthscale" in page._bar._text.object


def test_a_spec_at_another_noise_loads_nothing_again():
    spec = SystemSpec("china", 200, source=HAND, noise=0.02)
    loaded = spec.build(Limits())
    assert spec.at_noise(loaded, 1) is loaded
    tenth = spec.at_noise(loaded, 0.1)
    assert tenth.data is loaded.data and tenth.system.noise == pytest.approx(0.002)
    assert "0.1 times its noise" in tenth.hyperparameters.provenance
