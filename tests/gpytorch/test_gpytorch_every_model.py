"""The models of GPyTorch's notebooks and issues in `benchmarks.models`, against Cholesky in float64."""

from __future__ import annotations

import functools

import pytest
import torch
from gpytorch.kernels import LCMKernel, MaternKernel, MultitaskKernel, RBFKernel, ScaleKernel

from benchmarks.model_cases import MODELS, Case, data, jitter, simple, tasks
from benchmarks.models import PAGE, by_solves, distances, distances_from, native, run

REFUSED = {"SGPR (inducing points)": "a low-rank approximation, which GPyTorch itself solves fast"}
# GPyTorch computes parts of these in float32, or distances with visible rounding
ROUGH = {"KISS-GP (grid interpolation)": 1e-4, "additive, Newton–Girard": 1e-5, "Matérn-1/2": 1e-6}


@functools.cache
def by_cholesky(name):
    return run(MODELS[name], native())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in MODELS if name not in REFUSED])
def test_value_gradients_and_predictions_agree_with_cholesky(name):
    found = distances_from(by_cholesky(name), MODELS[name])
    assert max(found.values()) < ROUGH.get(name, 1e-9), found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in MODELS if name not in REFUSED])
def test_they_agree_with_cholesky_by_solves_too(name):
    found = distances_from(by_cholesky(name), MODELS[name], **by_solves(MODELS[name]))
    assert max(found.values()) < max(ROUGH.get(name, 0.0), 1e-6), found


@pytest.mark.parametrize("name", REFUSED)
def test_rejected_models_raise_with_a_reason(name):
    with pytest.raises(TypeError, match=REFUSED[name]):
        distances(MODELS[name])


def test_the_page_has_a_row_for_every_model():
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")][1:]
    assert [row[0].removeprefix("| ") for row in rows] == list(MODELS)
    for row in rows:
        name = row[0].removeprefix("| ")
        if name in REFUSED:
            assert REFUSED[name] in row[1]
        else:
            assert max(float(each.rstrip(" |")) for each in row[1:]) < max(ROUGH.get(name, 0.0), 1e-6)


def test_jitter_in_forward_is_not_shared_by_equal_rows():
    x, y, _ = data(2)
    x = torch.cat([x, x[:5]])
    case = simple(2, covariance=jitter, kernel=lambda: ScaleKernel(RBFKernel()))

    def make():
        model, likelihood = case.make()
        model.set_train_data(x, torch.cat([y, y[:5] + 0.1]), strict=False)
        return model, likelihood

    at_training_inputs = Case(make, (x[:7],))
    assert max(distances(at_training_inputs).values()) < 1e-9


class Doubled(RBFKernel):
    """A kernel whose `__call__` doubles its inputs."""

    def __call__(self, x1, x2=None, **params):
        return super().__call__(2 * x1, x2 if x2 is None else 2 * x2, **params)


# GPyTorch calls `forward` of the parts of these kernels, without their `active_dims` and `__call__`
INNER = {
    "scaled": simple(2, kernel=lambda: ScaleKernel(Doubled())),
    "of tasks": tasks(2, lambda: MultitaskKernel(RBFKernel(active_dims=(0,)), num_tasks=2, rank=1)),
    "of tasks, scaled": tasks(2, lambda: MultitaskKernel(ScaleKernel(RBFKernel(active_dims=(1,))), num_tasks=2)),
    "of tasks, called": tasks(2, lambda: MultitaskKernel(Doubled(), num_tasks=2, rank=1)),
    "coregionalisation": tasks(2, lambda: LCMKernel([RBFKernel(active_dims=(0,)), MaternKernel(1.5)], num_tasks=2)),
    "coregionalisation, called": tasks(2, lambda: LCMKernel([Doubled(), MaternKernel(1.5)], num_tasks=2)),
    "added": tasks(
        2,
        lambda: MultitaskKernel(RBFKernel(active_dims=(0,)) + MaternKernel(1.5, active_dims=(1,)), num_tasks=2),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", INNER)
def test_parts_of_kernels_are_called_like_by_gpytorch(name):
    assert max(distances(INNER[name]).values()) < 1e-9
