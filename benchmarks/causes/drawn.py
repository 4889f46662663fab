"""Solves whose sizes, magnitudes and methods are drawn: data, hyperparameters and settings with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

import apviz
from apviz.partitions import PrincipalAxisTree
from benchmarks.causes.systems import AUTO, HEALTHY, Case, Data, ap, cg, waves

Rng = np.random.Generator
KERNELS = (apviz.Matern32, apviz.Matern52, apviz.RBF)


def usual(rng: Rng, **given: Any) -> Case:
    """Draw a solve with nothing wrong: a model that fits its data, and a fast method."""
    n, d = int(rng.integers(200, 400)), int(rng.integers(1, 3))
    frequency, deviation = float(rng.uniform(2, 4)), float(rng.uniform(0.2, 0.4))
    settings = {
        "data": partial(waves, n, d=d, frequency=frequency, noise=deviation),
        "kernel": KERNELS[rng.integers(3)](lengthscale=float(rng.uniform(1.2, 2.0)) / frequency),
        "noise": deviation**2,
        "solver": (apviz.Cholesky(), AUTO, cg(100), ap(80))[rng.integers(4)],
        "dtype": (torch.float64, torch.float32)[rng.integers(2)],
    }
    return Case(cause=HEALTHY, why="nothing", **(settings | given))


def wrong(case: Case, cause: str, why: str, **changes: Any) -> Case:
    """Return the case with something wrong, which `undone` removes."""
    before = {name: getattr(case, name) for name in changes}
    return replace(case, cause=cause, why=why, undone=before, **changes)


def changed(made: Callable[..., Data], change: Callable[[Data, Rng], Data], seed: int = 0) -> Data:
    """Return data with a change, which draws from its own generator."""
    return change(made(seed=seed), np.random.default_rng([seed, 1]))


def with_data(case: Case, cause: str, why: str, change: Callable[[Data, Rng], Data], **changes: Any) -> Case:
    return wrong(case, cause, why, data=partial(changed, case.data, change), **changes)


def size(rng: Rng, low: float, high: float) -> float:
    """Draw a number between powers of ten."""
    return float(10 ** rng.uniform(low, high))


# --- data -------------------------------------------------------------------------------------------------------------


def far_input(data: Data, rng: Rng, far: float, standardised: bool) -> Data:
    x = data.x.copy()
    x[rng.integers(len(x)), rng.integers(x.shape[1])] = far
    if not standardised:
        return data._replace(x=x)
    mean, deviation = x.mean(0), x.std(0)
    return data._replace(x=(x - mean) / deviation, test_x=(data.test_x - mean) / deviation)


def outlier_in_inputs(rng: Rng) -> Case:
    far, standardised = size(rng, 2, 7), bool(rng.integers(2))
    why = f"one coordinate at {far:.2g}{', then standardised' if standardised else ''}"
    return with_data(usual(rng), "OUTLIERS", why, partial(far_input, far=far, standardised=standardised))


def far_target(data: Data, rng: Rng, far: float) -> Data:
    y = data.y.copy()
    y[rng.integers(len(y))] += far
    return data._replace(y=y)


def outlier_in_targets(rng: Rng) -> Case:
    far = size(rng, 2, 5) * float(rng.choice([-1, 1]))
    return with_data(usual(rng), "OUTLIERS", f"one target off by {far:.2g}", partial(far_target, far=far))


def again(data: Data, rng: Rng, factor: float, shift: float, times: int) -> Data:
    def more(x: np.ndarray) -> np.ndarray:
        return np.column_stack([x, *[factor * x[:, :1] + shift] * times])

    return data._replace(x=more(data.x), test_x=more(data.test_x))


def equal_columns(rng: Rng) -> Case:
    case = usual(rng)
    factor, shift = (1.0, 0.0) if rng.integers(2) else (float(rng.uniform(0.3, 3)), float(rng.uniform(-2, 2)))
    times, noise = int(rng.integers(1, 3)), size(rng, -9, -6) if rng.integers(2) else case.noise
    why = f"a column {times} times more{'' if factor == 1 else ', in other units'}, σ² = {noise:.2g}"
    change = partial(again, factor=factor, shift=shift, times=times)
    return with_data(case, "EQUAL_COLUMNS", why, change, noise=noise)


def numbered(data: Data, rng: Rng, first: int, is_ordered: bool) -> Data:
    n = len(data.x)
    numbers = np.arange(2 * n) if is_ordered else rng.permutation(2 * n)
    numbers = first + numbers.astype(float)
    return data._replace(x=np.c_[data.x, numbers[:n]], test_x=np.c_[data.test_x, numbers[n:]])


def id_column(rng: Rng) -> Case:
    first = int(rng.choice([0, 1, 1000, 50_000]))
    change = partial(numbered, first=first, is_ordered=bool(rng.integers(2)))
    return with_data(usual(rng), "ID_COLUMN", f"a row number from {first:,} among the inputs", change)


def few_rows(rng: Rng) -> Case:
    n = int(rng.integers(3, 12))
    d, frequency, deviation = int(rng.integers(1, 3)), float(rng.uniform(2, 4)), float(rng.uniform(0.2, 0.4))
    data = partial(waves, d=d, frequency=frequency, noise=deviation)
    return wrong(usual(rng, data=data, noise=deviation**2), "FEW_ROWS", f"{n} rows", data=partial(data, n))


def repeated(data: Data, rng: Rng, share: float, deviation: float, merged: bool = False) -> Data:
    """Repeat the inputs of some rows with new targets; merged: once, with the mean of their targets."""
    n = len(data.x)
    count = int(share * n)
    owner = np.r_[np.arange(n - count), rng.integers(n - count, size=count)]
    f = data.y[owner] + deviation * rng.standard_normal(n)
    if not merged:
        return data._replace(x=data.x[owner], y=f)
    kept = n - count
    means = np.bincount(owner, f, minlength=kept) / np.bincount(owner, minlength=kept)
    return data._replace(x=data.x[:kept], y=means)


def duplicate_rows(rng: Rng) -> Case:
    case, share, deviation = usual(rng), float(rng.uniform(0.1, 0.6)), float(rng.uniform(0.05, 0.3))
    noise = size(rng, -7, -5)
    found = with_data(
        case, "DUPLICATES", f"{share:.0%} of the rows are duplicates, σ² = {noise:.1g}",
        partial(repeated, share=share, deviation=deviation), noise=noise,
    )  # fmt: skip
    data = partial(changed, case.data, partial(repeated, share=share, deviation=deviation, merged=True))
    return replace(found, undone={"data": data, "noise": case.noise})


def scaled_targets(data: Data, rng: Rng, factor: float) -> Data:
    return data._replace(y=factor * data.y, test_y=factor * data.test_y)


def targets_scaled(rng: Rng) -> Case:
    factor = size(rng, 1.5, 4)
    change = partial(scaled_targets, factor=factor)
    return with_data(usual(rng), "SCALE", f"targets {factor:.2g} times too large", change)


def moved(data: Data, rng: Rng, by: float) -> Data:
    return data._replace(test_x=data.test_x + by)


def extrapolated(rng: Rng) -> Case:
    case, times = usual(rng), float(rng.uniform(20, 60))
    by = times * case.kernel.lengthscale + 2
    return with_data(case, "EXTRAPOLATION", f"test rows {times:.0f} lengthscales away", partial(moved, by=by))


def shuffled_targets(data: Data, rng: Rng) -> Data:
    return data._replace(y=rng.permutation(data.y))


def unrelated(rng: Rng) -> Case:
    case = usual(rng)
    return with_data(case, "MODEL", "inputs that do not tell the target", shuffled_targets, noise=1.0)


# --- hyperparameters --------------------------------------------------------------------------------------------------


def independent(rng: Rng) -> Case:
    case, times = usual(rng), float(rng.uniform(5, 9))
    x = case.data(seed=0).x
    apart = float(np.median(cKDTree(x).query(x, k=2)[0][:, 1]))
    kernel = apviz.RBF(lengthscale=apart / times)
    return wrong(case, "INDEPENDENT", f"rows {times:.1f} lengthscales apart", kernel=kernel)


def with_kernel(case: Case, **numbers: float) -> Any:
    numbers = {"lengthscale": case.kernel.lengthscale, "outputscale": case.kernel.outputscale} | numbers
    return type(case.kernel)(**numbers)


def collapsed(rng: Rng) -> Case:
    case = usual(rng, dtype=torch.float64, solver=apviz.Cholesky())
    name = ("lengthscale", "outputscale")[rng.integers(2)]
    value = size(rng, -7.5, -6.5)
    return wrong(case, "COLLAPSED", f"{name} of {value:.1g}", kernel=with_kernel(case, **{name: value}))


def exploded(rng: Rng) -> Case:
    case, which = usual(rng, dtype=torch.float64, solver=apviz.Cholesky()), rng.integers(3)
    if which == 2:
        noise = size(rng, 3, 6)
        return wrong(case, "COLLAPSED", f"σ² of {noise:.1g}", noise=noise)
    name, value = ("lengthscale", "outputscale")[which], size(rng, 7, 10)
    return wrong(case, "COLLAPSED", f"{name} of {value:.1g}", kernel=with_kernel(case, **{name: value}))


def no_noise(rng: Rng) -> Case:
    case = usual(rng, dtype=torch.float64)
    noise = size(rng, -13, -10)
    return wrong(case, "NOISE", f"next to no noise, {noise:.1g}, CG", noise=noise, solver=cg(max_epochs=500))


# --- settings ---------------------------------------------------------------------------------------------------------


def tiny_blocks(rng: Rng) -> Case:
    rows = int(rng.integers(2, 5))
    case = usual(rng, noise=size(rng, -2.8, -2.3), dtype=torch.float64, data=partial(waves, 500), solver=schwarz(100),
                 kernel=apviz.Matern52(lengthscale=float(rng.uniform(0.2, 0.35))))  # fmt: skip
    return wrong(case, "SMALL_BLOCKS", f"two-level Schwarz with blocks of {rows}", solver=schwarz(rows, coarse_rank=8))


def schwarz(rows: int, **settings: Any) -> apviz.ConjugateGradient:
    return apviz.ConjugateGradient(
        preconditioner=apviz.TwoLevelSchwarz(block_size=rows, partition=PrincipalAxisTree(overlap=1.0), **settings),
        tol=1e-2,
        max_epochs=200,
    )


def early_cap(rng: Rng) -> Case:
    epochs = int(rng.integers(2, 6))
    case = usual(rng, noise=size(rng, -4, -3), solver=apviz.Cholesky(), dtype=torch.float64)
    solver = (cg(max_epochs=epochs), ap(25, overlap=0.0, max_epochs=epochs))[rng.integers(2)]
    return wrong(case, "CAP", f"{epochs} epochs, σ² = {case.noise:.1g}", solver=solver)


def loose(rng: Rng) -> Case:
    """Compare the test error with that of Cholesky on the same system."""
    tol = float(rng.uniform(0.3, 0.5))
    data = partial(waves, 300, frequency=float(rng.uniform(4, 6)), noise=0.05)
    case = usual(rng, data=data, kernel=apviz.Matern52(lengthscale=0.5), noise=0.01, solver=apviz.Cholesky(),
                 dtype=torch.float64)  # fmt: skip
    found = wrong(case, "LOOSE", f"CG to {tol:.2g} next to Cholesky", solver=cg(tol=tol))
    return replace(found, also=(apviz.Cholesky(tol=tol),))


# --- nothing wrong ----------------------------------------------------------------------------------------------------


def heavy_tailed(rng: Rng) -> Case:
    def change(data: Data, rng: Rng) -> Data:
        x, z = (np.column_stack([each, np.exp(1.5 * rng.standard_normal(len(each)))]) for each in (data.x, data.test_x))
        return data._replace(x=x, test_x=z)

    case = usual(rng, data=partial(waves, 300, d=1, frequency=3.0), kernel=apviz.Matern52(lengthscale=(0.5, 30.0)))
    return replace(case, why="a lognormal column", data=partial(changed, case.data, change))


def regular_times(rng: Rng) -> Case:
    def change(data: Data, rng: Rng) -> Data:
        t = np.arange(len(data.x), dtype=float)
        f = np.sin(t / 15)
        return Data(t[:, None], f + 0.3 * rng.standard_normal(len(t)), t[:, None] + 0.5, np.sin((t + 0.5) / 15))

    case = usual(rng, data=partial(waves, 300, d=1), kernel=apviz.Matern52(lengthscale=20.0), noise=0.09)
    return replace(case, why="a series at times 0, 1, 2, …", data=partial(changed, case.data, change))


def rare_category(rng: Rng) -> Case:
    def change(data: Data, rng: Rng) -> Data:
        rare = [(rng.uniform(size=len(each)) < 0.03).astype(float)[:, None] for each in (data.x, data.test_x)]
        return data._replace(x=np.c_[data.x, rare[0]], test_x=np.c_[data.test_x, rare[1]])

    case = usual(rng, data=partial(waves, 350, d=1, frequency=3.0))
    return replace(case, why="a column that is 1 in 3% of the rows", data=partial(changed, case.data, change))


def trend(rng: Rng) -> Case:
    def change(data: Data, rng: Rng) -> Data:
        y = 2 * data.x[:, 0] + 0.2 * rng.standard_normal(len(data.x))
        return data._replace(y=y, test_y=2 * data.test_x[:, 0])

    case = usual(rng, kernel=apviz.RBF(lengthscale=float(rng.uniform(3, 6)), outputscale=20.0), noise=0.04,
                 solver=apviz.Cholesky())  # fmt: skip
    return replace(case, why="a linear trend, a long lengthscale", data=partial(changed, case.data, change))


def agreeing_duplicates(rng: Rng) -> Case:
    case = usual(rng, noise=0.2, solver=cg(100))
    change = partial(repeated, share=0.3, deviation=0.3)
    return replace(case, why="duplicate rows as noisy as σ² says", data=partial(changed, case.data, change))


def forty_rows(rng: Rng) -> Case:
    return replace(usual(rng, data=partial(waves, 40, d=1, frequency=3.0)), why="40 rows")


def usual_one(rng: Rng) -> Case:
    return replace(usual(rng), why="a usual solve")


MAKERS: tuple[Callable[[Rng], Case], ...] = (
    *(outlier_in_inputs,) * 3, *(outlier_in_targets,) * 3, *(equal_columns,) * 3, *(id_column,) * 3, *(few_rows,) * 3,
    *(duplicate_rows,) * 3, *(early_cap,) * 3, *(targets_scaled,) * 2, *(extrapolated,) * 2, *(unrelated,) * 2,
    *(independent,) * 2, *(collapsed,) * 2, *(exploded,) * 2, *(no_noise,) * 2, *(tiny_blocks,) * 2, *(loose,) * 2,
    heavy_tailed, regular_times, rare_category, trend, agreeing_duplicates, forty_rows, usual_one,
)  # fmt: skip
