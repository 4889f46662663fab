"""Counted flops against counts by hand, operation by operation."""

from __future__ import annotations

import pytest
import torch

from apviz.experiments.catalogue.flops import OTHER, FlopCount

M, K, N = 7, 5, 3
a, b, c = torch.rand(M, K), torch.rand(K, N), torch.rand(M, K)
square = torch.rand(K, K)
spd = square @ square.T + 10 * torch.eye(K)
lower = torch.linalg.cholesky(spd)


def counted(operation) -> FlopCount:
    count = FlopCount({}, {})
    with count:
        operation()
    return count


@pytest.mark.parametrize(
    ("operation", "flops"),
    [
        (lambda: a @ b, 2 * M * K * N),
        (lambda: a.T @ c, 2 * K * M * K),
        (lambda: torch.bmm(a.expand(4, M, K), b.expand(4, K, N)), 4 * 2 * M * K * N),
        # the product has K multiplications and K − 1 additions per element, and one more to add it to the target
        (lambda: torch.addmm(torch.zeros(M, N), a, b), 2 * M * K * N),
        (lambda: torch.zeros(M, N).addmm_(a, b, alpha=-1), 2 * M * K * N),
        (lambda: a + c, M * K),
        (lambda: a - 1.0, M * K),
        (lambda: a.clone().sub_(c, alpha=2.0), 2 * M * K),
        (lambda: a.clone().sub_(c, alpha=-1), M * K),
        (lambda: a * c / 3.0, 2 * M * K),
        (lambda: a[:, None, :] - c[None, :, :], M * M * K),
        (lambda: a.square(), M * K),
        (lambda: a.sqrt().exp(), 2 * M * K),
        (lambda: a.clone().addcmul_(c, c), 2 * M * K),
        (lambda: a.sum(), M * K),
        (lambda: a.mean(0), M * K),
        (lambda: torch.linalg.vector_norm(a, dim=0), 2 * M * K),
        (lambda: torch.linalg.cholesky_ex(spd), K**3 // 3),
        (lambda: torch.linalg.solve_triangular(lower, b, upper=False), K**2 * N),
        (lambda: torch.zeros(9, K).index_add_(0, torch.arange(M), a), M * K),
        # no flops: signs, comparisons, copies and views
        (lambda: -a.abs().clamp_(min=0.2), 0),
        (lambda: (a > c).any().item(), 0),
        (lambda: torch.where(a > c, a, c)[1:3].T.clone(), 0),
        (lambda: torch.cat([a, c]).view(-1)[torch.arange(4)], 0),
    ],
)  # fmt: skip
def test_an_operation_counts_what_it_adds_multiplies_and_divides(operation, flops):
    count = counted(operation)
    assert sum(count.flops.values()) == flops and not count.unknown
    assert set(count.flops) == {OTHER}


def test_an_operation_without_a_rule_is_reported_and_not_silently_free():
    assert counted(lambda: torch.erf(a)).unknown == {"erf"}
    assert counted(lambda: a @ b[:, 0]).unknown == {"mv"}


def test_nothing_is_counted_outside_the_context():
    count = counted(lambda: None)
    a + c
    assert not count.flops


def inner():
    return a + c


def middle():
    return inner() * 2.0


def outer():
    a.sum()
    return middle()


def test_flops_are_assigned_to_the_outermost_listed_caller_and_others_are_separate():
    count = FlopCount({outer: "everything", middle: "part", inner: "part of the part"}, {})
    with count:
        outer()
        middle()
        a.exp()
    assert count.flops == {"everything": 3 * M * K, "part": 2 * M * K, OTHER: M * K}


def test_some_functions_own_the_flops_inside_them_for_any_caller():
    count = FlopCount({outer: "everything"}, {inner: "entries"})
    with count:
        outer()
    assert count.flops == {"everything": 2 * M * K, "entries": M * K}


def test_the_largest_result_is_the_size_of_the_largest_tensor():
    count = FlopCount({}, {middle: "part"})
    with count:
        middle()
        a @ b
    assert count.largest == {"part": M * K, OTHER: M * N}
