"""Print the measurements of `test_fused.py` as JSON: errors of the fused engine against float64 formulas in this file.

Points and right-hand sides are float32 numbers, whatever the dtype of the engine.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import apviz
from apviz.operators import OPERATORS
from tests.device import DEVICE

NOISE = 0.3


def squared(x: Tensor, z: Tensor, lengthscale: float | Tensor = 1.0) -> Tensor:
    return ((x[:, None] / lengthscale - z[None] / lengthscale) ** 2).sum(-1)


def distance(x: Tensor, z: Tensor, lengthscale: float | Tensor = 1.0) -> Tensor:
    gap = squared(x, z, lengthscale)
    return torch.where(gap > 0, torch.where(gap > 0, gap, 1.0).sqrt(), 0.0)


def matern52(x: Tensor, z: Tensor, lengthscale: float | Tensor = 1.0) -> Tensor:
    r = math.sqrt(5) * distance(x, z, lengthscale)
    return (1 + r + r**2 / 3) * torch.exp(-r)


def matern32(x: Tensor, z: Tensor, lengthscale: float = 1.0) -> Tensor:
    r = math.sqrt(3) * distance(x, z, lengthscale)
    return (1 + r) * torch.exp(-r)


def rbf(x: Tensor, z: Tensor, lengthscale: float = 1.0) -> Tensor:
    return torch.exp(-squared(x, z, lengthscale) / 2)


def piecewise0(x: Tensor, z: Tensor, lengthscale: float) -> Tensor:
    r, j = distance(x, z, lengthscale), 3 // 2 + 0 + 1
    return torch.clamp(1 - r, min=0) ** j


def piecewise2(x: Tensor, z: Tensor, lengthscale: float) -> Tensor:
    r, j = distance(x, z, lengthscale), 3 // 2 + 2 + 1
    return torch.clamp(1 - r, min=0) ** (j + 2) * (1 + (j + 2) * r + (j**2 + 4 * j + 3) / 3 * r**2)


ARD = (0.5, 1.0, 2.0)
#: kernels of three inputs, with their formulas
CASES: dict[str, tuple[apviz.Kernel, Callable[[Tensor, Tensor], Tensor]]] = {
    "matern12": (
        apviz.Matern12(lengthscale=0.7, outputscale=2.0), lambda x, z: 2.0 * torch.exp(-distance(x, z, 0.7)),
    ),
    "matern32": (apviz.Matern32(lengthscale=0.7), lambda x, z: matern32(x, z, 0.7)),
    "matern52": (apviz.Matern52(lengthscale=0.7), lambda x, z: matern52(x, z, 0.7)),
    "rbf": (apviz.RBF(lengthscale=0.7), lambda x, z: rbf(x, z, 0.7)),
    "ard": (apviz.Matern52(lengthscale=ARD), lambda x, z: matern52(x, z, torch.tensor(ARD, dtype=x.dtype))),
    "rational-quadratic": (
        apviz.RationalQuadratic(lengthscale=0.7, alpha=1.3),
        lambda x, z: (1 + squared(x, z, 0.7) / (2 * 1.3)) ** -1.3,
    ),
    "periodic": (
        apviz.Periodic(period=0.9, lengthscale=1.2).on((0,)),
        lambda x, z: torch.exp(-2 * torch.sin(math.pi * (x[:, None, 0] - z[None, :, 0]) / 0.9) ** 2 / 1.2**2),
    ),
    "polynomial": (apviz.Polynomial(degree=2, offset=0.5), lambda x, z: (x @ z.T + 0.5) ** 2),
    "piecewise-0": (apviz.PiecewisePolynomial(q=0, lengthscale=1.5), lambda x, z: piecewise0(x, z, 1.5)),
    "piecewise-2": (apviz.PiecewisePolynomial(q=2, lengthscale=1.5), lambda x, z: piecewise2(x, z, 1.5)),
    "piecewise-0 of one input": (
        apviz.PiecewisePolynomial(q=0, lengthscale=0.4).on((0,)),
        lambda x, z: torch.clamp(1 - distance(x[:, :1], z[:, :1], 0.4), min=0),
    ),
    "sum": (
        2.0 * apviz.RBF(lengthscale=0.4) + apviz.Matern32(lengthscale=2.0),
        lambda x, z: 2.0 * rbf(x, z, 0.4) + matern32(x, z, 2.0),
    ),
    "product": (
        apviz.RBF(lengthscale=0.4).on((0, 1)) * apviz.Matern32(lengthscale=2.0).on((2,)),
        lambda x, z: rbf(x[:, :2], z[:, :2], 0.4) * matern32(x[:, 2:], z[:, 2:], 2.0),
    ),
    "with-white": (
        apviz.RBF(lengthscale=0.4) + 0.3 * apviz.White(),
        lambda x, z: rbf(x, z, 0.4) + 0.3 * (squared(x, z) == 0).to(x),
    ),
    "sum-of-products": (
        0.7 * apviz.RBF(lengthscale=0.4).on((0,)) * apviz.Matern32(lengthscale=2.0).on((2,))
        + 1.5 * apviz.Matern52(lengthscale=0.9),
        lambda x, z: 0.7 * rbf(x[:, :1], z[:, :1], 0.4) * matern32(x[:, 2:], z[:, 2:], 2.0) + 1.5 * matern52(x, z, 0.9),
    ),
}  # fmt: skip


def points(n: int, d: int, seed: int) -> Tensor:
    """Draw points in float32, so that the engine and the oracle use the same ones."""
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed))


def normal(n: int, p: int, seed: int) -> Tensor:
    return torch.randn(n, p, generator=torch.Generator().manual_seed(seed))


def error(found: Tensor, true: Tensor) -> float:
    return float((found.cpu().double() - true).abs().max() / true.abs().max())


def on(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return values on the device of the engine; oracles stay on the CPU."""
    return values.to(DEVICE, dtype)


def fused(x: Tensor, kernel: apviz.Kernel, dtype: torch.dtype) -> apviz.operators.Operator:
    return OPERATORS["fused"](on(x, dtype), kernel, NOISE)


#: what a case computes
COMPUTED = ("columns", "columns of one side", "block", "rows", "cross", "derivatives")


def computed_with(name: str, dtype: str) -> tuple[str, ...]:
    """Return what is computed with a kernel: all in float32, and in float64, which takes the interpreter longest, every
    kernel and every product, but not every pair of them."""
    if dtype == "float32":
        return COMPUTED
    products = COMPUTED[:-1]
    return tuple(products[list(CASES).index(name) % 2 :: 2]) + COMPUTED[-1:]


def of_a_kernel(name: str, dtype: torch.dtype) -> dict[str, float]:
    kernel, textbook = CASES[name]
    n = 90 if dtype == torch.float32 else 50
    chosen = slice(20, n - 3)
    x, z, operator = points(n, 3, 0), points(37, 3, 1), fused(points(n, 3, 0), kernel, dtype)
    k = textbook(x.double(), x.double())
    full, u, v = k + NOISE * torch.eye(n, dtype=torch.float64), normal(n - 23, 3, 2), normal(n, 5, 3)
    one, a, b = u[:, :1], normal(n, 4, 4), normal(n, 4, 5)
    at = x.double().requires_grad_()
    total = ((a.double() @ b.double().T) * textbook(at, at)).sum()
    (by_inputs,) = torch.autograd.grad(total, at)
    derivatives = operator.bilinear_derivatives(on(a, dtype), on(b, dtype), with_inputs=True)
    assert derivatives.inputs is not None
    by_hyperparameters = [
        # derivative in the outputscale: the kernel is linear in it
        abs(float(derivatives.kernel[name]) * value - float(total)) / abs(float(total))
        for name, value in kernel.hyperparameters.items()
        if name == "outputscale" and isinstance(value, float)
    ]
    of: dict[str, Callable[[], float]] = {
        "columns": lambda: error(operator.columns_matmul(chosen, on(u, dtype)), full[:, chosen] @ u.double()),
        "columns of one side": lambda: error(
            operator.columns_matmul(chosen, on(one, dtype)), full[:, chosen] @ one.double()
        ),
        "block": lambda: error(operator.block(chosen), full[chosen, chosen]),
        "rows": lambda: error(operator.rows_matmul(chosen, on(v, dtype)), full[chosen] @ v.double()),
        "cross": lambda: error(
            operator.cross_matmul(on(z, dtype), on(v, dtype)), textbook(z.double(), x.double()) @ v.double()
        ),
        "derivatives": lambda: max([error(derivatives.inputs, by_inputs), *by_hyperparameters]),
    }
    return {what: of[what]() for what in computed_with(name, str(dtype).removeprefix("torch."))}


def rows_for(dtype: torch.dtype, single: int, double: int) -> int:
    """Return the number of rows: fewer in float64, whose tiles have an eighth of the columns."""
    return single if dtype == torch.float32 else double


def of_inputs(d: int, dtype: torch.dtype) -> float:
    lengthscale = math.sqrt(d)
    n = rows_for(dtype, 40, 12)
    x, u = points(n, d, d), normal(n, 16, 1)
    true = (matern52(x.double(), x.double(), lengthscale) + NOISE * torch.eye(n, dtype=torch.float64)) @ u.double()
    return error(fused(x, apviz.Matern52(lengthscale=lengthscale), dtype).matmul(on(u, dtype)), true)


def of_sides(p: int, dtype: torch.dtype) -> float:
    n = rows_for(dtype, 70, 20)
    x, u = points(n, 2, 0), normal(n, p, 1)
    true = (matern32(x.double(), x.double()) + NOISE * torch.eye(n, dtype=torch.float64)) @ u.double()
    return error(fused(x, apviz.Matern32(), dtype).matmul(on(u, dtype)), true)


def of_an_edge(n: int, m: int, dtype: torch.dtype) -> float:
    z, x, v = points(n, 2, 0), points(m, 2, 1), normal(m, 3, 2)
    found = fused(x, apviz.RBF(lengthscale=0.5), dtype).cross_matmul(on(z, dtype), on(v, dtype))
    return error(found, rbf(z.double(), x.double(), 0.5) @ v.double())


def refusals() -> dict[str, str]:
    said = {}
    x, rbf_ = points(10, 2, 0), apviz.RBF()
    many = rbf_
    for _ in range(6):
        many = many + apviz.RBF()

    def of_pairs(x: Tensor, z: Tensor, values: dict[str, Tensor]) -> Tensor:
        return torch.exp(-values["scale"] * torch.cdist(x, z))

    evaluated = apviz.kernels.Evaluated(of_pairs, {"scale": (2.0,)}, {"scale": (1,)}, "own")
    for name, make in {
        "float16": lambda: fused(x, rbf_, torch.float16),
        "evaluated": lambda: fused(x, evaluated, torch.float32),
        "many parts": lambda: fused(x, many, torch.float32),
    }.items():
        try:
            make()
            said[name] = "it was taken"
        except ValueError as refused:
            said[name] = str(refused)
    return said


def trusted() -> dict[str, str]:
    """Return which engine `operator="auto"` trusts on a GPU: one that is right, one that is wrong, one that fails."""
    from apviz.operators import fused as engine

    said = list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    engine.log.addHandler(handler)
    engine._trusted.clear()
    tried, engine.TRIED = engine.TRIED, 80  # rows; the interpreter takes seconds for more
    x, kernel = on(points(100, 2, 0), torch.float32), apviz.Matern32(lengthscale=0.5)
    found = {
        "right": str(engine.is_trusted(x, kernel, NOISE)),
        "float64": str(engine.is_trusted(x.double(), kernel, NOISE)),
        "float16": str(engine.is_trusted(x.half(), kernel, NOISE)),
    }
    operator = engine.FusedOperator(x, kernel, NOISE)
    found["exact"] = f"{operator.exact().name} in {operator.exact().x.dtype}"
    accumulate = engine.FusedOperator._accumulate

    def wrong(self: Any, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        accumulate(self, out, rows, columns, 1.01 * u)

    def failing(self: Any, out: Tensor, rows: Tensor, columns: Tensor, u: Tensor) -> None:
        raise RuntimeError("no driver")

    for name, broken in {"wrong": wrong, "failing": failing}.items():
        engine._trusted.clear()
        engine.FusedOperator._accumulate = broken  # type: ignore[method-assign]
        found[name] = f"{engine.is_trusted(x, kernel, NOISE)}: {said[-1]}"
        found[f"exact of {name}"] = f"{operator.exact().name}: {said[-1]}"
    engine.FusedOperator._accumulate = accumulate  # type: ignore[method-assign]
    gradients = engine.FusedOperator._gradients

    def wrong_derivatives(self: Any, *arguments: Tensor) -> Any:
        of_it = gradients(self, *arguments)
        return of_it._replace(features=-of_it.features)

    engine._trusted.clear()
    engine.FusedOperator._gradients = wrong_derivatives  # type: ignore[method-assign]
    found["wrong derivatives"] = f"{engine.is_trusted(x, kernel, NOISE)}: {said[-1]}"
    engine.FusedOperator._gradients = gradients  # type: ignore[method-assign]
    engine.TRIED = tried
    engine._trusted.clear()
    engine.log.removeHandler(handler)
    return found


def solves() -> dict[str, float]:
    n = 60
    x = points(n, 2, 0)
    b = torch.cat([torch.sin(6 * x[:, :1]), normal(n, 2, 1)], 1)
    k = matern52(x.double(), x.double(), 0.3) + NOISE * torch.eye(n, dtype=torch.float64)
    system = apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.3), noise=NOISE, operator="fused", device=DEVICE)
    found = {}
    for name, solver in {
        "alternating projection": apviz.AlternatingProjection(block_size=30, tol=1e-2),
        "CG": apviz.ConjugateGradient(tol=1e-2),
    }.items():
        weights = apviz.solve(system, solver).weights.cpu().double()
        left = torch.linalg.vector_norm(b.double() - k @ weights, dim=0) / torch.linalg.vector_norm(b.double(), dim=0)
        found[name] = float(left.mean())
    return found


def compensated() -> dict[str, float]:
    """Errors of B − KW in float32 with compensated sums, in units of float32's eps times K|W|, and of a solve by it."""
    n, found = 100, {}  # more rows and columns than a tile
    sizes = torch.logspace(0, 6, n, dtype=torch.float64)[:, None]
    x, eps = points(n, 2, 0), torch.finfo(torch.float32).eps
    v = normal(n, 2, 1).double() * sizes  # with digits that float32 drops
    operator = fused(x, apviz.Matern32(lengthscale=0.5), torch.float32)
    exact_sums = operator.block(slice(0, n)).cpu().double()
    exact_sums.diagonal().copy_(torch.full((n,), 1.0 + NOISE, dtype=torch.float64))
    true = matern32(x.double(), x.double(), 0.5) + NOISE * torch.eye(n, dtype=torch.float64)
    products, size = operator.compensated().matmul(v.to(DEVICE)).cpu(), true @ v.abs()
    in_float32 = operator.matmul(on(v, torch.float32)).cpu().double()
    found["sums"] = float(((products - exact_sums @ v).abs() / size).max()) / eps
    found["sums in float32"] = float(((in_float32 - exact_sums @ v).abs() / size).max()) / eps
    found["products"] = float(((products - true @ v).abs() / size).max()) / eps
    found["bound"] = operator.compensated().entry_rounding / eps
    b = torch.sin(6 * x[:, :1])
    system = apviz.KernelSystem(x, b, apviz.Matern32(lengthscale=0.5), noise=NOISE, operator="fused", device=DEVICE)
    solution = apviz.solve(system, apviz.ConjugateGradient(tol=1e-4), certify="compensated")
    left = torch.linalg.vector_norm(b.double() - true @ solution.weights.cpu()) / torch.linalg.vector_norm(b.double())
    certificate = solution.certificate
    assert certificate is not None
    found |= {"residual": float(left), "certified": certificate.residual, "error": certificate.error}
    return found | {"is bounded": float(certificate.kind == "bounded" and solution.converged)}


def of_a_dtype(dtype: torch.dtype) -> dict[str, dict[str, float]]:
    """Return the errors of every case in float32 or float64, by name."""
    found = {name: of_a_kernel(name, dtype) for name in CASES}
    found["inputs"] = {str(d): of_inputs(d, dtype) for d in (1, 2, 3, 7, 26, 100, 385, 400)}
    found["sides"] = {str(p): of_sides(p, dtype) for p in (1, 2, 4, 5, 15, 16, 17, 32, 33, 64, 65)}
    shapes = ((1, 1), (1, 130), (63, 64), (64, 64), (65, 1), (129, 63), (3, 1100))
    found["edges"] = {f"{n}x{m}": of_an_edge(n, m, dtype) for n, m in shapes}
    x, u = points(70, 2, 0) + 64.0, normal(70, 3, 1)
    true = (rbf(x.double(), x.double(), 0.2) + NOISE * torch.eye(70, dtype=torch.float64)) @ u.double()
    operator, u = fused(x, apviz.RBF(lengthscale=0.2), dtype), on(u, dtype)
    found["far"] = {"columns": error(operator.matmul(u), true)}
    found["twice"] = {"difference": float((operator.matmul(u) - operator.matmul(u)).abs().max())}
    return found


def measured() -> dict[str, dict[str, float] | dict[str, str]]:
    """Return the errors of every case, by name."""
    found: dict[str, dict[str, float] | dict[str, str]] = {}
    for dtype in (torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        found |= {f"{name} {case}": errors for case, errors in of_a_dtype(dtype).items()}
    found["solved"] = solves()
    found["compensated"] = compensated()
    found["refused"] = refusals()
    found["trusted"] = trusted()
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measured()))
