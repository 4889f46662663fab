"""The page Conditioning without a browser: its settings, its job, the trainings beside it."""

from __future__ import annotations

import warnings

import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.dashboard import Limits, address
from apviz.dashboard.comparison_job import ComparisonJob
from apviz.dashboard.jobs import Gate
from apviz.dashboard.methods import MethodChoice
from apviz.dashboard.pages.conditioning import Conditioning, NoiseSweep
from apviz.dashboard.runs_folder import RunsFolder
from apviz.dashboard.session import Shared, View
from apviz.dashboard.systems import HAND, SystemChoice
from apviz.dashboard.training_choice import TrainingChoice
from apviz.dashboard.trainings import Trainings


@pytest.fixture
def shared(tmp_path, monkeypatch):
    # the authors' runs are not everywhere
    monkeypatch.setenv("APVIZ_DATA", str(tmp_path / "nothing"))
    limits = Limits()
    system = SystemChoice(limits, n=200, source=HAND, rhs=1)
    return Shared(limits, Gate(1), RunsFolder(tmp_path / "runs"), False, View(), system)


@pytest.fixture
def training(shared):
    """The name of a training of two steps in the folder."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(60, 2, generator=generator)
    settings = apviz.TrainingSettings(solver=apviz.AlternatingProjection(20, tol=1.0, min_epochs=2), steps=2, probes=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        apviz.Training(x, x[:, 0], settings, operator="dense", path=shared.runs.path / "mine.zarr").run()
    return "mine"


def drawn(page):
    while page._to_draw:
        page._next_drawing = 0.0
        page.tick()
    return page._cards


def test_noises_go_by_decades_from_the_largest_and_the_chosen_one_is_among_them():
    assert NoiseSweep().factors() == [100, 10, 1, 0.1, 0.01]
    assert NoiseSweep(below=1, above=0.5, per_decade=2).factors() == [3.16, 1, 0.316, 0.1]
    assert NoiseSweep(below=0, above=0).factors() == [1]


def test_the_settings_survive_the_address():
    before = [NoiseSweep(below=3, per_decade=2), MethodChoice(methods=["cg", "auto"], block_sizes=[50])]
    after = [NoiseSweep(), MethodChoice()]
    assert address.apply(address.to_query(before), after) == []
    assert after[0].factors() == before[0].factors()
    assert after[1].methods == ["cg", "auto"] and after[1].block_sizes == [50]


def test_a_method_that_does_not_exist_is_named_with_those_that_do():
    (problem,) = address.apply("?methods=cg,magic", [MethodChoice()])
    assert "magic" in problem and "pcg" in problem


def test_a_sweep_solves_the_system_at_every_noise_by_every_method(shared):
    methods = MethodChoice(methods=["ap", "cg"], rules=["cyclic"], block_sizes=[50], tol=0.1)
    job = ComparisonJob(
        shared.gate, Limits(), shared.runs, shared.system.spec(), methods.solvers(0), noise_factors=[10, 1, 0.1]
    )
    job.start()
    job.join(60)
    assert job.state == "done" and "6 of 6 runs" in job.message and job.share == 1.0
    traces = [shared.runs.open(name) for name in job.done]
    assert [trace.attrs["noise"] for trace in traces] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert [trace.label for trace in traces] == ["AP cyclic b=50", "CG"] * 3
    kappas = [float(trace["spectrum"]["kappa"]) for trace in traces[::2]]
    assert kappas == sorted(kappas)
    # opened anew, the page finds it
    page = Conditioning(shared)
    page.open()
    assert sorted(page.choice.runs) == sorted(job.done)
    assert len(drawn(page)["sweep"].drawn) == 6


def test_the_button_sweeps_around_the_chosen_noise(shared):
    page = Conditioning(shared)
    page.main()
    page.sidebar()
    page.methods.param.update(methods=["cg"], tol=0.1)
    page.sweep.param.update(below=1, above=0)
    page.run()
    page.job.join(60)
    page.tick()
    noises = [trace.attrs["noise"] for trace in page.traces.values()]
    assert noises == pytest.approx([0.01, 0.001])


def test_without_a_method_nothing_is_run(shared):
    page = Conditioning(shared)
    page.methods.methods = []
    page.run()
    assert page.job is None and "no method is chosen" in page._bar._text.object


def test_the_newest_training_of_the_folder_is_beside_the_sweep(shared, training):
    page = Conditioning(shared)
    page.open()
    assert page.trainings.trainings == [training] and not page._none.visible
    card = drawn(page)["training"]
    assert card.drawn[0]["step"].sizes["step"] == 2
    assert "2 Adam steps" in card.words()


def test_without_any_training_the_page_says_where_one_comes_from(shared):
    page = Conditioning(shared)
    page.open()
    assert page._none.visible and page.trainings.trainings == []
    assert drawn(page)["training"].drawn == []


def test_a_training_that_is_not_there_is_refused_in_the_address(shared, training):
    choice = TrainingChoice()
    choice.offer(Trainings(shared.runs.path))
    (problem,) = address.apply("?trainings=gone", [choice])
    assert "mine is accepted" in problem and choice.trainings == []


def test_a_training_that_has_gone_is_dropped_from_the_choice(shared, training):
    choice, here = TrainingChoice(), Trainings(shared.runs.path)
    choice.offer(here)
    choice.choose_first()
    (shared.runs.path / f"{training}.zarr").rename(shared.runs.path / "other")
    choice.offer(here)
    assert choice.trainings == []
