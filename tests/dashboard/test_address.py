"""The address of a view, written and read."""

from __future__ import annotations

from urllib.parse import quote

import pytest

pytest.importorskip("panel")

from apviz.dashboard import address
from apviz.dashboard.limits import Limits
from apviz.dashboard.pages.replay.page import ReplayView
from apviz.dashboard.pages.sweeps.sweep_page import SweepView
from apviz.dashboard.settings.methods import BlockSizeSweep, MethodChoice, NoiseSweep
from apviz.dashboard.settings.recording import RecordChoice
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.settings.training import TrainingPlan
from apviz.rules import RULES


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("lengthscale=abc", "the lengthscale must be one number, or one per input"),
        ("lengthscale=0.1,-2", "the lengthscale must be one number, or one per input"),
        ("lengthscale=inf", "the lengthscale must be one number, or one per input"),
        ("lengthscale=", "the lengthscale must be one number, or one per input"),
        ("outputscale=inf", "use a finite number above 0"),
        ("outputscale=0", "use a finite number above 0"),
        ("noise=nan", "use a finite number above 0"),
        ("block_sizes=0,-5", "use whole numbers above 0, separated by commas"),
        ("block_sizes=100,many", "use whole numbers above 0, separated by commas"),
        ("ranks=0", "use whole numbers above 0, separated by commas"),
        ("sizes=-20", "use whole numbers above 0, separated by commas"),
        ("below=-inf", "use a number from 0 to 6"),
        ("interval=1", "use a whole number from 100 to 10,000"),
        ("rhs=65", "use a whole number from 1 to 64"),
        ("rules=best", f"use one of {', '.join(RULES)}"),
    ],
)
def test_a_bad_value_is_reported_and_removed(query, reason):
    models = [SystemChoice(Limits()), MethodChoice(), BlockSizeSweep(), NoiseSweep(), ReplayView()]
    models = [model for model in models if query.partition("=")[0] in address.settings(model)]
    before = address.to_query(models)
    (problem,) = address.apply(query, models)
    assert problem.startswith(f"{query} in the address is ignored: {reason}")
    assert address.to_query(models) == before


PLAN = TrainingPlan(
    solver="cg", rank=7, steps=9, step_size=0.05, noise_floor=1e-6, ard=False, warm_start=True, less_work=True
)


@pytest.mark.parametrize(
    ("chosen", "others"),
    [
        ([BlockSizeSweep(sizes=[20, 50], rule="random", tol=1e-3)], [BlockSizeSweep()]),
        ([BlockSizeSweep()], [BlockSizeSweep(sizes=[3])]),
        ([SweepView(runs=["a", "b=2"], selected="b=2")], [SweepView()]),
        ([NoiseSweep(below=3, per_decade=2)], [NoiseSweep()]),
        ([MethodChoice(methods=["cg", "auto"], block_sizes=[50])], [MethodChoice()]),
        ([RecordChoice(method="pcg", updates=7, overlap=0.25), ReplayView(run="a b=2", update=4, interval=250)],
         [RecordChoice(), ReplayView()]),
        ([PLAN], [TrainingPlan()]),
    ],
    ids=lambda models: type(models[0]).__name__,
)  # fmt: skip
def test_an_address_restores_the_settings_it_was_written_from(chosen, others):
    assert address.apply(address.to_query(chosen), others) == []
    for one, other in zip(chosen, others, strict=True):
        assert other.param.values() | {"name": one.name} == one.param.values()


def test_good_values_are_used_unchanged():
    system, methods = SystemChoice(Limits()), MethodChoice()
    query = "lengthscale=0.1,0.25&outputscale=2.5&noise=1e-6&block_sizes=50,200&ranks="
    assert address.apply(query, [system, methods]) == []
    assert system.spec().lengthscale == (0.1, 0.25) and system.outputscale == 2.5 and system.noise == 1e-6
    assert methods.block_sizes == [50, 200] and methods.ranks == []


@pytest.mark.parametrize("text", ["9" * 5_000, "a" * 20_000, "x\ny\x00", "\u202eevil"])
def test_the_beginning_of_a_long_or_unprintable_text_is_shown_in_one_line(text):
    for name in ("noise", "lengthscale", "rules", "nothing" + text):
        model = SystemChoice(Limits()) if name != "rules" else MethodChoice()
        (problem,) = address.apply(f"{quote(name)}={quote(text)}", [model])
        assert problem.startswith(name[:7]) and "in the address is" in problem
        assert len(problem) < 600 and problem.isprintable()


def test_seeds_may_be_a_range_which_is_bounded_before_it_is_written_out():
    system = SystemChoice(Limits())
    assert address.apply("seed=0-4", [system]) == [] and system.seed == [0, 1, 2, 3, 4]
    assert address.apply("seed=7,1–2", [system]) == [] and system.seed == [7, 1, 2]
    (problem,) = address.apply("seed=0-99999999999", [system])
    assert problem.endswith("use up to 20 whole numbers from 0, separated by commas, or a range such as 0-4")
    assert system.seed == [7, 1, 2]
