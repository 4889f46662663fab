"""Which runs the page Compare shows: those that the address names, of one data set, or of a job, and their settings."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("panel")

import apviz
from apviz.analysis import judge
from apviz.dashboard import address
from apviz.dashboard.settings.systems import BY_HAND, SystemSpec
from apviz.dashboard.store.examples import PREFIX, add_examples
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.plots._labels import full_names
from tests.dashboard.coming_back import comes_back_while_it_solves
from tests.dashboard.compare_page import ENDLESS, answer, message, opened, page_in, said
from tests.dashboard.store.on_disk import rewrite
from tests.dashboard.visiting import drawn

# --- what the address asks for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["runs=gs,cg&selected=nosuch", "selected=nosuch&runs=gs,cg"])
def test_a_selected_run_that_is_not_shown_is_rejected_and_removed_from_the_address(compared_runs, query):
    page = page_in(compared_runs)
    assert address.apply(query, page.models) == []
    page.open()
    assert "nosuch is not among the runs shown" in message(page)
    assert page.choice.selected in ("gs", "cg")


def test_a_page_without_a_selected_run_selects_the_first_of_its_table(compared_runs):
    for names in (["cut", "gs", "cyclic", "cg"], ["cg", "cyclic", "gs", "cut"]):
        page = opened(compared_runs, runs=names)
        assert page.choice.selected == page._answer.table.selected == page._answer.table.rows[0][0]


def test_every_invalid_part_of_an_address_is_named(compared_runs):
    page = page_in(compared_runs)
    address.apply("runs=gone,gs&selected=nosuch", page.models)
    page.open()
    assert "there is no run gone" in message(page) and "nosuch is not among the runs" in message(page)


# --- which runs are shown ---------------------------------------------------------------------------------------------


def test_returning_to_the_page_during_a_solve_shows_no_older_runs(tmp_path):
    page = page_in(RunsFolder(tmp_path), n=200, source=BY_HAND, rhs=1, dtype="float64", lengthscale="0.5", noise=1e-5)
    page.methods.param.update(methods=["cg"], max_epochs=3)
    page.run()
    page.job.join(60)
    page.tick()
    assert len(page.choice.runs) == 1
    page.methods.param.update(**ENDLESS)
    comes_back_while_it_solves(page, lambda: page._traces)


def test_a_run_that_is_already_shown_is_listed_once(compared_runs):
    page = opened(compared_runs, runs=["gs", "cg"])
    page.look_at(["cg", "cg", "gs"], "gs")
    assert page.choice.runs == ["cg", "gs"]


def test_of_many_runs_as_many_as_fit_are_opened_and_the_page_says_so(compared_runs, monkeypatch):
    monkeypatch.setattr("apviz.dashboard.pages.compare.shown.MAX_RUNS", 2)
    page = opened(compared_runs)
    page.look_at(["gs", "cyclic", "cg"], "cg")
    drawn(page)
    assert page.choice.runs == ["cyclic", "cg"] and "2 of 3 runs opened" in answer(page)


def other_data(folder, name, like, **attrs):
    """Copy a run as one of other data."""
    copy = shutil.copytree(folder / f"{like}.zarr", folder / f"{name}.zarr")
    rewrite(copy, lambda root: root.update({"dataset": "other.csv", "data": "other"} | attrs))


@pytest.fixture
def two_data_sets(compared, tmp_path):
    for name in ("gs", "cg"):
        shutil.copytree(compared / f"{name}.zarr", tmp_path / f"{name}.zarr")
    other_data(tmp_path, "mine", "cg", created="2000-01-01")
    return RunsFolder(tmp_path)


def test_runs_of_two_data_sets_are_not_shown_together_and_the_page_says_so(two_data_sets):
    """After a solve on a visitor's own table, the verdict was once still that of the example."""
    page = opened(two_data_sets, runs=["mine", "gs", "cg"], selected="mine")
    assert page.choice.runs == ["mine"] and [row[0] for row in page._answer.table.rows] == ["mine"]
    assert answer(page).startswith("CG solved it in ") and "2 runs of made are on page Runs." in answer(page)
    assert len(page._cards["residuals"].drawn) == 1
    page.look_at(["mine", "gs", "cg"], "gs")
    drawn(page)
    assert page.choice.runs == ["gs", "cg"] and "1 run of other.csv is on page Runs." in answer(page)


def test_a_solve_on_other_data_replaces_the_runs_shown_by_those_of_its_data(two_data_sets):
    page = opened(two_data_sets, runs=["gs", "cg"])
    page.shared.system.param.update(dataset="china", n=200, source=BY_HAND, rhs=1)
    assert page.start(page.shared.system.spec(), [apviz.ConjugateGradient(tol=0.1)])
    assert page.choice.runs == []
    page.job.join(60)
    page.tick()
    drawn(page)
    assert page.choice.runs == page.job.done and "2 runs of made are on page Runs." in answer(page)


def test_a_new_visitor_sees_the_examples_unless_the_address_names_runs(two_data_sets):
    """Otherwise they would see the last visitor's table."""
    other_data(two_data_sets.path, "example cg", "cg", dataset="made", data="example", created="1999-01-01")
    assert opened(two_data_sets).choice.runs == ["example cg"]
    assert opened(two_data_sets, runs=["mine"]).choice.runs == ["mine"]


def test_a_visitor_who_comes_back_sees_the_runs_of_the_job_without_examples_and_its_settings(tmp_path):
    runs = RunsFolder(tmp_path)
    add_examples(runs)
    page = page_in(runs, n=100, rhs=2)
    page.methods.param.update(methods=["cg"], tol=0.3)
    page.run()
    page.job.join(60)
    later = page_in(runs)
    later.open()
    assert all(name.startswith(PREFIX) for name in later.choice.runs)
    later.adopt(page.job)  # as soon as the browser has said whose it is
    later.tick()
    assert later.choice.runs == page.job.done and page.job.seen
    assert (later.shared.system.n, later.methods.methods, later.methods.tol) == (100, ["cg"], 0.3)
    assert said(later) == [] and later._bar._text.object == "Done: 1 run recorded."
    later.shared.system.dataset = "diabetes"
    later.tick()
    assert not later._bar._text.visible, "the end of a job on other data"
    assert later._answer._headline.object == "No result for diabetes yet."


def test_the_verdict_counts_no_examples_next_to_runs_made_here(compared, tmp_path):
    runs = RunsFolder(shutil.copytree(compared, tmp_path / "runs"))
    shutil.copytree(runs.path_of("cg"), runs.path_of(f"{PREFIX}cg"))
    shown = ["gs", "cyclic", f"{PREFIX}cg"]
    page = opened(runs, runs=shown)
    here = [runs.open(name) for name in shown[:2]]
    assert page._answer.said[0] == judge(here, full_names([*here, runs.open(shown[2])])[:2]).headline
    assert [row[0] for row in page._answer.table.rows][-1] == f"{PREFIX}cg"


# --- settings that differ from what is shown --------------------------------------------------------------------------


def test_a_yellow_bar_names_settings_that_differ_from_what_is_shown(tmp_path):
    page = page_in(RunsFolder(tmp_path), n=200, source=BY_HAND, rhs=1)
    page.open()
    page.methods.param.update(methods=["cg"], tol=0.1)
    page.run()
    page.job.join(60)
    page.tick()
    assert said(page) == []
    page.shared.system.param.update(n=300, noise=0.5)
    page.methods.methods = ["cg", "ap"]
    assert said(page) == ["rows 300 (shown: 200)", "noise 0.5 (shown: 0.01)", "other methods"]
    page.use_shown()
    assert page.shared.system.n == 200 and page.shared.system.noise == 0.01 and said(page) == []
    assert page.methods.methods == ["cg"]


def test_the_page_opens_with_the_settings_of_the_newest_runs_unless_the_address_has_others(tmp_path):
    page = page_in(RunsFolder(tmp_path), n=250, rhs=2)
    page.methods.methods = ["cg"]
    page.run()
    page.job.join(60)
    page.tick()
    again = page_in(RunsFolder(tmp_path))
    again.open()
    assert (again.shared.system.n, again.shared.system.rhs) == (250, 2) and said(again) == []
    other = page_in(RunsFolder(tmp_path))
    other.shared.system.n = 400
    other.open()
    assert other.shared.system.n == 400 and said(other)[0] == "rows 400 (shown: 250)"


def test_the_first_run_of_a_comparison_leaves_the_other_settings_as_they_were(tmp_path):
    """A change of the rows during a comparison once kept only the methods that had ended by then."""
    page = opened(RunsFolder(tmp_path))
    assert page.shared.system.is_untouched and page.methods.is_untouched
    rows, page.shared.system.n = page.shared.system.n, 100
    page.start(SystemSpec("china", 100, rhs=1), [apviz.ConjugateGradient(tol=0.1)])
    page.shared.system.n = rows
    page.job.join(60)
    page.tick()
    assert page.choice.runs == page.job.done != []
    assert page.shared.system.is_untouched, "rows changed back stay so"
    assert page.methods.is_untouched and page.settings_words() == "4 ticked, 9 runs"
