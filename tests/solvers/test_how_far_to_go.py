"""How far a recursion runs between two passes, and when to stop it: sums done by hand."""

import math

import pytest
import torch

from apviz.solvers.measuring.refinement import Pass, Refinement
from apviz.solvers.stopping import Stopping

TOL = 1e-3
MOST = 100  # epochs


def refinement(residual=1.0, *, drifts=False, dtype=torch.float32, tol=TOL, reduction=0.0, **settings):
    stopping = Stopping(tol=tol, max_epochs=MOST, check_every=10)
    return Refinement(stopping, residual, dtype, reduction=reduction, drifts=drifts, **settings)


def passes(refine, residual, *, claimed=None, drift=0.0, epoch=1, energy=0.0, claims=True):
    claimed = residual if claimed is None else claimed
    refine.passed(Pass(1, epoch, 1.0, 1.0, claimed, residual, drift, True, True), energy, claims=claims)


def test_an_exact_recursion_aims_at_the_tolerance_or_at_its_largest_reduction():
    assert refinement().aim == TOL
    assert refinement(residual=10.0, reduction=0.02).aim == 0.2
    assert refinement(residual=0.1, reduction=0.005).aim == TOL


@pytest.mark.parametrize("drift", [0.0, 0.3, 0.59])
def test_residual_and_drift_together_aim_at_a_twentieth_below_the_tolerance(drift):
    refine = refinement(drifts=True)
    assert not refine.looked(2 * TOL, drift * TOL)
    assert math.hypot(refine.aim, drift * TOL) == pytest.approx(0.95 * TOL, rel=1e-12)


def test_a_drifting_recursion_is_inspected_after_every_fall_to_three_tenths():
    refine = refinement(residual=2.0, drifts=True)
    assert refine.aim == pytest.approx(0.6)
    assert not refine.looked(0.6, 0.0) and refine.aim == pytest.approx(0.18)
    passes(refine, 0.5)
    assert refine.aim == pytest.approx(0.15)


def test_the_aim_is_never_below_the_drift():
    refine = refinement(drifts=True)
    assert not refine.looked(5 * TOL, 2 * TOL)  # 0.3 of the claimed residual is less
    assert refine.aim == 2 * TOL
    assert refine.looked(1.9 * TOL, 2 * TOL)


def test_an_inspection_requests_a_pass_if_residual_and_drift_together_meet_the_tolerance():
    assert refinement(drifts=True).looked(0.75 * TOL, 0.57 * TOL)  # 0.942
    assert not refinement(drifts=True).looked(0.77 * TOL, 0.57 * TOL)  # 0.958


def test_rounding_is_expected_to_change_the_residual_by_the_same_share_as_before():
    refine = refinement()
    passes(refine, 0.5, claimed=0.5, drift=1e-3)  # a thousandth of 1, so 0.5e-3 of 0.5 is expected
    assert math.hypot(refine.aim, 0.5e-3) == pytest.approx(TOL, rel=1e-12)
    refine = refinement()
    passes(refine, 0.5, claimed=0.5, drift=0.02)  # 0.01 is expected: the tolerance needs one more pass in any case
    assert refine.aim == pytest.approx(0.01)


def test_a_bound_on_float64_rounding_is_subtracted_from_the_tolerance_up_to_its_half():
    for bound in (0.2, 0.4, 0.9):
        refine = refinement()
        passes(refine, (2 + bound) * TOL, claimed=2 * TOL)
        assert refine.aim == pytest.approx(TOL * (1 - min(bound, 0.5)), rel=1e-9)


def test_a_pass_is_in_float64_if_it_may_claim_convergence_or_float32_would_round_too_much():
    coarse = refinement(drifts=True)
    assert not coarse.needs_float64(0.021) and coarse.needs_float64(0.019)
    coarse.looked(0.5, 0.018)
    assert not coarse.needs_float64(0.012) and coarse.needs_float64(0.005)  # drift and claim: 0.0216 and 0.0187
    larger = refinement(drifts=True, tol=0.1)
    assert not larger.needs_float64(0.12) and larger.needs_float64(0.1)
    assert refinement().needs_float64(0.5) and refinement(drifts=True, dtype=torch.float64).needs_float64(0.5)


def test_a_recursion_that_drifts_runs_away_at_ten_times_its_last_exact_residual():
    refine = refinement(residual=0.2, drifts=True)
    assert not refine.runs_away(1.9) and refine.runs_away(2.1) and refine.runs_away(math.nan)
    assert not refinement(residual=0.2).runs_away(1e9)
    assert not refinement(residual=1e-9, drifts=True).runs_away(9 * TOL)
    refine.exact_from_now()
    assert not refine.runs_away(1e9)


def test_two_claims_in_a_row_without_gain_are_a_floor_which_names_remedies():
    refine = refinement(more_digits=("float64 inside", "full factors"))
    for residual in (0.5, 0.46, 0.45):
        passes(refine, residual, drift=0.5)
    assert refine.floor() == (
        "stagnated: two more passes left B − KW at 4.50e-01 in float32; "
        "use float64 inside, full factors, more noise or a larger tolerance"
    )


def test_there_is_no_floor_if_a_pass_gained_or_claimed_nothing_or_converged():
    for second, claims in ((0.4, True), (0.46, False)):
        refine = refinement()
        for residual, claim in ((0.5, True), (0.46, True), (second, claims), (0.95 * second, True)):
            passes(refine, residual, drift=0.5, claims=claim, energy=-1 / residual)
        assert (refine.floor() is None) == (second == 0.4)
    refine = refinement(residual=0.9 * TOL)
    for _ in range(3):
        passes(refine, 0.9 * TOL)
    assert refine.floor() is None


@pytest.mark.parametrize(("dtype", "residual"), [(torch.float64, 0.5), (torch.float32, 1.1)])
def test_a_floor_of_float64_itself_is_not_blamed_on_the_recursion(dtype, residual):
    refine = refinement(dtype=dtype, more_digits=("more digits",))
    for _ in range(3):
        passes(refine, residual, claimed=0.5)
    assert refine.floor().endswith("float64 cannot certify less; use more noise or a larger tolerance")


def test_three_passes_without_progress_are_a_floor_unless_h_still_decreases():
    for fall, ended in ((0.0, True), (1e-9, False)):
        refine = refinement()
        for k, residual in enumerate((0.5, 0.499, 0.498)):
            passes(refine, residual, claims=False, energy=-3.0 - fall * k)
        assert str(refine.floor()).startswith("stagnated: three passes found no progress; use ") == ended
    refine = refinement()
    for residual in (0.5, 0.497, 0.494):
        passes(refine, residual, claims=False, energy=-3.0)
    assert refine.floor() is None


# --- jitter outweighs the noise ---------------------------------------------------------------------------------------


def decaying(rate, *, spacing=5, jitter=1e-4, tol=TOL, falls=1.0, count=6, residual=lambda t: 1.0):
    """Record passes of an error that decays by e^(−rate·t), and h by its square."""
    refine = refinement(jitter=jitter, tol=tol)
    for k in range(count):
        t = k * spacing
        h = falls * math.exp(-2 * rate * t)
        passes(refine, math.exp(-rate * t) * residual(t), claims=False, epoch=t + 1, energy=h)
    return refine


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_if_the_error_decays_too_slowly_the_floor_states_the_epochs_to_the_tolerance(factor):
    """From e^(−25 rate) to 1e-3 by e^(−rate·t): (log 1000 − 25 rate)/rate epochs, of which 1,000 are allowed."""
    rate = math.log(1000) / (10 * MOST * factor + 25)
    floor = decaying(rate).floor()
    if factor < 1:
        assert floor is None
    else:
        assert "jitter of 1.0e-04 on a block outweighs" in floor and "the tolerance is 1e+03 epochs away" in floor
        assert floor.endswith("; use more noise or a larger tolerance")


def test_rates_need_six_passes_and_twenty_epochs():
    rate = 1e-6
    assert "epochs away" in decaying(rate, spacing=4).floor()
    assert decaying(rate, spacing=3).floor() is None
    assert "epochs away" in decaying(rate, spacing=2, count=11).floor()
    assert decaying(rate, spacing=2, count=10).floor() is None
    assert decaying(rate, count=5).floor() is None


def test_if_h_falls_ever_faster_at_a_constant_residual_the_tolerance_is_out_of_reach():
    floor = decaying(-1e-4, falls=-1.0).floor()
    assert "the tolerance is out of reach; use" in floor


def test_there_is_no_floor_without_jitter_or_if_h_rises_or_the_residual_falls():
    assert decaying(1e-6, jitter=0.0).floor() is None
    assert decaying(1e-6, falls=-1.0).floor() is None
    assert decaying(1e-6, residual=lambda t: 1.0 if t < 15 else 0.89).floor() is None
    assert "epochs away" in decaying(1e-6, residual=lambda t: 1.0 if t < 15 else 0.91).floor()
