"""Solves whose trouble was put there: `benchmarks.causes`, a part of it, and what was kept of all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from apviz.analysis import Limit
from benchmarks.causes import CASES, HEALTHY, ended, is_healthy

KEPT = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "causes.json").read_text())["results"]

#: seconds and more on a busy core
LONG = {"σ² of 1e-6, an RBF", "σ² of 1e-4 and 1,200 rows", "σ² of 1e-5", "σ² of 1e-5, 3 inputs"}


def cases(kept):
    return [pytest.param(case, id=f"{case.cause}: {case.why}") for case in CASES if kept(case)]


def quick(case):
    """The first two of every cause, and every other healthy one."""
    alike = [each for each in CASES if each.cause == case.cause and each.why not in LONG]
    return case in (alike[::2] if case.cause == HEALTHY else alike[:2])


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("case", cases(quick))
def test_what_was_made_wrong_is_named(case):
    found, _ = case.diagnosed()
    assert found.limit.name == case.cause and found.evidence and found.advice


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(lambda case: not quick(case)))
def test_what_was_made_wrong_is_named_in_the_others_too(case):
    found, _ = case.diagnosed()
    assert found.limit.name == case.cause and found.evidence and found.advice


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(lambda case: case.undone))
def test_with_it_undone_the_solve_is_quick_and_predicts(case):
    assert is_healthy(ended(case.healed().diagnosed()[1]))


def test_the_cases_are_sixty_of_every_kind_and_the_healthy_are_many():
    assert len(CASES) == 60 and len({case.why for case in CASES}) == 60
    assert {case.cause for case in CASES} <= {limit.name for limit in Limit}
    assert sum(case.cause == HEALTHY for case in CASES) >= 12 and len({case.cause for case in CASES}) >= 15
    assert all(bool(case.undone) == (case.cause != HEALTHY) for case in CASES)


def test_what_was_kept_is_of_these_cases_and_has_few_missed_and_no_false_alarm():
    assert [(row["cause"], row["why"]) for row in KEPT["rows"]] == [(case.cause, case.why) for case in CASES]
    for name, totals in KEPT.items():
        if name.startswith("seed"):
            assert totals["cases"] == 60 and totals["right"] >= 54 and totals["false alarms"] == 0
    assert KEPT["seed 0"]["right"] == sum(row["said"] == row["cause"] for row in KEPT["rows"])


def test_the_table_of_the_benchmarks_page_is_of_what_was_kept():
    page = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text("utf-8")
    table = page.partition("<!-- of results/causes.json -->")[2].partition("\n\n")[0]
    rows = [[int(cell) for cell in line.strip("| ").split(" | ")] for line in table.strip().splitlines()[2:]]
    totals = {name.removeprefix("seed "): each for name, each in KEPT.items() if name.startswith("seed ")}
    assert rows == [[int(seed), each["right"], each["false alarms"]] for seed, each in totals.items()]
