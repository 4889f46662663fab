"""Which public functions are called, with which arguments, and what may replace each argument."""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from scipy.sparse.linalg import cg

import apviz
from apviz import datasets, gp, partitions, plots, preconditioners, rkhs, rules, solvers
from tests.trust import calls


@dataclass(frozen=True)
class Recipe:
    """A call of a public function.

    Attributes:
        name: the public name.
        use: calls it with some arguments, and uses the result.
        arguments: names, and their possible replacements: `number`, `text`, or the name of a good array.
        also: words by which a refusal may name an argument, in addition to its own name.
    """

    name: str
    use: Callable[..., None]
    arguments: Mapping[str, str]
    also: tuple[str, ...] = ()
    #: conventions of scikit-learn: its checks raise messages of several lines, and RuntimeError for two requests
    is_of_sklearn: bool = False


def _of(kind: Callable[..., Any], without: tuple[str, ...] = (), **special: str) -> dict[str, str]:
    """Return the arguments of a callable; as texts if their default is a text."""
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
    """Return all calls."""
    arrays = {"x": "x", "b": "y", "y": "y", "x_star": "x", "test_x": "x", "test_y": "y", "noise": "number"}
    found = [
        *(
            Recipe(kind.__name__, functools.partial(calls.use_kernel, kind), _of(kind), ("inputs span",))
            for kind in (
                apviz.RBF,
                apviz.Matern12,
                apviz.Matern32,
                apviz.Matern52,
                apviz.RationalQuadratic,
                apviz.Periodic,
                apviz.Linear,
                apviz.Constant,
                apviz.White,
                apviz.PiecewisePolynomial,
                apviz.Spherical,
            )
        ),
        Recipe(
            "kernels.Transformed",
            lambda matrix: calls.use_kernel(lambda: apviz.kernels.Transformed(calls.good_kernel(), matrix)),
            {"matrix": "x"},
            ("matrix", "inputs span", "columns"),
        ),
        Recipe(
            "Variogram",
            calls.used_variogram,
            _of(apviz.Variogram, model="text", nu="number", anis="number", angles="number", convention="text"),
            ("nugget", "sill", "range", "inputs span", "angle", "lengthscale"),
        ),
        Recipe("Kriging", calls.kriged, {"x": "x", "y": "y", "drift": "text", "mean": "number"}, ("row", "inputs")),
        Recipe(
            "gp.empirical_variogram",
            lambda **given: calls.call_with(
                gp.empirical_variogram, {"x": calls.good_x(), "y": calls.good_y(), "bins": 5}, **given
            ),
            _of(gp.empirical_variogram, x="x", y="y"),
            ("largest distance",),
        ),
        Recipe(
            "datasets.points_on_sphere",
            lambda **given: calls.call_with(
                datasets.points_on_sphere, {"latitude": calls.good_y(), "longitude": calls.good_y()}, **given
            ),
            {"latitude": "y", "longitude": "y", "radius": "number"},
            ("latitude", "longitude"),
        ),
        Recipe(
            "plots.predicted_against_observed",
            lambda **given: calls.call_with(
                plots.predicted_against_observed,
                {"observed": calls.good_y(), "mean": calls.good_y(), "sd": calls.good_y() ** 2 + 1},
                **given,
            ),
            _of(plots.predicted_against_observed, observed="y", mean="y", sd="y"),
            ("observed", "mean", "sd"),
        ),
        Recipe(
            "plots.variogram",
            lambda **given: calls.call_with(plots.variogram, {"empirical": calls.good_variogram()}, **given),
            _of(plots.variogram),
        ),
        Recipe("Cosine", lambda **given: calls.use_kernel(lambda: apviz.Cosine(**given).on(0)), _of(apviz.Cosine)),
        Recipe(
            "Polynomial",
            functools.partial(calls.use_kernel, functools.partial(apviz.Polynomial, degree=2)),
            _of(apviz.Polynomial),
        ),
        Recipe(
            "SpectralMixture",
            functools.partial(
                calls.use_kernel,
                functools.partial(apviz.SpectralMixture, weights=[1.0], means=[[0.5, 0.5]], scales=[[1.0, 1.0]]),
            ),
            _of(apviz.SpectralMixture),
        ),
        Recipe(
            "Groups",
            lambda **given: calls.use_kernel(
                lambda: apviz.Groups(**{"factor": [[1.0], [0.5]], "variances": [0.1, 0.1]} | given).on(0)
            ),
            _of(apviz.Groups),
            ("group", "column 0"),
        ),
        Recipe(
            "Kernel.on",
            functools.partial(calls.use_kernel, lambda columns: calls.good_kernel().on(columns)),
            {"columns": "number"},
            ("column",),
        ),
        Recipe(
            "Kernel + …",
            functools.partial(calls.use_kernel, calls.of_matern(lambda one, other: one + other)),
            {"other": "number"},
            ("unsupported operand", "kernel", "concatenate"),
        ),
        Recipe(
            "… * Kernel",
            functools.partial(calls.use_kernel, calls.of_matern(lambda one, other: other * one)),
            {"other": "number"},
            ("unsupported operand", "kernel", "multiply sequence", "outputscale"),
        ),
        *[
            Recipe(
                "KernelSystem",
                calls.solve_system,
                _of(apviz.KernelSystem, **arrays),
                ("dtype", "column", "row", "inputs"),
            )
        ]
        * 4,  # type: ignore[arg-type]
        *(
            Recipe(kind.__name__, functools.partial(calls.solve_with, kind), _of(kind))
            for kind in (
                apviz.AlternatingProjection,
                apviz.AlternatingProjection,
                apviz.AlternatingProjection,
                apviz.ColouredProjection,
                apviz.ConjugateGradient,
                apviz.Automatic,
                apviz.Cholesky,
                solvers.ASkotch,
                solvers.CoordinateDescentPlusPlus,
                solvers.StochasticDualDescent,
                solvers.GradientDescent,
            )
        ),
        *(
            Recipe(kind.__name__, functools.partial(calls.solve_preconditioned, kind), _of(kind))
            for kind in (
                apviz.PivotedCholesky,
                apviz.RandomlyPivotedCholesky,
                apviz.TwoLevelSchwarz,
                preconditioners.Nystrom,
            )
        ),
        *(
            Recipe(kind.__name__, functools.partial(calls.solve_with_part, name, kind), _of(kind))
            for name, kind in (
                ("step", solvers.Subspace),
                ("columns", solvers.Skeletons),
                ("precision", solvers.Precision),
            )
        ),
        Recipe("Stopping", calls.solve_until, _of(apviz.Stopping)),
        Recipe("solve", calls.solve_call, _of(apviz.solve, initial_weights="y"), ("hook",)),
        Recipe(
            "Recorder", calls.recorded, _of(apviz.Recorder, path="text", spectrum="text"), ("snapshot", "trace", "file")
        ),
        Recipe("StopHook", functools.partial(calls.hooked, apviz.StopHook), _of(apviz.StopHook, ("when",))),
        Recipe(
            "PredictionHook",
            functools.partial(calls.hooked, apviz.PredictionHook),
            _of(apviz.PredictionHook, test_x="x", test_y="y"),
        ),
        Recipe("PredictionErrorHook", calls.prediction_error, {"x_star": "x", "every": "number"}, ("hook",)),
        Recipe(
            "ProgressHook",
            functools.partial(calls.hooked, functools.partial(apviz.ProgressHook, console=Console(file=io.StringIO()))),
            _of(apviz.ProgressHook, ("also",)),
        ),
        *[
            Recipe(
                "Posterior",
                calls.made_posterior,
                _of(apviz.Posterior, x="x", y="y", noises="y", weights="y", initial_weights="y"),
                ("noise", "hook"),
            )
        ]
        * 2,
        Recipe(
            "Hyperparameters",
            calls.made_posterior,
            {
                "lengthscale": "number",
                "outputscale": "number",
                "mean_": "number",
                "hyper_noise": "number",
                "kernel": "text",
            },
            ("noise", "mean"),
        ),
        *(
            Recipe(
                f"Posterior.{method}",
                functools.partial(calls.predicted, method),
                _of(getattr(apviz.Posterior, method), ("self",), x_star="x"),
                ("x_star", "hook", "samples"),
            )
            for method in ("mean", "variance", "covariance", "variance_by_rank", "samples", "accuracy")
        ),
        *[
            Recipe(
                "GaussianProcess",
                calls.fit,
                _of(apviz.GaussianProcess, kernel="text", path="text") | {"x": "x", "y": "y"},
                ("X", "feature", "array", "sample", "input", "trace"),
                True,
            )
        ]
        * 3,
        *(
            Recipe(
                f"GaussianProcess.{method}",
                functools.partial(calls.of_fitted, method),
                _of(getattr(apviz.GaussianProcess, method), ("self",), x="x", y="y", theta="y"),
                ("X", "feature", "array", "sample", "hook", "random", "theta", "Complex", "Seed"),
                True,
            )
            for method in ("predict", "sample_y", "log_marginal_likelihood", "negative_log_likelihood")
        ),
        Recipe(
            "GaussianProcess.load",
            lambda path: apviz.GaussianProcess.load(path),
            {"path": "text"},
            ("file", "model", "directory"),
        ),
        Recipe("GaussianProcess.save", lambda path: calls.good_model().save(path), {"path": "text"}, ("file", "model")),
        *[
            Recipe(
                "Training",
                calls.trained,
                _of(apviz.TrainingSettings) | _of(apviz.Training, x="x", y="y", path="text"),
                ("trace", "targets", "inputs"),
            )
        ]
        * 2,
        Recipe("advise", calls.advised, _of(apviz.advise, without=("clock",)), ("hook",)),
        Recipe(
            "advise_models",
            lambda **given: calls.call_with(apviz.advise_models, {"n": 100, "d": 3}, **given),
            _of(apviz.advise_models),
        ),
        Recipe(
            "diagnose",
            lambda **given: calls.call_with(apviz.diagnose, {"trace": calls.good_trace()}, **given),
            _of(apviz.diagnose),
        ),
        Recipe(
            "record",
            lambda **given: calls.call_with(apviz.record, {"solver": cg, "a": np.eye(8), "b": np.ones(8)}, **given),
            {"a": "x", "b": "y", "x0": "y", "noise": "number", "path": "text"},
            ("A", "b", "x0", "array", "shape", "file"),
        ),
        Recipe("open_trace", apviz.open_trace, {"path": "text"}, ("trace", "file")),
        Recipe(
            "rademacher",
            lambda **given: calls.call_with(
                apviz.rademacher, {"n": 5, "count": 2, "seed": 0, "like": torch.zeros(1)}, **given
            ),
            _of(apviz.rademacher),
        ),
        Recipe(
            "LanczosInverse", calls.lanczos, {"x_star": "x", "ranks": "number", "rank": "number"}, ("rank", "z must")
        ),
        Recipe(
            "gp.rmse",
            lambda **given: calls.call_with(gp.rmse, {"mean": calls.good_y(), "y": calls.good_y()}, **given),
            {"mean": "y", "y": "y"},
        ),
        Recipe(
            "gp.negative_log_likelihood",
            lambda **given: calls.call_with(
                gp.negative_log_likelihood,
                {"mean": calls.good_y(), "variance": calls.good_y() ** 2 + 1, "y": calls.good_y()},
                **given,
            ),
            {"mean": "y", "variance": "y", "y": "y"},
        ),
        *(
            Recipe(
                f"plots.{name}",
                functools.partial(calls.plotted, getattr(plots, name)),
                _of(getattr(plots, name)),
                ("trace",),
            )
            for name in plots.__all__
            if name not in ("FittedFunction", "ResidualMap", "method_color", "predicted_against_observed", "variogram")
        ),
        *(
            Recipe(
                f"datasets.{name}",
                functools.partial(calls.call_with, getattr(datasets, name), {"name": "diabetes"}),
                _of(getattr(datasets, name)),
                ("data set", "name"),
            )
            for name in ("load", "card", "is_here", "require_here")
        ),
        *(
            Recipe(
                f"datasets.{name}",
                functools.partial(calls.call_with, getattr(datasets, name), {"name": "bike"}),
                _of(getattr(datasets, name)),
                ("published", "name"),
            )
            for name in ("published_hyperparameters", "published_training")
        ),
        *(
            Recipe(
                f"rkhs.{name}",
                functools.partial(calls.of_span, getattr(rkhs, name)),
                _of(getattr(rkhs, name), ("span",), b="y"),
                ("block", "set", "row", "point"),
            )
            for name in (
                "trajectory",
                "blocks_of",
                "compare_rules",
                "compare_with_bound",
                "contraction",
                "friedrichs_angle",
                "principal_angles",
                "lambda_max_by_size",
                "block_spectrum",
                "trajectory_on",
            )
        ),
        Recipe(
            "rkhs.Span",
            lambda **given: calls.call_with(
                rkhs.Span, {"x": calls.good_x(), "kernel": calls.good_kernel(), "noise": 0.1}, **given
            ),
            {"x": "x", "kernel": "text", "noise": "number"},
        ),
        Recipe(
            "rkhs.two_blocks",
            lambda **given: calls.call_with(rkhs.two_blocks, {"points": 4, "distance": 0.5}, **given),
            _of(rkhs.two_blocks),
        ),
        Recipe("KeepWeights", functools.partial(calls.hooked, apviz.KeepWeights), _of(apviz.KeepWeights, path="text")),
        Recipe(
            "last_weights",
            lambda **given: calls.call_with(
                apviz.last_weights, {"path": "x.npz", "system": calls.good_system()}, **given
            ),
            _of(apviz.last_weights, path="text"),
            ("file", "x.npz"),
        ),
        Recipe(
            "rules.GaussSouthwell",
            lambda **given: calls.solve_with(
                apviz.AlternatingProjection, block_size=10, rule=rules.GaussSouthwell(**given)
            ),
            {"short_block": "text"},
        ),
        Recipe(
            "rules.Random",
            lambda **given: calls.solve_with(apviz.AlternatingProjection, block_size=10, rule=rules.Random(**given)),
            {"seed": "number"},
        ),
        Recipe(
            "partitions.ShuffledRows",
            lambda **given: calls.solve_with(
                apviz.AlternatingProjection, block_size=10, partition=partitions.ShuffledRows(**given)
            ),
            {"seed": "number"},
        ),
    ]
    return tuple(found)
