"""Benchmarks on workers give the same cells as one process."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from benchmarks.causes.running import tried
from benchmarks.leaderboard.__main__ import app

QUICK = (0, 3)


@pytest.mark.slow
def test_diagnoses_of_known_causes_are_the_same_on_workers_and_in_order(two_workers, capsys):
    assert tried(QUICK, place=two_workers) == tried(QUICK)
    assert capsys.readouterr().out.count(" undone ") == 2 * len(QUICK)


@pytest.mark.slow
def test_the_leaderboard_measures_missing_cells_on_workers_with_one_core_each(tmp_path):
    run = [
        "run",
        "--system",
        "diabetes",
        "--n",
        "200",
        "--folder",
        str(tmp_path),
        "--workers",
        "2",
        "--tightest",
        "0.01",
    ]
    done = CliRunner().invoke(app, [*run, "--entrant", "CG", "--entrant", "auto"])
    assert done.exit_code == 0 and "all is measured" in done.output, done.output
    (path,) = tmp_path.glob("*.json")
    cells = json.loads(path.read_text())["cells"]
    assert [sorted(cell["reached"]) for cell in cells.values()] == [["0.01", "0.1"]] * 2
    again = CliRunner().invoke(app, [*run, "--entrant", "CG", "--entrant", "auto", "--entrant", "CD++"])
    assert again.exit_code == 0 and again.output.count("diabetes | ") == 1
    kept = json.loads(path.read_text())["cells"]
    assert len(kept) == 3 and {key: kept[key] for key in cells} == cells
