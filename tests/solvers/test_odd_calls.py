"""Odd systems, solvers, hooks, seeds and weights: each is used, or rejected with its name."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import apviz
from apviz import partitions, rules, solvers
from apviz.preconditioners import Nystrom
from apviz.solvers.interface import SOLVERS
from tests.device import DEVICE

X = torch.rand(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def make_system(**changed):
    given = {"noise": 0.1, "device": DEVICE} | changed
    return apviz.KernelSystem(X, torch.sin(5 * X).sum(1), apviz.Matern52(lengthscale=0.5), **given)


@pytest.mark.parametrize("odd", [None, 3, "system", apviz.KernelSystem])
def test_solve_and_advise_reject_objects_that_are_not_systems(odd):
    with pytest.raises(TypeError, match="system must be an apviz.KernelSystem, got"):
        apviz.solve(odd, apviz.Automatic())
    with pytest.raises(TypeError, match="system must be an apviz.KernelSystem, got"):
        apviz.advise(odd)


@pytest.mark.parametrize("odd", [3, torch.tensor(0.5), object()])
def test_hooks_that_are_not_a_list_are_rejected(odd):
    with pytest.raises(TypeError, match="hooks must be a list of objects of apviz.Hook, got"):
        apviz.solve(make_system(), apviz.Automatic(), hooks=odd)


def test_a_set_up_of_the_wrong_type_is_rejected():
    with pytest.raises(TypeError, match="prepared must be what solver.prepare"):
        apviz.solve(make_system(), apviz.Automatic(), prepared="yesterday")


@pytest.mark.parametrize("device", ["tpu", "", "meta", object(), 1.5])
def test_a_device_that_stores_no_numbers_is_rejected_by_name(device):
    with pytest.raises(ValueError, match="device"):
        make_system(device=device)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: apviz.AlternatingProjection(block_size=10, rule="random", seed=seed),
        lambda seed: apviz.AlternatingProjection(block_size=10, rule=rules.Random(seed=seed)),
        lambda seed: apviz.AlternatingProjection(block_size=10, rule=rules.Shuffled(seed=seed)),
        lambda seed: apviz.AlternatingProjection(block_size=10, partition=partitions.ShuffledRows(seed=seed)),
        lambda seed: apviz.ConjugateGradient(preconditioner=apviz.TwoLevelSchwarz(seed=seed)),
        lambda seed: apviz.ConjugateGradient(preconditioner=apviz.RandomlyPivotedCholesky(rank=5, seed=seed)),
        lambda seed: apviz.ConjugateGradient(preconditioner=Nystrom(rank=5, seed=seed)),
        lambda seed: solvers.ASkotch(seed=seed),
    ],
)
def test_a_numpy_integer_is_a_seed_and_other_types_are_rejected(make):
    of_numpy, of_python = (apviz.solve(make_system(), make(seed)).weights for seed in (np.int64(3), 3))
    assert torch.equal(of_numpy, of_python)
    for odd in (2**70, 10**400, -1, "3", 1.5, [3], torch.tensor(0.5)):
        with pytest.raises(
            ValueError, match="seed must be a whole number, at least 0, at most 4611686018427387904, got"
        ):
            make(odd)


def test_initial_weights_may_have_another_byte_order_and_invalid_ones_are_rejected_by_name():
    system = make_system()
    start = np.linspace(0, 1, 30).astype(">f8")
    assert apviz.solve(system, apviz.Cholesky(), initial_weights=start).converged
    with pytest.raises(TypeError, match="initial_weights must be numbers"):
        apviz.solve(system, apviz.Cholesky(), initial_weights="zeros")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_ragged_rows_and_quantized_tensors_are_rejected_by_name():
    for odd in ([[1.0], [1.0, 2.0]], torch.quantize_per_tensor(X.float(), 0.1, 0, torch.qint8)):
        with pytest.raises(TypeError, match="x must be"):
            apviz.KernelSystem(odd, torch.zeros(2), apviz.RBF(), noise=0.1, device=DEVICE)


def test_a_message_shows_the_beginning_of_a_long_value_in_one_line():
    with pytest.raises(ValueError, match="tol must be") as refused:
        apviz.Automatic(tol=np.arange(10_000.0))
    assert len(str(refused.value)) < 400 and "\n" not in str(refused.value)


def test_a_tolerance_whose_square_overflows_ends_at_once():
    for solver in (solvers.ASkotch(tol=1e308), apviz.AlternatingProjection(block_size=10, tol=1e308)):
        assert apviz.solve(make_system(), solver).converged


def test_invalid_solvers_in_a_request_for_advice_are_rejected_by_name():
    for odd, name in (({}, "solvers"), ({"a": 1}, r"solvers\['a'\]"), ("cg", "solvers")):
        with pytest.raises((TypeError, ValueError), match=f"{name} must be"):
            apviz.advise(make_system(), odd)


@pytest.mark.parametrize("dtype", [np.array([]), "float64", torch.float16])
def test_an_invalid_dtype_is_rejected_by_name(dtype):
    with pytest.raises(ValueError, match="dtype must be"):
        make_system(dtype=dtype)


def numbers_of(solver):
    defaults = {field.name: field.default for field in dataclasses.fields(solver)}
    return [name for name, value in defaults.items() if isinstance(value, int | float) and not isinstance(value, bool)]


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("odd", [float("nan"), float("-inf"), "much"])
def test_a_setting_of_a_solver_that_is_not_a_number_is_rejected_by_name(name, odd):
    for setting in numbers_of(SOLVERS[name]):
        with pytest.raises((ValueError, TypeError), match=rf"^{setting} must be .*, got"):
            SOLVERS[name](**{setting: odd})
