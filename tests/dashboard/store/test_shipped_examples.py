"""The examples, which ship with apviz and fill a new folder."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.pages import PAGES
from apviz.dashboard.store.examples import PREFIX, add_examples, examples_in_words
from apviz.dashboard.store.run_entry import is_solve
from apviz.dashboard.store.runs_folder import RunsFolder
from benchmarks.dashboard.examples import MACHINE
from tests.dashboard.visiting import drawn, visitor


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    runs = RunsFolder(tmp_path_factory.mktemp("examples") / "new")
    add_examples(runs)
    return runs


def opened(name, runs):
    """Open the page of a new visitor, and draw all pending charts."""
    page = PAGES[name](visitor(runs))
    page.main()
    page.open()
    drawn(page)
    page.shared.end()
    return page


def test_every_example_opens_and_says_that_it_is_one(examples):
    assert all(name.startswith(PREFIX) for name in examples.names())
    assert examples_in_words(examples.names()) == "These are stored examples from another machine."
    assert examples_in_words([*examples.names()[:2], "mine"]).startswith("2 of the 3 runs are stored examples")
    assert not [entry.problem for entry in examples.entries() if entry.problem]
    solves = [trace for name in examples.names() if is_solve(trace := examples.open(name))]
    assert len(solves) == len(examples.names()) - 1 and all(trace.finished for trace in solves)


def test_the_landing_page_shows_the_comparison_and_says_where_it_was_solved(examples):
    page = opened("compare", examples)
    assert {trace.attrs["n"] for trace in page._traces.values()} == {1712} and len(page._traces) > 8
    assert page._answer.said[0].startswith("Cholesky solved it in"), "as the advice says for few rows"
    assert "These are stored examples from another machine. Press Run" in page._answer.said[1]
    assert page.settings_words() == f"{len(page.methods.methods)} ticked, {len(page._traces)} runs", "Run repeats them"
    page.show_differences()
    assert not page.notice.view.visible, "the settings are those of the examples"


def test_seconds_of_examples_do_not_compare_with_those_of_a_machine_of_the_same_name(examples):
    assert all(examples.open(name).attrs["device_name"].endswith(MACHINE) for name in examples.names())


def test_no_other_page_is_empty(examples):
    replay = opened("replay", examples)
    assert replay.choice.run and replay._first.map.chart.base
    noise = opened("noise", examples)
    assert noise._remark.visible and "from another machine" in noise._remark.object
    sweep = noise._cards["sweep"]
    assert len({(trace.method_name, trace.attrs["noise"]) for trace in sweep.drawn}) == 10
    assert {trace.method.block_size for trace in opened("block-size", examples)._cards["sweep"].drawn} == {100, 400}
    training = opened("training", examples)
    assert "Settled: σ² = " in training.picker.state.object
    assert all(training.charts.cards[name].chart.base for name in ("steps", "lengthscales"))


def test_a_folder_with_a_run_is_not_changed(folder):
    before = RunsFolder(folder).names()
    add_examples(RunsFolder(folder))
    assert RunsFolder(folder).names() == before and examples_in_words(before) == examples_in_words([]) == ""
