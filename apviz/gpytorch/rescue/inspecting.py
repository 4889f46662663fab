"""What is wrong with a model before anything is solved: its data, their scale, and its hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apviz.analysis.diagnosis import Diagnosis, Limit
from apviz.gpytorch.rescue.copying import MEASURED_ROWS
from apviz.gpytorch.rescue.measuring import Exact
from apviz.system import COARSE_LENGTHSCALES

#: steps of the dtype within the range of a column, under which rounding shows
FEW_STEPS = 1e4
#: of the typical correlation with the nearest other row, under which no row knows of another, and no gradient either
NO_CORRELATION = 1e-8
#: of mean square targets to the prior variance, or the other way round, beyond which they are of another scale
ANOTHER_SCALE = 1e4
#: a loss per row so far above the lowest one has gone up
RISEN_LOSS = 1.0
#: names and columns that are written out
SHOWN = 4
DAY, YEAR = 86_400.0, 3.2e7


def targets_not_finite(targets: Tensor) -> Diagnosis | None:
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
        "strict=False). The hyperparameters that a step has made NaN are to be set anew."
    )
    return Diagnosis(Limit.TARGETS, evidence, advice, {"rows": "finite"})


def inputs_not_finite(inputs: Sequence[Tensor]) -> Diagnosis | None:
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
            f" All of column {constant[0]} is: a constant column that was divided by its deviation of 0 is."
            if constant
            else ""
        )
        evidence = (
            f"{int(bad.sum()):,} of the {x.numel():,} inputs are {_kinds(x)} ({', '.join(named)}{more}{which}).{why} "
            "GPyTorch says of such inputs that one must train on the training inputs, or that K has NaNs."
        )
        advice = "Leave out those rows, or the column if it is always so, before the model is made."
        return Diagnosis(Limit.INPUTS, evidence, advice, {"rows": "finite"})
    return None


def parameters_not_finite(model: Any, likelihood: Any, losses: Sequence[float]) -> Diagnosis | None:
    """Hyperparameters that are not finite, or 0 where they are positive, though the data are finite."""
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
        f"optimiser made them so.{_history(losses)}"
    )
    return Diagnosis(Limit.STEP, evidence, SMALLER_STEP, {"lr": "a tenth"})


SMALLER_STEP = (
    "Make the model anew, or load a state from before, and take a learning rate of a tenth; in float64, where a loss "
    "becomes NaN later."
)


def stepped_too_far(losses: Sequence[float]) -> Diagnosis | None:
    """Losses that ended far above their lowest, while all is finite and what is solved is right."""
    if not _has_risen(losses):
        return None
    evidence = f"Data and hyperparameters are finite.{_history(losses)}"
    return Diagnosis(Limit.STEP, evidence, SMALLER_STEP, {"lr": "a tenth"})


def _has_risen(losses: Sequence[float]) -> bool:
    finite = [loss for loss in losses if math.isfinite(loss)]
    return bool(finite) and (len(finite) < len(losses) or finite[-1] >= min(finite) + RISEN_LOSS)


def _history(losses: Sequence[float]) -> str:
    """What the losses say, in a sentence."""
    if not losses:
        return ""
    first = next((k for k, loss in enumerate(losses) if not math.isfinite(loss)), None)
    best = min((k for k, loss in enumerate(losses) if math.isfinite(loss)), key=lambda k: losses[k], default=None)
    if first is not None:
        before = f", {losses[first - 1]:.3g} in the step before" if first else ""
        return f" The loss was {losses[first]} first in step {first + 1} of {len(losses)}{before}."
    assert best is not None
    if len(losses) < 2:
        return ""
    return f" The loss was {losses[best]:.3g} in step {best + 1}, and is {losses[-1]:.3g} in step {len(losses)}."


def inputs_out_of_scale(model: Any, truth: Exact | None) -> Diagnosis | None:
    """Inputs that their dtype holds too coarsely, or whose rows are too far apart to know of each other."""
    inputs = model.train_inputs
    found = [_coarse(x, scales) for x, scales in zip(inputs, _lengthscales(model), strict=True)]
    coarse = [words for each in found for words in each]
    dtype = str(inputs[0].dtype).removeprefix("torch.")
    if coarse:
        evidence = f"In {dtype}, {'; '.join(coarse[:SHOWN])}."
        return Diagnosis(Limit.SCALE, evidence, _standardise(dtype), {"inputs": "standardised"})
    if truth is None or not truth.correlation < NO_CORRELATION:
        return None
    spans = ", ".join(
        f"column {k} spans {high - low:.3g}{_is_time(low, high)}" for k, (low, high) in enumerate(_ranges(inputs[0]))
    )
    scales = sorted({f"{value:.3g}" for each in _lengthscales(model) for value in each if math.isfinite(value)})
    lengths = f"the lengthscale{'s are' if len(scales) > 1 else ' is'} {', '.join(scales[:SHOWN])}" if scales else ""
    evidence = (
        f"The correlation of a row with its nearest other is {truth.correlation:.1g}: K is σ² + k(x, x) on its "
        f"diagonal and next to nothing else, and every prediction is the prior mean; {spans}"
        + (f", and {lengths}." if lengths else ".")
    )
    return Diagnosis(Limit.SCALE, evidence, _standardise(dtype), {"inputs": "standardised"})


def _standardise(dtype: str) -> str:
    return "Centre and scale the inputs in float64, before they are rounded: x = (x − x.mean(0)) / x.std(0)" + (
        f", then x.{'float' if dtype == 'float32' else 'double'}()." if dtype == "float32" else "."
    )


def targets_out_of_scale(truth: Exact, losses: Sequence[float]) -> Diagnosis | None:
    """Targets that the prior does not expect: not standardised, or hyperparameters that a step has thrown off."""
    square, prior = float(truth.b.square().mean()), truth.signal + truth.noise
    ratio = square / prior
    if 1 / ANOTHER_SCALE < ratio < ANOTHER_SCALE:
        return None
    sizes = (
        f"Targets minus the prior mean have mean {float(truth.b.mean()):.3g} and root mean square "
        f"{math.sqrt(square):.3g}; the prior expects {math.sqrt(prior):.3g}."
    )
    if _has_risen(losses):
        return Diagnosis(Limit.STEP, f"{sizes}{_history(losses)}", SMALLER_STEP, {"lr": "a tenth"})
    evidence = (
        f"{sizes} Gradients are {'large' if ratio > 1 else 'small'} for it, and steps of the "
        "usual size take as many as the scales differ by."
    )
    advice = "Standardise the targets: y = (y − y.mean()) / y.std(), and undo that in what is predicted."
    return Diagnosis(Limit.SCALE, evidence, advice, {"targets": "standardised"})


def remarks(model: Any, likelihood: Any) -> Iterator[str]:
    """What may be meant, or is not: said, and not taken for a cause."""
    if likelihood is not getattr(model, "likelihood", likelihood):
        yield "likelihood is not model.likelihood, whose noise the model predicts with."
    for x in model.train_inputs:
        if x.ndim == 2 and x.is_floating_point():
            constant = (x == x[:1]).all(0).nonzero().flatten().tolist()
            if constant and len(x) > 1:
                yield f"Column {', '.join(map(str, constant[:SHOWN]))} of the inputs is constant: it tells nothing."
        if len(model.train_inputs) == 1 and x.ndim == 2 and len(x) > MEASURED_ROWS:
            copies = len(x) - len(torch.unique(x, dim=0))
            if copies:
                yield f"{copies:,} of all rows are copies of others; of those that are drawn, fewer."
    targets = model.train_targets
    if targets.numel() > 1 and (targets == targets.reshape(-1)[0]).all():
        yield "All targets are equal."
    bound = [name for name, value in _parameters(model, likelihood) if value.isneginf().any()]
    if bound:
        yield f"{', '.join(bound[:SHOWN])} is −inf: set to the bound of its constraint, where no training moves it."
    if not was_trained(model):
        yield "The hyperparameters are those that GPyTorch begins with: not trained yet."
    if torch.get_float32_matmul_precision() != "highest" and targets.dtype == torch.float32:
        yield (
            f"torch.get_float32_matmul_precision() is {torch.get_float32_matmul_precision()!r}: a GPU may round "
            "products in float32 to 10 bits."
        )


def was_trained(model: Any) -> bool:
    """Tests whether any hyperparameter with a constraint has left 0, the raw value that GPyTorch gives most."""
    raw = [value for name, value in model.named_parameters() if ".raw_" in f".{name}"]
    return not raw or any(bool((value != 0).any()) for value in raw)


def _parameters(model: Any, likelihood: Any) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    known = {id(value) for _, value in model.named_parameters()}
    yield from ((f"likelihood.{name}", p) for name, p in likelihood.named_parameters() if id(p) not in known)


def _lengthscales(model: Any) -> list[list[float]]:
    """For each input the smallest lengthscale of each column, where a kernel says so; NaN elsewhere."""
    found = [[math.nan] * x.shape[-1] for x in model.train_inputs]
    # with several inputs, or features made of them, it is not known which a kernel sees
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
    """Columns whose values are so far from zero that the dtype rounds away what they tell."""
    if not x.is_floating_point():
        return
    for k, (low, high) in enumerate(_ranges(x)):
        if high == low:
            continue
        # of NumPy: torch has no spacing
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


def _ranges(x: Tensor) -> list[tuple[float, float]]:
    flat = x.detach().double().reshape(-1, x.shape[-1])
    return list(zip(flat.amin(0).tolist(), flat.amax(0).tolist(), strict=True))


def _is_time(low: float, high: float) -> str:
    """Seconds, or milliseconds, since 1970 are guessed by their size."""
    for name, unit in (("seconds", 1.0), ("milliseconds", 1e3), ("nanoseconds", 1e9)):
        if low / unit >= 10 * YEAR and high / unit <= 130 * YEAR:
            return f" (like {name} since 1970)"
    return ""


def _kinds(values: Tensor) -> str:
    return " or ".join(
        name for name, some in (("NaN", values.isnan().any()), ("infinite", values.isinf().any())) if some
    )
