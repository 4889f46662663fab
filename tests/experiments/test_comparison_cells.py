"""Our numbers next to the paper's: in that order, with a mark on those of solves that did not converge."""

from __future__ import annotations

import pytest

from apviz.experiments.published import Trained, comparison_cells, comparison_headings, footnotes

ALL = ("rmse", "nll", "solves", "time", "speed_up")
NONE = Trained()


def row(**changes):
    values = {"rmse": 0.25, "nll": 0.5, "epochs": 550, "seconds": 90.0, "converged": True, "mean_converged": True}
    return values | changes


def test_each_number_is_left_of_that_of_the_paper():
    printed = Trained("0.1", "0.2", "300", "4 h", "5×")
    cells = comparison_cells([row()], [row(seconds=180.0)], printed, ALL)
    assert cells == ["0.250", "0.1", "0.500", "0.2", "550", "300", "90.0 s", "4 h", "2.0×", "5×"]
    names = comparison_headings(ALL)
    assert names[1::2] == ["paper"] * 5
    assert names[::2] == ["test RMSE", "test NLL", "CG iterations or AP epochs", "time", "speed-up over CG"]


def test_numbers_missing_in_the_paper_are_dashes():
    assert comparison_cells([row()], [], NONE, ALL)[1::2] == ["–"] * 5


def test_only_results_of_unconverged_solves_are_marked():
    assert comparison_cells([row(converged=False)], [], NONE, ALL)[::2] == ["0.250", "0.500", "550*", "90.0 s*", "–"]
    assert comparison_cells([row(mean_converged=False)], [], NONE, ALL)[::2] == [
        "0.250*",
        "0.500",
        "550",
        "90.0 s",
        "–",
    ]
    assert comparison_cells([row(), row(converged=False)], [], NONE, ("solves",))[0] == "550 ± 0*"


def test_cg_and_methods_without_solves_have_no_speed_up():
    cg = [row()]
    assert comparison_cells(cg, cg, NONE, ("speed_up",)) == ["–", "–"]
    assert comparison_cells([row(epochs=None)], cg, NONE, ("solves", "speed_up"))[::2] == ["–", "–"]


def test_a_speed_up_is_a_ratio_of_mean_times_over_seeds():
    ours, cg = [row(seconds=10.0), row(seconds=30.0)], [row(seconds=50.0), row(seconds=70.0)]
    assert comparison_cells(ours, cg, NONE, ("speed_up",))[0] == "3.0×"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([["1", "–"]], []),
        ([["550*"]], ["did not reach their tolerance"]),
        ([["1", "0.070†"]], ["500 Lanczos"]),
        ([["42 h‡"]], ["A100"]),
        ([["0.3*"], ["0.070†"]], ["did not reach their tolerance", "500 Lanczos"]),
    ],
)
def test_exactly_the_marks_in_the_table_are_explained(cells, words):
    text = footnotes(cells)
    assert all(word in text for word in words) and text.count(": ") == len(words)
