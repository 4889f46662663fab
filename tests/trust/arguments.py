"""Odd arguments of every public function: a correct run, or one sentence that names the argument or its value.

A case is its seed: a call that is good, of which one or two arguments are replaced by what people and programs hand
over: NaN, infinities, nothing, one row, other dtypes and shapes, texts, None, truth values, views, tensors with a graph.
What is accepted is used; where a solve then says that it converged, its residual is computed afresh.
"""

from __future__ import annotations

import functools
import inspect
import io
import math
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console

import apviz
from apviz import datasets, gp, partitions, plots, preconditioners, rkhs, rules, solvers
from apviz.factors import NotPositiveDefinite
from apviz.operators import CountingOperator
from tests.textbook import CORRELATIONS
from tests.trust.bounds import Endless, TooLarge, bounded, fault_of
from tests.trust.truth import MARGIN, Verdict

#: what is documented of public functions
KINDS: tuple[type[BaseException], ...] = (
    ValueError, TypeError, NotPositiveDefinite, apviz.NotConverged, apviz.TrainingError, OSError,
    datasets.DatasetUnavailable,
)  # fmt: skip
#: characters of a value that a sentence shows
_SHOWN = 12
N, D = 40, 2


# --- what is handed over ----------------------------------------------------------------------------------------------


class _Odd:
    """An object that is no number; its repr is as long as some are."""

    def __repr__(self) -> str:
        return "<odd " + "o" * 250 + ">"


NUMBERS: tuple[Any, ...] = (
    math.nan, math.inf, -math.inf, 0, 0.0, -0.0, -1, -0.5, 1, 2, 3, 7, 0.5, 1e-320, 1e308, -1e308, 1e-12, 2**31, 2**63,
    2**70, 10**400, True, False, None, "", "0.5", "auto", "many", "None", b"1", [], [1.0], [0.1, 0.2], (0.1, 0.2, 0.3),
    [math.nan, 1.0], ["a"], {}, {"a": 1}, set(), np.float32(0.5), np.float64(math.nan), np.int64(3), np.uint8(200),
    np.bool_(True), np.array(0.5), np.array([0.5]), np.array([0.5, 0.2]), np.array([]), np.array("a"),
    torch.tensor(0.5), torch.tensor([0.5, 0.2]), torch.tensor(3), torch.tensor(0.5, requires_grad=True), 1 + 2j,
    Decimal("0.5"), Fraction(1, 2), object, _Odd(), range(3), torch.float32, torch.float16, "float64",
)  # fmt: skip
TEXTS: tuple[Any, ...] = (
    "", "auto", "ap", "AP", "kd-tree", "cyclic", "dense", "tiled", "cpu", "cuda", "cuda:7", "tpu", "meta", "keops", "\x00",
    "é" * 300, "../x", "a/b", "x.zarr", ".", "/", "/dev/null", "/nowhere/at/all", None, 5, b"x", Path("y.zarr"), [], ["x"],
    True, math.nan, _Odd(), "light", "work", "solves", "lanczos", "standard", "adam", "l-bfgs",
)  # fmt: skip


#: what Python takes for true or false
FLAGS: tuple[Any, ...] = (True, False, None, 0, 1, "", "yes", np.bool_(True), math.nan, [], _Odd())


def _array(good: np.ndarray) -> tuple[Callable[[], Any], ...]:
    """Other arrays in the place of a good one, made when they are drawn."""
    n = len(good)

    def with_value(value: float) -> np.ndarray:
        changed = good.copy()
        changed.reshape(-1)[n // 2] = value
        return changed

    return (
        lambda: with_value(math.nan), lambda: with_value(math.inf), lambda: with_value(-math.inf),
        lambda: with_value(1e300), lambda: with_value(1e-320), lambda: good * 1e160, lambda: good * 1e-200,
        lambda: good * 1e39, lambda: -good, lambda: good * 0, lambda: good + 1e9,
        lambda: good[:0], lambda: good[:1], lambda: good[:2], lambda: good[: n // 2], lambda: np.concatenate([good, good]),
        lambda: good.T, lambda: good[None], lambda: good[..., None], lambda: good.reshape(-1), lambda: good.sum(),
        lambda: np.zeros((n, 0)), lambda: np.zeros((0, 0)), lambda: np.array([]), lambda: (good * 9).astype(int),
        lambda: good > 0, lambda: good.astype(np.float16), lambda: good.astype(np.longdouble), lambda: good.astype(">f8"),
        lambda: good * 1j, lambda: good.astype(str), lambda: good.astype(object), lambda: np.full(good.shape, "a"),
        lambda: np.full(good.shape, None), lambda: good.tolist(), lambda: [[1.0], [1.0, 2.0]], lambda: pd.DataFrame(good),
        lambda: pd.DataFrame(good).astype("Float64"), lambda: pd.Series(good.reshape(n, -1)[:, 0]),
        lambda: pd.DataFrame(good).astype(str), lambda: np.ma.masked_greater(good, 0.5), lambda: np.asfortranarray(good),
        lambda: np.lib.stride_tricks.as_strided(good, writeable=False), lambda: good[::-1], lambda: np.repeat(good, 2, 0)[::2],
        lambda: torch.from_numpy(good.copy()), lambda: torch.from_numpy(good.copy()).float(),
        lambda: torch.from_numpy(good.copy()).half(), lambda: torch.from_numpy(good.copy()).bfloat16(),
        lambda: torch.from_numpy(good.copy()).requires_grad_(), lambda: torch.from_numpy(good[:1].copy()).expand(*good.shape),
        lambda: torch.from_numpy(good.copy()).to_sparse(), lambda: torch.from_numpy(good.copy()).to("meta"),
        lambda: torch.from_numpy(good.copy()).cfloat(), lambda: (torch.from_numpy(good.copy()) * 9).int(),
        lambda: torch.from_numpy(good.copy()).T, lambda: torch.nn.Parameter(torch.from_numpy(good.copy())),
        lambda: torch.quantize_per_tensor(torch.from_numpy(good.copy()).float(), 0.1, 0, torch.qint8),
        lambda: None, lambda: 3.0, lambda: "x", lambda: {}, lambda: {"a": good}, lambda: set(), lambda: (each for each in good),
        lambda: np.array(["2020-01-01"] * n, dtype="M8[D]"), lambda: np.zeros(n, dtype=[("a", "f8"), ("b", "f8")]),
        lambda: _Odd(), lambda: object, lambda: range(n), lambda: np.zeros((n, 2, 2)), lambda: True,
    )  # fmt: skip


# --- good ones --------------------------------------------------------------------------------------------------------


@functools.cache
def _x() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (N, D))


@functools.cache
def _y() -> np.ndarray:
    return np.asarray(np.sin(5 * _x()).sum(1))


def _kernel() -> apviz.Kernel:
    return apviz.Matern52(lengthscale=0.6)


def _system(**changed: Any) -> apviz.KernelSystem:
    given = {"x": _x(), "b": _y(), "kernel": _kernel(), "noise": 0.1, "device": "cpu"} | changed
    return apviz.KernelSystem(given.pop("x"), given.pop("b"), given.pop("kernel"), **given)


def _hyperparameters(**changed: Any) -> apviz.Hyperparameters:
    return apviz.Hyperparameters(
        **{"kernel": "matern52", "lengthscale": (0.6,), "outputscale": 1.0, "noise": 0.1} | changed  # type: ignore[arg-type]
    )


@functools.cache
def _posterior() -> apviz.Posterior:
    return apviz.Posterior(_x(), _y(), _hyperparameters(), device="cpu")


@functools.cache
def _trace() -> apviz.Trace:
    recorder = apviz.Recorder(rows=True, snapshots=range(3))
    apviz.solve(_system(), apviz.AlternatingProjection(block_size=10), hooks=[recorder])
    return recorder.trace


@functools.cache
def _fitted() -> apviz.GaussianProcess:
    return apviz.GaussianProcess(hyperparameters=_hyperparameters(), device="cpu").fit(_x(), _y())


# --- what is done with them -------------------------------------------------------------------------------------------


def _numbers_of(values: Any) -> np.ndarray:
    """As float64, by NumPy alone."""
    if isinstance(values, torch.Tensor):
        return values.detach().double().numpy()
    return np.asarray(values.astype(np.float64) if hasattr(values, "astype") else values, dtype=np.float64)


def _check_solution(
    solution: apviz.Solution, tol: float, x: Any, b: Any, noise: Any = 0.1, lengthscale: float = 0.6
) -> None:
    """Holds what is called converged to its residual, by textbook formulas."""
    if not solution.converged:
        return
    x, b = _numbers_of(x), _numbers_of(b)
    x, b = x.reshape(len(x), -1), b.reshape(len(b), -1)
    r = np.sqrt((((x[:, None] - x[None]) / lengthscale) ** 2).sum(-1))
    k = CORRELATIONS["matern52"](r) + np.diag(np.broadcast_to(np.asarray(_numbers_of(noise)).reshape(-1), (len(x),)))
    w = solution.weights.double().numpy().reshape(b.shape)
    unit = np.where(np.abs(b).max(0) > 0, np.abs(b).max(0), 1)
    true = (np.linalg.norm((b - k @ w) / unit, axis=0) / np.maximum(np.linalg.norm(b / unit, axis=0), 1e-300)).mean()
    assert true <= MARGIN * float(tol), f"called converged to {tol}, the residual is {true:.2e}"


def _solve_system(**changed: Any) -> None:
    system = _system(**changed)
    solution = apviz.solve(system, apviz.Automatic(tol=1e-3))
    if "kernel" not in changed:
        _check_solution(
            solution,
            1e-3,
            *(changed.get(name, good()) for name, good in (("x", _x), ("b", _y))),
            changed.get("noise", 0.1),
        )


def _solve_with(kind: type[Any], **settings: Any) -> None:
    solver = kind(**{"max_epochs": 20} | settings if "max_epochs" in inspect.signature(kind).parameters else settings)
    _check_solution(apviz.solve(_system(), solver), solver.tol, _x(), _y())


def _solve_preconditioned(kind: type[Any], **settings: Any) -> None:
    solver = apviz.ConjugateGradient(preconditioner=kind(**settings), max_epochs=20)
    _check_solution(apviz.solve(_system(), solver), solver.tol, _x(), _y())


def _use_kernel(make: Callable[..., Any], **settings: Any) -> None:
    kernel = make(**settings)
    solution = apviz.solve(_system(kernel=kernel), apviz.Cholesky())
    assert torch.isfinite(solution.weights).all(), "weights are not finite"
    kernel(torch.from_numpy(_x()))


def _of_matern(combine: Callable[[apviz.Kernel, Any], Any]) -> Callable[..., Any]:
    def make(other: Any) -> Any:
        return combine(_kernel(), other)

    return make


def _solve_call(**changed: Any) -> None:
    given: dict[str, Any] = {"system": _system(), "solver": apviz.Automatic()} | changed
    apviz.solve(given.pop("system"), given.pop("solver"), **given)


def _recorded(**settings: Any) -> None:
    recorder = apviz.Recorder(**settings)
    apviz.solve(_system(), apviz.AlternatingProjection(block_size=10), hooks=[recorder])
    assert len(recorder.trace["epoch"]["work"]) > 1, "nothing is recorded"


def _hooked(kind: type[Any], **settings: Any) -> None:
    given = {"test_x": torch.from_numpy(_x()), "test_y": torch.from_numpy(_y())} | settings
    hook = kind(**(given if kind is apviz.PredictionHook else settings))
    apviz.solve(_system(), apviz.AlternatingProjection(block_size=10), hooks=[hook])


def _made_posterior(**changed: Any) -> None:
    own = {
        name: changed.pop(name)
        for name in list(changed)
        if name in ("outputscale", "lengthscale", "mean_", "kernel", "hyper_noise")
    }
    renamed = {{"mean_": "mean", "hyper_noise": "noise"}.get(name, name): value for name, value in own.items()}
    given: dict[str, Any] = {
        "x": _x(),
        "y": _y(),
        "hyperparameters": _hyperparameters(**renamed),
        "device": "cpu",
    } | changed
    posterior = apviz.Posterior(given.pop("x"), given.pop("y"), given.pop("hyperparameters"), **given)
    z = _x()[:3] if posterior.system.d == D else posterior.system.x[:3]
    mean, variance = posterior.mean(z), posterior.variance(z)
    assert torch.isfinite(mean).all() and (variance >= 0).all(), "a prediction is not finite"


def _predicted(method: str, **changed: Any) -> None:
    given: dict[str, Any] = {} if method in ("samples",) else {"x_star": _x()[:5]}
    if method == "variance_by_rank":
        given["ranks"] = [1, 5]
    if method == "samples":
        given["count"] = 3
    given |= changed
    found = getattr(_posterior(), method)(**given)
    found = found(_x()[:5]) if method == "samples" else found
    assert torch.isfinite(found).all(), "a prediction is not finite"


def _fit(**changed: Any) -> None:
    given: dict[str, Any] = {"x": _x(), "y": _y(), "max_steps": 3, "device": "cpu"} | changed
    x, y = given.pop("x"), given.pop("y")
    model = apviz.GaussianProcess(**given).fit(x, y)
    mean, std = model.predict(_numbers_of(model.posterior_.system.x)[:3] * 0, return_std=True, include_noise=True)
    assert np.isfinite(mean).all() and (std > 0).all(), "a prediction is not finite"


def _of_fitted(method: str, **changed: Any) -> None:
    given: dict[str, Any] = {"x": _x()[:4]} if method in ("predict", "sample_y", "negative_log_likelihood") else {}
    if method == "predict":
        given |= {"return_std": True, "include_noise": True}
    if method == "negative_log_likelihood":
        given["y"] = _y()[:4]
    found = getattr(_fitted(), method)(**given | changed)
    for each in found if isinstance(found, tuple) else (found,):
        assert each is None or np.isfinite(each).all(), "what is returned is not finite"


def _trained(**changed: Any) -> None:
    names = inspect.signature(apviz.TrainingSettings).parameters
    settings: dict[str, Any] = {"steps": 2, "probes": 3} | {
        name: value for name, value in changed.items() if name in names
    }
    given = {"x": _x(), "y": _y(), "device": "cpu"} | {
        name: value for name, value in changed.items() if name not in names
    }
    made = given.pop("settings", None) if "settings" in changed else apviz.TrainingSettings(**settings)
    h = apviz.Training(given.pop("x"), given.pop("y"), made, **given).run()
    assert math.isfinite(h.noise) and h.noise > 0, "the noise that is trained is not positive"


def _advised(**changed: Any) -> None:
    given: dict[str, Any] = {"system": _system()} | changed
    str(apviz.advise(given.pop("system"), **given))


def _plotted(make: Callable[..., Any], **changed: Any) -> None:
    first = next(iter(inspect.signature(make).parameters))
    good: dict[str, Any] = {first: _trace()}
    if "update" in inspect.signature(make).parameters:
        good["update"] = 1
    make(**good | changed)


def _of_span(make: Callable[..., Any], **changed: Any) -> None:
    span = rkhs.Span(_x()[:12], _kernel(), 0.1)
    names = inspect.signature(make).parameters
    good: dict[str, Any] = {"span": span, "b": _y()[:12], "block_size": 4, "steps": 4, "epochs": 3, "first": [0, 1], "second": [2, 3],
                            "partition": "sequential", "blocks": 2 if make is rkhs.trajectory else [[0, 1], [2, 3]], "sizes": [2, 3],
                            "sets": [[0, 1], [2, 3]]}  # fmt: skip
    if make is rkhs.trajectory:
        good.pop("block_size")
    make(**{name: value for name, value in good.items() if name in names} | changed)


def _call(make: Callable[..., Any], good: Mapping[str, Any], **changed: Any) -> None:
    make(**{**good, **changed})


def _lanczos(**changed: Any) -> None:
    inverse = apviz.LanczosInverse(CountingOperator(_system().operator))
    given: dict[str, Any] = {"x_star": torch.from_numpy(_x()[:3]), "ranks": [1, 4]} | changed
    if "rank" in given:
        inverse.extend(given["rank"])
        return
    inverse.explained(**given)


@dataclass(frozen=True)
class Recipe:
    """A call.

    Attributes:
        name: public.
        use: makes it with some arguments, and uses what it gives.
        arguments: and what may be in their place: `number`, `text`, or the name of a good array.
        also: words by which a refusal may name an argument, beside the argument's own.
    """

    name: str
    use: Callable[..., None]
    arguments: Mapping[str, str]
    also: tuple[str, ...] = ()
    #: scikit-learn's conventions: its own checks say several lines, and RuntimeError where two are asked for
    is_of_sklearn: bool = False


def _of(kind: Callable[..., Any], without: tuple[str, ...] = (), **special: str) -> dict[str, str]:
    """Arguments of a callable; texts where its default is one."""
    found = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if name in without or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = parameter.default
        kind = (
            "flag"
            if isinstance(default, bool)
            else "text"
            if isinstance(default, str) and name != "block_size"
            else "number"
        )
        found[name] = special.get(name, kind)
    return found


@functools.cache
def recipes() -> tuple[Recipe, ...]:
    """All calls."""
    arrays = {"x": "x", "b": "y", "y": "y", "x_star": "x", "test_x": "x", "test_y": "y", "noise": "number"}
    found = [
        *(Recipe(kind.__name__, functools.partial(_use_kernel, kind), _of(kind), ("inputs span",)) for kind in (
            apviz.RBF, apviz.Matern12, apviz.Matern32, apviz.Matern52, apviz.RationalQuadratic, apviz.Periodic, apviz.Linear,
            apviz.Constant, apviz.White, apviz.PiecewisePolynomial)),
        Recipe("Cosine", lambda **given: _use_kernel(lambda: apviz.Cosine(**given).on(0)), _of(apviz.Cosine)),
        Recipe("Polynomial", functools.partial(_use_kernel, functools.partial(apviz.Polynomial, degree=2)), _of(apviz.Polynomial)),
        Recipe("SpectralMixture", functools.partial(_use_kernel, functools.partial(
            apviz.SpectralMixture, weights=[1.0], means=[[0.5, 0.5]], scales=[[1.0, 1.0]])), _of(apviz.SpectralMixture)),
        Recipe("Groups", lambda **given: _use_kernel(lambda: apviz.Groups(**{"factor": [[1.0], [0.5]], "variances": [0.1, 0.1]} | given).on(0)),
               _of(apviz.Groups), ("group", "column 0")),
        Recipe("Kernel.on", functools.partial(_use_kernel, lambda columns: _kernel().on(columns)), {"columns": "number"}, ("column",)),
        Recipe("Kernel + …", functools.partial(_use_kernel, _of_matern(lambda one, other: one + other)), {"other": "number"},
               ("unsupported operand", "kernel", "concatenate")),
        Recipe("… * Kernel", functools.partial(_use_kernel, _of_matern(lambda one, other: other * one)), {"other": "number"},
               ("unsupported operand", "kernel", "multiply sequence", "outputscale")),
        *[Recipe("KernelSystem", _solve_system, _of(apviz.KernelSystem, **arrays), ("dtype", "column", "row", "inputs"))] * 4,  # type: ignore[arg-type]
        *(Recipe(kind.__name__, functools.partial(_solve_with, kind), _of(kind)) for kind in (
            apviz.AlternatingProjection, apviz.AlternatingProjection, apviz.AlternatingProjection, apviz.ConjugateGradient,
            apviz.Automatic, apviz.Cholesky, solvers.ASkotch, solvers.CoordinateDescentPlusPlus,
            solvers.StochasticDualDescent, solvers.GradientDescent)),
        *(Recipe(kind.__name__, functools.partial(_solve_preconditioned, kind), _of(kind)) for kind in (
            apviz.PivotedCholesky, apviz.RandomlyPivotedCholesky, apviz.TwoLevelSchwarz, preconditioners.Nystrom)),
        Recipe("solve", _solve_call, _of(apviz.solve, initial_weights="y"), ("hook",)),
        Recipe("Recorder", _recorded, _of(apviz.Recorder, path="text", spectrum="text"), ("snapshot", "trace", "file")),
        Recipe("StopHook", functools.partial(_hooked, apviz.StopHook), _of(apviz.StopHook, ("when",))),
        Recipe("PredictionHook", functools.partial(_hooked, apviz.PredictionHook), _of(apviz.PredictionHook, test_x="x", test_y="y")),
        Recipe("ProgressHook", functools.partial(_hooked, functools.partial(apviz.ProgressHook, console=Console(file=io.StringIO()))),
               _of(apviz.ProgressHook, ("also",))),
        *[Recipe("Posterior", _made_posterior, _of(apviz.Posterior, x="x", y="y", noises="y", weights="y", initial_weights="y"),
                 ("noise", "hook"))] * 2,
        Recipe("Hyperparameters", _made_posterior, {"lengthscale": "number", "outputscale": "number", "mean_": "number",
                                                    "hyper_noise": "number", "kernel": "text"}, ("noise", "mean")),
        *(Recipe(f"Posterior.{method}", functools.partial(_predicted, method), _of(getattr(apviz.Posterior, method), ("self",), x_star="x"),
                 ("x_star", "hook", "samples")) for method in ("mean", "variance", "covariance", "variance_by_rank", "samples")),
        *[Recipe("GaussianProcess", _fit, _of(apviz.GaussianProcess, kernel="text", path="text") | {"x": "x", "y": "y"},
                 ("X", "feature", "array", "sample", "input", "trace"), True)] * 3,
        *(Recipe(f"GaussianProcess.{method}", functools.partial(_of_fitted, method),
                 _of(getattr(apviz.GaussianProcess, method), ("self",), x="x", y="y", theta="y"), ("X", "feature", "array", "sample", "hook", "random", "theta", "Complex", "Seed"), True)
          for method in ("predict", "sample_y", "log_marginal_likelihood", "negative_log_likelihood")),
        Recipe("GaussianProcess.load", lambda path: apviz.GaussianProcess.load(path), {"path": "text"}, ("file", "model", "directory")),
        Recipe("GaussianProcess.save", lambda path: _fitted().save(path), {"path": "text"}, ("file", "model")),
        *[Recipe("Training", _trained, _of(apviz.TrainingSettings) | _of(apviz.Training, x="x", y="y", path="text"), ("trace", "targets", "inputs"))] * 2,
        Recipe("advise", _advised, _of(apviz.advise, without=("clock",)), ("hook",)),
        Recipe("diagnose", lambda **given: _call(apviz.diagnose, {"trace": _trace()}, **given), _of(apviz.diagnose)),
        Recipe("open_trace", apviz.open_trace, {"path": "text"}, ("trace", "file")),
        Recipe("rademacher", lambda **given: _call(apviz.rademacher, {"n": 5, "count": 2, "seed": 0, "like": torch.zeros(1)}, **given),
               _of(apviz.rademacher)),
        Recipe("LanczosInverse", _lanczos, {"x_star": "x", "ranks": "number", "rank": "number"}, ("rank", "z must")),
        Recipe("gp.rmse", lambda **given: _call(gp.rmse, {"mean": _y(), "y": _y()}, **given), {"mean": "y", "y": "y"}),
        Recipe("gp.negative_log_likelihood", lambda **given: _call(
            gp.negative_log_likelihood, {"mean": _y(), "variance": _y() ** 2 + 1, "y": _y()}, **given), {"mean": "y", "variance": "y", "y": "y"}),
        *(Recipe(f"plots.{name}", functools.partial(_plotted, getattr(plots, name)), _of(getattr(plots, name)), ("trace",))
          for name in plots.__all__ if name not in ("FittedFunction", "ResidualMap", "method_color")),
        *(Recipe(f"datasets.{name}", functools.partial(_call, getattr(datasets, name), {"name": "diabetes"}), _of(getattr(datasets, name)),
                 ("data set", "name")) for name in ("load", "card", "is_here", "require_here")),
        *(Recipe(f"datasets.{name}", functools.partial(_call, getattr(datasets, name), {"name": "bike"}), _of(getattr(datasets, name)),
                 ("published", "name")) for name in ("published_hyperparameters", "published_residuals", "published_training")),
        *(Recipe(f"rkhs.{name}", functools.partial(_of_span, getattr(rkhs, name)), _of(getattr(rkhs, name), ("span",), b="y"), ("block", "set", "row", "point"))
          for name in ("trajectory", "blocks_of", "compare_rules", "compare_with_bound", "contraction", "friedrichs_angle", "principal_angles",
                       "lambda_max_by_size", "block_spectrum", "trajectory_on")),
        Recipe("rkhs.Span", lambda **given: _call(rkhs.Span, {"x": _x(), "kernel": _kernel(), "noise": 0.1}, **given),
               {"x": "x", "kernel": "text", "noise": "number"}),
        Recipe("rkhs.two_blocks", lambda **given: _call(rkhs.two_blocks, {"points": 4, "distance": 0.5}, **given), _of(rkhs.two_blocks)),
        Recipe("rules.GaussSouthwell", lambda **given: _solve_with(apviz.AlternatingProjection, block_size=10, rule=rules.GaussSouthwell(**given)),
               {"short_block": "text"}),
        Recipe("rules.Random", lambda **given: _solve_with(apviz.AlternatingProjection, block_size=10, rule=rules.Random(**given)), {"seed": "number"}),
        Recipe("partitions.ShuffledRows", lambda **given: _solve_with(
            apviz.AlternatingProjection, block_size=10, partition=partitions.ShuffledRows(**given)), {"seed": "number"}),
    ]  # fmt: skip
    return tuple(found)


@dataclass
class Case:
    """A call with odd arguments; their kinds for people."""

    recipe: Recipe
    odd: dict[str, Any]


def case(seed: int) -> Case:
    """The case of a seed."""
    rng = np.random.default_rng(seed)

    def one_of(values: Any) -> Any:
        return values[rng.integers(len(values))]

    recipe = one_of(recipes())
    names = rng.permutation(sorted(recipe.arguments))[: 1 + int(rng.random() < 0.3)]
    odd = {}
    for name in map(str, names):
        kind = recipe.arguments[name]
        if kind in ("x", "y") and rng.random() < 0.85:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                odd[name] = one_of(_array(_x() if kind == "x" else _y()))()
        elif kind == "flag":
            odd[name] = one_of(FLAGS)
        else:
            odd[name] = one_of(TEXTS if (kind == "text") != (rng.random() < 0.2) else NUMBERS)
    return Case(recipe, odd)


# --- the verdict ------------------------------------------------------------------------------------------------------


@contextmanager
def _elsewhere() -> Any:
    """A folder of its own to work in: some odd texts are paths."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def judge(seed: int) -> Verdict:
    """Makes the call of a seed."""
    made = case(seed)
    said = f"{made.recipe.name} with {_shown(made.odd)}"
    try:
        with _elsewhere(), warnings.catch_warnings(), bounded(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            made.recipe.use(**made.odd)
    except Endless as error:
        return Verdict("endless", f"{said}: {error}")
    except TooLarge as error:
        return Verdict("error", f"{said}: took {error}")
    except AssertionError as wrong:
        return Verdict("false", f"{said}: {wrong}")
    except Exception as error:
        of_sklearn = made.recipe.is_of_sklearn
        fault = fault_of(error, (*KINDS, RuntimeError) if of_sklearn else KINDS, may_be_long=of_sklearn) or _nameless(
            error, made
        )
        return Verdict("error" if fault else "refused", f"{said}: {fault or error}")
    return Verdict("done", said)


def _nameless(error: Exception, made: Case) -> str:
    """What is wrong with a sentence that names neither an argument nor its value; empty where one is named."""
    said = str(error)
    words = [
        *made.odd,
        *(name.replace("_", " ") for name in made.odd),
        *(name.rstrip("_") for name in made.odd),
        *made.recipe.also,
    ]
    if any(re.search(rf"(?<![A-Za-z_]){re.escape(word)}", said) for word in words):
        return ""
    values = [
        text
        for value in made.odd.values()
        for text in (str(value)[:_SHOWN], repr(value)[:_SHOWN], type(value).__name__)
    ]
    if any(text and text in said for text in values):
        return ""
    return f"names neither {' nor '.join(made.odd)}: {type(error).__name__}: {said}"


def _shown(odd: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor) and value.ndim:
            return f"tensor{list(value.shape)} {value.dtype}"
        if isinstance(value, np.ndarray) and value.ndim:
            return f"array{list(value.shape)} {value.dtype}"
        return re.sub(r" at 0x\w+", "", f"{type(value).__name__} {repr(value)[:60]}".replace("\n", " "))

    return ", ".join(f"{name} = {text(value)}" for name, value in odd.items())


def described(seed: int) -> dict[str, str]:
    """A case in words."""
    made = case(seed)
    return {"call": made.recipe.name, "with": _shown(made.odd)}
