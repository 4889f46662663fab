"""Every row of the guide's table of unsupported GPyTorch models raises."""

from __future__ import annotations

from pathlib import Path

import gpytorch
import pytest
import torch
from test_gpytorch_examples import ExactGP, example

import apviz
from tests.device import DEVICE

kernels, likelihoods, means = gpytorch.kernels, gpytorch.likelihoods, gpytorch.means
Normal, OfSeveral = gpytorch.distributions.MultivariateNormal, gpytorch.distributions.MultitaskMultivariateNormal
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "gpytorch.md"


class PerBatch(kernels.RBFKernel):
    """A kernel of inputs divided by their largest: every entry depends on all rows."""

    def forward(self, x1, x2, **params):
        return super().forward(x1 / x1.max(), x2, **params)


def returning(covariance):
    """Return a model whose `forward` returns a given covariance of its kernel and inputs."""

    class Model(ExactGP):
        def forward(self, x):
            return Normal(self.mean_module(x), covariance(self.covar_module, x))

    return {"model": Model}


class Tasks(ExactGP):
    def forward(self, x):
        return OfSeveral(self.mean_module(x), self.covar_module(x))


class OneAfterTheOther(ExactGP):
    def forward(self, x):
        return OfSeveral.from_independent_mvns([super().forward(x)] * 2)


def values(size):
    return torch.linspace(0.1, 0.2, size, dtype=torch.float64, device=DEVICE)


def correlated():
    made = example(
        30, 2, kernels.MultitaskKernel(kernels.RBFKernel(), num_tasks=2),
        means.MultitaskMean(means.ConstantMean(), num_tasks=2), model=Tasks,
        likelihood=likelihoods.MultitaskGaussianLikelihood(num_tasks=2, rank=1),
    )  # fmt: skip
    made.y = torch.stack([made.y, made.y], 1)
    made.model.set_train_data(targets=made.y, strict=False)
    return made


def missing():
    made = example(30, 2)
    made.y[3] = torch.nan
    made.model.set_train_data(targets=made.y)
    return made


def differentiated_twice(e, how):
    of = list(e.model.parameters())
    e.model.eval()
    value = e.loss() if how == "loss" else e.model(e.test_x).mean.sum()
    gradients = torch.autograd.grad(value, of, create_graph=True, allow_unused=True)
    sum(g.sum() for g in gradients if g is not None).backward()


def asking_for_cholesky(e, how):
    with gpytorch.settings.fast_computations(log_prob=False):
        getattr(e, how)()


class Traced(torch.nn.Module):
    def __init__(self, e, how):
        super().__init__()
        self.e, self.model, self.how = e, e.model.train(how == "loss"), how

    def forward(self, x):
        found = self.model(x)
        return found.mean if self.how == "predict" else self.e.likelihood(found).log_prob(self.e.y)


def traced(e, how):
    with torch.no_grad():
        torch.jit.trace(Traced(e, how), e.x if how == "loss" else e.test_x, check_trace=False)


def plainly(e, how):
    getattr(e, how)()


#: for every row of the table: a model, a call, and the message
REFUSED = {
    "likelihoods that are not Gaussian": (
        lambda: example(30, 2, likelihood=likelihoods.StudentTLikelihood()), plainly, "only handle Gaussian likelih",
    ),
    "noise that correlates tasks (`rank > 0`)": (correlated, plainly, "adds more than a diagonal"),
    "inducing points (SGPR)": (
        lambda: example(30, 2, kernels.InducingPointKernel(kernels.RBFKernel(), torch.ones(3, 2), None)),
        plainly, "InducingPointKernel, a low-rank approximation.*covar_module.base_kernel",
    ),
    "a cosine of several inputs": (
        lambda: example(30, 2, kernels.CosineKernel()), plainly, "CosineKernel of 2 inputs, which is not positive",
    ),
    "a kernel whose entries depend on other rows": (
        lambda: example(30, 2, PerBatch()), plainly, "a PerBatch;.*entries depend on rows other than their own two",
    ),
    "KISS-GP without `grid_bounds`": (
        lambda: example(30, 2, kernels.GridInterpolationKernel(kernels.RBFKernel(), grid_size=10, num_dims=2)),
        plainly, "a grid that GPyTorch fits to the rows of each call.*give it grid_bounds",
    ),
    "predictions of a `forward` that scales inputs by the rows of each call": (
        lambda: example(30, 2, **returning(lambda k, x: k(x / x.max(0)[0]))), plainly,
        "Model.forward makes a row depend on other rows.*ScaleToBounds",
    ),
    "covariances between two sets of inputs": (
        lambda: example(30, 2, **returning(lambda k, x: k(x, x + 0.3))), plainly, "two different sets of inputs",
    ),
    "covariances evaluated in `forward`": (
        lambda: example(30, 2, **returning(lambda k, x: k(x).to_dense())), plainly, "returned is a DenseLinearOperator",
    ),
    "jitter in factors of a product": (
        lambda: example(30, 2, **returning(lambda k, x: k(x).add_jitter(0.1) * k(x))),
        plainly, "multiplies covariances with jitter; add it to the product",
    ),
    "different values on the diagonal in `forward`": (
        lambda: example(30, 2, **returning(lambda k, x: k(x).add_diagonal(values(len(x))))),
        plainly, "different values to the diagonal.*FixedNoiseGaussianLikelihood",
    ),
    "outputs one after the other": (lambda: example(30, 2, model=OneAfterTheOther), plainly, "interleaved=True"),
    "missing observations": (missing, plainly, "NaN or infinite values"),
    "`fast_computations(log_prob=False)`": (lambda: example(30, 2), asking_for_cholesky, "requests Cholesky"),
    "second derivatives in hyperparameters": (
        lambda: example(30, 2), differentiated_twice, "no second derivatives|twice in test inputs, but only once",
    ),
    "`torch.jit.trace`": (lambda: example(30, 2), traced, "torch.jit.trace records PyTorch's operations"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("row", "how"),
    [(row, how) for row in REFUSED for how in ("loss", "predict") if how == "predict" or "predictions" not in row],
)
def test_every_model_in_the_table_of_the_guide_raises(row, how):
    make, ask, said = REFUSED[row]
    with (
        apviz.gpytorch.alternating_projection(),
        pytest.raises((TypeError, ValueError, RuntimeError), match=f"(?s){said}"),
    ):
        ask(make(), how)


def test_the_table_of_the_guide_has_the_rows_tested_here():
    after = GUIDE.read_text("utf-8").split("| not supported | why | instead |\n|---|---|---|\n")[1]
    rows = after.split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [first for first, *_ in cells] == list(REFUSED) and all(len(row) == 3 and all(row) for row in cells)
