"""The page Compare without a browser: its runs, clicks, and the tables behind its charts."""

from __future__ import annotations

import html
import io
import json
import math
import shutil
import time

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.analysis import errors, judge
from apviz.dashboard import address
from apviz.dashboard.pages.compare import page as compare_page
from apviz.dashboard.pages.compare.charts import short_label
from apviz.dashboard.pages.compare.page import Compare
from apviz.dashboard.pages.replay.page import Replay
from apviz.dashboard.settings.systems import BY_HAND, SystemSpec
from apviz.dashboard.store.examples import PREFIX, add_examples
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.plots._labels import full_names, run_names
from apviz.tracing import Trace
from tests.dashboard.coming_back import comes_back_while_it_solves
from tests.dashboard.store.on_disk import rewrite
from tests.dashboard.visiting import drawn, visitor

#: a solve that runs until it is stopped
ENDLESS = {"methods": ["ap"], "rules": ["cyclic"], "block_sizes": [20], "tol": 1e-14, "max_epochs": 100_000}


class InterruptedAtOnce(apviz.Hook):
    """Interrupts a solve before the first update is recorded."""

    def on_update(self, update):
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return runs of two methods with equal work per epoch, and one interrupted in its first epoch."""
    folder = tmp_path_factory.mktemp("compared")
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    y = torch.sin(3 * x[:, 0])
    system = apviz.KernelSystem(
        x, y[:, None], apviz.Matern52(lengthscale=0.5), noise=0.1, operator="dense", dataset="made", seed=0
    )

    def solve(name, solver, *hooks):
        apviz.solve(system, solver, hooks=[*hooks, apviz.Recorder(folder / f"{name}.zarr")])

    solve("gs", apviz.AlternatingProjection(block_size=20, tol=1e-6))
    solve("cyclic", apviz.AlternatingProjection(block_size=20, rule="cyclic", tol=1e-6))
    solve("again", apviz.AlternatingProjection(block_size=20, rule="cyclic", tol=1e-6))
    solve("cg", apviz.ConjugateGradient(tol=1e-6))
    with pytest.raises(KeyboardInterrupt):
        solve("cut", apviz.AlternatingProjection(block_size=20), InterruptedAtOnce())
    return folder


@pytest.fixture
def runs(recorded):
    return RunsFolder(recorded)


def page_in(folder, **system):
    page = Compare(visitor(folder, **system))
    page.main()
    return page


def opened(folder, **view):
    page = page_in(folder)
    page.choice.param.update(**{"more": True, "x": "work", "scale": "linear"} | view)
    page.open()
    return drawn(page)


def message(page):
    return page._bar._text.object


def table(page, card):
    return pd.read_csv(io.StringIO(page._cards[card].csv()))


def click(page, card, curve, epoch):
    """Send a click on a point of the first curve with lines whose name begins with a text."""
    chart = page._cards[card].chart
    curves = json.loads(chart.base)["data"]
    hit = next(each for each in curves if each.get("name", "").startswith(curve) and "lines" in each["mode"])
    values = page._traces[next(iter(page._traces))]["epoch"].isel(epoch=epoch)
    point = [float(epoch), float(values["work"]), float(values["seconds"]), 1.0]
    group = hit.get("legendgroup") or hit.get("meta")
    count = chart.clicked.get("count", 0) + 1
    chart.clicked = {"x": point[1], "y": 1.0, "values": point, "group": group, "count": count}


# --- whose runs these are -----------------------------------------------------------------------------------------


def test_a_verdict_on_other_data_is_no_headline(runs):
    page = opened(runs, runs=["gs", "cg"])
    verdict = page._answer._headline.object
    page.tick()
    assert page.shared.system.dataset == "china"
    assert page._answer._headline.object == "No result for china yet."
    assert page._answer._rest.object == f"Earlier runs (made): {verdict}"
    assert page.notice._words.object == "The charts show made, a data set that is not here. Press Run."
    assert not page.notice.reset.visible, "there is nothing to reset to"
    page._answer.name_data("", "")
    assert page._answer._headline.object == verdict


def test_a_run_that_was_stopped_on_request_is_called_stopped(tmp_path):
    """The table once said only "Not converged", as of a method that had failed."""
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    system = apviz.KernelSystem(x, torch.sin(3 * x[:, :1]), apviz.Matern52(lengthscale=0.5), noise=0.1)
    stop = apviz.StopHook(when=lambda epoch: "requested" if epoch.number == 8 else None)
    solver = apviz.AlternatingProjection(block_size=20, tol=1e-9)
    apviz.solvers.attempt(system, solver, [stop, apviz.Recorder(tmp_path / "run.zarr")])
    page = opened(RunsFolder(tmp_path), runs=["run"])
    assert page._answer.table.rows[0][-1].startswith("Stopped early: needs ≈")
    assert "It was stopped at residual" in answer(page) and "1 run was stopped early." in answer(page)


# --- a click ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("card", ["residuals", "theory"])
def test_a_click_selects_the_run_of_the_clicked_curve_even_at_equal_work(runs, card):
    page = opened(runs, runs=["gs", "cyclic", "again"])
    called = run_names(list(page._traces.values()))
    for curve, name in ((called[2], "again"), (called[0], "gs"), (called[1], "cyclic")):
        click(page, card, curve, 2)
        assert page.choice.selected == name


def test_a_click_on_the_bound_of_a_run_selects_that_run(runs):
    page = opened(runs, runs=["cyclic", "gs"])
    click(page, "theory", "AP (greedy, b = 20): Theorem 1", 1)
    assert page.choice.selected == "gs"


def test_a_click_on_something_that_is_not_a_run_selects_nothing(runs):
    page = opened(runs, runs=["gs", "cg"], selected="cg")
    page._cards["residuals"].chart.clicked = {"x": 1, "y": 1, "values": [1.0, 2.0, 0.1, 0.3], "group": "", "count": 1}
    assert page.choice.selected == "cg"


def test_charts_keep_their_order_whatever_the_address(runs):
    page = page_in(runs)
    address.apply("x=epochs&selected=cyclic&runs=gs,cyclic&more=true", page.models)
    page.open()
    drawn(page)
    cards = {name: card.view for name, card in page._cards.items()}
    assert page._area.top.objects == [cards.pop("residuals"), page._answer.runs]
    assert page._area.of_one_run.objects == [cards.pop("timeline"), cards.pop("blocks")]
    assert page._area.of_all.objects == list(cards.values())


# --- what the address asks for --------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["runs=gs,cg&selected=nosuch", "selected=nosuch&runs=gs,cg"])
def test_a_selected_run_that_is_not_shown_is_rejected_and_removed_from_the_address(runs, query):
    page = page_in(runs)
    assert address.apply(query, page.models) == []
    page.open()
    assert "nosuch is not among the runs shown" in message(page)
    assert page.choice.selected in ("gs", "cg")


def test_a_page_without_a_selected_run_selects_the_first_of_its_table(runs):
    for names in (["cut", "gs", "cyclic", "cg"], ["cg", "cyclic", "gs", "cut"]):
        page = opened(runs, runs=names)
        assert page.choice.selected == page._answer.table.selected == page._answer.table.rows[0][0]


def test_every_invalid_part_of_an_address_is_named(runs):
    page = page_in(runs)
    address.apply("runs=gone,gs&selected=nosuch", page.models)
    page.open()
    assert "there is no run gone" in message(page) and "nosuch is not among the runs" in message(page)


# --- the answer ---------------------------------------------------------------------------------------------------


def answer(page):
    return html.unescape(f"{page._answer._headline.object} {page._answer._rest.object}").replace("\\", "")


def test_the_page_opens_with_the_verdict_on_its_runs(runs):
    page = opened(runs, runs=["gs", "cyclic", "cg", "cut"])
    traces = [runs.open(name) for name in ("gs", "cyclic", "cg", "cut")]
    found = judge(traces, full_names(traces))
    assert answer(page).strip() == found.sentence and "cut" not in found.best.name
    assert "1 other run does not compare" in found.others  # it has another tolerance


def test_without_a_run_the_page_says_that_nothing_has_run(tmp_path):
    page = opened(RunsFolder(tmp_path))
    assert answer(page).strip() == "Nothing has run yet." and page._answer.table.rows == []


def test_runs_are_listed_best_first_with_the_style_of_their_curves(runs):
    page = opened(runs, runs=["cut", "gs", "cg"])
    keys = [row[0] for row in page._answer.table.rows]
    best = judge([runs.open(name) for name in ("gs", "cg")]).best.trace.method_name
    assert [row[2][1] for row in page._answer.table.rows] == ["", "", "> "]  # a lower bound
    assert keys[-1] == "cut" and page._answer.table.rows[0][1].startswith(best)
    assert set(page._answer.table.swatches) == {"cut", "gs", "cg"}
    curves = json.loads(page._cards["residuals"].chart.base)["data"]
    (cg,) = [each for each in curves if each.get("name", "").startswith("CG") and "lines" in each["mode"]]
    color, _, symbol = page._answer.table.swatches["cg"]
    assert (color, symbol) == (cg["line"]["color"], cg["marker"]["symbol"])


def test_a_click_in_the_list_selects_a_finished_run_only(runs):
    page = opened(runs, runs=["gs", "cg"], selected="gs")
    page._answer.show_live({"growing": runs.open("cut")})
    assert [row[0] for row in page._answer.table.rows][-1] == "growing"
    assert page._answer.table.rows[-1][-1] == "running"
    page._select("growing")
    assert page.choice.selected == "gs"
    page._select("cg")
    drawn(page)
    assert page.choice.selected == page._answer.table.selected == "cg"


# --- curves that stand out --------------------------------------------------------------------------------------------


def curve_of(page, name):
    """Return the line of a run in the first chart, by its name in the folder."""
    trace = page._traces[name]
    entry = dict(zip(map(id, page._visible()), run_names(page._visible()), strict=True)).get(id(trace), "")
    lines = [each for each in json.loads(page._cards["residuals"].chart.base)["data"] if "lines" in each["mode"]]
    return next((each for each in lines if entry and each.get("legendgroup", "").startswith(entry)), None)


def labels(page):
    layout = json.loads(page._cards["residuals"].chart.base)["layout"]
    return [each["text"].replace("<br>", " ") for each in layout["annotations"] if each.get("name") == "end"]


def test_at_most_four_curves_stand_out_with_their_names_and_the_others_are_grey(runs, monkeypatch):
    monkeypatch.setattr("apviz.dashboard.pages.compare.curves.MOST", 2)
    page = opened(runs, runs=["gs", "cyclic", "cg"])
    best = page._answer.ordered[:2]
    assert set(labels(page)) == {short_label(page._traces[name].method_name) for name in best}
    (grey,) = set(page.choice.runs) - set(best)
    assert curve_of(page, grey)["line"]["color"].startswith("rgba")
    assert all(curve_of(page, name)["line"]["color"].startswith("#") for name in best)
    page._answer.table.pinned = [grey]
    drawn(page)
    assert page.choice.pinned == [grey] and short_label(page._traces[grey].method_name) in labels(page)


def test_a_hidden_run_has_no_curve_and_keeps_its_row(runs):
    page = opened(runs, runs=["gs", "cg"])
    page._answer.table.hidden = ["cg"]
    drawn(page)
    assert page.choice.hidden == ["cg"] and curve_of(page, "cg") is None and curve_of(page, "gs")
    assert {row[0] for row in page._answer.table.rows} == {"gs", "cg"}
    page.choice.hidden = []
    drawn(page)
    assert page._answer.table.hidden == [] and curve_of(page, "cg")


def test_pinned_runs_are_compared_by_the_settings_that_differ(runs):
    page = opened(runs, runs=["gs", "cyclic", "cg"], pinned=["gs", "cyclic"])
    ((_, table),) = [card.objects for card in page._pinned.view]
    found = table[0].object
    assert list(found.loc["rule"]) == ["gauss-southwell", "cyclic"] and "tol" not in found.index
    page.choice.pinned = ["gs"]
    drawn(page)
    assert not len(page._pinned.view)


def test_on_a_log_axis_labels_are_at_the_logarithm_of_the_last_point(runs):
    page = opened(runs, runs=["cg"], x="seconds", scale="log")
    layout = json.loads(page._cards["residuals"].chart.base)["layout"]
    (label,) = [each for each in layout["annotations"] if each.get("name") == "end"]
    last = runs.open("cg")["epoch"].isel(epoch=-1)
    assert layout["xaxis"]["type"] == "log"
    assert label["x"] == pytest.approx(math.log10(last["seconds"])) and label["y"] == pytest.approx(
        math.log10(last["residual"])
    )


def test_other_charts_and_the_diagnosis_are_drawn_only_when_they_are_shown(runs):
    page = opened(runs, runs=["gs", "cg"], more=False)
    assert not page._area.below.visible and not page._cards["theory"].chart.base and not len(page._area.details)
    page.choice.more = True
    drawn(page)
    assert page._area.below.visible and page._cards["theory"].chart.base and len(page._area.details)


# --- settings that differ from what is shown ----------------------------------------------------------------------


def said(page):
    page.show_differences()
    return page.notice.said if page.notice.view.visible else []


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


# --- which runs are shown -----------------------------------------------------------------------------------------


def test_returning_to_the_page_during_a_solve_shows_no_older_runs(tmp_path):
    page = page_in(RunsFolder(tmp_path), n=200, source=BY_HAND, rhs=1, dtype="float64", lengthscale="0.5", noise=1e-5)
    page.methods.param.update(methods=["cg"], max_epochs=3)
    page.run()
    page.job.join(60)
    page.tick()
    assert len(page.choice.runs) == 1
    page.methods.param.update(**ENDLESS)
    comes_back_while_it_solves(page, lambda: page._traces)


def test_a_double_click_on_run_starts_one_comparison_without_a_complaint(tmp_path):
    page = page_in(RunsFolder(tmp_path), n=200, source=BY_HAND, rhs=1, dtype="float64", lengthscale="0.5", noise=1e-5)
    page.methods.param.update(**ENDLESS)
    page._bar._run.clicks += 1
    first = page.job
    page._bar._run.clicks += 1
    assert page.job is first and "running" not in page._bar._text.object
    page.stop()
    first.join(60)


def test_the_verdict_appears_with_the_end_of_a_run_before_pending_charts(tmp_path):
    page = page_in(RunsFolder(tmp_path), n=200, source=BY_HAND, rhs=1)
    page.open()
    page.methods.param.update(methods=["cg"], tol=0.1)
    page._next_drawing = math.inf
    page.run()
    page.job.join(60)
    page.tick()
    assert (
        page._to_draw
        and answer(page).startswith("CG solved it in ")
        and [row[-1] for row in page._answer.table.rows] == ["Converged"]
    )


def test_in_a_race_all_methods_are_listed_and_drawn_over_the_raced_quantity(tmp_path):
    page = page_in(RunsFolder(tmp_path), n=200, source=BY_HAND, rhs=1, dtype="float64", lengthscale="0.5", noise=1e-5)
    page.open()
    page.methods.param.update(**ENDLESS | {"rules": ["cyclic", "random"]})
    page.choice.order = "race on seconds"
    page.run()
    deadline = time.monotonic() + 60
    while len(page._answer.table.rows) < 2 or len(page._answer.table.swatches) < 2:
        assert time.monotonic() < deadline and page.job.is_active
        page.tick()
        page._next_drawing = 0.0
        time.sleep(0.01)
    assert page.choice.x == "seconds" and {row[-1] for row in page._answer.table.rows} == {"running"}
    names = {row[1] for row in page._answer.table.rows}
    CYCLIC_AND_RANDOM = {"Alternating projection (cyclic", "Alternating projection (random"}
    assert {name.split(", b")[0] for name in names} == CYCLIC_AND_RANDOM
    live = json.loads(page._cards["residuals"].chart.live)["data"]
    assert {each["legendgroup"].split(", b")[0] for each in live if "legendgroup" in each} == CYCLIC_AND_RANDOM
    page.stop()
    page.job.join(60)
    page.tick()
    drawn(page)
    assert sorted(page.choice.runs) == sorted(page.job.done) and len(page.job.done) == 2
    assert "None of the 2 runs converged" in answer(page)


def test_a_run_that_is_already_shown_is_listed_once(runs):
    page = opened(runs, runs=["gs", "cg"])
    page.look_at(["cg", "cg", "gs"], "gs")
    assert page.choice.runs == ["cg", "gs"]


def other_data(folder, name, like, **attrs):
    """Copy a run as one of other data."""
    copy = shutil.copytree(folder / f"{like}.zarr", folder / f"{name}.zarr")
    rewrite(copy, lambda root: root.update({"dataset": "other.csv", "data": "other"} | attrs))


@pytest.fixture
def two_data_sets(recorded, tmp_path):
    for name in ("gs", "cg"):
        shutil.copytree(recorded / f"{name}.zarr", tmp_path / f"{name}.zarr")
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


def test_the_verdict_counts_no_examples_next_to_runs_made_here(recorded, tmp_path):
    runs = RunsFolder(shutil.copytree(recorded, tmp_path / "runs"))
    shutil.copytree(runs.path_of("cg"), runs.path_of(f"{PREFIX}cg"))
    shown = ["gs", "cyclic", f"{PREFIX}cg"]
    page = opened(runs, runs=shown)
    here = [runs.open(name) for name in shown[:2]]
    assert page._answer.said[0] == judge(here, full_names([*here, runs.open(shown[2])])[:2]).headline
    assert [row[0] for row in page._answer.table.rows][-1] == f"{PREFIX}cg"


# --- several seeds ------------------------------------------------------------------------------------------------


def test_every_method_runs_once_with_every_seed_and_the_verdict_is_on_medians(tmp_path):
    page = page_in(RunsFolder(tmp_path), n=100, source=BY_HAND, rhs=1, lengthscale="0.5")
    page.open()
    page.methods.param.update(methods=["cg", "ap"], rules=["cyclic"], block_sizes=[25], tol=0.3)
    assert address.apply("seed=0,1,2", [page.shared.system]) == []
    assert page.settings_words() == "2 ticked, 6 runs"
    page.run()
    page.job.join(60)
    page.tick()
    drawn(page)
    traces = [page.shared.runs.open(name) for name in page.job.done]
    assert [trace.attrs["seed"] for trace in traces] == [0, 0, 1, 1, 2, 2] and len(page.choice.runs) == 6
    assert len({trace.attrs["noise"] for trace in traces}) == 1
    rows = {row[1]: row for row in page._answer.table.rows}
    seconds = [float(t["epoch"]["seconds"][-1]) for t in traces if t.method_name == "CG"]
    assert len(rows) == 2 and rows["CG"][2] == pytest.approx(np.median(seconds))
    assert {row[-1] for row in rows.values()} == {"3 of 3 runs converged (medians)"}
    assert answer(page).startswith("Over 3 seeds, ") and " (median). " in answer(page)
    names = {each.get("legendgroup", "") for each in json.loads(page._cards["residuals"].chart.base)["data"]}
    assert any(name.startswith("CG — 3 runs, 3 converged") for name in names)


def test_a_page_for_one_seed_refuses_several(tmp_path):
    page = Replay(visitor(tmp_path, n=200))
    page.main()
    page.shared.system.seed = [0, 1]
    page.run()
    assert page.job is None and "one seed, and the seeds are 0, 1" in message(page)


def test_of_many_runs_as_many_as_fit_are_opened_and_the_page_says_so(runs, monkeypatch):
    monkeypatch.setattr("apviz.dashboard.pages.compare.shown.MAX_RUNS", 2)
    page = opened(runs)
    page.look_at(["gs", "cyclic", "cg"], "cg")
    drawn(page)
    assert page.choice.runs == ["cyclic", "cg"] and "2 of 3 runs opened" in answer(page)


# --- a run that was interrupted in its first epoch ----------------------------------------------------------------


def test_a_run_without_updates_is_shown_and_does_not_break_charts(runs):
    assert "update" not in runs.open("cut") and runs.open("cut")["epoch"].sizes["epoch"] == 1
    page = opened(runs, runs=["cut", "gs", "cg"], selected="cut")
    for name in ("residuals", "theory"):
        assert page._cards[name].chart.base
    assert "Unfinished" in page._cards["theory"].chart.base
    for name in ("timeline", "blocks"):
        assert not page._cards[name].view.visible
    assert "Diagnosis of Alternating projection (greedy" in page._diagnosis._of.object
    assert len(page._answer.table.rows) == 3
    for name, card in page._cards.items():
        assert card.words()
        table(page, name) if card.drawn else None
    click(page, "residuals", "Alternating projection (greedy, b = 20), tolerance 0.01", 0)
    assert page.choice.selected == "cut"


def test_a_run_that_has_just_begun_is_drawn_with_the_others(runs):
    page = opened(runs, runs=["gs"])
    card = page._cards["theory"]
    card.show_live([runs.open("cut")], "light")
    assert "Unfinished" in card.chart.live and card.chart.base


def test_a_run_with_numbers_out_of_range_does_not_break_charts(recorded, tmp_path):
    tree = apviz.open_trace(recorded / "gs.zarr").tree.copy(deep=True)
    tree.attrs["rhs_norms"] = [1e200 for _ in tree.attrs["rhs_norms"]]
    Trace(tree).save(tmp_path / "nan.zarr")
    shutil.copytree(recorded / "cg.zarr", tmp_path / "cg.zarr")
    page = opened(RunsFolder(tmp_path), runs=["nan", "cg"])
    assert [trace.method_name for trace in page._cards["theory"].drawn] == ["CG"]
    assert len(page._cards["residuals"].drawn) == 2
    assert opened(RunsFolder(tmp_path), runs=["nan"])._cards["theory"].text.is_empty


# --- tables and words ---------------------------------------------------------------------------------------------


def test_the_table_of_errors_has_the_drawn_edges_of_the_band_and_the_bound(runs):
    page = opened(runs, runs=["gs", "cg"])
    found, error = table(page, "theory"), errors.k_norm_error(runs.open("gs"))
    of_gs = found[found["run"] == "Alternating projection (greedy, b = 20)"]
    start = float(error["upper"][0])
    for column, part in {"error_at_least": "lower", "error_at_most": "upper", "bound": "bound"}.items():
        np.testing.assert_allclose(of_gs[column], error[part] / start)
    np.testing.assert_array_equal(of_gs["work"], runs.open("gs")["epoch"]["work"])
    assert set(of_gs["bound_name"]) == {"Theorem 1"} and set(found["run"]) == {
        "Alternating projection (greedy, b = 20)",
        "CG",
    }
    assert set(found[found["run"] == "CG"]["bound_name"]) == {"CG bound"}
    words = page._cards["theory"].chart.summary
    end = f"{float(error['upper'][-1]) / start:.2g}"
    assert end in words and "Theorem 1" in words


def test_the_table_of_residuals_on_blocks_has_norms_by_epoch_and_block(runs):
    page = opened(runs, runs=["gs", "cg"], selected="gs")
    found, block = table(page, "blocks"), runs.open("gs")["block"]
    assert list(found.columns) == ["run", "epoch", "block", "rows", "residual_norm"]
    np.testing.assert_allclose(found["residual_norm"], block["residual_norm"].values.ravel())
    np.testing.assert_array_equal(found["epoch"][:6], [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(found["block"][:6], [0, 1, 2, 0, 1, 2])
    largest = int(block["residual_norm"].values[-1].argmax())
    assert f"largest on block {largest}" in page._cards["blocks"].chart.summary


def test_tables_distinguish_runs_of_one_method(runs):
    page = opened(runs, runs=["cyclic", "again"])
    assert list(dict.fromkeys(table(page, "theory")["run"])) == run_names(list(page._traces.values()))


def test_other_charts_are_sent_after_the_first_is_drawn_or_a_timeout(runs, monkeypatch):
    page = page_in(runs)
    page.shared.has_browser = True
    page.choice.runs = ["cg", "gs"]
    page.choice.more = True
    page.open()
    first, other = page._cards["residuals"].chart, page._cards["theory"].chart
    for _ in range(3):
        page.tick()
    assert first.base and not other.base and page.is_drawing
    first.drawn += 1
    while page.is_drawing:
        page.tick()
    assert other.base
    # the browser ignores an unchanged drawing, and nothing waits for it
    monkeypatch.setattr(compare_page, "FIRST_SECONDS", math.inf)
    page.redraw()
    while page.is_drawing:
        page.tick()
    monkeypatch.setattr(compare_page, "FIRST_SECONDS", 0.0)
    page.choice.x = "epochs"
    while page.is_drawing:
        page.tick()
    assert "epochs" in other.base
