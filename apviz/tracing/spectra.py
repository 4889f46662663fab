"""Eigenvalues in a trace: the groups `spectrum` and `eigenvalues`."""

from __future__ import annotations

import math
from typing import Any

from apviz.solvers.run import Run
from apviz.spectrum import Spectrum, all_eigenvalues
from apviz.tracing.store import Record


def put_spectrum(record: Record, found: Spectrum) -> None:
    """Record the group `spectrum`."""
    for name in ("lambda_max", "lambda_min", "lambda_max_block", "kappa", "kappa_prime"):
        eigenvalue = getattr(found, name)
        record.put(spectrum={name: eigenvalue.value})
        record.variable_attrs["spectrum", name] = {"how": eigenvalue.how, "is_estimate": eigenvalue.is_estimate}
    bounds = {
        "lambda_max_bound": found.lambda_max.bound,
        "lambda_min_bound": found.lambda_min.bound,
        "lambda_max_block_bound": found.lambda_max_block.bound,
    }
    # a method without blocks has no λ′max, and JSON has no NaN
    attrs: dict[str, Any] = {name: value for name, value in bounds.items() if math.isfinite(value)}
    if found.leading:
        attrs["leading_ranks"], attrs["leading_eigenvalues"] = map(list, zip(*found.leading, strict=True))
    record.group_attrs["spectrum"] = attrs


def put_eigenvalues(record: Record, run: Run) -> None:
    """Record all eigenvalues of K, and of P⁻¹K where the solver has a preconditioner, with κ as an attribute."""
    # the run of plain CG has the identity as its preconditioner
    is_preconditioned = getattr(run.solver, "preconditioner", None) is not None
    of_k, preconditioned = all_eigenvalues(run.system, run.preconditioner if is_preconditioned else None)
    how = "dense, in float64"
    found = {"eigenvalue": (of_k, how)}
    if preconditioned is not None:
        dtype = str(run.system.dtype).removeprefix("torch.")
        found["preconditioned"] = preconditioned, f"{how}; P⁻¹ applied in {dtype}"
    for name, (values, how) in found.items():
        record.put(eigenvalues={name: values.cpu()})
        attrs = record.variable_attrs["eigenvalues", name] = {"how": how}
        # rounding can make the smallest one negative: no condition number
        if values[-1] > 0:
            attrs["kappa"] = float(values[0] / values[-1])
