"""Run GPyTorch's own training by CG for `benchmarks.training`, counted and without any value of log det K."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from apviz.experiments.sources import MAX_TRAINING_EPOCHS, MIN_TRAINING_EPOCHS, TRAINING_TOL

#: of GPyTorch's preconditioner; its default is 15
RANK = 100
#: GPyTorch takes Cholesky below the first, no preconditioner below the second; a smaller n than ever is for tests
MAX_CHOLESKY, MIN_PRECONDITIONED = 800, 2_000


class _OutOfTime(Exception):
    """The limit was reached."""


class GPyTorchTraining:
    """An exact GP as GPyTorch trains it by CG, with Matérn-5/2, one lengthscale an input.

    Args:
        kind: of its kernel: `dense` or `keops`.
        step_size: of Adam.
        noise_floor: σ² stays above this.

    Attributes:
        seconds, iterations, unconverged, noises: of the steps done; the noise is the one a step starts from.
        unfinished: seconds spent on a step that the limit ended.
        work: in the steps done.
    """

    def __init__(
        self, x: torch.Tensor, y: torch.Tensor, *, kind: str, step_size: float, probes: int, noise_floor: float
    ) -> None:
        import gpytorch
        from gpytorch import kernels

        matern = {"dense": kernels.MaternKernel, "keops": kernels.keops.MaternKernel}[kind]

        class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor))
                self.mean_module = gpytorch.means.ConstantMean()
                self.covar_module = kernels.ScaleKernel(matern(2.5, ard_num_dims=x.shape[1]))

            def forward(self, inputs: torch.Tensor) -> Any:
                return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

        floor = gpytorch.constraints.GreaterThan(noise_floor)
        self.x, self.y, self._probes, self.model = x, y, probes, Model().train()
        self.objective = gpytorch.mlls.ExactMarginalLogLikelihood(self.model.likelihood, self.model)
        self.adam = torch.optim.Adam(self.model.parameters(), lr=step_size)
        self.seconds: list[float] = []
        self.iterations: list[int] = []
        self.unconverged: list[bool] = []
        self.noises: list[float] = []
        self.unfinished = self.work = 0.0

    @contextmanager
    def _settings(self) -> Iterator[None]:
        from gpytorch import settings

        n = len(self.x)
        with ExitStack() as stack:
            for setting in (
                settings.cg_tolerance(TRAINING_TOL), settings.max_cg_iterations(MAX_TRAINING_EPOCHS),
                settings.num_trace_samples(self._probes), settings.max_preconditioner_size(RANK),
                settings.max_cholesky_size(min(MAX_CHOLESKY, n // 2)),
                settings.min_preconditioning_size(min(MIN_PRECONDITIONED, n)),
                # a value of log det K would take 20 Lanczos iterations, and so 21 of CG at least
                settings.skip_logdet_forward(True), settings.max_lanczos_quadrature_iterations(MIN_TRAINING_EPOCHS - 1),
            ):  # fmt: skip
                stack.enter_context(setting)
            yield

    def run(self, steps: int, limit: float) -> None:
        """Take `steps` steps, or stop at the limit; an interrupted step does not count."""
        import linear_operator
        from gpytorch.utils.warnings import NumericalWarning

        from apviz.gpytorch.intercept import intercepted

        products, end = 0, time.perf_counter() + limit

        def count(linear_cg: Any, matmul: Any, *args: Any, **kwargs: Any) -> Any:
            def counted(p: torch.Tensor) -> Any:
                nonlocal products
                if time.perf_counter() > end:
                    raise _OutOfTime
                products += 1
                return matmul(p)

            return linear_cg(counted, *args, **kwargs)

        torch.manual_seed(0)
        with self._settings(), intercepted(linear_operator.utils, "linear_cg", count):
            for _ in range(steps):
                products, started, noise = 0, time.perf_counter(), self.model.likelihood.noise.item()
                try:
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always")
                        self.adam.zero_grad()
                        (-self.objective(self.model(self.x), self.y)).backward()
                except _OutOfTime:
                    self.unfinished = time.perf_counter() - started
                    return
                self.adam.step()
                self.seconds.append(time.perf_counter() - started)
                self.iterations.append(products - 1)  # the first product is of the initial guess, zero
                self.work += products + RANK / len(self.x) + 1.0
                self.noises.append(float(f"{noise:.6g}"))
                capped = [one for one in said if issubclass(one.category, NumericalWarning)]
                self.unconverged.append(any("CG terminated" in str(one.message) for one in capped))
                if time.perf_counter() > end:
                    return
