"""A slice of every campaign of `python -m tests.trust`; the figures of whole ones are in `results/trust.json`."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

import apviz
from tests.trust import interrupt, kill, memory, strangers, truth, write
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


def first_of(campaign, kind, found=lambda case: case.kind, seeds=range(200)):
    """The first seed of a kind of case."""
    return next(seed for seed in seeds if found(campaign.case(seed)) == kind)


@pytest.mark.parametrize("kind", ["solve", "training", "two solves"])
def test_what_is_killed_leaves_what_was_flushed_and_goes_on_and_of_two_one_says_so(kind):
    verdict = kill.judge(first_of(kill, kind))
    assert not verdict.is_wrong, verdict.said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["experiment", "comparison", "two trainings"])
def test_what_is_killed_leaves_what_was_flushed_also_of_experiments_and_jobs(kind):
    verdict = kill.judge(first_of(kill, kind))
    assert not verdict.is_wrong, verdict.said


def test_the_campaign_finds_rows_that_were_flushed_and_lost(monkeypatch, tmp_path):
    monkeypatch.setattr(kill, "_whole", lambda kind, solver: kill.tempfile.TemporaryDirectory(dir=tmp_path))
    recorder = apviz.Recorder(tmp_path / "a.zarr")
    system, solver = kill._system(), kill.SOLVERS[0](tol=kill.NEVER, max_epochs=5)
    apviz.solve(system, solver, [recorder])
    assert kill.check_beginning(tmp_path / "a.zarr", tmp_path / "a.zarr", 6, "epoch") == 6
    with pytest.raises(AssertionError, match="6 epochs on disk, 7 were flushed"):
        kill.check_beginning(tmp_path / "a.zarr", tmp_path / "a.zarr", 7, "epoch")


LONG = ("report", "experiment", "compare")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in write.SCENARIOS]
)
def test_whatever_write_fails_a_solve_goes_on_and_nothing_half_looks_whole(name):
    seeds = [seed for seed in range(300) if seed % len(write.SCENARIOS) == list(write.SCENARIOS).index(name)]
    for seed in seeds[1:3]:
        verdict = write.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_the_campaign_finds_a_disk_that_fails_without_a_word(monkeypatch):
    monkeypatch.setattr(apviz.Recorder, "_flush", lambda self: None)
    assert write.judge(0).how == "false"


@pytest.mark.parametrize("name", ["solve by overlapping", "training", "predict", "a system"])
def test_memory_that_does_not_suffice_is_a_sentence_and_what_was_used_can_be_used_again(name):
    of_it = [seed for seed in range(600) if memory.case(seed) == (name, 0)]
    for seed in of_it[:12:4]:
        verdict = memory.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_a_solve_under_a_limit_of_address_space_ends_in_a_sentence_or_goes_on():
    verdict = memory.judge(next(seed for seed in range(600) if 0 < memory.case(seed)[1] < 10))
    assert not verdict.is_wrong, verdict.said


def test_the_campaign_finds_an_allocators_own_words(monkeypatch):
    module = importlib.import_module("apviz.solvers.solve")  # the package has a function of that name
    monkeypatch.setattr(module, "explained", lambda what, instead: nullcontext())
    seed = next(seed for seed in range(600) if memory.case(seed) == ("solve by gauss-southwell", 0) and seed > 200)
    assert memory.judge(seed).how == "false"


@pytest.mark.parametrize("what", ["line", "timer", "raising hook", "writing hook", "threads"])
def test_whatever_disturbs_a_solve_the_next_is_that_of_a_fresh_process(what):
    of_it = [seed for seed in range(200) if interrupt.case(seed).what == what and not interrupt.case(seed).trains]
    for seed in of_it[:2]:
        verdict = interrupt.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_the_campaign_finds_a_setting_that_a_solve_leaves_changed(monkeypatch):
    solved = interrupt.solved

    def leaving_a_trace(*arguments):
        torch.rand(1)
        return solved(*arguments)

    monkeypatch.setattr(interrupt, "solved", leaving_a_trace)
    assert "torch's generator" in interrupt.judge(first_of(interrupt, "writing hook", lambda case: case.what)).said


def test_a_budget_is_seconds_minutes_or_hours():
    assert [seconds(text) for text in ("90s", "10m", "1.5h", "7")] == [90, 600, 5400, 7]
