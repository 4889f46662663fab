"""The page Training without a browser: its settings, its jobs, the list of trainings, and what it shows."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard import address
from apviz.dashboard.jobs import Gate
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages.training import Training
from apviz.dashboard.runs_folder import RunsFolder
from apviz.dashboard.session import Shared, View
from apviz.dashboard.step_job import StepJob, changed_solver
from apviz.dashboard.systems import SystemChoice, SystemSpec
from apviz.dashboard.training_job import TrainingJob
from apviz.dashboard.training_plan import TrainingPlan, recorded
from apviz.dashboard.trainings import Trainings
from apviz.gp.training import PAPER_SOLVER

LIMITS = Limits()
SPEC = SystemSpec("china", 200)
SOLVER = apviz.AlternatingProjection(50, tol=1.0, min_epochs=3)
SETTINGS = apviz.TrainingSettings(solver=SOLVER, steps=3, probes=2)


def finished(job, seconds=60):
    job.start()
    job.join(seconds)
    assert not job.is_active
    return job


def job_in(folder, settings=SETTINGS, name=None, spec=SPEC, limits=LIMITS):
    return TrainingJob(Gate(1), limits, Trainings(folder), spec, settings, name)


def press_stop(job, solve, update=None):
    """Presses Stop after an update of the k-th solve, or as that solve ends."""
    recorder, seen = job._recorder, {"solves": 0}
    started, updated, stopped = recorder.on_start, recorder.on_update, recorder.on_stop

    def on_start(run):
        seen["solves"] += 1
        started(run)

    def on_update(each):
        updated(each)
        if seen["solves"] == solve and each.number == update:
            job.stop()

    def on_stop(solution):
        stopped(solution)
        if seen["solves"] == solve and update is None:
            job.stop()

    recorder.on_start, recorder.on_update, recorder.on_stop = on_start, on_update, on_stop


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a training of three steps."""
    folder = tmp_path_factory.mktemp("runs")
    finished(job_in(folder))
    return folder


@pytest.fixture
def page(tmp_path):
    pages = []

    def open_page(folder, **choice):
        shared = Shared(LIMITS, Gate(2), RunsFolder(folder), False, View(), SystemChoice(LIMITS))
        pages.append(page := Training(shared))
        page.choice.param.update(**choice)
        page.shared.system.n = 200
        page.sidebar()
        page.main()
        page.open()
        return page

    yield open_page
    for each in pages:
        for job in each.shared.jobs:
            job.stop()
            job.join(30)
        each.shared.end()


def tick(page, until=lambda: False, seconds=60):
    """Lets time pass as a browser would; all that waits to be drawn is drawn."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and not until():
        page._next_drawing = page._next_look = page._next_list = 0.0
        page.tick()
        time.sleep(0.005)
    assert until() or seconds < 5
    for _ in range(20):
        page._next_drawing = 0.0
        page.tick()


# --- settings -----------------------------------------------------------------------------------------------------


def test_the_papers_solvers_have_the_papers_settings():
    plan = TrainingPlan(block_size=1000, rank=500)
    assert plan.choose_solver() == PAPER_SOLVER
    plan.solver = "cg"
    assert plan.choose_solver() == apviz.ConjugateGradient(apviz.PivotedCholesky(500), 1.0, 1000, 11)
    plan.solver = "overlap"
    assert plan.choose_solver().overlap == "auto" and plan.choose_solver().tol == 0.01
    plan.solver = "auto"
    assert plan.choose_solver() == apviz.Automatic(0.01, 1000)


def test_a_plan_survives_the_address():
    plan = TrainingPlan(solver="cg", rank=7, steps=9, step_size=0.05, noise_floor=1e-6, ard=False, warm_start=True)
    other = TrainingPlan()
    assert address.apply(address.to_query([plan]), [other]) == []
    assert other.settings(SPEC) == plan.settings(SPEC)


@pytest.mark.parametrize("query", ["steps=0", "steps=1001", "solver=magic", "probes=65", "step_size=-1", "ard=maybe"])
def test_a_bad_value_in_the_address_gets_a_message_and_changes_nothing(query):
    plan = TrainingPlan()
    (problem,) = address.apply(query, [plan])
    assert query in problem and plan.settings(SPEC) == TrainingPlan().settings(SPEC)


def test_seed_and_kernel_of_a_training_are_those_of_the_system():
    settings = TrainingPlan().settings(replace(SPEC, seed=5, kernel="rbf"))
    assert (settings.seed, settings.kernel) == (5, "rbf")


def test_data_and_settings_of_a_recorded_training_come_back_from_its_trace(folder):
    trace = Trainings(folder).open(Trainings(folder).names()[0])
    assert recorded(trace, lambda name: None) == (SPEC, SETTINGS)


def test_a_training_of_data_that_are_not_here_says_so(folder):
    trace = Trainings(folder).open(Trainings(folder).names()[0])
    trace.attrs["dataset"] = "mine"
    with pytest.raises(ValueError, match="the data of this training, mine, are not here; upload the file again"):
        recorded(trace, lambda name: None)


# --- the list of trainings ----------------------------------------------------------------------------------------


def test_only_trainings_are_listed_also_those_of_experiments_the_newest_first(folder, tmp_path):
    x, y = apviz.datasets.load("china", n=60).train_x, apviz.datasets.load("china", n=60).train_y
    settings = replace(SETTINGS, steps=1)
    apviz.Training(x, y, settings, path=tmp_path / "first.zarr").run()
    time.sleep(1.1)  # they are told apart by the second in which they were begun
    apviz.Training(x, y, settings, path=tmp_path / "experiments" / "training-n60" / "cell.zarr").run()
    system = apviz.KernelSystem(x, y, apviz.Matern52(0.2), 0.1)
    apviz.solve(system, SOLVER, hooks=[apviz.Recorder(tmp_path / "solve.zarr")])
    trainings = Trainings(tmp_path)
    assert trainings.names() == ["experiments/training-n60/cell", "first"]
    assert trainings.open("first").attrs["n"] == 60
    with pytest.raises(ValueError, match="solve is not a training but the run of one solve"):
        trainings.open("solve")


@pytest.mark.parametrize("name", ["nothing", "../runs/x", "/etc/passwd", ".."])
def test_a_name_that_is_not_in_the_folder_opens_nothing(folder, name):
    with pytest.raises(FileNotFoundError, match="there is no training"):
        Trainings(folder).open(name)


# --- jobs ---------------------------------------------------------------------------------------------------------


def test_a_job_trains_what_the_library_trains_and_leaves_trace_and_checkpoint(folder, tmp_path):
    job = finished(job_in(tmp_path))
    data = SPEC.load()
    plain = apviz.Training(data.train_x, data.train_y, SETTINGS)
    assert job.state == "done" and plain.run().noise == job.trace.hyperparameters.noise
    written = Trainings(tmp_path).open(job.name)
    np.testing.assert_array_equal(written["step"]["noise"], plain.trace["step"]["noise"])
    assert written.finished and (tmp_path / f"{job.name}.checkpoint.npz").exists()
    assert "3 of 3 steps" in job.message and job.share == 1


def test_every_step_has_its_solve(tmp_path):
    job = finished(job_in(tmp_path))
    steps = job.trace["step"]
    for k in (1, 2, 3):
        assert job.solve(k).attrs["noise"] == steps["noise"].values[k - 1]
        assert job.solve(k)["epoch"]["epoch"].values[-1] == steps["epochs"].values[k - 1]
    assert job.solve(4) is None


@pytest.mark.parametrize(("solve", "update"), [(3, 2), (2, None)], ids=["within a solve", "as one ends"])
def test_stop_ends_a_training_within_one_update_and_keeps_its_steps(tmp_path, solve, update):
    job = job_in(tmp_path, replace(SETTINGS, steps=500))
    press_stop(job, solve, update)
    finished(job)
    assert job.state == "stopped" and "2 of 500 steps" in job.message
    assert Trainings(tmp_path).open(job.name)["step"].sizes["step"] == 2


def test_a_training_that_was_stopped_goes_on_to_the_same_result(tmp_path):
    job = job_in(tmp_path)
    press_stop(job, 2, 1)
    finished(job)
    trainings = Trainings(tmp_path)
    spec, settings = recorded(trainings.open(job.name), lambda name: None)
    again = finished(job_in(tmp_path, settings, job.name, spec))
    assert again.state == "done" and again.solve(1) is None and again.solve(2) is not None
    whole = finished(job_in(tmp_path))
    assert whole.name != again.name
    assert trainings.open(again.name).hyperparameters == trainings.open(whole.name).hyperparameters


def test_a_finished_training_can_be_given_more_steps(tmp_path):
    name = finished(job_in(tmp_path)).name
    longer = finished(job_in(tmp_path, replace(SETTINGS, steps=4), name))
    assert longer.state == "done" and Trainings(tmp_path).open(name)["step"].sizes["step"] == 4


def test_two_jobs_never_write_one_training(tmp_path):
    one, two = job_in(tmp_path), job_in(tmp_path)
    assert one.path != two.path
    finished(one)
    again = job_in(tmp_path, replace(SETTINGS, steps=4), one.name)
    with pytest.raises(ValueError, match="going on already, here or in another window"):
        job_in(tmp_path, replace(SETTINGS, steps=4), one.name)
    finished(again)


def test_a_training_that_another_process_may_be_writing_is_left_alone(tmp_path):
    data, settings = SPEC.load(), replace(SETTINGS, steps=2)

    class Stop(apviz.TrainingHook):
        def on_step(self, step, settings):
            raise KeyboardInterrupt

    path = tmp_path / "other.zarr"
    with pytest.raises(KeyboardInterrupt):
        apviz.Training(data.train_x, data.train_y, settings, path=path, dataset="china").run([Stop()])
    with pytest.raises(ValueError, match="written . s ago, so another process may be at it"):
        job_in(tmp_path, settings, "other")
    os.utime(path / "zarr.json", (time.time() - 60,) * 2)
    assert finished(job_in(tmp_path, settings, "other")).state == "done"


def test_a_training_without_a_checkpoint_or_of_other_rows_cannot_go_on(tmp_path):
    name, more = finished(job_in(tmp_path)).name, replace(SETTINGS, steps=4)
    other = finished(job_in(tmp_path, more, name, replace(SPEC, seed=3)))
    assert other.state == "failed" and "are not those it was begun with" in other.message
    assert Trainings(tmp_path).open(name)["step"].sizes["step"] == 3
    (tmp_path / f"{name}.checkpoint.npz").unlink()
    with pytest.raises(ValueError, match="there is no checkpoint beside"):
        job_in(tmp_path, more, name)


def test_limits_are_kept_and_named(tmp_path):
    many = finished(job_in(tmp_path, limits=Limits(max_n=100)))
    assert many.state == "failed" and "above this server's limit of 100 rows" in many.message
    large = finished(job_in(tmp_path, limits=Limits(max_block_gb=1e-6)))
    assert large.state == "failed" and "this server allows 1e-06 GB a solve" in large.message
    assert Trainings(tmp_path).names() == []


def test_the_solve_of_a_step_is_done_again_just_as_it_was_or_with_a_change(tmp_path):
    job = finished(job_in(tmp_path))
    path, trace = tmp_path / f"{job.name}.zarr", job.trace

    def again(**change):
        return finished(StepJob(Gate(1), LIMITS, path, job.name, trace, SPEC, SETTINGS, 2, change)).trace

    same, tighter, double, auto = again(), again(tol=1e-3), again(dtype="float64"), again(solver="auto")
    np.testing.assert_array_equal(same["epoch"]["residual"], job.solve(2)["epoch"]["residual"])
    assert tighter.converged and float(tighter["epoch"]["residual"][-1]) < 1e-3
    assert double.attrs["dtype"] == "float64" and auto.converged
    for each in (tighter, double, auto):
        np.testing.assert_allclose(each.attrs["rhs_norms"], same.attrs["rhs_norms"], rtol=1e-5)
    assert len(Trainings(tmp_path).names()) == 1


def test_the_automatic_solver_takes_over_the_tolerance():
    assert changed_solver(replace(SOLVER, tol=0.5), {"solver": "auto"}) == apviz.Automatic(tol=0.5)
    assert changed_solver(SOLVER, {"overlap": 1.0}).overlap == 1.0


# --- the page -----------------------------------------------------------------------------------------------------


def test_an_empty_folder_shows_what_to_do_and_no_chart(page, tmp_path):
    opened = page(tmp_path / "empty")
    tick(opened, seconds=0.1)
    assert opened.choice.training == "" and not any(card.view.visible for card in opened._cards.values())


def test_the_newest_training_is_shown_and_its_steps_are_drawn(page, folder):
    opened = page(folder)
    tick(opened, lambda: bool(opened._cards["lengthscales"].chart.base))
    assert opened.choice.training == Trainings(folder).names()[0] and opened.choice.step is None
    assert "3 Adam steps, finished" in opened._state.object and "has not settled" in opened._state.object
    assert "Step 3, the last so far" in opened._solve_title.object


def test_a_pasted_address_opens_the_same_step(page, folder):
    name = Trainings(folder).names()[0]
    first = page(folder, training=name, step=2)
    second = page(folder)
    assert address.apply(address.to_query(first.models), second.models) == []
    assert (second.choice.training, second._step_now()) == (name, 2)
    assert [card.chart.moment for card in second._cards.values()] == [[2.0], [2.0], []]


def test_a_training_that_is_gone_is_a_message(page, folder):
    opened = page(folder, training="gone")
    assert "there is no training 'gone'" in opened._bar._text.object and opened.trace is None


def test_a_click_on_a_step_shows_its_solve_which_is_done_again_where_it_was_not_kept(page, folder):
    opened = page(folder)
    opened._clicked({"x": 2, "values": [2, 0.6, 3, 0.1]})
    assert opened.choice.step == 2 and opened._again_button.visible
    assert "was not kept" in opened._solve_text.object and not opened._diagnosis.view.visible
    opened._solve_again({})
    tick(opened, lambda: not opened.job.is_active and bool(opened._solves()))
    assert opened._diagnosis.view.visible and opened._cards["solve"].view.visible
    assert not opened._again_button.visible
    opened._clicked({"x": 3})
    tick(opened, seconds=0.1)
    assert not opened._cards["solve"].view.visible


def test_a_training_is_started_followed_stopped_and_gone_on_with(page, tmp_path):
    opened = page(tmp_path)
    opened.plan.param.update(block_size=50, probes=2, steps=60)
    opened._start_new()
    assert opened.choice.training == opened.job.name
    tick(opened, lambda: opened._steps() >= 2)
    opened._start_new()
    assert "a training is running; stop it first" in opened._bar._text.object
    opened._stop()
    tick(opened, lambda: not opened.job.is_active)
    done = opened._steps()
    assert 2 <= done < 60 and opened._go_on.label == "Go on to step 60" and not opened._go_on.disabled
    assert len(opened._solves()) == 1
    opened._start_again()
    tick(opened, lambda: opened._steps() > done)
    opened._stop()
    tick(opened, lambda: not opened.job.is_active)
    assert Trainings(tmp_path).names() == [opened.choice.training]


def test_a_training_of_another_process_is_read_again_when_it_changes(page, tmp_path):
    opened, data = page(tmp_path), SPEC.load()
    seen = []

    class Watch(apviz.TrainingHook):
        def on_step(self, step, settings):
            tick(opened, seconds=0.05)
            if not opened.choice.training:
                opened._selected("elsewhere")
            seen.append(opened._steps())

    path = tmp_path / "elsewhere.zarr"
    apviz.Training(data.train_x, data.train_y, SETTINGS, path=path, dataset="china").run([Watch()])
    tick(opened, lambda: opened.trace.finished)
    assert seen == [1, 2, 3] and opened._go_on.disabled is False and opened._go_on.label == "Go on to step 50"


def test_a_stop_before_the_first_step_leaves_nothing(page, tmp_path):
    opened = page(tmp_path)
    opened.plan.param.update(block_size=50, probes=2)
    opened._start_new()
    opened._stop()
    tick(opened, lambda: not opened.job.is_active)
    assert opened.choice.training == "" and Trainings(tmp_path).names() == []


def test_more_noise_is_not_offered_for_one_solve(page, folder):
    from apviz.dashboard.pages.training import _can_change_a_solve
    from apviz.diagnosis import Diagnosis, Limit

    assert not _can_change_a_solve(Diagnosis(Limit.NOISE, "", "", {"noise": 0.1}))
    assert _can_change_a_solve(Diagnosis(Limit.CONDITIONING, "", "", {"solver": "auto"}))


def test_steps_that_did_not_converge_are_counted_and_marked(page, tmp_path):
    cut = replace(SETTINGS, solver=apviz.AlternatingProjection(50, tol=1e-9, max_epochs=2))
    with pytest.warns(UserWarning, match="not converged"):
        finished(job_in(tmp_path, cut))
    opened = page(tmp_path)
    tick(opened, lambda: bool(opened._cards["steps"].chart.base))
    assert "The solves of 3 of the 3 steps did not converge" in opened._state.object
    assert opened._state.severity == "warning" and '"symbol":"x"' in opened._cards["steps"].chart.base
    assert "NOT CONVERGED" in str(opened._numbers[0].object)
