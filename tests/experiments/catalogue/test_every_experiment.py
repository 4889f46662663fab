"""Properties of every experiment: it reports and keeps its results, and resumes after an interruption."""

from __future__ import annotations

import html
import io
import math
import platform
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import apviz
from apviz.experiments import EXPERIMENTS, Table, run
from apviz.experiments.report import TerminalTable, write_experiment_report
from apviz.experiments.running import folder_of

NAMES = ("convergence", "rules", "batch-size", "conditioning", "test-time", "training", "predictive-mean",
         "noise-floor", "lanczos-rank", "flops")  # fmt: skip
#: experiments on one or some data sets, which another one replaces; conditioning needs no stand-in
STANDS_IN = [name for name in NAMES if name != "conditioning"]


def machine_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def test_the_ten_experiments_of_the_paper_have_their_names():
    assert set(EXPERIMENTS) == set(NAMES)
    assert all(EXPERIMENTS[name].name == name for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_name_n_and_the_machine(finished, name, look):
    options, rows, _ = finished(name)
    for table in EXPERIMENTS[name].tables(rows, options):
        assert "n = 200" in look.words([table])
        assert machine_name() in table.note
        assert table.rows and all(len(row) == len(table.headings) for row in table.rows)


@pytest.mark.parametrize("name", STANDS_IN)
def test_a_stand_in_for_a_data_set_is_marked(finished, name, look):
    options, rows, _ = finished(name)
    for table in EXPERIMENTS[name].tables(rows, options):
        assert re.search(r"china \(for (airquality|sgemm|3droad|houseelectric)\), n = 200", look.words([table]))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "flops"])  # formulas hold on any data
def test_no_number_of_the_paper_stands_next_to_another_data_set(finished, name):
    options, rows, _ = finished(name)
    for table in EXPERIMENTS[name].tables(rows, options):
        for index, heading in enumerate(table.headings):
            if "paper" in heading:
                assert {row[index] for row in table.rows} == {"–"}
        assert not any(row[0].startswith("paper") for row in table.rows)


@pytest.mark.parametrize("name", NAMES)
def test_traces_of_the_cells_are_kept_and_can_be_opened(finished, name):
    options, rows, _ = finished(name)
    folder = folder_of(EXPERIMENTS[name], options)
    traced = [key for key in rows if "svgp" not in key]
    for key in traced:
        trace = apviz.open_trace(folder / f"{key}.zarr")
        assert trace.finished and trace.attrs["n"] == 200 and trace.attrs["dataset"] == "china"


def same_cells(look, rows, others) -> bool:
    """Test whether results are the same except for times."""
    return [(key, look.same_but_for_time(row)) for key, row in rows.items()] == [
        (key, look.same_but_for_time(row)) for key, row in others.items()
    ]


# the next test interrupts all others more often
@pytest.mark.parametrize(
    "name",
    [name if name in ("lanczos-rank", "training") else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_an_interrupted_run_resumes_with_the_same_result(finished, name, look, tmp_path):
    experiment = EXPERIMENTS[name]
    options, uncut, solves = finished(name)
    options = replace(options, out=tmp_path)
    folder = folder_of(experiment, options)
    first, second = look.Cut(solve=solves // 2 + 1), look.Cut()
    with pytest.raises(KeyboardInterrupt):
        list(run(experiment, replace(options, hooks=[first])))
    done = look.files_of(folder)
    assert len(done) < len(uncut)
    rows = {cell.key: row for cell, row in run(experiment, replace(options, hooks=[second]))}
    assert same_cells(look, rows, uncut)
    assert {name: file for name, file in look.files_of(folder).items() if name in done} == done


# a cell of lanczos-rank has many solves, and restarts
@pytest.mark.parametrize("name", [name for name in NAMES if name != "lanczos-rank"])
def test_a_run_interrupted_in_every_second_solve_repeats_only_those(finished, name, look, tmp_path):
    options, uncut, solves = finished(name)
    started = cuts = 0
    rows = None
    while rows is None:
        hook = look.Cut(solve=2)
        try:
            cells = run(EXPERIMENTS[name], replace(options, out=tmp_path, hooks=[hook]))
            rows = {cell.key: row for cell, row in cells}
        except KeyboardInterrupt:
            cuts += 1
        started += hook.started
    assert cuts == solves - 1 and started == solves + cuts
    assert same_cells(look, rows, uncut)


@pytest.mark.parametrize("name", NAMES)
def test_a_finished_run_solves_nothing_again(finished, name, look):
    options, rows, _ = finished(name)
    hook = look.Cut()
    again = {cell.key: row for cell, row in run(EXPERIMENTS[name], replace(options, hooks=[hook]))}
    assert again == rows and hook.started == 0


@pytest.mark.parametrize("name", NAMES)
def test_tables_can_be_shown_after_each_cell(finished, name, look):
    options, rows, _ = finished(name)
    experiment, folder = EXPERIMENTS[name], folder_of(EXPERIMENTS[name], options)
    for count in range(1, len(rows)):
        so_far = dict(list(rows.items())[:count])
        for table in experiment.tables(so_far, options):
            assert all(len(row) == len(table.headings) for row in table.rows) and "n = 200" in look.words([table])
        experiment.charts(so_far, folder)


@pytest.mark.parametrize("name", NAMES)
def test_the_report_has_the_tables_and_loads_nothing_from_other_hosts(finished, name):
    options, rows, _ = finished(name)
    page = write_experiment_report(EXPERIMENTS[name], rows, options)
    assert page == folder_of(EXPERIMENTS[name], options) / "report.html"
    text = page.read_text("utf-8")
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    for table in EXPERIMENTS[name].tables(rows, options):
        for row in table.rows:
            assert all(f">{html.escape(cell)}</td>" in text for cell in row)
    assert "Not complete" not in text
    assert f"apviz experiment {name} --n 200 --dataset china" in text


def printed(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(TerminalTable(table))
    return console.file.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_no_word_is_broken_or_truncated_in_a_terminal_of_any_width(finished, name):
    options, rows, _ = finished(name)
    for table in EXPERIMENTS[name].tables(rows, options):
        words = {*" ".join([table.title, *table.headings, *(cell for row in table.rows for cell in row)]).split()}
        for width in (60, 80, 100, 120, 160, 300):
            text = printed(table, width)
            assert max(map(len, text.splitlines())) <= width
            assert words <= {*text.split()}, width


@pytest.mark.parametrize(
    ("name", "columns"),
    [("convergence", 16), ("rules", 1), ("batch-size", 16), ("test-time", 1), ("predictive-mean", 1), ("flops", 16)],
)
def test_the_systems_have_as_many_right_hand_sides_as_in_the_paper(finished, name, columns):
    options, rows, _ = finished(name)
    folder = folder_of(EXPERIMENTS[name], options)
    assert {apviz.open_trace(folder / f"{key}.zarr").attrs["right_hand_sides"] for key in rows} == {columns}


def test_a_residual_in_the_table_of_rules_belongs_to_its_epoch(finished, look):
    options, rows, _ = finished("rules")
    (table,) = EXPERIMENTS["rules"].tables(rows, options)
    for key, rule in zip(rows, look.column(table, "rule"), strict=True):
        trace = apviz.open_trace(folder_of(EXPERIMENTS["rules"], options) / f"{key}.zarr")
        residual = trace.to_dataframe("epoch")["residual"]
        assert rule == trace.method.rule
        shown = [float(cell) for cell in table.rows[look.column(table, "rule").index(rule)][1:]]
        assert shown == pytest.approx([residual[epoch] for epoch in (1, 2, 4)], rel=5e-3, abs=5.1e-4)


def test_all_rules_solve_the_same_system_and_smaller_blocks_have_more_updates(finished):
    _, rows, _ = finished("rules")
    assert len({row["block_size"] for row in rows.values()}) == 1
    options, rows, _ = finished("batch-size")
    folder = folder_of(EXPERIMENTS["batch-size"], options)
    sizes = [row["block_size"] for row in rows.values()]
    blocks = [apviz.open_trace(folder / f"{key}.zarr")["block"].sizes["block"] for key in rows]
    assert blocks == [math.ceil(200 / size) for size in sizes] and sizes[0] < sizes[1]
