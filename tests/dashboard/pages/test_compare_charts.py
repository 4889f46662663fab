"""The charts of the page Compare without a browser: clicks, order, unusual runs, and the tables behind them."""

from __future__ import annotations

import io
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("panel")

import apviz
from apviz.analysis import errors
from apviz.dashboard import address
from apviz.dashboard.pages.compare import page as compare_page
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.plots._labels import run_names
from apviz.tracing import Trace
from tests.dashboard.compare_page import opened, page_in
from tests.dashboard.visiting import drawn


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


# --- a click ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("card", ["residuals", "theory"])
def test_a_click_selects_the_run_of_the_clicked_curve_even_at_equal_work(compared_runs, card):
    page = opened(compared_runs, runs=["gs", "cyclic", "again"])
    called = run_names(list(page._traces.values()))
    for curve, name in ((called[2], "again"), (called[0], "gs"), (called[1], "cyclic")):
        click(page, card, curve, 2)
        assert page.choice.selected == name


def test_a_click_on_the_bound_of_a_run_selects_that_run(compared_runs):
    page = opened(compared_runs, runs=["cyclic", "gs"])
    click(page, "theory", "AP (greedy, b = 20): Theorem 1", 1)
    assert page.choice.selected == "gs"


def test_a_click_on_something_that_is_not_a_run_selects_nothing(compared_runs):
    page = opened(compared_runs, runs=["gs", "cg"], selected="cg")
    page._cards["residuals"].chart.clicked = {"x": 1, "y": 1, "values": [1.0, 2.0, 0.1, 0.3], "group": "", "count": 1}
    assert page.choice.selected == "cg"


# --- which charts are drawn, and when ---------------------------------------------------------------------------------


def test_charts_keep_their_order_whatever_the_address(compared_runs):
    page = page_in(compared_runs)
    address.apply("x=epochs&selected=cyclic&runs=gs,cyclic&more=true", page.models)
    page.open()
    drawn(page)
    cards = {name: card.view for name, card in page._cards.items()}
    assert page._area.top.objects == [cards.pop("residuals"), page._answer.runs]
    assert page._area.of_one_run.objects == [cards.pop("timeline"), cards.pop("blocks")]
    assert page._area.of_all.objects == list(cards.values())


def test_on_a_log_axis_labels_are_at_the_logarithm_of_the_last_point(compared_runs):
    page = opened(compared_runs, runs=["cg"], x="seconds", scale="log")
    layout = json.loads(page._cards["residuals"].chart.base)["layout"]
    (label,) = [each for each in layout["annotations"] if each.get("name") == "end"]
    last = compared_runs.open("cg")["epoch"].isel(epoch=-1)
    assert layout["xaxis"]["type"] == "log"
    assert label["x"] == pytest.approx(math.log10(last["seconds"])) and label["y"] == pytest.approx(
        math.log10(last["residual"])
    )


def test_other_charts_and_the_diagnosis_are_drawn_only_when_they_are_shown(compared_runs):
    page = opened(compared_runs, runs=["gs", "cg"], more=False)
    assert not page._area.below.visible and not page._cards["theory"].chart.base and not len(page._area.details)
    page.choice.more = True
    drawn(page)
    assert page._area.below.visible and page._cards["theory"].chart.base and len(page._area.details)


def test_other_charts_are_sent_after_the_first_is_drawn_or_a_timeout(compared_runs, monkeypatch):
    page = page_in(compared_runs)
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


# --- runs that ended early or have odd numbers ------------------------------------------------------------------------


def test_a_run_without_updates_is_shown_and_does_not_break_charts(compared_runs):
    assert "update" not in compared_runs.open("cut") and compared_runs.open("cut")["epoch"].sizes["epoch"] == 1
    page = opened(compared_runs, runs=["cut", "gs", "cg"], selected="cut")
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


def test_a_run_that_has_just_begun_is_drawn_with_the_others(compared_runs):
    page = opened(compared_runs, runs=["gs"])
    card = page._cards["theory"]
    card.show_live([compared_runs.open("cut")], "light")
    assert "Unfinished" in card.chart.live and card.chart.base


def test_a_run_with_numbers_out_of_range_does_not_break_charts(compared, tmp_path):
    tree = apviz.open_trace(compared / "gs.zarr").tree.copy(deep=True)
    tree.attrs["rhs_norms"] = [1e200 for _ in tree.attrs["rhs_norms"]]
    Trace(tree).save(tmp_path / "nan.zarr")
    shutil.copytree(compared / "cg.zarr", tmp_path / "cg.zarr")
    page = opened(RunsFolder(tmp_path), runs=["nan", "cg"])
    assert [trace.method_name for trace in page._cards["theory"].drawn] == ["CG"]
    assert len(page._cards["residuals"].drawn) == 2
    assert opened(RunsFolder(tmp_path), runs=["nan"])._cards["theory"].text.is_empty


# --- tables and words -------------------------------------------------------------------------------------------------


def test_the_table_of_errors_has_the_drawn_edges_of_the_band_and_the_bound(compared_runs):
    page = opened(compared_runs, runs=["gs", "cg"])
    found, error = table(page, "theory"), errors.k_norm_error(compared_runs.open("gs"))
    of_gs = found[found["run"] == "Alternating projection (greedy, b = 20)"]
    start = float(error["upper"][0])
    for column, part in {"error_at_least": "lower", "error_at_most": "upper", "bound": "bound"}.items():
        np.testing.assert_allclose(of_gs[column], error[part] / start)
    np.testing.assert_array_equal(of_gs["work"], compared_runs.open("gs")["epoch"]["work"])
    assert set(of_gs["bound_name"]) == {"Theorem 1"} and set(found["run"]) == {
        "Alternating projection (greedy, b = 20)",
        "CG",
    }
    assert set(found[found["run"] == "CG"]["bound_name"]) == {"CG bound"}
    words = page._cards["theory"].chart.summary
    end = f"{float(error['upper'][-1]) / start:.2g}"
    assert end in words and "Theorem 1" in words


def test_the_table_of_residuals_on_blocks_has_norms_by_epoch_and_block(compared_runs):
    page = opened(compared_runs, runs=["gs", "cg"], selected="gs")
    found, block = table(page, "blocks"), compared_runs.open("gs")["block"]
    assert list(found.columns) == ["run", "epoch", "block", "rows", "residual_norm"]
    np.testing.assert_allclose(found["residual_norm"], block["residual_norm"].values.ravel())
    np.testing.assert_array_equal(found["epoch"][:6], [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(found["block"][:6], [0, 1, 2, 0, 1, 2])
    largest = int(block["residual_norm"].values[-1].argmax())
    assert f"largest on block {largest}" in page._cards["blocks"].chart.summary


def test_tables_distinguish_runs_of_one_method(compared_runs):
    page = opened(compared_runs, runs=["cyclic", "again"])
    assert list(dict.fromkeys(table(page, "theory")["run"])) == run_names(list(page._traces.values()))
