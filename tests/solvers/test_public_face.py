"""What users of solvers see: warnings that point at their own line, and errors that help."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import warnings

import numpy as np
import pytest
import torch

import apviz
from apviz.method import Method
from apviz.preconditioners import PRECONDITIONERS, Preconditioner
from apviz.solvers.serialization import from_plain, to_plain
from tests.device import DEVICE

X = np.linspace(0, 1, 50)[:, None]


def system(**settings):
    return apviz.KernelSystem(X, np.sin(6 * X[:, 0]), apviz.RBF(lengthscale=0.1), noise=1e-3, device=DEVICE, **settings)


SHORT = apviz.ConjugateGradient(max_epochs=1)


def test_a_solve_that_did_not_converge_warns_at_the_line_that_asked_for_it():
    with pytest.warns(
        apviz.NotConverged, match="CG did not converge. After 1 epoch or iteration the residual is "
    ) as caught:
        solution = apviz.solve(system(), SHORT)
    assert caught[0].filename == __file__ and caught[0].message.solution is solution


def test_on_request_it_raises_with_the_solution_so_far_and_the_error_can_be_pickled():
    with pytest.raises(apviz.NotConverged) as raised:
        apviz.solve(system(), SHORT, throw=True)
    assert raised.value.solution.epochs == 1
    for other in (pickle.loads(pickle.dumps(raised.value)), copy.deepcopy(raised.value)):
        assert str(other) == str(raised.value)
        torch.testing.assert_close(other.solution.weights, raised.value.solution.weights)


def test_a_converged_solve_and_a_solve_of_a_comparison_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", apviz.NotConverged)
        apviz.solve(system(), apviz.Cholesky())
        apviz.solvers.attempt(system(), SHORT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_float64_is_not_advised_if_weights_and_residual_use_it_already(dtype):
    solution = apviz.solvers.attempt(system(dtype=dtype), apviz.Cholesky(tol=1e-30))
    assert "float64" not in solution.stop_message and "a larger tol" in solution.stop_message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: apviz.solve(s, "cg"), "solver must be such as apviz.Automatic"),
        (lambda s: apviz.solve(s, apviz.Cholesky), r"solver must be an object, such as Cholesky\(\)"),
        (lambda s: apviz.solve(s, SHORT, apviz.Recorder()), r"hooks must be a list, such as hooks=\[Recorder"),
        (lambda s: apviz.solve(s, SHORT, [apviz.Recorder]), "hooks must be objects of apviz.Hook, got the class Rec"),
        (lambda s: SHORT.prepare(s), "takes an operator; of a KernelSystem, its `operator`"),
        (lambda s: apviz.ConjugateGradient(preconditioner="pivoted-cholesky"), "an object of apviz.preconditioners"),
        (
            lambda s: apviz.AlternatingProjection(rule=apviz.rules.Cyclic),
            r"an object, such as Cyclic\(\), got the class",
        ),
        (lambda s: apviz.diagnose("run.zarr"), r"such as apviz.open_trace\(path\), got str"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named_with_an_example_of_the_right_one(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(system())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Diagonal(Preconditioner):
    """r ↦ r / diagonal^power."""

    power: float = 1.0

    def build(self, operator):
        return lambda r: r / operator.uncounted.diagonal()[:, None] ** self.power


def test_a_registered_custom_preconditioner_is_named_with_its_settings_and_recorded(monkeypatch):
    monkeypatch.setattr(PRECONDITIONERS, "_kinds", dict(PRECONDITIONERS._kinds))
    PRECONDITIONERS.register("diagonal")(Diagonal)
    PRECONDITIONERS.register("diagonal")(Diagonal)  # as running a notebook cell again does
    half, two = (apviz.ConjugateGradient(preconditioner=Diagonal(power=power)) for power in (0.5, 2.0))
    assert half.method != two.method and (half.method.name, half.method.details) == ("CG + diagonal", "power 0.5")
    recorder = apviz.Recorder()
    apviz.solve(system(), half, hooks=[recorder])
    assert recorder.trace.method == half.method and from_plain(to_plain(half)) == half


def test_the_method_of_a_trace_is_read_in_full_or_rejected():
    method = apviz.AlternatingProjection(block_size=10, partition=apviz.partitions.Sequential(overlap=0.5)).method
    assert Method.from_plain(method.plain() | {"of a later version": 1}) == method
    assert not Method(family="conjugate-gradient", source="gpytorch").is_plain_cg
    for wrong in ({"rule": 3}, {"overlap": [1]}, {"partition": {}}, {"family": None}):
        with pytest.raises(ValueError, match="method must"):
            Method.from_plain(method.plain() | wrong)


PARTS = {
    "step": apviz.solvers.Subspace(length=3), "columns": apviz.solvers.Skeletons(rank=4, near=7),
    "precision": apviz.solvers.Precision(recursion="float32", factors="float16"),
}  # fmt: skip


@pytest.mark.parametrize(
    "solver",
    [apviz.AlternatingProjection(), apviz.solvers.overlapping(), apviz.AlternatingProjection(**PARTS)],
    ids=["paper", "overlapping", "parts"],
)
def test_alternating_projection_is_read_back_unchanged(solver):
    assert from_plain(json.loads(json.dumps(to_plain(solver)))) == solver


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"type": "Bisection"}, r"solver must be one of .*AlternatingProjection.*, got 'Bisection'"),
        ({"type": "Cholesky", "speed": 3}, "Cholesky has no setting 'speed'"),
        ("Cholesky", "solver must be a dictionary of settings or null, got 'Cholesky'"),
        ({"type": "AlternatingProjection", "seed": "many"}, "seed must"),
    ],
)
def test_a_saved_solver_that_is_not_one_is_refused_by_name(plain, said):
    with pytest.raises(ValueError, match=said):
        from_plain(plain)


def test_a_solver_with_a_part_of_its_own_is_described_but_not_saved():
    solver = apviz.ConjugateGradient(tol=np.float64(0.5), preconditioner=Diagonal(power=2.0))
    with pytest.raises(ValueError, match=r"preconditioner = Diagonal\(power=2.0\) cannot be saved; those that can are"):
        to_plain(solver)
    described = to_plain(solver, strict=False)
    assert described["preconditioner"] == "Diagonal(power=2.0)" and json.loads(json.dumps(described))["tol"] == 0.5


@pytest.mark.parametrize(
    ("setting", "value", "accepted"),
    [
        ("step", "nope", "plain, subspace"), ("step", apviz.solvers.Subspace, "plain, subspace"),
        ("columns", 3, "exact, skeletons"), ("precision", "float8", "system, float32, float64, auto"),
    ],
)  # fmt: skip
def test_an_invalid_part_is_rejected_with_the_list_of_parts(setting, value, accepted):
    with pytest.raises(ValueError, match=f"{setting} must be one of {accepted}, or an object of apviz.solvers"):
        apviz.AlternatingProjection(**{setting: value})


def test_a_name_means_the_part_with_its_defaults():
    by_name = apviz.AlternatingProjection(step="subspace", columns="skeletons", precision="auto")
    assert by_name == apviz.AlternatingProjection(
        step=apviz.solvers.Subspace(), columns=apviz.solvers.Skeletons(),
        precision=apviz.solvers.Precision(recursion="auto", factors="auto"),
    )  # fmt: skip
