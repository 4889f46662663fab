"""KeOps; it compiles a module per kernel, number of inputs and number of columns, so d = 3 and p = 2 throughout."""

import os

import pytest
import torch

from apviz import RBF, KernelSystem
from apviz.kernels import KERNELS
from apviz.operators.keops import FORMULAS
from tests.device import DEVICE

pytest.importorskip("pykeops", reason="pykeops is not installed: apviz[keops]")

slow = pytest.mark.slow
KINDS = [pytest.param(KERNELS[name], marks=() if name == "rbf" else slow) for name in FORMULAS]


@pytest.fixture
def system():
    def make(kind):
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(45, 3, generator=generator)
        x[30:] = x[:15]  # duplicates: KeOps takes sqrt(0)
        b = torch.rand(45, 2, generator=generator)
        return KernelSystem(
            x, b, kind(lengthscale=(0.3, 0.5, 2.0), outputscale=1.4), noise=0.1, operator="keops", device=DEVICE
        )

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_keops_products_equal_dense_ones(exact_kernel, system, kind):
    system = system(kind)
    operator, b = system.operator, system.b
    k = torch.tensor(exact_kernel(system.kernel, system.x))
    noise = 0.1 * torch.eye(45, dtype=torch.float64)
    rows = torch.tensor([3, 44, 17, 5])
    close = {"rtol": 1e-5, "atol": 1e-4}
    torch.testing.assert_close(operator.matmul(b).double(), (k + noise) @ b.double(), **close)
    torch.testing.assert_close(
        operator.columns_matmul(rows, b[:4]).double(), (k + noise)[:, rows] @ b[:4].double(), **close
    )
    torch.testing.assert_close(operator.block(rows).double(), (k + noise)[rows][:, rows], **close)
    torch.testing.assert_close(operator.columns(slice(2, 7)).double(), k[:, 2:7], **close)
    z = system.x[:4] + 0.05
    expected = torch.tensor(exact_kernel(system.kernel, z, system.x)) @ b.double()
    torch.testing.assert_close(operator.cross_matmul(z, b).double(), expected, **close)
    order = torch.arange(44, -1, -1)
    expected = (k + noise)[order][:, order] @ b.double()
    torch.testing.assert_close(operator.reordered(order).matmul(b).double(), expected, **close)


@slow
def test_a_block_of_one_row_and_one_test_point_work_too(exact_kernel, system):
    system = system(RBF)
    k = torch.tensor(exact_kernel(system.kernel, system.x), dtype=torch.float32)
    u = system.b[:1]
    expected = k[:, 7:8] @ u
    expected[7] += 0.1 * u[0]
    torch.testing.assert_close(system.operator.columns_matmul(slice(7, 8), u), expected)
    torch.testing.assert_close(system.operator.cross_matmul(system.x[7:8], system.b), k[7:8] @ system.b)


def test_the_engine_names_keops_and_its_version(system):
    import pykeops

    operator = system(RBF).operator
    assert operator.name == "keops" and operator.engine == f"KeOps {pykeops.__version__}"


def test_keops_rejects_arguments_that_it_would_read_out_of_bounds(system):
    with pytest.raises(ValueError, match=r"must be \(45, p\)"):
        system(RBF).operator.matmul(torch.ones(44, 2))


def test_without_a_compiler_the_error_says_what_is_needed(system, monkeypatch):
    def failing(*operands):
        raise ModuleNotFoundError("No module named 'pykeops_cpp_0'")

    monkeypatch.setattr("apviz.operators.keops.KeOpsOperator.cross_matmul", failing)
    with pytest.raises(RuntimeError, match=r"operator 'keops' cannot compile here .*pykeops_cpp_0.*C\+\+ compiler"):
        system(RBF).operator.prepare()


@pytest.mark.parametrize("columns", [1, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_prepare_compiles_for_the_columns_and_the_dtype_of_later_products(monkeypatch, columns, dtype):
    operands = []
    monkeypatch.setattr("apviz.operators.keops.KeOpsOperator.cross_matmul", lambda self, *given: operands.append(given))
    x, b = torch.zeros(9, 3, dtype=dtype), torch.zeros(9, dtype=dtype)
    operator = KernelSystem(x, b, RBF(), noise=0.1, operator="keops", device=DEVICE).operator
    operands.clear()
    operator.fix_engine(1e9, columns)
    ((z, u),) = operands
    assert z.shape == (2, 3) and u.shape == (9, columns) and z.dtype == u.dtype == dtype and u.device == z.device


def test_exact_values_and_those_of_some_rows_come_from_tiles_in_float64(exact_kernel, system):
    system = system(RBF)
    k = torch.tensor(exact_kernel(system.kernel, system.x))
    rows, identity = torch.tensor([3, 44, 17, 5]), torch.eye(45, dtype=torch.float64)
    found = system.operator.exact().matmul(identity)
    torch.testing.assert_close(found, k + 0.1 * identity, rtol=1e-9, atol=1e-9)
    found = system.operator.of_rows(rows, 0.7).matmul(identity[:4, :4])
    torch.testing.assert_close(found, k[rows][:, rows] + 0.7 * identity[:4, :4], rtol=1e-9, atol=1e-9)


def test_keops_gets_a_cache_of_the_process_if_the_home_folder_is_not_writable(monkeypatch):
    from apviz.operators.keops import find_cache

    monkeypatch.delenv("KEOPS_CACHE_FOLDER", raising=False)
    monkeypatch.setenv("HOME", "/dev/null/home")
    made = find_cache.__wrapped__()
    assert os.environ["KEOPS_CACHE_FOLDER"] == made.name and os.access(made.name, os.W_OK)
    # a folder that is set already is kept
    assert find_cache.__wrapped__() is None
    made.cleanup()
    monkeypatch.delenv("KEOPS_CACHE_FOLDER")
