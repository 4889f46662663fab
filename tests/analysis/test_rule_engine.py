"""The rule engine, and the rules on data and hyperparameters that solves, trainings and models share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import apviz
from apviz.analysis.diagnosis import Diagnosis, Limit, data, diagnose
from apviz.analysis.diagnosis.data import Evidence, Odd
from apviz.analysis.diagnosis.engine import NotMeasured, decide
from apviz.partitions import PrincipalAxisTree

#: everything measured, and healthy
GOOD = {
    "rows": 200, "oddities": (), "distinct": 200, "noise": 0.1, "signal": 1.0, "target_square": 0.8, "nearest": 0.9,
    "smallest": 0.0, "test_nearest": 0.9, "spreads": (2.0, 3.0), "deviations": (0.6, 0.9), "gain": 0.3,
    "only_mean": False,
}  # fmt: skip


def said(**changes):
    return decide(data.RULES, lambda e: Diagnosis(Limit.NOTHING, "Quick.", ""), Evidence(**(GOOD | changes)))


def test_the_first_matching_rule_answers_and_missing_measurements_are_named_once():
    def found(limit):
        return lambda subject: Diagnosis(limit, subject, "")

    none, missing = (lambda subject: None), (lambda subject: NotMeasured("the tide"))
    assert decide([none, found(Limit.CAP), found(Limit.RULE)], found(Limit.NOTHING), "x").limit is Limit.CAP
    assert decide([missing, missing, none], found(Limit.NOTHING), "All is well.").evidence == (
        "All is well. Not checked: the tide."
    )
    assert decide([missing], found(Limit.UNKNOWN), "x").evidence == "x"


def test_nothing_is_reported_only_if_all_rules_pass_and_everything_was_measured():
    assert said() == Diagnosis(Limit.NOTHING, "Quick.", "")
    for name, words in (("oddities", "outliers"), ("distinct", "duplicate rows"), ("nearest", "how close rows are"),
                        ("target_square", "the scale of the targets")):  # fmt: skip
        assert words in said(**{name: None}).evidence.partition("Not checked: ")[2]


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"rows": 11, "distinct": 11}, Limit.FEW_ROWS),
        ({"oddities": (Odd("outlier in inputs", "a is 1e+06"),)}, Limit.OUTLIERS),
        ({"oddities": (Odd("outlier in targets", "y is 1e+06"),)}, Limit.OUTLIERS),
        ({"standardised": True, "deviations": (6e-7, 0.9)}, Limit.OUTLIERS),
        ({"oddities": (Odd("equal columns", "a and b are equal"),)}, Limit.EQUAL_COLUMNS),
        ({"distinct": 150, "disagreement": 2.0}, Limit.DUPLICATES),
        ({"distinct": 150, "kappa": 1e4, "merged_kappa": 1e2}, Limit.DUPLICATES),
        ({"distinct": 150, "disagreement": 0.1, "kappa": 1e4, "merged_kappa": 5e3}, Limit.NOTHING),
        ({"oddities": (Odd("ID-like column", "id numbers the rows"),)}, Limit.NOTHING),
        ({"oddities": (Odd("ID-like column", "id numbers the rows"),), "nearest": 1e-9}, Limit.ID_COLUMN),
        ({"oddities": (Odd("ID-like column", "id numbers the rows"),), "gain": 0.99}, Limit.ID_COLUMN),
        ({"spreads": (1e3, 1.0), "nearest": 1e-5}, Limit.SCALE),
        ({"spreads": (1e3, 1.0)}, Limit.NOTHING),
        ({"spreads": (1e6, 1e6), "nearest": 0.0}, Limit.COLLAPSED),
        ({"spreads": (1e6, 1e6), "deviations": (1e9, 1e9), "nearest": 0.0}, Limit.SCALE),
        ({"spreads": (1e-6, 1e-6), "smallest": 1.0}, Limit.COLLAPSED),
        ({"signal": 1e8}, Limit.COLLAPSED),
        ({"noise": 1e4}, Limit.COLLAPSED),
        ({"target_square": 3600.0}, Limit.SCALE),
        ({"nearest": 4e-6}, Limit.INDEPENDENT),
        ({"test_nearest": 1e-9}, Limit.EXTRAPOLATION),
        ({"test_nearest": None, "only_mean": True, "gain": 1.0}, Limit.EXTRAPOLATION),
        ({"smallest": 0.9999, "gain": 0.99}, Limit.SMOOTH),
        ({"smallest": 0.9999}, Limit.NOTHING),
    ],
)  # fmt: skip
def test_one_quantity_that_is_off_is_named(changes, limit):
    assert said(**changes).limit is limit


def test_a_loss_has_risen_by_a_nat_a_row_whether_it_is_a_mean_or_a_sum():
    """A change from −2067 to −2063, summed over 300 rows, was once called a step that is too large."""
    settled = [504.5, -1958.9, -2062.8, -2067.0, -2063.0]
    assert data.stepped_too_far(settled, 300) is None and data.stepped_too_far([*settled, -1700.0], 300) is not None
    assert data.stepped_too_far([1.2, 0.4, 0.5], 300) is None
    found = data.stepped_too_far([1.2, 0.4, 3.0], 300)
    assert found.limit is Limit.STEP and "lowest in step 2, 0.4; in step 3 it is 3" in found.evidence
    assert data.stepped_too_far([1.2, math.nan], 300).limit is Limit.STEP


def test_small_sums_of_losses_are_recognised_by_the_likelihood():
    """Over 50 rows, −8 → −6 is a sum that hardly rose, and as a mean a step that was too large."""
    losses = [40.0, -5.0, -8.0, -6.5]
    assert data.stepped_too_far(losses, 50, log_likelihood=0.13) is None
    assert data.stepped_too_far(losses, 50, log_likelihood=6.5).limit is Limit.STEP
    means = [60.0, 30.0, 24.0, 31.0]  # of targets far from the prior
    assert data.stepped_too_far(means, 50, log_likelihood=-31.0).limit is Limit.STEP


def test_noise_at_its_lower_bound_is_named_if_the_likelihood_prefers_less():
    at = {**GOOD, "noise": 1e-4, "noise_floor": 1e-4}
    assert data.on_floor(Evidence(**at, falling_noise=50.0)).change == {"noise_floor": 1e-5}
    assert data.on_floor(Evidence(**at, falling_noise=-3.0)) is None
    assert data.on_floor(Evidence(**at | {"noise": 0.1}, falling_noise=50.0)) is None
    assert isinstance(data.on_floor(Evidence(**GOOD)), NotMeasured)


# --- rules on traces --------------------------------------------------------------------------------------------------


def traced(x, y, solver=None, kernel=None, noise=0.1, hooks=()):
    kernel = kernel or apviz.Matern52(lengthscale=0.3)
    system = apviz.KernelSystem(x, y, kernel, noise=noise, dtype=torch.float64, device="cpu")
    recorder = apviz.Recorder()
    apviz.solve(system, solver or apviz.Cholesky(), [*hooks, recorder])
    return recorder.trace


def test_correlations_and_disagreement_in_a_trace_agree_with_numpy():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (50, 2))
    x[40:] = x[:10]
    y = rng.standard_normal(50)
    attrs = traced(x, y).attrs
    scaled = math.sqrt(5) * cdist(x, x) / 0.3
    k = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
    assert attrs["smallest_correlation"] == pytest.approx(k.min(), rel=1e-9)
    np.fill_diagonal(k, 0.0)
    # for an even number of rows, the median of torch is the lower one
    assert attrs["nearest_correlation"] == pytest.approx(np.sort(k.max(1))[24], rel=1e-9)
    assert attrs["target_mean_square"] == pytest.approx(np.mean(y**2)) and attrs["signal"] == 1.0
    assert attrs["duplicate_disagreement"] == pytest.approx(np.sum((y[:10] - y[40:]) ** 2) / 2 / 10)


def test_duplicate_rows_with_contradictory_targets_are_named_even_if_float32_fails():
    """The advice for duplicates with σ² = 1e-7 was once "solve in float64"."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.uniform(0, 1, (60, 2)), 2, axis=0)
    y = np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(120)
    trace = traced(x, y, apviz.ConjugateGradient(max_epochs=20), noise=1e-7)
    trace.attrs["stop_reason"] = "stagnated"
    found = diagnose(trace)
    assert found.limit is Limit.DUPLICATES and "Only 60 of the 120 training rows" in found.evidence


def test_a_solve_limited_to_three_epochs_hit_its_limit_whatever_the_noise():
    """The advice was once "noise floor: try σ² = 0.001"."""
    x = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    found = diagnose(traced(x, np.sin(5 * x[:, 0]), apviz.ConjugateGradient(max_epochs=3), noise=1e-4))
    assert found.limit is Limit.CAP and found.change["max_epochs"] > 100


def test_blocks_of_three_rows_in_a_preconditioner_are_too_small():
    """The diagnosis was once "ill-conditioning"."""
    x = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    tiny = apviz.TwoLevelSchwarz(block_size=3, partition=PrincipalAxisTree(overlap=1.0), coarse_rank=4)
    trace = traced(x, np.sin(5 * x[:, 0]), apviz.ConjugateGradient(preconditioner=tiny, tol=1e-4), noise=3e-3)
    assert float(trace["epoch"]["work"][-1]) > 20
    found = diagnose(trace)
    assert found.limit is Limit.SMALL_BLOCKS and "A block owns 3 of 300 rows" in found.evidence


def test_a_quick_solve_without_a_test_error_says_that_none_was_measured():
    x = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    found = diagnose(traced(x, np.sin(5 * x[:, 0])))
    assert found.limit is Limit.NOTHING and found.evidence.endswith("Not checked: the test error.")
    z = torch.as_tensor(np.random.default_rng(1).uniform(-1, 1, (50, 2)))
    hooks = [apviz.PredictionHook(z, torch.sin(5 * z[:, 0]))]
    assert "Not checked" not in diagnose(traced(x, np.sin(5 * x[:, 0]), hooks=hooks)).evidence
