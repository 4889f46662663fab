"""Copies of a GPyTorch model for experiments: the user's model and its caches stay unchanged."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch import settings
from gpytorch.constraints import Positive
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.likelihoods.noise_models import FixedGaussianNoise
from torch import Tensor

from apviz.solvers.choosing.automatic import CHOLESKY_ROWS

#: largest number of rows of K that is measured; larger models are subsampled at random
MEASURED_ROWS = CHOLESKY_ROWS
#: number of training rows at which predictions are compared if no test inputs are given
PREDICTED_ROWS = 64


@dataclass(frozen=True, eq=False)
class Copy:
    """A disposable copy of a model and its likelihood, on some of the training rows.

    Args:
        test_inputs: inputs of its predictions.
        share: share of the training rows, and factor of their noise. A row of m out of n has noise σ²m/n, and so
            carries as much information as n/m rows. λmax and σ² shrink alike, so that κ is about that of all rows.
    """

    model: Any
    likelihood: Any
    test_inputs: tuple[Tensor, ...]
    share: float = 1.0

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(self.model.train_inputs)

    @property
    def targets(self) -> Tensor:
        targets: Tensor = self.model.train_targets
        return targets

    @property
    def rows(self) -> int:
        return int(self.inputs[0].shape[-2])

    def double(self) -> Copy:
        """Return the copy in float64; values keep their earlier rounding."""
        model, likelihood = copied(self.model, self.likelihood)
        model.double()
        likelihood.double()
        # buffers such as fixed noise are part of the module, the data are not; integers stay integers
        inputs = [x.double() if x.is_floating_point() else x for x in self.inputs]
        model.set_train_data(inputs, self.targets.double(), strict=False)
        tests = tuple(x.double() if x.is_floating_point() else x for x in self.test_inputs)
        return Copy(model, likelihood, tests, self.share)

    def merged(self) -> tuple[Copy, int] | None:
        """Return the same posterior from distinct rows, and the number of duplicate rows that were merged.

        c duplicates of a row are equivalent to one row with the mean of their targets and the noise σ²/c.
        None if there are no duplicates, or more than one input, output or noise.
        """
        noise = getattr(self.likelihood, "noise", None)
        simple = len(self.inputs) == 1 and self.inputs[0].ndim == 2 and self.targets.ndim == 1
        if not simple or not isinstance(noise, Tensor) or noise.numel() != 1:
            return None
        rows, owner, counts = torch.unique(self.inputs[0], dim=0, return_inverse=True, return_counts=True)
        if len(rows) == self.rows:
            return None
        targets = self.targets.new_zeros(len(rows)).index_add_(0, owner, self.targets) / counts
        model, _ = copied(self.model, self.likelihood)
        model.set_train_data(rows, targets, strict=False)
        with settings.min_fixed_noise(float_value=0.0, double_value=0.0):  # it may be below GPyTorch's minimum
            model.likelihood = FixedNoiseGaussianLikelihood(noise.detach().reshape(1) / counts)
        return Copy(model, model.likelihood, self.test_inputs, self.share), self.rows - len(rows)


def copied(model: Any, likelihood: Any) -> tuple[Any, Any]:
    """Copy both together, without the caches of a prediction, which torch cannot copy."""
    strategy = model.prediction_strategy
    model.prediction_strategy = None
    try:
        pair: tuple[Any, Any] = copy.deepcopy((model, likelihood))
    finally:
        model.prediction_strategy = strategy
    for module in pair:
        # training mode makes kernels drop the caches of a prediction
        module.train()
    return pair


def copy_of(model: Any, likelihood: Any, test_inputs: Sequence[Tensor] | None) -> Copy:
    """Copy a model with at most `MEASURED_ROWS` rows in K, drawn at random from its training rows."""
    inputs, targets = tuple(model.train_inputs), model.train_targets
    n, share = inputs[0].shape[-2], 1.0
    by_column = targets.shape[-1] == n  # several outputs are (n, t), batches (b, n)
    rows = MEASURED_ROWS if by_column else max(2, MEASURED_ROWS // targets.shape[-1])
    model, likelihood = copied(model, likelihood)
    generator = torch.Generator().manual_seed(0)
    if n > rows:
        chosen = torch.randperm(n, generator=generator)[:rows].sort().values.to(targets.device)
        model.set_train_data(
            [x.index_select(-2, chosen) for x in inputs],
            targets.index_select(-1 if by_column else -2, chosen),
            strict=False,
        )
        share = rows / n
        for each in dict.fromkeys((likelihood, model.likelihood)):
            _take_share(each, share, chosen, n)
    if test_inputs is None:
        some = torch.randperm(model.train_inputs[0].shape[-2], generator=generator)[:PREDICTED_ROWS]
        test_inputs = [x.index_select(-2, some.to(x.device)) for x in model.train_inputs]
    return Copy(model, likelihood, tuple(x[:, None] if x.ndim == 1 else x for x in test_inputs), share)


def _take_share(likelihood: Any, share: float, chosen: Tensor, n: int) -> None:
    """Multiply a likelihood's noises by `share`; noises given per row are first reduced to the chosen rows."""
    noise = getattr(likelihood, "noise_covar", None)
    if isinstance(noise, FixedGaussianNoise):
        given = noise.noise.index_select(-1, chosen) if noise.noise.shape[-1] == n else noise.noise
        noise.noise = given * share
    for module in likelihood.modules():
        for raw, _ in list(module.named_parameters(recurse=False)):
            name = raw.removeprefix("raw_")
            if raw != name and "noise" in name:
                value = getattr(module, name).detach() * share
                module.register_constraint(raw, Positive())
                module.initialize(**{name: value})
