"""Checks of a model that need no solve: its data, their scale, and its hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gpytorch.likelihoods.noise_models import FixedGaussianNoise
from torch import Tensor

from apviz.analysis.diagnosis import Diagnosis, Limit
from apviz.analysis.diagnosis.data import LITTLE_CORRELATION, SMALLER_STEP, Evidence, Odd, history
from apviz.datasets.tables.oddities import find_oddities
from apviz.gpytorch.rescue.measuring import Exact
from apviz.system import COARSE_LENGTHSCALES

#: number of steps of the dtype within the range of a column, below which rounding shows
FEW_STEPS = 1e4
#: largest correlation with another row, below which training has no gradient from the beginning
NO_CORRELATION = 1e-8
#: largest number of names or columns in a message
SHOWN = 4
#: in seconds
YEAR = 3.2e7


def targets_not_finite(targets: Tensor) -> Diagnosis | None:
    """Report targets that are NaN or infinite; None if all are finite."""
    bad = ~targets.isfinite()
    if not bad.any():
        return None
    rows = bad.reshape(bad.shape[0], -1).any(1).nonzero().flatten().tolist() if targets.ndim else [0]
    evidence = (
        f"{int(bad.sum()):,} of the {targets.numel():,} targets are {_kinds(targets)}, the first in row {rows[0]}; so "
        "are the loss and every gradient, and after one step all hyperparameters."
    )
    advice = (
        "Leave those rows out: keep = targets.isfinite(), then model.set_train_data(inputs[keep], targets[keep], "
        "strict=False). Reset hyperparameters that a step has made NaN."
    )
    return Diagnosis(Limit.TARGETS, evidence, advice, {"rows": "finite"})


def inputs_not_finite(inputs: Sequence[Tensor]) -> Diagnosis | None:
    """Report inputs that are NaN or infinite; None if all are finite."""
    for number, x in enumerate(inputs):
        bad = ~x.isfinite() if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)
        if not bad.any():
            continue
        columns = bad.reshape(-1, x.shape[-1]).sum(0)
        named = [f"column {k}: {int(columns[k]):,}" for k in columns.nonzero().flatten().tolist()[:SHOWN]]
        more = ", …" if int((columns > 0).sum()) > SHOWN else ""
        which = f" of input {number}" if len(inputs) > 1 else ""
        constant = [k for k in columns.nonzero().flatten().tolist() if columns[k] == bad[..., 0].numel()]
        why = (
            f" Column {constant[0]} has no other values, as after dividing a constant column by its deviation of 0."
            if constant
            else ""
        )
        evidence = (
            f"{int(bad.sum()):,} of the {x.numel():,} inputs are {_kinds(x)} ({', '.join(named)}{more}{which}).{why} "
            "GPyTorch complains about such inputs with 'You must train on the training inputs', or NaNs in K."
        )
        advice = "Leave out those rows, or a column without finite values, before you make the model."
        return Diagnosis(Limit.INPUTS, evidence, advice, {"rows": "finite"})
    return None


def parameters_not_finite(model: Any, likelihood: Any, losses: Sequence[float]) -> Diagnosis | None:
    """Report hyperparameters that are not finite, or 0 in spite of a positive constraint, with finite data."""
    # −inf is the raw value of a hyperparameter that was set to the bound of its constraint
    bad = [f"{name} is not finite" for name, v in _parameters(model, likelihood) if (v.isnan() | v.isposinf()).any()]
    if not bad:
        for name, raw, constraint in model.named_parameters_and_constraints():
            value = raw if constraint is None else constraint.transform(raw)
            positive = constraint is not None and float(constraint.lower_bound.min()) >= 0
            if not value.isfinite().all() or (positive and (value <= 0).any()):
                bad.append(f"{name.replace('raw_', '')} is {float(value.detach().reshape(-1)[0]):.3g}")
    if not bad:
        return None
    evidence = (
        f"{', '.join(bad[:SHOWN])}{', …' if len(bad) > SHOWN else ''}. The data are finite, so a step of the "
        f"optimiser made them so. {history(losses)}"
    )
    return Diagnosis(Limit.STEP, evidence, SMALLER_STEP, {"lr": "a tenth"})


def inputs_coarse(model: Any) -> Diagnosis | None:
    """Report inputs that their dtype holds too coarsely; None if there are none."""
    inputs = model.train_inputs
    found = [_coarse(x, scales) for x, scales in zip(inputs, lengthscales(model), strict=True)]
    coarse = [words for each in found for words in each]
    if not coarse:
        return None
    dtype = str(inputs[0].dtype).removeprefix("torch.")
    to = "float" if dtype == "float32" else "double"
    advice = f"Scale inputs in float64, before they are rounded: x = (x − x.mean(0)) / x.std(0), then x.{to}()."
    return Diagnosis(Limit.SCALE, f"In {dtype}, {'; '.join(coarse[:SHOWN])}.", advice, {"inputs": "standardised"})


def evidence_of(
    model: Any, likelihood: Any, truth: Exact | None = None, share: float = 1.0, losses: Sequence[float] = ()
) -> Evidence:
    """Collect evidence on data and hyperparameters, with the results of Cholesky in float64 on a share of the rows."""
    x = model.train_inputs[0].detach().double()
    is_table = len(model.train_inputs) == 1 and x.ndim == 2
    targets = model.train_targets.detach().double()
    oddities = distinct = disagreement = None
    if is_table:
        y = targets.cpu().numpy() if targets.shape[:1] == x.shape[:1] else None
        oddities = [Odd(str(each.kind), each.message) for each in find_oddities(x.cpu().numpy(), y)]
        rows, owner = torch.unique(x, dim=0, return_inverse=True)
        distinct = len(rows)
        if distinct < len(x) and targets.ndim == 1:
            counts = torch.bincount(owner).double()
            means = torch.zeros_like(counts).index_add_(0, owner, targets) / counts
            disagreement = float((targets - means[owner]).square().sum() / (len(x) - distinct))
    scales = [(s, d) for s, d in zip(lengthscales(model)[0], x.reshape(-1, x.shape[-1]).std(0).tolist(), strict=True)]
    scales = [(s, d) for s, d in scales if not math.isnan(s) and d > 0]
    # in a subsample the nearest row is farther away, and untrained hyperparameters correlate rows little
    surely = share == 1 and was_trained(model)

    def correlation(found: float | None) -> float | None:
        sure = found is None or surely or found >= LITTLE_CORRELATION or found < NO_CORRELATION
        return found if sure else None

    known = Evidence(
        rows=x.shape[-2], oddities=oddities, distinct=distinct, disagreement=disagreement,
        spreads=[d / s if s else math.inf for s, d in scales], deviations=[d for _, d in scales], losses=losses,
        inputs=f"{', '.join(_spans(model.train_inputs[0]))}.".capitalize(), noise_floor=_noise_floor(likelihood),
    )  # fmt: skip
    if truth is None:
        return known
    return replace(
        known, noise=truth.noise / share, signal=truth.signal, target_square=float(truth.b.square().mean()),
        nearest=correlation(truth.nearest), smallest=truth.smallest,
        test_nearest=correlation(None if truth.test_nearest is None else float(truth.test_nearest.median())),
        falling_noise=truth.falling_noise, log_likelihood=truth.log_likelihood if share == 1 else None,
    )  # fmt: skip


def remark_on_far(truth: Exact, known: Evidence) -> tuple[str, ...]:
    """Return a remark on test rows that are uncorrelated with all training rows, if they are the minority."""
    if truth.test_nearest is None or known.test_nearest is None:
        return ()
    far, rows = int((truth.test_nearest < LITTLE_CORRELATION).sum()), len(truth.test_nearest)
    if not 0 < far <= rows / 2:
        return ()
    return (
        f"{far:,} of {rows:,} test rows correlate by less than {LITTLE_CORRELATION:g} with every training row: "
        "predictions there are nearly the prior mean.",
    )


def _noise_floor(likelihood: Any) -> float | None:
    """Return the lower bound of the noise, 0 for given noises; None if it is not known."""
    if isinstance(getattr(likelihood, "noise_covar", None), FixedGaussianNoise):
        return 0.0
    constraint = getattr(getattr(likelihood, "noise_covar", None), "raw_noise_constraint", None)
    return None if constraint is None else float(constraint.lower_bound.min())


def remarks(model: Any, likelihood: Any) -> Iterator[str]:
    """Yield remarks on unusual settings that may be intended, and are not a cause."""
    if likelihood is not getattr(model, "likelihood", likelihood):
        yield "likelihood is not model.likelihood, whose noise the model predicts with."
    targets = model.train_targets
    if targets.numel() > 1 and (targets == targets.reshape(-1)[0]).all():
        yield "All targets are equal."
    bound = [name for name, value in _parameters(model, likelihood) if value.isneginf().any()]
    if bound:
        yield f"{', '.join(bound[:SHOWN])} is −inf: at the bound of its constraint, where training cannot change it."
    if not was_trained(model):
        yield "The hyperparameters are GPyTorch's initial values: the model is not trained yet."
    if torch.get_float32_matmul_precision() != "highest" and targets.dtype == torch.float32:
        yield (
            f"torch.get_float32_matmul_precision() is {torch.get_float32_matmul_precision()!r}: a GPU may round "
            "products in float32 to 10 bits."
        )


def was_trained(model: Any) -> bool:
    """Test whether any constrained hyperparameter has left 0, the initial raw value of most."""
    raw = [value for name, value in model.named_parameters() if ".raw_" in f".{name}"]
    return not raw or any(bool((value != 0).any()) for value in raw)


def _parameters(model: Any, likelihood: Any) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    known = {id(value) for _, value in model.named_parameters()}
    yield from ((f"likelihood.{name}", p) for name, p in likelihood.named_parameters() if id(p) not in known)


def lengthscales(model: Any) -> list[list[float]]:
    """Return, for each input, the smallest lengthscale of each column; NaN if no kernel has one."""
    found = [[math.nan] * x.shape[-1] for x in model.train_inputs]
    # with several inputs, or learned features, the kernel's columns are not known
    own = {type(module).__module__.split(".")[0] for _, module in model.named_children()} - {"gpytorch"}
    if len(found) > 1 or own:
        return found
    d = len(found[0])
    for module in model.modules():
        if not getattr(module, "has_lengthscale", False) or module.lengthscale is None:
            continue
        dims = module.active_dims.tolist() if getattr(module, "active_dims", None) is not None else list(range(d))
        values = module.lengthscale.detach().reshape(-1, module.lengthscale.shape[-1]).amin(0).tolist()
        for k, value in zip(dims, values * len(dims) if len(values) == 1 else values, strict=False):
            if k < d:
                found[0][k] = value if math.isnan(found[0][k]) else min(found[0][k], value)
    return found


def _coarse(x: Tensor, scales: list[float]) -> Iterator[str]:
    """Describe columns so far from zero that the dtype rounds away their differences."""
    if not x.is_floating_point():
        return
    for k, (low, high) in enumerate(_ranges(x)):
        if high == low:
            continue
        # NumPy's spacing: torch has none
        kind = np.float32 if x.dtype == torch.float32 else np.float64
        step = float(np.spacing(kind(max(abs(low), abs(high)))))
        scale = scales[k]
        if (high - low) / step >= FEW_STEPS and not step > COARSE_LENGTHSCALES * scale:
            continue
        distinct = len(torch.unique(x[..., k]))
        lengths = f", {step / scale:.2g} of its lengthscale of {scale:.3g}" if math.isfinite(scale) else ""
        yield (
            f"column {k}, from {low:.7g} to {high:.7g}{_is_time(low, high)}, is held in steps of {step:.3g}{lengths}: "
            f"{distinct:,} different values are left in {x[..., k].numel():,} rows"
        )


def _spans(x: Tensor) -> Iterator[str]:
    for k, (low, high) in enumerate(_ranges(x)[:SHOWN]):
        yield f"column {k} spans {high - low:.3g}{_is_time(low, high)}"


def _ranges(x: Tensor) -> list[tuple[float, float]]:
    flat = x.detach().double().reshape(-1, x.shape[-1])
    return list(zip(flat.amin(0).tolist(), flat.amax(0).tolist(), strict=True))


def _is_time(low: float, high: float) -> str:
    """Guess seconds, milliseconds or nanoseconds since 1970 by their size."""
    for name, unit in (("seconds", 1.0), ("milliseconds", 1e3), ("nanoseconds", 1e9)):
        if low / unit >= 10 * YEAR and high / unit <= 130 * YEAR:
            return f" (like {name} since 1970)"
    return ""


def _kinds(values: Tensor) -> str:
    return " or ".join(
        name for name, some in (("NaN", values.isnan().any()), ("infinite", values.isinf().any())) if some
    )
