"""A slice of every campaign of `python -m tests.trust`; the figures of whole ones are in `results/trust.json`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import apviz
from tests.trust import strangers, truth
from tests.trust.__main__ import seconds

torch.set_num_threads(1)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_what_is_called_converged_is_and_nothing_else_is_raised(first):
    wrong = {seed: verdict for seed in range(first, first + 50) if (verdict := truth.judge(seed)).is_wrong}
    assert not wrong


def test_the_campaign_finds_a_claim_that_is_false(monkeypatch):
    solve, seed = apviz.solve, next(seed for seed in range(99) if truth.judge(seed).how == "converged")

    def boasting(system, solver):
        solution = solve(system, solver)
        return replace(solution, weights=solution.weights * 1.5 + 1.0)

    monkeypatch.setattr(apviz, "solve", boasting)
    assert truth.judge(seed).how == "false"


def test_the_campaign_finds_an_error_that_is_not_documented(monkeypatch):
    def failing(system, solver):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(apviz, "solve", failing)
    assert truth.judge(0).how == "error"


def test_the_cases_have_what_users_have():
    cases = [truth.case(seed) for seed in range(400)]
    words = [case.words for case in cases]
    assert {case.dtype for case in cases} == {torch.float32, torch.float64}
    for name in ("uniform", "clusters", "duplicates", "grid", "one far"):
        assert any(each["points"] == name for each in words)
    assert any(not case.x.is_contiguous() for case in cases) and any("zero column" in each for each in words)
    assert {type(case.solver).__name__ for case in cases} >= {
        "AlternatingProjection", "ConjugateGradient", "Cholesky", "Automatic", "ASkotch", "StochasticDualDescent",
    }  # fmt: skip


@pytest.mark.parametrize("first", [0, 4])
def test_a_changed_trace_is_refused_in_words_or_shown_escaped_and_never_hides_the_good_one(first):
    wrong = {seed: verdict for seed in range(first, first + 4) if (verdict := strangers.judge(seed)).is_wrong}
    assert not wrong


def test_the_campaign_finds_a_report_that_does_not_escape(monkeypatch):
    def unescaped(traces, path):
        path.write_text(f"<td>CG</td>{strangers.MARK}")
        return path

    monkeypatch.setattr(strangers, "write_report", unescaped)
    assert strangers.judge(0).how == "false"


def test_changes_are_of_every_kind(tmp_path):
    import shutil

    kinds = set()
    for seed in range(60):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        shutil.copytree(strangers.good() / "ap.zarr", tmp_path / "t")
        kinds.add(strangers.mutate(tmp_path / "t", np.random.default_rng(seed)).split()[0])
    assert kinds >= {"flip", "cut", "lose", "lie", "rename", "link", "strange"}


def test_a_budget_is_seconds_minutes_or_hours():
    assert [seconds(text) for text in ("90s", "10m", "1.5h", "7")] == [90, 600, 5400, 7]
