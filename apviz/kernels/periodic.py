"""Kernels of things that repeat: periodic, cosine, and the spectral mixture that is made of cosines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import torch
from torch import Tensor

from apviz.kernels.algebra import Hyperparameter, Kernel, check_names
from apviz.kernels.formula import Lowered, Part
from apviz.kernels.functions import InnerProduct, SquaredExponential
from apviz.kernels.leaf import Leaf, Lengthscale, in_units, numbers_of, per_column, positives
from apviz.settings import positive


@dataclass(frozen=True, init=False, repr=False)
class Periodic(Leaf, SquaredExponential):
    """Periodic: exp(−2 Σₖ sin²(π(xₖ − zₖ)/pₖ)/ℓₖ²) (MacKay 1998; Rasmussen & Williams, equation 4.31).

    Args:
        lengthscale: ℓ, without unit: one positive number, or d of them.
        period: p, in the units of the inputs: one positive number, or d of them.
        outputscale: the positive variance k(x, x).

    Raises:
        ValueError: a number that is not finite and positive.

    Examples:
        >>> import torch, apviz
        >>> x = torch.tensor([[0.0], [0.5], [3.0]], dtype=torch.float64)
        >>> apviz.Periodic(period=1.0)(x)[0]  # exp(−2) half a period away
        tensor([1.0000, 0.1353, 1.0000], dtype=torch.float64)
    """

    lengthscale: float | tuple[float, ...]
    period: float | tuple[float, ...]

    def __init__(self, *, lengthscale: Lengthscale = 1.0, period: Lengthscale = 1.0, outputscale: float = 1.0) -> None:
        object.__setattr__(self, "lengthscale", positives("lengthscale", lengthscale))
        object.__setattr__(self, "period", positives("period", period))
        object.__setattr__(self, "outputscale", positive("outputscale", outputscale))

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        # on circles of radius 1/(√2 ℓ), where the squared distance is 2 sin²(πδ/p)/ℓ²
        radius = math.sqrt(0.5) / per_column("lengthscale", values, x)
        angle = (x - centre) * (2 * math.pi / per_column("period", values, x))
        return torch.cat([angle.cos() * radius, angle.sin() * radius], 1)

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        if not self._has_embedding_of(Periodic):
            return super().rescaled(centre, unit)
        return self.with_hyperparameters({"period": in_units("period", self.period, unit)})

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        period = torch.as_tensor(self.period, dtype=torch.float64).expand(d)
        narrow = torch.as_tensor(self.lengthscale, dtype=torch.float64).clamp(max=1.0)
        yield narrow * period / (2 * math.pi), list(range(d))


@dataclass(frozen=True, init=False, repr=False)
class Cosine(Leaf, InnerProduct):
    """Cosine: cos(2π(x − z)/p), of one input; for several use a product, because it is not positive definite there.

    Args:
        period: p > 0, in the units of the input.
        outputscale: the positive variance k(x, x).

    Raises:
        ValueError: a number that is not finite and positive; when it is used, inputs of several columns.

    Examples:
        >>> import torch, apviz
        >>> apviz.Cosine(period=4.0)(torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64))[0].round(decimals=3)
        tensor([ 1.,  0., -1.], dtype=torch.float64)
    """

    period: float

    def __init__(self, *, period: float = 1.0, outputscale: float = 1.0) -> None:
        object.__setattr__(self, "period", positive("period", period))
        object.__setattr__(self, "outputscale", positive("outputscale", outputscale))

    def function(self, d: int) -> Leaf:
        if d > 1:
            raise ValueError(
                f"Cosine takes one input, got {d}; for several inputs use a product, such as "
                "Cosine().on(0) * Cosine().on(1)"
            )
        return self

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        yield torch.tensor([self.period / (2 * math.pi)], dtype=torch.float64), [0]

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        return _circle((x - centre) * (2 * math.pi / values["period"].to(x.device)))

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        if not self._has_embedding_of(Cosine):
            return super().rescaled(centre, unit)
        return self.with_hyperparameters({"period": in_units("period", self.period, unit)})


@dataclass(frozen=True, init=False)
class SpectralMixture(Kernel):
    """Spectral mixture: Σ_q w_q Π_k exp(−2π²δₖ²s²_qk) cos(2πδₖ m_qk), δ = x − z (Wilson & Adams, ICML 2013).

    Args:
        weights: w, q positive numbers.
        means: m, frequencies in periods per unit of the inputs: q numbers from 0, or q rows of d.
        scales: s > 0, the standard deviations of the frequencies, of the same shape.

    Raises:
        ValueError: shapes that do not match, a number that is not finite, or not positive where it must be.

    Examples:
        >>> import torch, apviz
        >>> kernel = apviz.SpectralMixture(weights=[1.0, 0.5], means=[0.0, 2.0], scales=[0.1, 0.1])
        >>> kernel(torch.tensor([[0.0], [0.5]], dtype=torch.float64))  # one period of the second away
        tensor([[1.5000, 1.4278],
                [1.4278, 1.5000]], dtype=torch.float64)
    """

    weights: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]
    scales: tuple[tuple[float, ...], ...]

    def __init__(self, *, weights: Sequence[float], means: Any, scales: Any) -> None:
        w = numbers_of("weights", weights).flatten()
        m, s = numbers_of("means", means), numbers_of("scales", scales)
        fits = len(w) > 0 and m.numel() > 0 and m.numel() % len(w) == 0 and m.numel() == s.numel()
        if fits:
            m, s = (each.reshape(len(w), -1) for each in (m, s))
        if not fits:
            raise ValueError(
                f"means and scales must have a row for each of the {len(w)} weights, and as many columns as the "
                f"inputs; got {tuple(m.shape)} and {tuple(s.shape)}"
            )
        if not (m.isfinite().all() and (m >= 0).all()):
            raise ValueError(f"means must be finite and at least 0, got {m.tolist()!r}")
        object.__setattr__(self, "weights", tuple(positive("weights", value) for value in w))
        object.__setattr__(self, "means", tuple(tuple(row) for row in m.tolist()))
        object.__setattr__(
            self, "scales", tuple(tuple(positive("scales", value) for value in row) for row in s.tolist())
        )

    def lowered(self, d: int, at: Mapping[str, Tensor] | None = None) -> Lowered:
        if len(self.means[0]) != d:
            raise ValueError(f"means and scales were given for {len(self.means[0])} columns, the inputs have {d}")
        at = at or {}
        w, m, s = (
            (at[name] if name in at else torch.tensor(getattr(self, name), dtype=torch.float64))
            .double()
            .reshape(len(self.weights), -1)
            for name in ("weights", "means", "scales")
        )

        def wave(q: int, k: int) -> Part:
            frequency = 2 * math.pi * m[q, k]
            return Part(InnerProduct(), lambda x, c: _circle(frequency.to(x.device) * (x[:, k : k + 1] - c[k])))

        def term(q: int) -> Lowered:
            decay = Part(SquaredExponential(), lambda x, c: (x - c) * (math.sqrt(2) * math.pi * s[q].to(x.device)))
            return Lowered((decay, *(wave(q, k) for k in range(d))), (tuple(range(d + 1)),), (w[q, 0],))

        return reduce(Lowered.plus, map(term, range(len(w))))

    def shortest_scales(self, d: int) -> Iterator[tuple[Tensor, list[int]]]:
        for m, s in zip(self.means, self.scales, strict=True):
            fastest = torch.tensor([max(a, b) for a, b in zip(m, s, strict=True)], dtype=torch.float64)
            yield 1 / (2 * math.pi * fastest), list(range(d))

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        if type(self).lowered is not SpectralMixture.lowered:
            return super().rescaled(centre, unit)
        frequencies = {
            name: [[value * float(each) for value, each in zip(row, unit, strict=True)] for row in getattr(self, name)]
            for name in ("means", "scales")
        }
        return type(self)(weights=self.weights, means=frequencies["means"], scales=frequencies["scales"])

    @property
    def hyperparameters(self) -> dict[str, Hyperparameter]:
        flat = {name: tuple(value for row in getattr(self, name) for value in row) for name in ("means", "scales")}
        return {"weights": self.weights, **flat}

    def with_hyperparameters(self, values: Mapping[str, Hyperparameter]) -> Self:
        check_names(self, values)
        given = self.hyperparameters | dict(values)
        return type(self)(weights=given["weights"], means=given["means"], scales=given["scales"])  # type: ignore[arg-type]


def _circle(angle: Tensor) -> Tensor:
    """Points on a circle, whose products are the cosines of differences of angles."""
    return torch.cat([angle.cos(), angle.sin()], 1)
