"""Solves with injected causes of trouble: a part of `benchmarks.causes`, and the recorded results of all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from apviz.analysis import Limit
from benchmarks.causes.running import AnyCase, case_of, count, ended, is_healthy
from benchmarks.causes.systems import CASES, HEALTHY, Case

KEPT = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "causes.json").read_text())["results"]

#: these take seconds or more on a busy core
LONG = {"σ² of 1e-6, an RBF", "σ² of 1e-4 and 1,200 rows", "σ² of 1e-5", "σ² of 1e-5, 3 inputs"}


def cases(kept):
    return [pytest.param(case, id=f"{case.cause}: {case.why}") for case in CASES if kept(case)]


def quick(case):
    """Return the first case of every cause, and every third healthy one."""
    alike = [each for each in CASES if each.cause == case.cause and each.why not in LONG]
    return case in (alike[::3] if case.cause == HEALTHY else alike[:1])


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


#: largest number of words in a sentence
MOST_WORDS = 20


def sentences_of(text):
    return re.split(r"(?<=[.?!])\s+", text)


def check(found, cause):
    """Check that the diagnosis names the cause in short sentences."""
    assert found.limit.name == cause and found.evidence and found.advice
    for sentence in sentences_of(found.evidence) + sentences_of(found.advice):
        assert len(re.findall(r"\w[^\s]*", sentence)) <= MOST_WORDS, sentence


@pytest.mark.parametrize("case", cases(quick))
def test_an_injected_cause_is_named_in_short_sentences(case):
    found, _ = case.diagnosed()
    check(found, case.cause)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(lambda case: not quick(case)))
def test_injected_causes_are_named_in_all_other_cases(case):
    found, _ = case.diagnosed()
    check(found, case.cause)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(lambda case: case.undone))
def test_without_the_injected_cause_the_solve_is_fast_and_predicts(case):
    assert is_healthy(ended(case.healed().diagnosed()[1]))


#: a seed for tuning; the seeds for judging are not used here
SEED = 0


def every() -> list[AnyCase]:
    return [case_of(number, SEED) for number in range(count())]


# the first system of every maker that needs no training
@pytest.mark.parametrize("number", [60, 63, 66, 69, 72, 75, 78, 81, 83, 87, 89, 95, 106, 108, 110, 113, 115])
def test_a_randomly_drawn_cause_is_named(number):
    case = case_of(number, SEED)
    found = case.diagnosed(SEED)[0] if isinstance(case, Case) else case.diagnosed()
    check(found, case.cause)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CASES), count()))
def test_randomly_drawn_causes_are_named_in_all_other_cases(number):
    case = case_of(number, SEED)
    found = case.diagnosed(SEED)[0] if isinstance(case, Case) else case.diagnosed()
    assert found.limit.name == case.cause


def test_there_are_100_cases_with_a_cause_and_25_healthy_ones():
    cases = every()
    assert sum(case.cause != HEALTHY for case in cases) == 100 and sum(case.cause == HEALTHY for case in cases) == 25
    assert {case.cause for case in cases} <= {limit.name for limit in Limit} and len({c.cause for c in cases}) >= 28
    assert all(bool(case.undone) == (case.cause != HEALTHY) for case in cases if isinstance(case, Case))


def test_the_recorded_results_have_few_misses_and_no_false_alarm():
    totals = {int(name.removeprefix("seed ")): each for name, each in KEPT.items() if name.startswith("seed ")}
    assert totals and min(totals) >= 100  # thresholds were set with smaller samples
    for each in totals.values():
        assert (each["causes"], each["healthy"]) == (100, 25)
        assert each["right"] >= 95 and each["false alarms"] == 0
    first = next(iter(totals.values()))
    assert first["right"] == sum(row["said"] == row["cause"] != HEALTHY for row in KEPT["rows"])
    assert [row["cause"] for row in KEPT["rows"]] == [case.cause for case in every()]


def test_the_table_on_the_page_of_benchmarks_matches_the_recorded_results():
    page = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text("utf-8")
    table = page.partition("<!-- of results/causes.json -->")[2].partition("\n\n")[0]
    rows = [[int(cell) for cell in line.strip("| ").split(" | ")] for line in table.strip().splitlines()[2:]]
    totals = {name.removeprefix("seed "): each for name, each in KEPT.items() if name.startswith("seed ")}
    assert rows == [[int(seed), each["right"], each["false alarms"]] for seed, each in totals.items()]
