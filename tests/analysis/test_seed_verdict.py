"""The verdict over seeds: real runs with fixed times, because clocks differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import apviz
from apviz.analysis.seed_verdict import groups_over_seeds, judge_over_seeds
from apviz.solvers import attempt


def run(seed, solver, seconds):
    """Return a solve of data drawn with a seed, whose last epoch ends after the given seconds."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (60, 2))
    y = np.sin(5 * x[:, :1])
    system = apviz.KernelSystem(
        x, y, apviz.Matern52(lengthscale=0.3), noise=0.05, dtype=torch.float64, device="cpu", dataset="made", seed=seed
    )
    recorder = apviz.Recorder()
    attempt(system, solver, [recorder])
    trace = recorder.trace
    trace.tree["epoch"]["seconds"][-1] = seconds
    return trace


CG = apviz.ConjugateGradient()
CAPPED = apviz.AlternatingProjection(block_size=20, max_epochs=1)


def judged(traces):
    groups = groups_over_seeds(traces)
    return judge_over_seeds(groups, [runs[0].method_name for runs in groups])


def test_methods_are_compared_by_the_medians_of_their_seconds_over_the_same_seeds():
    """One seed alone would name the other method."""
    cg = [run(seed, CG, seconds) for seed, seconds in enumerate((1.0, 1.0, 50.0))]
    exact = [run(seed, apviz.Cholesky(), seconds) for seed, seconds in enumerate((3.0, 3.0, 3.0))]
    found = judged([*cg, *exact])
    work = [float(np.median([float(run["epoch"]["work"][-1]) for run in runs])) for runs in (exact, cg)]
    less = round(100 * (1 - work[0] / work[1]))
    assert found.headline == (
        "Over 3 seeds, CG solved it in 1 s (median). "
        f"Cholesky took 3 times as long (slower on 2 of 3 seeds) and {less}% less work."
    )
    assert [(each.name, each.seconds) for each in found.standings] == [("CG", 1.0), ("Cholesky", 3.0)]
    assert found.others == "Range over seeds: 1 to 50 s, against 3 to 3 s."


def test_a_method_that_failed_with_one_seed_is_ranked_last_and_named():
    cg = [run(seed, CG, 1.0) for seed in range(2)]
    failed = [run(seed, CAPPED, 0.1) for seed in range(2)]
    found = judged([*failed, *cg])
    assert [each.name for each in found.standings] == ["CG", CAPPED.method.name]
    assert found.others == f"{CAPPED.method.name} converged in 0 of 2 runs."
    assert math.isnan(found.standings[1].seconds)
    assert judged(failed).headline == "Over 2 seeds, no method converged every time."


def test_a_method_without_runs_of_all_seeds_is_listed_and_not_compared():
    traces = [run(0, CG, 5.0), run(1, CG, 5.0), run(0, apviz.Cholesky(), 0.1)]
    found = judged(traces)
    assert found.headline == "Over 2 seeds, CG solved it in 5 s (median)."
    assert (
        found.standings[-1].name == "Cholesky"
        and found.others == "1 run has only one seed and is left out of the headline."
    )


def test_runs_of_another_machine_are_not_compared_over_seeds():
    traces = [run(seed, CG, 5.0) for seed in range(3)] + [run(seed, apviz.Cholesky(), 0.1) for seed in range(2)]
    for trace in traces[3:]:
        trace.attrs["device_name"] = "another"
    found = judged(traces)
    assert found.headline == "Over 3 seeds, CG solved it in 5 s (median)."
    assert found.others == "2 runs have other seeds or settings and are left out of the headline."


@pytest.mark.parametrize("seeds", [(0,), (1, 1)])
def test_runs_of_one_seed_are_not_a_verdict_over_seeds(seeds):
    assert groups_over_seeds([run(seed, CG, 1.0) for seed in seeds]) == []
