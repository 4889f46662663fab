"""Tables of runs: the data sent to the browser, and the description of each run."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.dashboard.components.tables import RunsTable, SortedTable
from apviz.dashboard.store.runs_folder import RunsFolder


def cells(table, key):
    """Return the cells of a row by heading."""
    (row,) = [row for row in table.rows if row[0] == key]
    return dict(zip([title for title, _ in table.columns], row[1:], strict=True))


def test_values_that_are_not_numbers_are_sent_as_missing():
    table = SortedTable({"name": "text", "a": "integer", "b": "scientific"})
    table.show({"x": ["x", None, math.nan], "y": ["", 3, math.inf]}, selected="y")
    assert table.rows == [["x", "x", None, None], ["y", "", 3, math.inf]]
    assert table.selected == "y"


def test_rows_are_identified_by_keys_and_order_and_page_stay(folder):
    table = SortedTable({"name": "text"}, page_rows=1, sorted_by="name", descending=True, page=1)
    table.show({"b": ["b"], "a": ["a"]})
    table.show({"a": ["a"], "c": ["c"]})
    assert [row[0] for row in table.rows] == ["a", "c"]
    assert (table.sorted_by, table.descending, table.page) == ("name", True, 1)


def test_the_table_of_solves_states_the_outcome_of_each(folder):
    runs, looked = RunsFolder(folder), []
    shown = RunsTable(looked.append)
    traces = {name: runs.open(name) for name in ("cg", "ap", "cut")}
    shown.show(traces, "ap")
    assert [row[0] for row in shown.table.rows] == ["cg", "ap", "cut"] and shown.table.selected == "ap"
    cg, cut = cells(shown.table, "cg"), cells(shown.table, "cut")
    assert cg["method"] == "CG" and cg["block size"] is None and cg["result"] == "Converged"
    assert (
        cut["block size"] == 10
        and cut["result"] == "Not converged: epoch limit"
        and cut["epochs (CG: iterations)"] == 2
    )
    # measured, though it hit the epoch limit
    assert cut["residual"] == [float(traces["cut"]["epoch"]["residual"][-1]), ""]
    assert shown.table.details == {"ap": "consecutive rows", "cut": "consecutive rows"}
    assert cut["test RMSE"] is None  # nothing was held out
    shown.show({}, "")
    assert shown.table.rows == [] and shown.table.selected == ""


def test_an_estimated_condition_number_is_marked():
    """Even if the estimate is right: uncorrelated rows with κ = 1."""
    x = torch.rand(1_200, 2, generator=torch.Generator().manual_seed(0))
    system = apviz.KernelSystem(x, torch.sin(3 * x[:, :1]), apviz.Matern52(lengthscale=1e-6), noise=0.01)
    traces = {}
    for how in ("subsample", "exact"):
        recorder = apviz.Recorder(spectrum=how)
        apviz.solve(system, apviz.ConjugateGradient(), [recorder])
        traces[how] = recorder.trace
    shown = RunsTable(lambda name: None)
    shown.show(traces, "exact")
    (estimate, mark), exact = cells(shown.table, "subsample")["κ"], cells(shown.table, "exact")["κ"]
    assert exact == [pytest.approx(1, abs=0.2), ""] and estimate == pytest.approx(1, abs=0.2) and mark == "≈"
