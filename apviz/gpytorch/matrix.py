"""Description of a matrix in GPyTorch's CG, for the attributes and the spectrum of its trace."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch.kernels import Kernel
from linear_operator.operators import AddedDiagLinearOperator, ConstantDiagLinearOperator, LinearOperator
from torch import Tensor

from apviz.gpytorch.kernels import convert
from apviz.kernels import Stationary
from apviz.spectrum import Eigenvalue, Method, Spectrum, spectrum
from apviz.system import KernelSystem

NOT_COMPUTED = "not computed"
# relative, between k(x, x) of the last evaluated kernel and of the matrix; a larger difference means another kernel
SAME_SCALE = 1e-3


@dataclass(frozen=True)
class Matrix:
    """An n × n matrix K of GPyTorch.

    Args:
        attrs: root attributes of a trace. `d` is None if no kernel was seen, `noise` 0 if nothing is added to the
            diagonal, `outputscale` the mean of k(x, x).
        system: the same system in apviz, with unit right-hand sides; None if apviz does not have the kernel.
        trace: of K, a bound on λmax.
        least: a bound on λmin: σ² or, if nothing is added to the diagonal, the rounding error of the trace.
    """

    attrs: dict[str, Any]
    system: KernelSystem | None
    trace: float
    least: float

    def spectrum(self, method: Method | None) -> Spectrum:
        """Return apviz's spectrum if it has the kernel, otherwise the bounds alone."""
        if self.system is not None:
            return spectrum(self.system, (), method)
        bounds = self.trace, self.least, math.nan
        largest, smallest, block = (Eigenvalue(math.nan, NOT_COMPUTED, True, bound) for bound in bounds)
        return Spectrum(largest, smallest, block, torch.empty(0, dtype=torch.float64))


def describe(matrix: LinearOperator | Tensor, kernel: Any, x: Tensor | None) -> Matrix:
    """Describe a matrix K as far as it is known.

    It is assumed to be that of the last evaluated kernel, at inputs x, if the numbers of rows agree.
    """
    n = matrix.shape[-1]
    inner, added = matrix, None
    if isinstance(matrix, AddedDiagLinearOperator):
        inner, added = matrix._linear_op, matrix._diag_tensor  # the summands have no public names
    diagonal = matrix.diagonal(dim1=-1, dim2=-2).double()
    trace, noise = float(diagonal.sum(-1).max()), 0.0 if added is None else float(added._diagonal().min())
    scale, least = float(diagonal.mean()) - noise, noise or torch.finfo(matrix.dtype).eps * trace
    engine = type(inner).__name__
    attrs: dict[str, Any] = {
        "n": n, "d": None, "kernel": engine, "lengthscale": [], "outputscale": scale, "noise": noise,
        "operator": "gpytorch", "engine": f"GPyTorch {engine}",
    }  # fmt: skip
    if kernel is None or x is None or x.ndim != 2 or len(x) != n:
        return Matrix(attrs, None, trace, least)
    attrs |= {"d": x.shape[1], "kernel": name_of(kernel)}
    one = isinstance(added, ConstantDiagLinearOperator) and matrix.ndim == 2
    system = _system(kernel, x, noise) if one else None
    k = None if system is None else system.kernel
    if not isinstance(k, Stationary) or not math.isclose(k.outputscale, scale, rel_tol=SAME_SCALE):
        return Matrix(attrs, None, trace, least)
    scales = list(k.lengthscale) if isinstance(k.lengthscale, tuple) else [k.lengthscale]
    attrs |= {"kernel": k.name, "lengthscale": scales, "outputscale": k.outputscale}
    if k.parameters:
        attrs["kernel_parameters"] = json.dumps(k.parameters)
    return Matrix(attrs, system, trace, least)


def name_of(kernel: Kernel) -> str:
    """Return the name of a kernel and of its parts, such as ScaleKernel(PeriodicKernel)."""
    parts = [module for name, module in kernel.named_sub_kernels() if name.count(".") <= name.startswith("kernels.")]
    return type(kernel).__name__ + (f"({', '.join(map(name_of, parts))})" if parts else "")


def _system(kernel: Kernel, x: Tensor, noise: float) -> KernelSystem | None:
    try:
        ours = convert(kernel, x.shape[1], selected=True, strict=True)[0]
        return KernelSystem(x, x.new_ones(len(x)), ours, noise=noise, operator="tiled", dtype=x.dtype, device=x.device)
    except (TypeError, ValueError):  # a kernel or dtype that apviz does not have; nothing is solved here
        return None
