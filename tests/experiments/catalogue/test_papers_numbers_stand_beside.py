"""The paper's numbers stand next to the same data set, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import apviz
from apviz.experiments import EXPERIMENTS, Options, run

#: Table 1, Matérn-5/2: iterations of CG, epochs of alternating projection
SOLVES = {
    "sgemm": ("551 ± 1", "550 ± 0"),
    "airquality": ("2965 ± 19", "550 ± 0"),
    "3droad": ("5128 ± 114", "676 ± 1"),
    "song": ("4431 ± 110", "550 ± 0"),
    "buzz": ("16726 ± 2724", "550 ± 0"),
    "houseelectric": ("≥ 50441", "1100 ± 0"),
    "gassensors": ("–", "1100"),
}


def needs(name: str) -> None:
    if not os.environ.get("APVIZ_DATA"):
        pytest.skip("APVIZ_DATA is not set: no real data")
    if not apviz.datasets.is_here(name):
        pytest.skip(f"APVIZ_DATA has no file of {name}")


def moved(rows, name):
    """Return the rows as for another data set."""
    return {key: row | {"dataset": name, "data": f"{name}, n = 200"} for key, row in rows.items()}


def after(table, row, heading):
    """Return the paper's cell next to ours."""
    return row[list(table.headings).index(heading) + 1]


@pytest.mark.parametrize("name", SOLVES)
def test_trainings_on_a_data_set_of_the_paper_show_its_numbers(finished, name):
    options, rows, _ = finished("training")
    tables = EXPERIMENTS["training"].tables(moved(rows, name), options)
    assert [table.title for table in tables] == ["Training, Matérn-5/2", "Training, Matérn-3/2"]
    by_method = {row[1]: row for row in tables[0].rows}
    paper = [after(tables[0], by_method[method], "CG iterations or AP epochs") for method in ("CG", "AP")]
    assert tuple(paper) == SOLVES[name]
    ours = by_method["AP overlapping"]
    assert ours[3::2] == ["–"] * 5  # not in the paper


def test_footnotes_of_the_numbers_of_the_paper_are_shown_with_them(finished):
    options, rows, _ = finished("training")
    five, three = EXPERIMENTS["training"].tables(moved(rows, "gassensors"), options)
    assert "500 Lanczos" in five.note and "A100" not in five.note
    assert "500 Lanczos" in three.note and "A100" in three.note
    assert "Lanczos iterations only" not in EXPERIMENTS["training"].tables(rows, options)[0].note


def test_noise_floors_on_house_electric_show_the_numbers_of_the_paper(finished):
    options, rows, _ = finished("noise-floor")
    (table,) = EXPERIMENTS["noise-floor"].tables(moved(rows, "houseelectric"), options)
    found = {
        row[0]: [after(table, row, heading) for heading in ("test RMSE", "test NLL", "time")] for row in table.rows
    }
    assert found == {
        "CG, σ² ≥ 0.1": ["0.050 ± 0.000", "-0.196 ± 0.000", "9.6 h ± 0.6"],
        "AP, σ² ≥ 0.1": ["0.053 ± 0.000", "-0.197 ± 0.000", "9.8 h ± 0.4"],
        "AP, σ² ≥ 0.0001": ["0.030 ± 0.000", "-1.148 ± 0.001", "9.8 h ± 0.4"],
        "AP overlapping, σ² ≥ 0.0001": ["–"] * 3,
    }
    (table,) = EXPERIMENTS["noise-floor"].tables(moved(rows, "sgemm"), options)
    assert {cell for row in table.rows for cell in row[2::2]} == {"–"}


def test_the_table_of_test_time_shows_solves_of_the_paper_on_the_same_set(finished):
    options, rows, _ = finished("test-time")
    (table,) = EXPERIMENTS["test-time"].tables(moved(rows, "buzz"), options)
    assert [row[-2:] for row in table.rows] == [["41 ± 10", "4.4 min ± 1.2"], ["579 ± 72", "1.2 h ± 0.6"]]
    assert "all n = 466,600 training rows" in table.note  # four fifths of 583,250


def test_air_quality_shows_the_numbers_of_the_paper_unless_it_is_a_stand_in(small, tmp_path):
    needs("airquality")
    options = Options(200, "cpu", out=tmp_path, dataset="airquality")
    experiment = EXPERIMENTS["predictive-mean"]
    (table,) = experiment.tables({cell.key: row for cell, row in run(experiment, options)}, options)
    assert [row[0] for row in table.rows] == ["airquality, n = 200"] * 3
    solves = [after(table, row, "CG iterations or AP epochs") for row in table.rows]
    assert solves == ["374 ± 33", "388 ± 85", "–"]
    assert "the paper's at the whole sets on a GPU (RTX A5000)" in table.note
    experiment = EXPERIMENTS["batch-size"]
    (table,) = experiment.tables({cell.key: row for cell, row in run(experiment, options)}, options)
    assert table.note.startswith("airquality (for 3droad), n = 200")


def test_the_training_of_the_authors_is_below_ours_on_the_same_set(small, tmp_path):
    needs("sgemm")
    if not Path(os.environ["APVIZ_DATA"], "paper_runs.jsonl.gz").is_file():
        pytest.skip("APVIZ_DATA has no paper_runs.jsonl.gz")
    options = Options(200, "cpu", out=tmp_path, dataset="sgemm")
    experiment = EXPERIMENTS["conditioning"]
    rows = {cell.key: row for cell, row in run(experiment, options)}
    (table,) = experiment.tables(rows, options)
    assert [row[0] for row in table.rows[2:]] == ["paper: AP", "paper: CG"]
    assert [row[-1] for row in table.rows[2:]] == ["12.2 min ± 0.2", "9.1 min ± 0.0"]
    assert "Paper: n = 193,280" in table.note
    ours, published = experiment.charts(rows, tmp_path / "conditioning-n200-sgemm-cpu")
    assert ours.heading == "sgemm, n = 200" and published.heading == "sgemm as published, n = 193,280"
    assert published.draw(theme="light").data
    experiment = EXPERIMENTS["convergence"]
    (table,) = experiment.tables({cell.key: row for cell, row in run(experiment, options)}, options)
    assert table.title == "sgemm (for houseelectric), n = 200"
    theirs = dict(zip((row[0] for row in table.rows), (row[-1] for row in table.rows), strict=True))
    assert (
        theirs["CG"] == "–"
        and theirs["Alternating projection (greedy, b = 50)"] != "–"
        and theirs["CG + pivoted Cholesky (rank 1)"] != "–"
    )
    assert "n = 193,280" in table.note
