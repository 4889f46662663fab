"""Valid calls of public functions, and checks of their results."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import apviz
from apviz import rkhs
from apviz.operators import CountingOperator
from tests.textbook import CORRELATIONS
from tests.trust.truth import MARGIN

N, D = 40, 2


# --- good ones --------------------------------------------------------------------------------------------------------


@functools.cache
def good_x() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (N, D))


@functools.cache
def good_y() -> np.ndarray:
    return np.asarray(np.sin(5 * good_x()).sum(1))


def good_kernel() -> apviz.Kernel:
    return apviz.Matern52(lengthscale=0.6)


def good_system(**changed: Any) -> apviz.KernelSystem:
    given = {"x": good_x(), "b": good_y(), "kernel": good_kernel(), "noise": 0.1, "device": "cpu"} | changed
    return apviz.KernelSystem(given.pop("x"), given.pop("b"), given.pop("kernel"), **given)


def good_hyperparameters(**changed: Any) -> apviz.Hyperparameters:
    return apviz.Hyperparameters(
        **{"kernel": "matern52", "lengthscale": (0.6,), "outputscale": 1.0, "noise": 0.1} | changed  # type: ignore[arg-type]
    )


@functools.cache
def good_posterior() -> apviz.Posterior:
    return apviz.Posterior(good_x(), good_y(), good_hyperparameters(), device="cpu")


@functools.cache
def good_trace() -> apviz.Trace:
    recorder = apviz.Recorder(rows=True, snapshots=range(3))
    apviz.solve(good_system(), apviz.AlternatingProjection(block_size=10), hooks=[recorder])
    return recorder.trace


@functools.cache
def good_trajectory() -> rkhs.Trajectory:
    return rkhs.trajectory(rkhs.Span(good_x()[:12], good_kernel(), 0.1), good_y()[:12], blocks=3, steps=4)


@functools.cache
def good_model() -> apviz.GaussianProcess:
    return apviz.GaussianProcess(hyperparameters=good_hyperparameters(), device="cpu").fit(good_x(), good_y())


# --- what is done with them -------------------------------------------------------------------------------------------


def numbers_of(values: Any) -> np.ndarray:
    """Convert to float64, by NumPy alone."""
    if isinstance(values, torch.Tensor):
        return values.detach().double().numpy()
    return np.asarray(values.astype(np.float64) if hasattr(values, "astype") else values, dtype=np.float64)


def check_solution(
    solution: apviz.Solution, tol: float, x: Any, b: Any, noise: Any = 0.1, lengthscale: float = 0.6
) -> None:
    """Check the residual of a converged solution by textbook formulas."""
    if not solution.converged:
        return
    x, b = numbers_of(x), numbers_of(b)
    x, b = x.reshape(len(x), -1), b.reshape(len(b), -1)
    r = np.sqrt((((x[:, None] - x[None]) / lengthscale) ** 2).sum(-1))
    k = CORRELATIONS["matern52"](r) + np.diag(np.broadcast_to(np.asarray(numbers_of(noise)).reshape(-1), (len(x),)))
    w = solution.weights.double().numpy().reshape(b.shape)
    unit = np.where(np.abs(b).max(0) > 0, np.abs(b).max(0), 1)
    true = (np.linalg.norm((b - k @ w) / unit, axis=0) / np.maximum(np.linalg.norm(b / unit, axis=0), 1e-300)).mean()
    assert true <= MARGIN * float(tol), f"called converged to {tol}, the residual is {true:.2e}"


def solve_system(**changed: Any) -> None:
    system = good_system(**changed)
    solution = apviz.solve(system, apviz.Automatic(tol=1e-3))
    if "kernel" not in changed:
        check_solution(
            solution,
            1e-3,
            *(changed.get(name, good()) for name, good in (("x", good_x), ("b", good_y))),
            changed.get("noise", 0.1),
        )


def solve_with(kind: type[Any], **settings: Any) -> None:
    solver = kind(**{"max_epochs": 20} | settings if "max_epochs" in inspect.signature(kind).parameters else settings)
    check_solution(apviz.solve(good_system(), solver), solver.tol, good_x(), good_y())


def solve_preconditioned(kind: type[Any], **settings: Any) -> None:
    solver = apviz.ConjugateGradient(preconditioner=kind(**settings), max_epochs=20)
    check_solution(apviz.solve(good_system(), solver), solver.tol, good_x(), good_y())


def solve_with_part(name: str, kind: type[Any], **settings: Any) -> None:
    solver = apviz.AlternatingProjection(block_size=10, max_epochs=20, **{name: kind(**settings)})
    check_solution(apviz.solve(good_system(), solver), solver.tol, good_x(), good_y())


def solve_until(**settings: Any) -> None:
    until = apviz.Stopping(**{"max_epochs": 20} | settings)
    solution = apviz.solve(good_system(), apviz.AlternatingProjection(block_size=10), until=until)
    check_solution(solution, until.tol, good_x(), good_y())


def use_kernel(make: Callable[..., Any], **settings: Any) -> None:
    kernel = make(**settings)
    solution = apviz.solve(good_system(kernel=kernel), apviz.Cholesky())
    assert torch.isfinite(solution.weights).all(), "weights are not finite"
    kernel(torch.from_numpy(good_x()))


def of_matern(combine: Callable[[apviz.Kernel, Any], Any]) -> Callable[..., Any]:
    def make(other: Any) -> Any:
        return combine(good_kernel(), other)

    return make


def solve_call(**changed: Any) -> None:
    given: dict[str, Any] = {"system": good_system(), "solver": apviz.Automatic()} | changed
    apviz.solve(given.pop("system"), given.pop("solver"), **given)


def recorded(**settings: Any) -> None:
    recorder = apviz.Recorder(**settings)
    apviz.solve(good_system(), apviz.AlternatingProjection(block_size=10), hooks=[recorder])
    assert len(recorder.trace["epoch"]["work"]) > 1, "nothing is recorded"


def hooked(kind: type[Any], **settings: Any) -> None:
    given = {"test_x": torch.from_numpy(good_x()), "test_y": torch.from_numpy(good_y())} | settings
    if kind is apviz.KeepWeights:
        settings = {"path": "kept.npz"} | settings
    hook = kind(**(given if kind is apviz.PredictionHook else settings))
    apviz.solve(good_system(), apviz.AlternatingProjection(block_size=10), hooks=[hook])


def prediction_error(x_star: Any = None, **settings: Any) -> None:
    posterior = apviz.Posterior(good_x(), good_y(), good_hyperparameters(), device="cpu")
    hook = apviz.PredictionErrorHook(posterior, good_x()[:3] if x_star is None else x_star, **settings)
    apviz.solve(posterior.system, apviz.AlternatingProjection(block_size=10), hooks=[hook])


def made_posterior(**changed: Any) -> None:
    own = {
        name: changed.pop(name)
        for name in list(changed)
        if name in ("outputscale", "lengthscale", "mean_", "kernel", "hyper_noise")
    }
    renamed = {{"mean_": "mean", "hyper_noise": "noise"}.get(name, name): value for name, value in own.items()}
    given: dict[str, Any] = {
        "x": good_x(),
        "y": good_y(),
        "hyperparameters": good_hyperparameters(**renamed),
        "device": "cpu",
    } | changed
    posterior = apviz.Posterior(given.pop("x"), given.pop("y"), given.pop("hyperparameters"), **given)
    z = good_x()[:3] if posterior.system.d == D else posterior.system.x[:3]
    mean, variance = posterior.mean(z), posterior.variance(z)
    assert torch.isfinite(mean).all() and (variance >= 0).all(), "a prediction is not finite"


def predicted(method: str, **changed: Any) -> None:
    given: dict[str, Any] = {} if method in ("samples",) else {"x_star": good_x()[:5]}
    if method == "variance_by_rank":
        given["ranks"] = [1, 5]
    if method == "samples":
        given["count"] = 3
    given |= changed
    found = getattr(good_posterior(), method)(**given)
    if method == "accuracy":
        return
    found = found(good_x()[:5]) if method == "samples" else found
    assert torch.isfinite(found).all(), "a prediction is not finite"


def fit(**changed: Any) -> None:
    given: dict[str, Any] = {"x": good_x(), "y": good_y(), "max_steps": 3, "device": "cpu"} | changed
    x, y = given.pop("x"), given.pop("y")
    model = apviz.GaussianProcess(**given).fit(x, y)
    mean, std = model.predict(numbers_of(model.posterior_.system.x)[:3] * 0, return_std=True, include_noise=True)
    assert np.isfinite(mean).all() and (std > 0).all(), "a prediction is not finite"


def of_fitted(method: str, **changed: Any) -> None:
    given: dict[str, Any] = {"x": good_x()[:4]} if method in ("predict", "sample_y", "negative_log_likelihood") else {}
    if method == "predict":
        given |= {"return_std": True, "include_noise": True}
    if method == "negative_log_likelihood":
        given["y"] = good_y()[:4]
    found = getattr(good_model(), method)(**given | changed)
    for each in found if isinstance(found, tuple) else (found,):
        assert each is None or np.isfinite(each).all(), "what is returned is not finite"


def trained(**changed: Any) -> None:
    names = inspect.signature(apviz.TrainingSettings).parameters
    settings: dict[str, Any] = {"steps": 2, "probes": 3} | {
        name: value for name, value in changed.items() if name in names
    }
    given = {"x": good_x(), "y": good_y(), "device": "cpu"} | {
        name: value for name, value in changed.items() if name not in names
    }
    made = given.pop("settings", None) if "settings" in changed else apviz.TrainingSettings(**settings)
    h = apviz.Training(given.pop("x"), given.pop("y"), made, **given).run()
    assert math.isfinite(h.noise) and h.noise > 0, "the noise that is trained is not positive"


def advised(**changed: Any) -> None:
    given: dict[str, Any] = {"system": good_system()} | changed
    str(apviz.advise(given.pop("system"), **given))


def plotted(make: Callable[..., Any], **changed: Any) -> None:
    first = next(iter(inspect.signature(make).parameters))
    good: dict[str, Any] = {first: good_trace() if first != "trajectory" else good_trajectory()}
    if "update" in inspect.signature(make).parameters:
        good["update"] = 1
    make(**good | changed)


def good_variogram() -> Any:
    return apviz.gp.empirical_variogram(good_x(), good_y(), bins=5)


def used_variogram(**changed: Any) -> None:
    good = {"model": "exponential", "sill": 1.0, "range": 0.6, "nugget": 0.1, "convention": "gstools"}
    made = apviz.Variogram(**{**good, **changed})
    apviz.Variogram.of(made.hyperparameters(), convention="gstools")
    use_kernel(lambda: made.kernel)


def kriged(**changed: Any) -> None:
    model = apviz.Variogram("exponential", sill=1.0, range=0.6, nugget=0.1, convention="gstools")
    given = {"x": good_x(), "y": good_y()} | changed
    kriging = apviz.Kriging(given.pop("x"), given.pop("y"), model, device="cpu", **given)
    mean, variance = kriging.predict(kriging.posterior.system.x[:3])
    assert np.isfinite(mean).all() and (variance >= 0).all()


def of_span(make: Callable[..., Any], **changed: Any) -> None:
    span = rkhs.Span(good_x()[:12], good_kernel(), 0.1)
    names = inspect.signature(make).parameters
    good: dict[str, Any] = {
        "span": span,
        "b": good_y()[:12],
        "block_size": 4,
        "steps": 4,
        "epochs": 3,
        "first": [0, 1],
        "second": [2, 3],
        "partition": "sequential",
        "blocks": 2 if make is rkhs.trajectory else [[0, 1], [2, 3]],
        "sizes": [2, 3],
        "sets": [[0, 1], [2, 3]],
    }
    if make is rkhs.trajectory:
        good.pop("block_size")
    make(**{name: value for name, value in good.items() if name in names} | changed)


def call_with(make: Callable[..., Any], good: Mapping[str, Any], **changed: Any) -> None:
    make(**{**good, **changed})


def lanczos(**changed: Any) -> None:
    inverse = apviz.LanczosInverse(CountingOperator(good_system().operator))
    given: dict[str, Any] = {"x_star": torch.from_numpy(good_x()[:3]), "ranks": [1, 4]} | changed
    if "rank" in given:
        inverse.extend(given["rank"])
        return
    inverse.explained(**given)
