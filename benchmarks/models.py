"""Exact-GP models as GPyTorch's notebooks and issues have them, inside `alternating_projection` against Cholesky.

For every model: the marginal likelihood and its gradient, the predicted mean, variances and covariance, and the
gradient of a prediction, each as a distance from GPyTorch's own with Cholesky in float64. `python -m benchmarks.models`
writes the page `docs/gpytorch_models.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpytorch
import torch
from torch import Tensor

import apviz
import apviz.gpytorch
from benchmarks.model_cases import MODELS, Case

PAGE = Path(__file__).parent.parent / "docs" / "gpytorch_models.md"
#: a distance that counts as none
WORKS = 1e-4
#: what is measured, in the order of the table's columns
MEASURED = ("value and gradient", "mean", "variance", "covariance, samples", "gradient of predictions")

SOLVED = "all, by solves"


@dataclass(frozen=True)
class Found:
    """What a model gave: a value and gradient, a prediction, and the gradient of that."""

    value: Tensor
    gradient: Tensor
    mean: Tensor
    variance: Tensor
    covariance: Tensor
    of_prediction: Tensor


@contextlib.contextmanager
def native() -> Iterator[None]:
    """GPyTorch with Cholesky."""
    with gpytorch.settings.fast_computations(False, False, False):
        yield


def run(case: Case, context: contextlib.AbstractContextManager) -> Found:
    """Trains a step, predicts, and differentiates the prediction, in float64."""
    torch.manual_seed(0)
    model, likelihood = case.make()
    model.double()
    likelihood.double()
    inputs = model.train_inputs
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    test = [z.clone().requires_grad_(z.is_floating_point()) for z in case.test]
    with warnings.catch_warnings(), context, gpytorch.settings.detach_test_caches(False):
        warnings.simplefilter("ignore")
        model.train()
        likelihood.train()
        value = objective(model(*inputs), model.train_targets, *inputs).sum()
        value.backward()
        gradient = _gradients(model)
        model.zero_grad()
        model.eval()
        likelihood.eval()
        predicted = model(*test)
        (predicted.mean.sum() + predicted.variance.sum()).backward()
        of_inputs = [z.grad.flatten() for z in test if z.grad is not None]
        return Found(
            value.detach(), gradient, predicted.mean.detach(), predicted.variance.detach(),
            predicted.covariance_matrix.detach(), torch.cat([_gradients(model), *of_inputs]),
        )  # fmt: skip


def _gradients(model: torch.nn.Module) -> Tensor:
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in model.parameters()])


def by_solves(case: Case) -> dict[str, Any]:
    """Settings of the context with which nothing is factored, and the trace estimate is exact."""
    model, _ = case.make()
    rows = math.prod(model.train_targets.shape[-2 if model.outputs else -1 :])
    probes = rows**0.5 * torch.eye(rows, dtype=torch.float64)
    return {"solver": apviz.ConjugateGradient(tol=1e-11), "probes": probes, "log_determinant": "lanczos"}


def distances(case: Case, **settings: Any) -> dict[str, float]:
    """Measures, by name of `MEASURED`, the largest distance from Cholesky ÷ the largest number there."""
    return distances_from(run(case, native()), case, **settings)


def distances_from(expected: Found, case: Case, **settings: Any) -> dict[str, float]:
    """Measures the same from what Cholesky gave."""
    found = run(case, apviz.gpytorch.alternating_projection(**settings))

    def distance(*names: str) -> float:
        pairs = [(getattr(found, name), getattr(expected, name)) for name in names]
        return max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-12)) for a, b in pairs)

    given = [("value", "gradient"), ("mean",), ("variance",), ("covariance",), ("of_prediction",)]
    return {name: distance(*each) for name, each in zip(MEASURED, given, strict=True)}


def table() -> Iterator[tuple[str, dict[str, float] | str]]:
    """Yields every model with its distances, or what was said to it."""
    for name, case in MODELS.items():
        try:
            found = distances(case)
            yield name, {**found, SOLVED: max(distances(case, **by_solves(case)).values())}
        except (TypeError, ValueError, NotImplementedError) as error:
            yield name, str(error)


HEAD = """# GPyTorch models inside apviz

We trained models of GPyTorch's notebooks and issues for one step inside `apviz.gpytorch.alternating_projection()`, and
asked them for a prediction. The table shows the largest distance from GPyTorch with Cholesky in float64, divided by the
largest number there. *Value and gradient* are those of the marginal likelihood; gradients of predictions are in test
inputs and hyperparameters. These columns use the defaults of the context, which factors such small systems. The last
column is the largest of these distances if nothing is factored, with CG to 1e-11 and exact probes.
`python -m benchmarks.models` makes this page.

"""


def page() -> str:
    """The table as a page of the documentation."""
    columns = (*MEASURED, SOLVED)
    lines, works = ["| model | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)], 0
    for name, found in table():
        if isinstance(found, str):
            lines.append(f"| {name} | refused: {found} |" + " |" * (len(columns) - 1))
            continue
        works += max(found.values()) < WORKS
        lines.append(f"| {name} | " + " | ".join(f"{found[each]:.0e}" for each in columns) + " |")
    return HEAD + "\n".join(lines) + f"\n\n{works} of {len(MODELS)} are within {WORKS:g} of Cholesky.\n"


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page(), "utf-8")
    print(PAGE.read_text("utf-8"))


if __name__ == "__main__":
    main()
