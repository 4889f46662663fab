"""The counted flops of an epoch, against the formulas of the paper and the operations of Algorithm 1."""

from __future__ import annotations

import pytest

from apviz.experiments import EXPERIMENTS, Options, run
from apviz.experiments.catalogue.flops import CALLERS, EVALUATING

FLOPS = EXPERIMENTS["flops"]
N, B, L = 400, 50, 16
M = N // B


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    options = Options(N, "cpu", out=tmp_path_factory.mktemp("flops"), dataset="china")
    return options, {row["kind"]: row for _, row in run(FLOPS, options)}


def test_every_operation_has_a_rule_and_a_caller(counted):
    _, rows = counted
    for row in rows.values():
        assert row["unknown"] == []
    epoch = rows["an epoch"]
    assert {*epoch["flops"]} - {"other"} == {*CALLERS.values(), *EVALUATING.values()}
    assert epoch["flops"].get("other", 0) < 1e-3 * sum(epoch["flops"].values())


def to_share_a_square(b, blocks):
    """Return the flops of shared storage: b² divisions and b squares per unit triangle, b² additions for two."""
    return blocks * (b**2 + b) + blocks // 2 * b**2


def test_factors_and_updates_of_the_weights_cost_the_flops_of_the_paper_plus_shared_storage(counted):
    """n b²/3, and (b² + b) l per update: half of the two triangular solves and an addition; b l divisions by D."""
    flops = counted[1]["an epoch"]["flops"]
    assert flops["cache"] == pytest.approx(M * B**3 / 3 + to_share_a_square(B, M), abs=M)
    assert flops["solve"] == M * (2 * B**2 + B) * L
    assert flops["weights"] == M * B * L
    assert counted[1]["an epoch"]["held"] == N * B / 2


def test_updates_of_the_residual_cost_the_product_and_little_else(counted):
    """2nb l per update plus terms of order b l, instead of the n l of the subtraction in the paper."""
    flops = counted[1]["an epoch"]["flops"]
    product = M * 2 * N * B * L
    assert product <= flops["residual"] <= product + M * 4 * B * L


def test_an_iteration_of_cg_costs_one_product_with_the_matrix_and_vector_operations(counted):
    """The initial residual is b itself: 2n² l, and at most 20 operations on (n, l) arrays."""
    row = counted[1]["an iteration of CG"]
    flops = sum(value for what, value in row["flops"].items() if what != "entries")
    checks = 2 * N**2 * L  # the residual recomputed at the end
    assert 2 * N**2 * L <= flops <= 2 * N**2 * L + checks + 20 * N * L


def test_the_table_has_the_formulas_of_the_appendix_and_their_ratio(counted, look):
    options, _ = counted
    rows = {cell.key: row for cell, row in run(FLOPS, options)}
    (table,) = FLOPS.tables(rows, options)
    formulas = {
        "Cholesky factors, once": N * B**2 / 3,
        "gauss-southwell rule": 2 * N * L * M,
        "W_I += K_II⁻¹R_I": (B**2 + B) * L * M,
        "R −= K_:I K_II⁻¹R_I": (B**2 + 2 * N * B + N) * L * M,
        "an epoch": ((2 + 3 / B) * N**2 + (2 * B + 1) * N) * L,
        "an iteration of CG": 2 * N**2 * L,
    }
    theirs = dict(zip(look.column(table, "operation"), look.column(table, "paper: Mflop"), strict=True))
    for name, flops in formulas.items():
        assert float(theirs[name]) == pytest.approx(flops / 1e6, rel=1e-3)
    ratios = dict(zip(look.column(table, "operation"), look.column(table, "counted ÷ paper"), strict=True))
    shared = to_share_a_square(B, M) / formulas["Cholesky factors, once"]
    assert float(ratios["Cholesky factors, once"]) == pytest.approx(1 + shared, abs=0.001)
    for name in ("W_I += K_II⁻¹R_I", "R −= K_:I K_II⁻¹R_I", "an epoch"):
        assert float(ratios[name]) == pytest.approx(1, abs=0.05)
    # the paper omits inner products and updates of vectors: about 20 flops per row and column
    assert float(ratios["an iteration of CG"]) == pytest.approx(1 + 20 / (2 * N), abs=0.05)
    # the rule reads the norms at the start, which the recorder counted, and after every update except the last
    assert float(ratios["gauss-southwell rule"]) == pytest.approx((M - 1) / M, abs=0.02)
    assert ratios["evaluating the entries of K"] == "–"


def test_an_operation_that_could_not_be_counted_is_named_below_the_table(counted):
    options, _ = counted
    rows = {cell.key: row | {"unknown": ["erf"]} for cell, row in run(FLOPS, options)}
    (table,) = FLOPS.tables(rows, options)
    assert "Not counted, for no rule is known: erf." in table.note


def test_the_last_block_may_be_shorter(tmp_path):
    options = Options(430, "cpu", out=tmp_path, dataset="china")
    epoch = next(row for _, row in run(FLOPS, options))
    assert epoch["updates"] == 9 and epoch["held"] == 4 * 50**2 + 30**2
    assert epoch["flops"]["cache"] == pytest.approx(
        8 * 50**3 / 3 + 30**3 / 3 + to_share_a_square(50, 8) + to_share_a_square(30, 1), abs=9
    )
