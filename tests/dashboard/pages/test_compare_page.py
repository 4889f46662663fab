"""The page Compare without a browser: its verdict, its list of runs, and the curves that stand out."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.analysis import judge
from apviz.dashboard import address
from apviz.dashboard.pages.compare.charts import short_label
from apviz.dashboard.pages.replay.page import Replay
from apviz.dashboard.settings.systems import BY_HAND
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.plots._labels import full_names, run_names
from tests.dashboard.compare_page import ENDLESS, answer, message, opened, page_in
from tests.dashboard.visiting import drawn, visitor

# --- the answer -------------------------------------------------------------------------------------------------------


def test_the_page_opens_with_the_verdict_on_its_runs(compared_runs):
    page = opened(compared_runs, runs=["gs", "cyclic", "cg", "cut"])
    traces = [compared_runs.open(name) for name in ("gs", "cyclic", "cg", "cut")]
    found = judge(traces, full_names(traces))
    assert answer(page).strip() == found.sentence and "cut" not in found.best.name
    assert "1 other run does not compare" in found.others  # it has another tolerance


def test_without_a_run_the_page_says_that_nothing_has_run(tmp_path):
    page = opened(RunsFolder(tmp_path))
    assert answer(page).strip() == "Nothing has run yet." and page._answer.table.rows == []


def test_runs_are_listed_best_first_with_the_style_of_their_curves(compared_runs):
    page = opened(compared_runs, runs=["cut", "gs", "cg"])
    keys = [row[0] for row in page._answer.table.rows]
    best = judge([compared_runs.open(name) for name in ("gs", "cg")]).best.trace.method_name
    assert [row[2][1] for row in page._answer.table.rows] == ["", "", "> "]  # a lower bound
    assert keys[-1] == "cut" and page._answer.table.rows[0][1].startswith(best)
    assert set(page._answer.table.swatches) == {"cut", "gs", "cg"}
    curves = json.loads(page._cards["residuals"].chart.base)["data"]
    (cg,) = [each for each in curves if each.get("name", "").startswith("CG") and "lines" in each["mode"]]
    color, _, symbol = page._answer.table.swatches["cg"]
    assert (color, symbol) == (cg["line"]["color"], cg["marker"]["symbol"])


def test_a_click_in_the_list_selects_a_finished_run_only(compared_runs):
    page = opened(compared_runs, runs=["gs", "cg"], selected="gs")
    page._answer.show_live({"growing": compared_runs.open("cut")})
    assert [row[0] for row in page._answer.table.rows][-1] == "growing"
    assert page._answer.table.rows[-1][-1] == "running"
    page._select("growing")
    assert page.choice.selected == "gs"
    page._select("cg")
    drawn(page)
    assert page.choice.selected == page._answer.table.selected == "cg"


def test_a_verdict_on_other_data_is_no_headline(compared_runs):
    page = opened(compared_runs, runs=["gs", "cg"])
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


def test_at_most_four_curves_stand_out_with_their_names_and_the_others_are_grey(compared_runs, monkeypatch):
    monkeypatch.setattr("apviz.dashboard.pages.compare.curves.MOST", 2)
    page = opened(compared_runs, runs=["gs", "cyclic", "cg"])
    best = page._answer.ordered[:2]
    assert set(labels(page)) == {short_label(page._traces[name].method_name) for name in best}
    (grey,) = set(page.choice.runs) - set(best)
    assert curve_of(page, grey)["line"]["color"].startswith("rgba")
    assert all(curve_of(page, name)["line"]["color"].startswith("#") for name in best)
    page._answer.table.pinned = [grey]
    drawn(page)
    assert page.choice.pinned == [grey] and short_label(page._traces[grey].method_name) in labels(page)


def test_a_hidden_run_has_no_curve_and_keeps_its_row(compared_runs):
    page = opened(compared_runs, runs=["gs", "cg"])
    page._answer.table.hidden = ["cg"]
    drawn(page)
    assert page.choice.hidden == ["cg"] and curve_of(page, "cg") is None and curve_of(page, "gs")
    assert {row[0] for row in page._answer.table.rows} == {"gs", "cg"}
    page.choice.hidden = []
    drawn(page)
    assert page._answer.table.hidden == [] and curve_of(page, "cg")


def test_pinned_runs_are_compared_by_the_settings_that_differ(compared_runs):
    page = opened(compared_runs, runs=["gs", "cyclic", "cg"], pinned=["gs", "cyclic"])
    ((_, table),) = [card.objects for card in page._pinned.view]
    found = table[0].object
    assert list(found.loc["rule"]) == ["gauss-southwell", "cyclic"] and "tol" not in found.index
    page.choice.pinned = ["gs"]
    drawn(page)
    assert not len(page._pinned.view)


# --- while methods run ------------------------------------------------------------------------------------------------


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


# --- several seeds ----------------------------------------------------------------------------------------------------


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
