"""The page Training without a browser: its content and its buttons."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard import address
from apviz.dashboard.pages.training.page import Training
from apviz.dashboard.store.trainings import Trainings
from tests.dashboard.small_trainings import SETTINGS, SOLVER, SPEC, finished, job_in
from tests.dashboard.store.on_disk import rewrite
from tests.dashboard.visiting import visitor


@pytest.fixture
def page(tmp_path):
    pages = []

    def open_page(folder, **choice):
        pages.append(page := Training(visitor(folder, slots=2)))
        page.choice.param.update(**choice)
        page.shared.system.n = 200
        page.settings()
        page.advanced()
        page.main()
        page.open()
        return page

    yield open_page
    for each in pages:
        for job in each.shared.visitor.jobs:
            job.stop()
            job.join(30)
        each.shared.end()


def tick(page, until=lambda: False, seconds=60):
    """Let time pass like a browser, and draw all pending charts."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and not until():
        page._next_drawing = page._next_look = page._next_list = 0.0
        page.tick()
        time.sleep(0.005)
    assert until() or seconds < 5
    for _ in range(20):
        page._next_drawing = 0.0
        page.tick()


def test_an_empty_folder_shows_what_to_do_and_no_chart(page, tmp_path):
    opened = page(tmp_path / "empty")
    tick(opened, seconds=0.1)
    assert opened.choice.training == "" and not any(card.view.visible for card in opened.charts.cards.values())
    assert opened.picker.nothing.visible and "**Start a training**" in opened.picker.nothing[1].object


def test_the_newest_training_is_shown_and_its_steps_are_drawn(page, trained):
    opened = page(trained)
    tick(opened, lambda: bool(opened.charts.cards["lengthscales"].chart.base))
    assert opened.choice.training == Trainings(trained).names()[0] and opened.choice.step is None
    assert "3 steps, finished" in opened.picker.state.object and "Not settled" in opened.picker.state.object
    assert "Work: " in opened.picker.state.object
    # showing the last step does not select it, so that a growing training is followed
    assert opened.selected.follows and opened.step.number.value == 3
    assert opened.step.title.object == "Solve of step 3" and "After step 3" in opened.picker.state.object


def test_a_pasted_address_opens_the_same_step(page, trained):
    name = Trainings(trained).names()[0]
    first = page(trained, training=name, step=2)
    second = page(trained)
    assert address.apply(address.to_query(first.models), second.models) == []
    assert (second.choice.training, second.selected.step) == (name, 2)
    assert [card.chart.cursor for card in second.charts.cards.values()] == [[2.0], [2.0], []]


def test_a_missing_training_is_reported(page, trained):
    opened = page(trained, training="gone")
    assert "there is no training 'gone'" in opened._bar._text.object and opened.selected.trace is None
    assert not opened.picker.nothing.visible


def test_a_click_on_a_step_shows_its_numbers_and_says_if_its_solve_was_not_kept(page, trained):
    opened = page(trained)
    opened.charts.cards["steps"].chart.clicked = {"x": 2, "values": [2, 0.6, 3, 0.1]}
    assert opened.choice.step == 2 and opened.step.title.object == "Solve of step 2"
    assert opened.step.text.visible and not opened.step.diagnosis.view.visible
    tick(opened, seconds=0.1)
    assert not opened.charts.cards["solve"].view.visible
    assert "σ² before the step" in str(opened.step.numbers[0].object)


def test_a_yellow_bar_says_that_the_chosen_data_are_not_those_of_the_training(page, trained):
    opened = page(trained)
    opened.shared.system.n = 300
    tick(opened, seconds=0.05)
    assert opened.notice.view.visible and opened.notice.said == ["rows 300 (shown: 200)"]
    opened.use_shown()
    tick(opened, seconds=0.05)
    assert not opened.notice.view.visible and opened.shared.system.n == 200


KERNELS = {
    "sum": 0.5 * (apviz.Matern52(lengthscale=0.3).on(0) + apviz.Periodic(period=0.7).on(1)),
    "without lengthscales": apviz.Cosine(period=0.9).on(0) + apviz.Constant(outputscale=0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KERNELS)
def test_a_training_of_a_sum_of_kernels_can_be_shown_and_resumed(page, tmp_path, kind):
    settings = apviz.TrainingSettings(kernel=KERNELS[kind], solver=apviz.ConjugateGradient(tol=0.1), steps=2, probes=2)
    job = finished(job_in(tmp_path, settings, spec=replace(SPEC, kernel=KERNELS[kind])))
    opened = page(tmp_path, training=job.name, step=2)
    opened.plan.steps = 3
    tick(opened, lambda: bool(opened.charts.cards["steps"].chart.base))
    assert "outputscale" not in opened.picker.state.object
    lengths = opened.charts.cards["lengthscales"]
    assert lengths.view.visible is (kind == "sum")
    opened.look_at(None)
    assert opened.picker.go_on.label == "Resume to step 3"
    opened.go_on()
    tick(opened, lambda: not opened.job.is_active)
    assert opened.selected.steps == 3 and opened.job.state == "done"


def test_a_training_can_be_started_followed_stopped_and_resumed(page, tmp_path):
    opened = page(tmp_path)
    opened.plan.param.update(solver="ap", block_size=50, probes=2, steps=60)
    opened.start()
    assert opened.choice.training == opened.job.name and not opened.picker.nothing.visible
    tick(opened, lambda: opened.selected.steps >= 2)
    opened.start()
    assert "a training is running; stop it first" in opened._bar._text.object
    opened.stop()
    tick(opened, lambda: not opened.job.is_active)
    done = opened.selected.steps
    assert 2 <= done < 60 and opened.picker.go_on.label == "Resume to step 60" and not opened.picker.go_on.disabled
    assert opened.step.diagnosis.view.visible and opened.charts.cards["solve"].view.visible
    opened.go_on()
    tick(opened, lambda: opened.selected.steps > done)
    opened.stop()
    tick(opened, lambda: not opened.job.is_active)
    assert Trainings(tmp_path).names() == [opened.choice.training]


def test_a_training_of_another_process_is_read_again_when_it_changes(page, tmp_path):
    opened, data = page(tmp_path), SPEC.load()
    seen = []

    class Watch(apviz.TrainingHook):
        def on_step(self, step, settings):
            tick(opened, seconds=0.05)
            if not opened.choice.training:
                opened.select("elsewhere")
            seen.append(opened.selected.steps)

    path = tmp_path / "elsewhere.zarr"
    apviz.Training(data.train_x, data.train_y, SETTINGS, path=path, dataset="china").run([Watch()])
    tick(opened, lambda: opened.selected.trace.finished)
    assert (
        seen == [1, 2, 3] and opened.picker.go_on.disabled is False and opened.picker.go_on.label == "Resume to step 50"
    )


def test_a_stop_before_the_first_step_leaves_nothing(page, tmp_path):
    opened = page(tmp_path)
    opened.plan.param.update(solver="ap", block_size=50, probes=2)
    opened.start()
    opened.stop()
    tick(opened, lambda: not opened.job.is_active)
    assert opened.choice.training == "" and Trainings(tmp_path).names() == []


@pytest.mark.slow
def test_resuming_that_ends_before_a_step_does_not_change_the_page(page, tmp_path, trained):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    (older,) = Trainings(tmp_path).names()
    rewrite(tmp_path / f"{older}.zarr", lambda attributes: attributes.update(created="1999-01-01T00:00:00+00:00"))
    finished(job_in(tmp_path))
    opened = page(tmp_path, training=older)
    opened.plan.steps = 6
    queue = opened.shared.queue
    with queue.slot(object()), queue.slot(object()):
        opened.go_on()
        opened.stop()
        tick(opened, lambda: not opened.job.is_active)
    assert opened.choice.training == older and opened.picker.go_on.label == "Resume to step 6"


def test_a_step_beyond_the_last_always_shows_the_last(page, trained):
    opened = page(trained)
    for _ in range(2):
        opened.step.number.value = 99
        assert opened.choice.step == opened.step.number.value == 3


@pytest.mark.slow
def test_steps_that_ended_by_their_budget_cause_no_warning(page, tmp_path):
    finished(job_in(tmp_path, replace(SETTINGS, max_epochs=3, solver=replace(SOLVER, tol=1e-6, min_epochs=1))))
    opened = page(tmp_path)
    tick(opened, lambda: bool(opened.charts.cards["steps"].chart.base))
    assert "ended above their tolerance, at their limit of 3 epochs." in opened.picker.state.object
    assert opened.picker.state.severity == "info"


def test_steps_that_did_not_converge_are_counted_and_marked(page, tmp_path):
    cut = replace(SETTINGS, solver=apviz.AlternatingProjection(block_size=50, tol=1e-9, max_epochs=2))
    with pytest.warns(UserWarning, match="not converged"):
        finished(job_in(tmp_path, cut))
    opened = page(tmp_path)
    tick(opened, lambda: bool(opened.charts.cards["steps"].chart.base))
    assert "The solves of 3 of the 3 steps did not converge" in opened.picker.state.object
    assert opened.picker.state.severity == "warning" and '"symbol":"x"' in opened.charts.cards["steps"].chart.base
    assert "Not converged: residual" in str(opened.step.numbers[0].object)


def test_the_diagnosis_of_an_unsettled_training_can_resume_it(page, tmp_path, trained):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    opened = page(tmp_path)
    card = opened.picker.diagnosis
    assert card.view.visible and card._limit.object == "Too few steps: σ² still moves"
    assert card._button.label == "Run again with steps 6"
    card._press()
    assert not card.view.visible
    tick(opened, lambda: not opened.job.is_active)
    assert opened.selected.steps == 6 and len(Trainings(tmp_path).names()) == 1
    assert card.view.visible and card._button.label == "Run again with steps 12"


@pytest.mark.slow
def test_the_diagnosis_of_unconverged_solves_can_train_again_on_overlapping_blocks(page, tmp_path):
    cut = replace(SETTINGS, solver=apviz.AlternatingProjection(block_size=50, tol=1e-9, max_epochs=2))
    with pytest.warns(UserWarning, match="not converged"):
        finished(job_in(tmp_path, cut))
    opened = page(tmp_path)
    old, card = opened.choice.training, opened.picker.diagnosis
    assert card._button.label == "Run again with solver overlapping projections"
    card._press()
    tick(opened, lambda: not opened.job.is_active)
    assert opened.choice.training != old and opened.selected.trace.converged and opened.selected.steps == 3
    assert opened.selected.trace.method_name == "Overlapping projections"
