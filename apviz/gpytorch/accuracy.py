"""What a context says of the predictions inside it: how far they are from the exact posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch.settings import skip_posterior_variances
from torch import Tensor

from apviz.gp.prediction.posterior import Posterior
from apviz.gp.prediction.prediction_accuracy import PredictionAccuracy, together
from apviz.settings import require_seed, require_whole


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions of one model at (m, d) inputs z: models that differ in their targets alone share variances."""

    posterior: Posterior
    of_variances: Posterior
    z: Tensor

    def accuracy(self) -> PredictionAccuracy:
        """Return the accuracy of these predictions, of the means alone if no variance was solved for."""
        found, own = self.of_variances.prediction_accuracy, self.posterior
        if own is self.of_variances:
            return found
        return found.with_means_of(own.solution, own.mean_error)


class SolverContext:
    """What `alternating_projection` knows of the predictions inside it.

    Examples:
        >>> import gpytorch, torch, apviz
        >>> class Model(gpytorch.models.ExactGP):
        ...     def __init__(self, x, y):
        ...         super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        ...         self.mean, self.kernel = gpytorch.means.ZeroMean(), gpytorch.kernels.RBFKernel()
        ...     def forward(self, x):
        ...         return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))
        >>> x = torch.linspace(0, 6, 100)
        >>> model = Model(x, x.sin()).eval()
        >>> with apviz.gpytorch.alternating_projection(accuracy=1e-3) as context, torch.no_grad():
        ...     variance = model(torch.tensor([0.5, 7.0])).variance
        ...     error = context.prediction_accuracy.mean_error()
        >>> error <= 1e-3
        True
    """

    def __init__(self, predict: Callable[..., Any]) -> None:
        self._predict = predict
        #: what the last call of a model predicted, for each model of its batch
        self.last: list[Predicted] = []

    @property
    def prediction_accuracy(self) -> PredictionAccuracy:
        """Accuracy of the last predictions: at each test input if its variance was solved for, else the proven bound.

        For a batch of models, of all together.

        Raises:
            ValueError: no model predicted inside the context, or it has been trained since.
        """
        if not self.last:
            raise ValueError("no model has predicted inside this context since its training: call one in eval mode")
        return together(each.accuracy() for each in self.last)

    def measure_accuracy(
        self, model: Any, x: Tensor | tuple[Tensor, ...], count: int | None = None, *, seed: int = 0
    ) -> PredictionAccuracy:
        """Measure how far predictions at x are from the exact GP, on a random sample of its rows.

        Call it inside the context.

        Args:
            model: an `ExactGP` in eval mode.
            x: its test inputs, a tuple if there are several.
            count: number of rows to sample, solved for; None: 64, or fewer if they would take too long.
            seed: of the sample.

        Raises:
            ValueError: the model is in training mode, has no training data, or a number is out of range.
        """
        if count is not None:
            require_whole("count", count, 1)
        require_seed(seed)
        if model.training or model.train_inputs is None or model.train_targets is None:
            raise ValueError("the model is in training mode or has no training data: call model.eval() first")
        with torch.no_grad(), skip_posterior_variances(True):
            self._predict(model, x if isinstance(x, tuple) else (x,), {})
        return together(each.posterior.accuracy(each.z, count, seed=seed) for each in self.last)

    def forget(self, posteriors: Iterable[Posterior]) -> None:
        """Forget predictions of these posteriors, whose factors may be large."""
        gone = list(posteriors)
        self.last[:] = [each for each in self.last if each.posterior not in gone]
