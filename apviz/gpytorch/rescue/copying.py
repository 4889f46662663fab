"""Copies of a GPyTorch model to do with what one likes: the user's model and its caches stay as they are."""

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

from apviz.solvers.automatic import CHOLESKY_ROWS

#: rows of K that are measured with; of more, as many drawn at random
MEASURED_ROWS = CHOLESKY_ROWS
#: training rows at which predictions are compared, where no test inputs are given
PREDICTED_ROWS = 64


@dataclass(frozen=True, eq=False)
class Copy:
    """A model and its likelihood to do with what one likes, on some of the training rows.

    Args:
        test_inputs: where it predicts.
        share: of all training rows, and of their noise: a row of m out of n has σ²m/n, and so tells as much as n/m of
            them. λmax and σ² shrink alike, so that κ is about that of all rows.
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
        """The same in float64, rounded where it was rounded before."""
        model, likelihood = copied(self.model, self.likelihood)
        model.double()
        likelihood.double()
        # buffers such as fixed noise go with the module, the data do not; integers stay what they are
        inputs = [x.double() if x.is_floating_point() else x for x in self.inputs]
        model.set_train_data(inputs, self.targets.double(), strict=False)
        tests = tuple(x.double() if x.is_floating_point() else x for x in self.test_inputs)
        return Copy(model, likelihood, tests, self.share)

    def merged(self) -> tuple[Copy, int] | None:
        """The same posterior from distinct rows, with how many copies are left out.

        None where it has no copies, or more than one input, output or noise.
        c copies of a row tell as much as one with the mean of their targets and the noise σ²/c.
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
        with settings.min_fixed_noise(float_value=0.0, double_value=0.0):  # it may be smaller than GPyTorch takes
            model.likelihood = FixedNoiseGaussianLikelihood(noise.detach().reshape(1) / counts)
        return Copy(model, model.likelihood, self.test_inputs, self.share), self.rows - len(rows)


def copied(model: Any, likelihood: Any) -> tuple[Any, Any]:
    """Copies both together, without the caches of a prediction, which torch does not copy."""
    strategy = model.prediction_strategy
    model.prediction_strategy = None
    try:
        pair: tuple[Any, Any] = copy.deepcopy((model, likelihood))
    finally:
        model.prediction_strategy = strategy
    for module in pair:
        # as training finds it: kernels drop what they kept of a prediction
        module.train()
    return pair


def copy_of(model: Any, likelihood: Any, test_inputs: Sequence[Tensor] | None) -> Copy:
    """Copies a model, with so many of its training rows, drawn at random, that K has at most `MEASURED_ROWS`."""
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
    """Multiplies a likelihood's noises by `share`; of noises given for each point those of the chosen ones."""
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
