"""Neither TF32 nor bfloat16 rounds what apviz computes, whatever PyTorch's global flags allow.

TF32 errs by 5e-4 of a product of two numbers. On a device without it, the tests read the flags at every product.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from torch.utils._python_dispatch import TorchDispatchMode

import apviz
from apviz.operators import make_operator
from apviz.settings import without_tf32
from tests.device import DEVICE, only_on_a_gpu

NEWER = hasattr(torch.backends.cuda.matmul, "fp32_precision")
newer_flags = pytest.mark.skipif(not NEWER, reason="this PyTorch has no fp32_precision")
N, D, SIDES = 200, 6, 3  # with 6 inputs, tiles compute distances by matrix products
KERNEL = apviz.RBF(lengthscale=0.6, outputscale=1.3)
NOISE = 0.1


def flags() -> tuple[str, ...]:
    newer = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    try:
        named = torch.get_float32_matmul_precision()
    except RuntimeError:
        named = "set by backend"
    return (named, *(each.fp32_precision for each in newer if NEWER))


def allow_tf32() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True


def ask_for(precision: str) -> Callable[[], None]:
    return lambda: torch.set_float32_matmul_precision(precision)


def of_backend() -> None:
    torch.backends.cuda.matmul.fp32_precision = "tf32"


WAYS = {"allow_tf32": allow_tf32, "high": ask_for("high"), "medium": ask_for("medium")}


@contextmanager
def fast(way: Callable[[], None]):
    kept = flags()
    try:
        way()
        yield
    finally:
        torch.set_float32_matmul_precision(kept[0])
        if NEWER:
            torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision = kept[1:]


class AtProducts(TorchDispatchMode):
    """Collects the flags at every matrix product in float32."""

    PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "addmm_", "addmv_")

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.products = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.partition("::")[2]
        if name in self.PRODUCTS and any(
            isinstance(each, torch.Tensor) and each.dtype == torch.float32 for each in args
        ):
            self.products += 1
            self.found |= set(flags())
        return function(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    x, b = rng.uniform(-1, 1, (N, D)).astype(np.float32), rng.standard_normal((N, SIDES)).astype(np.float32)
    k = 1.3 * np.exp(-0.5 * cdist(x.astype(np.float64), x.astype(np.float64), "sqeuclidean") / 0.6**2)
    return torch.tensor(x), torch.tensor(b), k


def relative_error(found: torch.Tensor, exact: np.ndarray) -> float:
    return float(np.abs(found.detach().cpu().double().numpy() - exact).max() / np.abs(exact).max())


ENGINES = [
    "dense", "tiled", pytest.param("fused", marks=only_on_a_gpu("Triton compiles for GPUs")),
    pytest.param("fused-tf32x3", marks=only_on_a_gpu("Triton compiles for GPUs")),
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ENGINES)
def test_products_and_blocks_agree_with_dense_float64(given, way, name):
    x, b, k = given
    k_noise = k + NOISE * np.eye(N)
    v, rows = b.to(DEVICE), torch.arange(0, N, 2)
    with fast(WAYS[way]):
        operator = make_operator(name, x.to(DEVICE), KERNEL, NOISE)
        r = torch.zeros_like(v)
        operator.subtract_columns_(r, rows.to(DEVICE), v[::2])
        found = {
            "matmul": (operator.matmul(v), k_noise @ b.double().numpy()),
            "cross": (operator.cross_matmul(x.to(DEVICE), v), k @ b.double().numpy()),
            "columns": (r, -k_noise[:, ::2] @ b[::2].double().numpy()),
            "rows": (operator.rows_matmul(slice(0, 50), v), k_noise[:50] @ b.double().numpy()),
            "block": (operator.block(slice(0, N)), k_noise),
        }
    assert {each: relative_error(*pair) < 1e-5 for each, pair in found.items()} == dict.fromkeys(found, True)


@pytest.mark.parametrize("way", WAYS)
def test_a_gram_matrix_agrees_with_dense_float64(given, way):
    x, _, k = given
    with fast(WAYS[way]):
        assert relative_error(KERNEL(x.to(DEVICE)), k) < 1e-5
        linear = apviz.Linear(lengthscale=1.0)(x.to(DEVICE))
    products = x.double() @ x.double().T
    scale = float(linear[0, 0]) / float(products[0, 0])
    assert relative_error(linear, scale * products.numpy()) < 1e-5


SOLVERS = {
    "alternating projection": apviz.AlternatingProjection(block_size=100, tol=1e-5, max_epochs=2000),
    "CG": apviz.ConjugateGradient(tol=1e-5, preconditioner=apviz.PivotedCholesky(rank=20)),
    "Cholesky": apviz.Cholesky(tol=1e-5),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operator", ["dense", "tiled"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solve_reaches_the_residual_that_it_claims(given, way, operator, solver):
    x, b, k = given
    system = apviz.KernelSystem(x, b, KERNEL, noise=NOISE, operator=operator, device=DEVICE)
    with fast(WAYS[way]):
        solution = apviz.solve(system, SOLVERS[solver])
    left = b.double().numpy() - (k + NOISE * np.eye(N)) @ solution.weights.cpu().double().numpy()
    residual = np.linalg.norm(left, axis=0) / np.linalg.norm(b.double().numpy(), axis=0)
    assert solution.converged and residual.mean() < 1.1e-5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operator", ["dense", "tiled"])
def test_no_product_of_a_solve_uses_the_flags_and_they_are_unchanged_afterwards(given, way, operator):
    x, b, _ = given
    system = apviz.KernelSystem(x, b, KERNEL, noise=NOISE, operator=operator, device=DEVICE)
    with fast(WAYS[way]):
        before = flags()
        with AtProducts() as seen:
            apviz.solve(system, SOLVERS["CG"])
            apviz.solve(system, SOLVERS["alternating projection"])
        after = flags()
    assert seen.products > 0 and not seen.found & {"high", "medium", "tf32", "bf16"}
    assert before == after


def test_predictions_do_not_use_the_flags_either(given):
    x, b, _ = given
    h = apviz.Hyperparameters.of(KERNEL, NOISE, 0.0)
    with fast(allow_tf32), AtProducts() as seen:
        posterior = apviz.Posterior(x, b[:, 0], h, apviz.Cholesky(), device=DEVICE)
        posterior.mean(x[:9])
        posterior.variance(x[:9])
    assert not seen.found & {"high", "medium", "tf32", "bf16"}


@pytest.mark.parametrize("way", [*WAYS.values(), pytest.param(of_backend, marks=newer_flags)])
def test_the_flags_are_restored_after_an_error_and_by_nested_guards(way):
    with fast(way):
        before = flags()
        with pytest.raises(ZeroDivisionError), without_tf32(), without_tf32():
            assert torch.get_float32_matmul_precision() == "highest"
            raise ZeroDivisionError
        assert flags() == before


def test_without_these_flags_nothing_is_set():
    before = flags()
    with without_tf32():
        assert flags() == before


@only_on_a_gpu("the CPU has no TF32")
def test_these_tests_would_notice_tf32(given):
    k = given[2]
    matrix = torch.tensor(k, dtype=torch.float32).to(DEVICE)
    with fast(allow_tf32):
        assert relative_error(matrix @ matrix, k @ k) > 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_inputs_in_half_precision_are_solved_in_float32(given, dtype):
    x, b, _ = given
    with pytest.warns(UserWarning, match="only accurate to .* of a lengthscale"):
        coarse = apviz.KernelSystem(x.to(dtype), b.to(dtype), apviz.RBF(lengthscale=0.05), noise=NOISE, device=DEVICE)
    fine = apviz.KernelSystem(
        x.to(dtype).float(), b.to(dtype).float(), apviz.RBF(lengthscale=0.05), noise=NOISE, device=DEVICE
    )
    assert coarse.dtype == torch.float32 and torch.equal(coarse.b, fine.b)
    found, expected = (apviz.solve(each, apviz.Cholesky(tol=1e-4)).weights for each in (coarse, fine))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_refused_as_the_dtype_of_a_solve(given, dtype):
    with pytest.raises(ValueError, match="dtype must be torch.float32, torch.float64 or None, got"):
        apviz.KernelSystem(given[0], given[1], KERNEL, noise=NOISE, dtype=dtype, device=DEVICE)


def test_a_guard_that_was_never_exited_does_not_disable_later_ones():
    without_tf32().__enter__()  # as after Ctrl-C between its entry and its body
    with fast(WAYS["high"]), without_tf32():
        assert torch.get_float32_matmul_precision() == "highest"
