import math

import numpy as np
import pandas as pd
import pytest
import torch

from apviz import RBF, KernelSystem, Matern52
from apviz.operators import make_operator

X = torch.linspace(0, 1, 12).reshape(6, 2)
B = torch.arange(6.0)


def with_value(tensor, value, *places):
    tensor = tensor.clone().double()
    for place in places:
        tensor[place] = value
    return tensor


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": with_value(X, math.nan, (0, 1), (4, 1))}, "x has 2 NaN or infinite values in column 1 "),
        ({"x": with_value(X, math.inf, (0, 0), (4, 1))}, "1 NaN or infinite values in column 0.*, and 1 other columns"),
        ({"b": with_value(B, -math.inf, 3)}, "b has 1 NaN or infinite values in column 0"),
        ({"b": with_value(torch.zeros(6, 3), math.nan, (2, 2), (3, 2))}, "b has 2 NaN or infinite values in column 2"),
        ({"b": with_value(B, 1e39, 3), "dtype": torch.float32}, "b has 1 .* in column 0"),
        ({"x": with_value(X, 1e39, (3, 1))}, r"x has 1 .* in column 1|inputs span"),
        ({"b": B[:5]}, r"b must have shape \(n,\) or \(n, l\+1\) with n = 6 as x has, got \(5,\)"),
        ({"b": torch.zeros(6, 2, 2)}, r"b must have shape .* got \(6, 2, 2\)"),
        ({"b": torch.zeros(6, 0)}, r"b must have shape .* got \(6, 0\)"),
        ({"b": torch.tensor(1.0)}, r"b must have shape .* got \(\)"),
        ({"x": X[:1], "b": B[:1]}, "a system needs at least 2 rows, x has 1"),
        ({"x": X[None]}, r"x must have shape \(n, d\) with d ≥ 1, got \(1, 6, 2\)"),
        ({"x": X[:, :0]}, r"x must have shape \(n, d\) with d ≥ 1, got \(6, 0\)"),
        ({"noise": 0.0}, "noise is the variance σ² and must be finite and positive, got 0.0"),
        ({"noise": -1e-3}, "noise is .* finite and positive, got -0.001"),
        ({"noise": math.nan}, "noise is .* finite and positive, got nan"),
        ({"noise": math.inf}, "noise is .* finite and positive, got inf"),
        ({"kernel": RBF(lengthscale=(0.1, 0.2, 0.3))}, "3 lengthscales were given for inputs with 2 columns"),
        ({"operator": "sparse"}, "operator must be auto, dense, tiled, fourier, keops, .*, got 'sparse'"),
        (
            {"operator": make_operator("dense", X[:5], RBF(lengthscale=0.3), 0.1)},
            "the operator has 5 points, x has 6",
        ),
        ({"operator": make_operator("dense", X, RBF(lengthscale=0.4), 0.1)}, "another kernel or noise"),
        (
            {"operator": make_operator("dense", X.double(), RBF(lengthscale=0.3), 0.1), "dtype": torch.float32},
            "the operator is in torch.float64",
        ),
        ({"dtype": torch.float16}, "dtype must be torch.float32, torch.float64 or None, got torch.float16"),
        ({"dtype": "float32"}, "dtype must be torch.float32, torch.float64 or None, got 'float32'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_rejected_with_a_message_that_names_it(changes, message):
    good = {"x": X, "b": B, "kernel": RBF(lengthscale=0.3), "noise": 0.1}
    with pytest.raises(ValueError, match=message):
        KernelSystem(**good | changes)


def test_a_data_frame_of_numbers_is_read_as_its_array():
    x = pd.DataFrame(X.numpy(), columns=["east", "north"])
    system = KernelSystem(x, pd.Series(B.numpy(), index=range(7, 13)), RBF(lengthscale=0.3), noise=0.1)
    assert torch.equal(system.x, X) and torch.equal(system.b[:, 0], B)


class MakesAMaskedArray:
    """Converts to a masked array, like lazy and labelled arrays on top of masked ones."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


MASKED = np.ma.masked_greater(X.double().numpy(), 0.5)
OBJECTS = np.empty(len(X), dtype=object)
OBJECTS[:] = list(MASKED)


@pytest.mark.parametrize(
    "x",
    [
        MASKED, list(MASKED), tuple(MASKED), [list(row) for row in MASKED], [list(MASKED[:3]), list(MASKED[3:])],
        [*X.double().numpy()[:-1], MASKED[-1]], OBJECTS, MakesAMaskedArray(MASKED),
        [[1.0, np.ma.masked]] * len(X),
        torch.masked.masked_tensor(X, X > 0.5),
    ],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors", "ignore:Warning. converting a masked element")
def test_masked_values_are_never_mistaken_for_numbers(x):
    assert MASKED.mask.any(1).all() is not True
    with pytest.raises(TypeError, match="x has masked values, which are missing"):
        KernelSystem(x, B, RBF(lengthscale=0.3), noise=0.1)


def test_masked_arrays_without_masked_values_are_accepted():
    x = np.ma.masked_greater(X.double().numpy(), 1e9)
    for given in (x, list(x)):
        assert torch.equal(KernelSystem(given, B, RBF(lengthscale=0.3), noise=0.1).operator.given, X.double())


@pytest.mark.parametrize("missing", [None, pd.NA, np.nan])
def test_missing_values_are_never_mistaken_for_numbers(missing):
    rows = [[missing, 1.0], *X.double().tolist()[1:]]
    table = pd.DataFrame(rows, columns=["a", "b"])
    for x in (rows, table, table.astype("Float64"), table.astype(object), np.array(rows, dtype=object)):
        with pytest.raises((TypeError, ValueError), match="x must be numbers|x has 1 NaN"):
            KernelSystem(x, B, RBF(lengthscale=0.3), noise=0.1)


def test_arrays_of_any_memory_layout_are_accepted():
    table = pd.DataFrame(X.double().numpy()).astype("Float64")
    for x in (X.numpy()[::-1][::-1], X.double().numpy().astype(">f8"), X.numpy().astype(np.longdouble), table):
        torch.testing.assert_close(KernelSystem(x, B, RBF(lengthscale=0.3), noise=0.1, dtype=torch.float32).x, X)
    with pytest.raises(ValueError, match="noise = 1e.39 .* beyond what torch.float32 holds"):
        KernelSystem(X, B, RBF(lengthscale=0.3), noise=1e39)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "x must be numbers, a tensor or an array of them, got NoneType"),
        ({"b": ["a"] * 6}, "b must be numbers.*got list"),
        ({"x": pd.DataFrame({"place": list("abcdef")})}, "x must be numbers.*got DataFrame of"),
        ({"x": X.to("meta")}, "x must be a dense tensor of real numbers, got a meta tensor"),
        ({"x": X.to_sparse()}, "x must be a dense tensor of real numbers, got a torch.sparse_coo tensor"),
        ({"b": B * 1j}, "b must be a dense tensor of real numbers, got a .* of torch.complex64"),
    ],
)
def test_inputs_that_are_not_dense_real_numbers_are_rejected_by_name(changes, message):
    with pytest.raises(TypeError, match=message):
        KernelSystem(**{"x": X, "b": B, "kernel": RBF(lengthscale=0.3), "noise": 0.1} | changes)


@pytest.mark.parametrize("kernel", ["rbf", RBF, lambda x, z: x @ z.T])
def test_a_kernel_that_is_not_an_apviz_kernel_is_refused(kernel):
    with pytest.raises(TypeError, match="kernel must be an apviz kernel such as"):
        KernelSystem(X, B, kernel, noise=0.1)


def test_an_object_that_is_not_an_operator_is_rejected():
    with pytest.raises(TypeError, match="operator must be a name or an apviz operator, got NoneType"):
        KernelSystem(X, B, RBF(lengthscale=0.3), noise=0.1, operator=None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_a_missing_gpu_is_rejected_and_auto_uses_the_cpu(device):
    with pytest.raises(ValueError, match=r"device 'cuda.*' was asked for, but torch sees no GPU; use device='cpu'"):
        KernelSystem(X, B, RBF(lengthscale=0.3), noise=0.1, device=device)
    assert KernelSystem(X, B, RBF(lengthscale=0.3), noise=0.1).device == torch.device("cpu")


@pytest.mark.parametrize(
    "convert", [torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.double], ids=["numpy", "list", "float64"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inputs_of_any_array_type_are_converted_to_the_requested_dtype(convert, dtype):
    system = KernelSystem(convert(X), convert(B), RBF(lengthscale=0.3), noise=0.1, dtype=dtype, device="cpu")
    assert system.x.dtype == system.b.dtype == system.operator.x.dtype == dtype
    np.testing.assert_allclose(system.x, X, rtol=1e-6)
    assert (system.n, system.d) == (6, 2)


def test_integers_are_numbers_too():
    system = KernelSystem([[0, 1], [2, 3]], [1, -1], RBF(lengthscale=1.0), noise=1)
    assert system.x.tolist() == [[0, 1], [2, 3]] and system.b.tolist() == [[1], [-1]] and system.noise == 1.0


def test_a_vector_of_targets_is_one_column_and_a_vector_of_inputs_one_input():
    system = KernelSystem(torch.rand(5), torch.rand(5), RBF(lengthscale=0.3), noise=0.1)
    assert system.x.shape == system.b.shape == (5, 1) and system.single_column
    assert not KernelSystem(X, B[:, None], RBF(lengthscale=0.3), noise=0.1).single_column


def test_tensors_that_require_a_gradient_are_accepted_as_numbers():
    system = KernelSystem(
        X.clone().requires_grad_(), B.clone().requires_grad_(), Matern52(lengthscale=0.3), noise=0.1, operator="tiled"
    )
    assert not system.operator.matmul(system.b).requires_grad


def test_an_operator_with_the_same_points_is_used():
    operator = make_operator("tiled", X, RBF(lengthscale=0.3), 0.1)
    assert KernelSystem(X, B, RBF(lengthscale=0.3), noise=0.1, operator=operator, device="cpu").operator is operator


def test_the_repr_describes_the_system():
    system = KernelSystem(X, B, Matern52(lengthscale=0.3), noise=0.1, dataset="toy", operator="dense", device="cpu")
    for part in ("toy", "n=6", "d=2", "1 right-hand sides", "matern52", "noise=0.1", "dense", "float32", "cpu"):
        assert part in repr(system)


@pytest.mark.parametrize(
    ("x", "b", "expected"),
    [
        (X.float(), B.float(), torch.float32),
        (X.double(), B.float(), torch.float64),
        (X.float(), B.double(), torch.float64),
        (X.double().numpy(), B.double().tolist(), torch.float64),
        (X.numpy().round().astype(int) + np.arange(6)[:, None], [1, 2, 3, 4, 5, 6], torch.float32),
    ],
)
def test_the_default_dtype_is_that_of_the_data(x, b, expected):
    system = KernelSystem(x, b, RBF(lengthscale=0.3), noise=0.1, device="cpu")
    assert system.dtype == system.x.dtype == system.b.dtype == expected
