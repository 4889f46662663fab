"""Gradients through kernels of GPyTorch and of users against finite differences, by the campaign `gradients`."""

from __future__ import annotations

import gpytorch
import pytest
import torch

from apviz.kernels import evaluated
from tests.trust import gradients
from tests.trust.gradient_kernels import GPYTORCH, REFUSED, USER

#: seeds in the default selection; the others are slow
QUICK = (
    "Features", "SameObject", "KeepsDistances", "KeepsInBuffers", "DrawsAtFirstCall", "NetworkInside",
    "GridInterpolationKernel", "RFFKernel",
)  # fmt: skip
#: seeds that no campaign reaches
FIRST = 1_000_000
CASES = [
    pytest.param(
        FIRST + 2 * place + k, name, id=f"{name} {k}",
        marks=() if name in QUICK and not k else pytest.mark.slow,
    )
    for place, name in enumerate(GPYTORCH | USER)
    for k in (0, 1)
]  # fmt: skip


@pytest.mark.parametrize(("seed", "name"), CASES)
def test_the_gradient_in_every_parameter_and_feature_agrees_with_finite_differences(seed, name):
    verdict = gradients.judge(seed, name)
    assert verdict.how == "the differences'", verdict.said


SAID = {
    "InducingPointKernel": "a low-rank approximation",
    "GridInterpolationKernel without grid_bounds": "give it grid_bounds",
    "ProductStructureKernel by itself": "apviz takes the covariances that kernels return",
    "RBFKernelGradGrad": "fails for a few of the rows",
    "WithoutGraphIfUnequal": "derivatives between different rows are not those between rows of one tensor",
    "SameShape": "entries depend on rows other than their own two",
    "JitterIfEqual": "entries depend on rows other than their own two",
    "CentredRows": "entries depend on rows other than their own two",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_kernel_that_cannot_be_evaluated_in_tiles_raises_with_a_message(name):
    verdict = gradients.judge(FIRST, name)
    assert verdict.how == "refused" and SAID[name] in verdict.said, verdict


def test_every_kernel_that_gpytorch_exports_is_tested():
    # of the omitted ones, one is a base class, one a module, one needs several GPUs, and three combine others, like the
    # structures of the cases
    others = {"Kernel", "keops", "MultiDeviceKernel", "AdditiveKernel", "ProductKernel", "ScaleKernel"}
    tried = {name.split()[0].rstrip(",") for name in GPYTORCH | REFUSED}
    assert set(gpytorch.kernels.__all__) - others <= tried


def test_the_cases_cover_typical_models_of_users():
    words = [gradients.described(seed) for seed in range(300)]
    for name, values in {
        "structure": gradients.STRUCTURES, "inputs": gradients.INPUTS, "engine": gradients.ENGINES,
        "batch": ("()", "(2,)"), "kernel": tuple(GPYTORCH | USER | REFUSED),
    }.items():  # fmt: skip
        assert {each[name] for each in words} == set(values)


def test_the_campaign_finds_missing_derivatives_of_one_side(monkeypatch):
    def of_the_left_side(self, left, right, m):
        with torch.enable_grad():
            rows, numbers = left.detach().requires_grad_(), self._numbers.clone().requires_grad_()
            total = torch.sum(m * self._evaluated(rows, right, numbers))
            return torch.autograd.grad(total, (rows, numbers), allow_unused=True, materialize_grads=True)

    monkeypatch.setattr(evaluated._OfPairs, "pair_gradients", of_the_left_side)
    monkeypatch.setattr("apviz.gpytorch.expressions.check_pairs", lambda *_: None)
    seed = next(s for s in range(FIRST, FIRST + 99) if gradients.case(s, "Features").words["inputs"] == "deep")
    verdict = gradients.judge(seed, "Features")
    assert verdict.how == "false" and verdict.said.startswith("shift is")
