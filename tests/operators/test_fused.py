"""The fused engine against the textbook in float64 and its autograd: on a GPU, or by Triton's interpreter on the CPU.

The interpreter runs the programs one after another on NumPy arrays. It shows what they compute, but not races, limits
of shared memory, or the rounding of TF32.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from apviz import Matern52
from apviz.operators import fused
from tests.device import ON_CPU
from tests.operators import fused_cases

pytest.importorskip("triton", reason="Triton is for Linux: pip install 'apviz[gpu]'")
#: the largest error allowed, relative to the largest number
ALLOWED = {"float32": 1e-5, "float64": 1e-12}
ROOT = __file__.rsplit("/tests/", 1)[0]


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, float]]:
    """Return the errors of every case, relative to the largest number.

    The interpreter runs in a separate process, because Triton chooses it at import.
    """
    if not ON_CPU:
        return fused_cases.measured()
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    script = [sys.executable, "-m", "tests.operators.fused_cases"]
    ran = subprocess.run(script, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, dict[str, float]] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(
    ("dtype", "kernel", "what"),
    [
        (dtype, name, what)
        for dtype in ALLOWED
        for name in fused_cases.CASES
        for what in fused_cases.computed_with(name, dtype)
    ],
)
def test_the_fused_engine_agrees_with_the_textbook(measured, dtype, kernel, what):
    assert measured[f"{dtype} {kernel}"][what] < ALLOWED[dtype]


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 26, 100, 385, 400])
def test_it_agrees_for_any_number_of_inputs(measured, dtype, d):
    assert measured[f"{dtype} inputs"][str(d)] < ALLOWED[dtype]


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("sides", [1, 2, 4, 5, 15, 16, 17, 32, 33, 64, 65])
def test_it_agrees_for_any_number_of_right_hand_sides(measured, dtype, sides):
    assert measured[f"{dtype} sides"][str(sides)] < ALLOWED[dtype]


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("shape", ["1x1", "1x130", "63x64", "64x64", "65x1", "129x63", "3x1100"])
def test_it_agrees_at_any_edge_of_a_tile_and_with_columns_split_over_programs(measured, dtype, shape):
    assert measured[f"{dtype} edges"][shape] < ALLOWED[dtype]


@pytest.mark.parametrize("dtype", ALLOWED)
def test_coordinates_far_from_the_origin_lose_no_accuracy(measured, dtype):
    assert measured[f"{dtype} far"]["columns"] < ALLOWED[dtype]


@pytest.mark.parametrize("dtype", ALLOWED)
def test_repeated_calls_give_the_same_numbers(measured, dtype):
    assert measured[f"{dtype} twice"]["difference"] == 0.0


@pytest.mark.parametrize("solver", ["alternating projection", "CG"])
def test_a_solve_on_the_fused_engine_reaches_its_tolerance(measured, solver):
    assert measured["solved"][solver] < 1.01e-2


def test_compensated_sums_lose_less_than_one_rounding_and_float32_entries_stay_below_their_bound(measured):
    found = measured["compensated"]
    assert found["sums"] < 1.0 < found["bound"]
    assert found["sums"] < found["sums in float32"]
    assert found["products"] < found["bound"]


def test_a_residual_of_compensated_sums_is_certified_as_bounded_and_the_bound_holds(measured):
    found = measured["compensated"]
    assert found["is bounded"] == 1.0
    assert found["residual"] <= found["certified"] <= found["residual"] + 2 * found["error"]
    assert found["error"] < 1e-4


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("float16", "operator 'fused' computes in float32 or float64, not torch.float16; use operator='tiled'"),
        ("evaluated", "operator 'fused' lacks"),
        ("many parts", "or a kernel of more than 6 parts"),
    ],
)
def test_what_the_engine_lacks_is_rejected_with_an_alternative(measured, refused, said):
    assert said in measured["refused"][refused]


def test_auto_uses_the_engine_only_if_it_was_right_on_a_few_rows(measured):
    found = measured["trusted"]
    assert found["right"] == "True" and found["float64"] == "True" and found["float16"] == "False"
    assert found["wrong"].startswith("False: the fused engine errs by") and "'tiled' is used" in found["wrong"]
    assert found["wrong derivatives"].startswith("False: the fused engine errs by 2.0e+00")
    assert found["failing"] == "False: the fused engine failed on this machine, and 'tiled' is used: no driver"


def test_float64_uses_the_engine_only_if_it_was_right_too(measured):
    found = measured["trusted"]
    assert found["exact"] == "fused in torch.float64"
    assert found["exact of wrong"].startswith("tiled: the fused engine errs by")
    assert found["exact of failing"] == "tiled: the fused engine failed on this machine, and 'tiled' is used: no driver"


def test_all_derivatives_are_on_the_device_of_the_points(monkeypatch):
    monkeypatch.setattr(fused, "is_interpreted", lambda: True)
    monkeypatch.setattr(fused.FusedOperator, "_launch", lambda *_, **__: None)
    operator, v = fused.FusedOperator(torch.rand(5, 2), Matern52(), 0.1), torch.rand(5, 3, device="meta")
    features = operator.inputs.to("meta")
    assert {part.device.type for part in operator._gradients(features, features, v, v)} == {"meta"}


def test_a_product_of_no_rows_and_an_empty_block_launch_nothing(monkeypatch):
    def launched(*_, **__):
        raise AssertionError("launched")

    monkeypatch.setattr(fused, "is_interpreted", lambda: True)
    monkeypatch.setattr(fused.FusedOperator, "_launch", launched)
    operator, none = fused.FusedOperator(torch.rand(5, 2), Matern52(), 0.1), torch.rand(0, 2)
    assert operator.cross_matmul(none, torch.rand(5, 3)).shape == (0, 3)
    assert operator._fill(none, operator.inputs).shape == (0, 5)
    gradients = operator._gradients(none, operator.inputs, torch.rand(0, 3), torch.rand(5, 3))
    assert gradients.features.shape == (0, 2) and not any(part.any() for part in gradients[1:])


def test_compensated_sums_are_of_float64_vectors(monkeypatch):
    monkeypatch.setattr(fused, "is_interpreted", lambda: True)
    operator = fused.FusedOperator(torch.rand(5, 2), Matern52(), 0.1).compensated()
    with pytest.raises(ValueError, match=r"v must be \(5, p\) in float64 on cpu, got \(5, 1\) in torch.float32"):
        operator.matmul(torch.rand(5, 1))


def test_without_triton_the_engine_is_not_used_and_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(fused, "is_installed", lambda: False)
    assert not fused.is_trusted(torch.rand(5, 2), Matern52(), 0.1)
    with pytest.raises(ImportError, match="pip install 'apviz\\[gpu\\]', or use operator='tiled'"):
        fused.FusedOperator(torch.rand(5, 2), Matern52(), 0.1)


def test_without_a_gpu_and_without_the_interpreter_the_error_names_an_alternative():
    script = (
        "import torch, apviz; x = torch.rand(10, 2)\n"
        "apviz.KernelSystem(x, x[:, 0], apviz.RBF(), noise=0.1, operator='fused', device='cpu')"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert "operator 'fused' is for GPUs, and the points are on cpu; use operator='tiled'" in ran.stderr
