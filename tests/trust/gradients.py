"""Small GPyTorch models of random kernels: gradients inside `alternating_projection` against finite differences.

The loss is that of a dense covariance in float64, whose entries GPyTorch evaluates and NumPy factors. Its differences
are central, extrapolated to step 0 (Richardson), with the step of the smallest error. They are compared with the
gradient in every parameter: of kernel, mean, noise, network, and `shift`, which is added to the features.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import gpytorch
import numpy as np
import torch
from gpytorch.kernels import Kernel, ScaleKernel
from numpy.typing import NDArray
from torch import Tensor

import apviz
import apviz.gpytorch
from apviz.operators import derivatives
from tests.trust.gradient_kernels import GPYTORCH, REFUSED, USER, Family, grid
from tests.trust.verdicts import ENDLESS, Verdict

FAMILIES = GPYTORCH | USER | REFUSED
#: tolerance, relative to the largest derivative in a tensor
ALLOWED = 1e-6
#: tolerance for derivatives of 0, relative to the largest of all
NOTHING = 1e-8
#: largest error of a difference, as a share of ALLOWED
OF_DIFFERENCES = 0.3
#: first steps of differences, which are then halved twice: short enough to avoid kinks of distances
STEPS = (2**-11, 2**-8, 2**-14)
STRUCTURES = ("plain", "scaled", "sum", "product", "nested", "sum in forward", "product in forward", "on columns")
#: structures that use the covariance returned by a kernel directly
BARE = ("plain", "sum in forward", "product in forward")
INPUTS = ("plain", "deep", "deep", "learned")
ENGINES = ("auto", "Cholesky, dense", "CG", "projections")


@dataclass
class Case:
    """A model with data, and the settings of apviz.

    Attributes:
        words: for people.
    """

    model: Any
    y: Tensor
    engine: str
    tile: int
    words: dict[str, str] = field(default_factory=dict)

    @property
    def mll(self) -> Any:
        return gpytorch.mlls.ExactMarginalLogLikelihood(self.model.likelihood, self.model)

    def context(self) -> Any:
        """Return the context of apviz, with gradients exact up to rounding."""
        rows = self.y.shape[-1] if "outputs" not in self.words else self.y.numel()
        exact = np.sqrt(rows) * torch.eye(rows, dtype=torch.float64)
        settings: dict[str, Any] = {
            "auto": {},
            "Cholesky, dense": {"solver": apviz.Cholesky(), "operator": "dense"},
            "CG": {"solver": apviz.ConjugateGradient(tol=1e-13, max_epochs=500), "operator": "tiled"},
            "projections": {
                "solver": apviz.AlternatingProjection(block_size=max(2, rows // 3), tol=1e-13, max_epochs=50_000)
            },
        }[self.engine]
        if self.engine in ("CG", "projections"):
            settings |= {"probes": exact, "log_determinant": "skip"}
        return apviz.gpytorch.alternating_projection(**settings)


class Model(gpytorch.models.ExactGP):
    """A model whose covariance `combine` makes from kernels at features."""

    def __init__(
        self, x: Tensor, y: Tensor, kernels: list[Kernel], combine: Callable[..., Any], net: Any, shift: Tensor | None,
        outputs: int, batch: torch.Size,
    ) -> None:  # fmt: skip
        several = outputs > 1
        likelihood = (
            gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=outputs)
            if several
            else gpytorch.likelihoods.GaussianLikelihood(batch_shape=batch)
        )
        super().__init__(x, y, likelihood)
        mean = gpytorch.means.ConstantMean(batch_shape=batch)
        self.mean = gpytorch.means.MultitaskMean(mean, num_tasks=outputs) if several else mean
        self.kernels, self.combine, self.net = torch.nn.ModuleList(kernels), combine, net
        self.shift = None if shift is None else torch.nn.Parameter(shift)
        self.normal = (
            gpytorch.distributions.MultitaskMultivariateNormal if several else gpytorch.distributions.MultivariateNormal
        )

    def features(self, x: Tensor) -> Tensor:
        x = x if self.net is None else 0.6 * torch.tanh(self.net(x))
        return x if self.shift is None else x + self.shift

    def forward(self, x: Tensor) -> Any:
        f = self.features(x)
        return self.normal(self.mean(f), self.combine(self.kernels, f))


def case(seed: int, family: str | None = None) -> Case:
    """Return the case of a seed, of one family if it is named."""
    rng = np.random.default_rng((39, seed))
    torch.manual_seed(seed)

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    name = family or str(one_of(*GPYTORCH, *USER, *USER, *REFUSED))
    chosen = FAMILIES[name]
    q = int(one_of(*chosen.columns))
    outputs = chosen.outputs(q)
    how = str(one_of(*INPUTS)) if chosen.inputs == "any" else "plain"
    structures = STRUCTURES if chosen.parts and chosen.inputs == "any" else ("plain", "scaled")
    if name == "ProductStructureKernel by itself":
        structures = ("plain",)
    structure = str(one_of(*(each for each in structures if chosen.alone or each not in BARE)))
    batch = (
        torch.Size([2]) if chosen.batch and structure in ("plain", "scaled") and rng.random() < 0.3 else torch.Size()
    )
    kernels, combine = _of_structure(structure, chosen, q, batch, rng)
    columns = q + 1 if structure == "on columns" else q
    x = _inputs(chosen.inputs, int(rng.integers(6, 10)), columns, rng)
    n, net, shift = len(x), None, None
    if how == "deep":
        x, net = torch.from_numpy(rng.uniform(-1, 1, (n, 2))), torch.nn.Linear(2, columns)
    if how != "plain":
        shift = torch.from_numpy(0.02 * rng.standard_normal((n, columns)))
    shape = (n, outputs) if outputs > 1 else (*batch, n)
    y = torch.from_numpy(rng.standard_normal(shape))
    x = x.expand(*batch, *x.shape)
    model = Model(x, y, kernels, combine, net, shift, outputs, batch).double()
    with torch.no_grad():
        for each in model.kernels.parameters():
            each.add_(0.3 * torch.from_numpy(rng.standard_normal(each.shape)))
        for each in model.likelihood.parameters():
            each.fill_(float(rng.uniform(-1.5, 0)))
    engine, tile = str(one_of(*ENGINES)), int(one_of(1024, 6, 4))
    words = {
        "kernel": name, "structure": structure, "inputs": how, "batch": str(tuple(batch)), "engine": engine,
        "n, columns": f"{n}, {columns}", "tile": str(tile),
        "modules": ", ".join(type(each).__name__ for each in model.kernels.modules() if isinstance(each, Kernel)),
    }  # fmt: skip
    if outputs > 1:
        words["outputs"] = str(outputs)
    return Case(model.train(), y, engine, tile, words)


def _of_structure(
    structure: str, family: Family, q: int, batch: torch.Size, rng: np.random.Generator
) -> tuple[list[Kernel], Callable[..., Any]]:
    """Return kernels, and the function that makes a covariance from them and features."""

    def leaf(other: Family = family) -> Kernel:
        settings: dict[str, Any] = {"batch_shape": batch} if other.batch else {}
        if other.ard and rng.random() < 0.5:
            settings["ard_num_dims"] = q
        return other.build(q, settings)

    def another() -> Kernel:
        all_of_them = (*GPYTORCH.values(), *USER.values())
        fitting = [each for each in all_of_them if _fits(each, q) and (each.alone or structure not in BARE)]
        return leaf(fitting[rng.integers(len(fitting))])

    def alone(kernels: Any, f: Tensor) -> Any:
        return kernels[0](f)

    if structure == "scaled":
        return [ScaleKernel(leaf(), batch_shape=batch)], alone
    if structure == "sum":
        return [ScaleKernel(leaf()) + another()], alone
    if structure == "product":
        return [leaf() * another()], alone
    if structure == "nested":
        return [ScaleKernel(ScaleKernel(leaf()) * another()) + ScaleKernel(leaf())], alone
    if structure == "sum in forward":
        return [leaf(), another()], lambda kernels, f: kernels[0](f) + 0.7 * kernels[1](f)
    if structure == "product in forward":
        return [leaf(), another()], lambda kernels, f: kernels[0](f).mul(kernels[1](f))
    if structure == "on columns":
        inner, other = leaf(), gpytorch.kernels.RBFKernel(active_dims=(0,))
        return [ScaleKernel(inner), other], lambda kernels, f: kernels[0](f[..., 1:]) + kernels[1](f)
    return [leaf()], alone


def _fits(family: Family, q: int) -> bool:
    """Return whether a family can be combined with another one, for any inputs."""
    return family.parts and family.inputs == "any" and q in family.columns


def _inputs(kind: str, n: int, q: int, rng: np.random.Generator) -> Tensor:
    if kind == "grid":
        return gpytorch.utils.grid.create_data_from_grid(grid(q)).double()
    if kind == "tasks":
        return torch.from_numpy(rng.integers(0, 4, (n, 1)).astype(float))
    if kind == "tokens":
        tokens = torch.from_numpy(rng.integers(0, 3, (n, q // 3)))
        return torch.nn.functional.one_hot(tokens, 3).flatten(1).double()
    return torch.from_numpy(rng.uniform(-0.7, 0.7, (n, q)))


# --- the oracle -------------------------------------------------------------------------------------------------------


def loss(case: Case) -> float:
    """Return −log N(y | m, K) ÷ rows by NumPy from GPyTorch's entries, summed over a batch."""
    with torch.no_grad():
        marginal = case.model.likelihood(case.model(*case.model.train_inputs))
        covariance = marginal.covariance_matrix.numpy()
        residual = (case.y - marginal.mean).reshape(*covariance.shape[:-1]).numpy()
    factor = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(factor, residual[..., None])[..., 0]
    logs = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    n = residual.shape[-1]
    return float(np.sum((0.5 * (whitened**2).sum(-1) + logs + 0.5 * n * np.log(2 * np.pi)) / n))


def difference(value: Callable[[], float], tensor: Tensor, place: int, step: float) -> tuple[float, float]:
    """Return a derivative extrapolated from steps of 1, ½ and ¼, and a bound on its error without rounding."""
    flat, found = tensor.detach().view(-1), []
    here = float(flat[place])
    for h in (step, step / 2, step / 4):
        ends = []
        for sign in (1, -1):
            flat[place] = here + sign * h
            ends.append((float(flat[place]), value()))
        (up, above), (down, below) = ends
        found.append((above - below) / (up - down))
    flat[place] = here
    first, second = ((4 * b - a) / 3 for a, b in zip(found[:-1], found[1:], strict=True))
    return (16 * second - first) / 15, abs(second - first)


def differences(case: Case, scale: float) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return derivatives of the loss in every parameter and their errors; scale: of relevant derivatives."""
    found = {}
    for name, tensor in case.model.named_parameters():
        if not tensor.requires_grad:  # a fixed parameter
            continue
        values, errors = np.zeros(tensor.numel()), np.full(tensor.numel(), np.inf)
        for step in STEPS:
            near = OF_DIFFERENCES * max(ALLOWED * np.abs(values).max(initial=0.0), NOTHING * scale)
            for place in np.nonzero(errors > near)[0]:
                value, error = difference(lambda: loss(case), tensor, int(place), step)
                if error < errors[place]:
                    values[place], errors[place] = value, error
        found[name] = values, errors
    return found


# --- the campaign -----------------------------------------------------------------------------------------------------


def gradients(case: Case) -> dict[str, NDArray[np.float64]]:
    """Return the gradients of the loss inside the context of apviz."""
    case.model.zero_grad()
    with mock.patch.object(derivatives, "DERIVATIVE_TILE", case.tile), case.context():
        (-case.mll(case.model(*case.model.train_inputs), case.y)).sum().backward()
    named = case.model.named_parameters()
    return {name: (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1).numpy() for name, p in named}


def judge(seed: int, family: str | None = None) -> Verdict:
    """Train one step of the case of a seed, and compare its gradient with differences of the loss."""
    with _quietly_in_float64():
        return _judged(case(seed, family))


def _judged(made: Case) -> Verdict:
    began = time.process_time()
    try:
        found = gradients(made)
    except (TypeError, ValueError) as refused:
        return Verdict("refused" if made.words["kernel"] in REFUSED else "false", str(refused))
    except Exception as error:
        return Verdict("error", f"{type(error).__name__}: {error}")
    if made.words["kernel"] in REFUSED:
        return Verdict("false", "taken, and it cannot be evaluated in tiles")
    scale = max(np.abs(each).max(initial=0.0) for each in found.values())
    worst = 0.0
    for name, (expected, errors) in differences(made, scale).items():
        allowed = max(ALLOWED * np.abs(expected).max(initial=0.0), NOTHING * scale)
        if errors.max(initial=0.0) > allowed:
            return Verdict("not differentiable here", f"{name}: differences are off by {errors.max():.1e}")
        off = np.abs(found[name] - expected).max(initial=0.0)
        worst = max(worst, off / allowed * ALLOWED)
        if not off <= allowed:
            return Verdict("false", f"{name} is {found[name]}, by differences {expected}: off by {off:.1e}", off, 0.0)
    if time.process_time() - began > ENDLESS:
        return Verdict("endless", f"{time.process_time() - began:.0f} s of the processor")
    return Verdict("the differences'", f"off by at most {worst:.1e}, relative", worst)


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    with _quietly_in_float64():
        return case(seed).words


@contextmanager
def _quietly_in_float64() -> Iterator[None]:
    """Make float64 the default dtype, in which some GPyTorch kernels compute, so that differences are accurate."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)
