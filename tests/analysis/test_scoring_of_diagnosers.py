"""The corpus of known causes as files, and the score of a diagnoser."""

from __future__ import annotations

import json

import numpy as np
import pytest

import apviz
from benchmarks.causes import scoring
from benchmarks.causes.corpus import model_of, write, write_case
from benchmarks.causes.diagnosers import by_apviz, by_ending
from benchmarks.causes.models import at_the_floor, negative_variances
from benchmarks.causes.running import case_of, count
from benchmarks.causes.systems import HEALTHY


def first(cause: str) -> int:
    return next(number for number in range(count()) if case_of(number, 0).cause == cause)


#: solve that Ctrl-C ended
KILLED = first("INTERRUPTED") + 1


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Return three cases as files: a limit of epochs, a killed solve, and a healthy one."""
    return write(tmp_path_factory.mktemp("causes") / "corpus", [first("CAP"), KILLED, first(HEALTHY)], 0)


def test_a_case_holds_data_and_traces_and_nothing_of_its_cause(corpus):
    folder = corpus / f"{first('CAP'):03d}"
    with np.load(folder / "data.npz") as data:
        assert set(data) == {"x", "y", "test_x", "test_y"}
        rows = len(data["x"])
    assert apviz.open_trace(folder / "trace.zarr").attrs["n"] == rows
    assert json.loads((folder / "case.json").read_text()) == {"format": 1, "kind": "solve"}


def test_the_diagnosis_from_files_is_that_of_the_solve_itself(corpus):
    for folder in (each for each in corpus.iterdir() if each.is_dir()):
        assert by_apviz.diagnose(folder) == case_of(int(folder.name), 0).diagnosed(0)[0].limit.name


def test_a_perfect_diagnoser_has_every_point_and_one_that_fails_has_none(corpus):
    answers = json.loads((corpus / "answers.json").read_text())["answers"]
    found = scoring.scored(lambda folder: answers[folder.name]["cause"], corpus)
    assert (found["right"], found["causes"], found["false alarms"], found["healthy"]) == (2, 2, 0, 1)
    assert not found["missed"]

    def fails(folder):
        raise RuntimeError("no idea")

    found = scoring.scored(fails, corpus)
    assert (found["right"], found["false alarms"]) == (0, 1)
    assert found["missed"][0]["said"] == "RuntimeError: no idea" and "0 of 2" in scoring.table(found)


def test_the_baseline_reads_the_stop_reason_without_apviz(corpus):
    assert by_ending.diagnose(corpus / f"{first('CAP'):03d}") == "CAP"
    assert by_ending.diagnose(corpus / f"{first(HEALTHY):03d}") == HEALTHY


@pytest.mark.parametrize("make", [at_the_floor, negative_variances])
def test_a_model_that_is_read_again_predicts_the_same(make, tmp_path):
    case = make(np.random.default_rng(3))
    write_case(tmp_path / "case", case, 0)
    model, about, _ = model_of(tmp_path / "case")
    x = case.model.train_inputs[0][:9]
    expected, found = (each.train()(each.train_inputs[0]) for each in (case.model, model))
    assert (expected.covariance_matrix == found.covariance_matrix).all() and len(x) == 9
    assert (case.model.train_targets == model.train_targets).all()
    assert about["fast_variances"] is case.fast_variances


def test_the_command_scores_a_file(corpus, tmp_path, capsys):
    (tmp_path / "mine.py").write_text('def diagnose(folder):\n    return "CAP"\n')
    assert scoring.main(["score", f"{tmp_path}/mine.py", "--corpus", str(corpus), "--out", f"{tmp_path}/o.json"]) == 0
    assert "named right: 1 of 2; false alarms: 1 of 1" in capsys.readouterr().out
    assert json.loads((tmp_path / "o.json").read_text())["right"] == 1


def test_a_file_without_a_diagnoser_is_named(tmp_path):
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ValueError, match=r"must have a function diagnose\(folder\)"):
        scoring.diagnoser_of(tmp_path / "empty.py")
    with pytest.raises(ValueError, match="is not a Python file"):
        scoring.diagnoser_of(tmp_path / "none.py")


def test_the_page_has_the_recorded_scores_and_every_cause():
    from docs.building.causes import PAGE, SCORES, written

    assert PAGE.read_text("utf-8") == written(), "run: python -m docs.building.causes"
    for row in json.loads(SCORES.read_text("utf-8")):
        assert (row["causes"], row["healthy"]) == (100, 25) and row["seed"] >= scoring.JUDGED_FROM
