"""How far predictions are from the exact posterior: errors at test points whose variances were solved for.

With z = K⁻¹k(X, x*) the mean from weights W is off by zᵀr, where r = y − μ − KW. A solve for the variance at x* gives z̃
and its residual s = k(X, x*) − Kz̃. Then z̃ᵀr is known. What remains is sᵀK⁻¹r, at most ‖D^-½ s‖ ‖D^-½ r‖ with the noise
variances D: a product of two residuals. A random sample of test points bounds the errors of most predictions, by order
statistics: no distribution is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor

from apviz.gp.prediction.accuracy import weighted_norms
from apviz.operators import Noise
from apviz.settings import require, require_whole
from apviz.solvers import Solution

#: share of the predictions that a statement is about, and its confidence
SHARE, CONFIDENCE = 0.95, 0.95
#: how means are known that come from approximate products
SERIES = "means by a Fourier series, compared with entries at 64 points"
#: errors below this one are said to be this one: they are of no interest, and rounding of float64 is
LEAST_ERROR = 1e-6


@dataclass(frozen=True, eq=False)
class MeanResidual:
    """The residual of the weights of a mean, r = y − μ − KW.

    Args:
        r: (n,) float64.
        rounding: bound on the error of its norm.
        noises: D, the noise variance of each row, (n,), or one for all.
        correction: (n,) δ ≈ K⁻¹(y − μ − KW), whose residual `r` is instead; None: zero.
    """

    r: Tensor
    rounding: float
    noises: Noise
    correction: Tensor | None = None

    @cached_property
    def bound(self) -> float:
        """Bound on the part of the error of a mean that is not explained, in posterior sd: ‖D^-½ r‖."""
        least = float(torch.as_tensor(self.noises).min())
        return float(weighted_norms(self.r[:, None], self.noises)) + self.rounding / math.sqrt(least)

    def errors(self, c: Tensor, z: Tensor, variance: Tensor, excess: Tensor) -> PointErrors:
        """Bound the errors of means and standard deviations at test points.

        Args:
            c, z: (n, c) k(X, x*) and solutions z̃ of K z = c.
            variance: (c,) predicted variances of f, each too large by at most `excess`: (c,).
        """
        known, excess = z.T @ self.r, excess.to(variance)
        if self.correction is not None:
            known = known + c.T @ self.correction
        noises = torch.as_tensor(self.noises, dtype=torch.float64, device=z.device).reshape(-1, 1)
        # the variance is at least zᵀDz, and ‖D^½(z − z̃)‖² is at most the excess
        of_noise = torch.sum(z.square() * noises, 0).sqrt() - excess.sqrt()
        least = torch.maximum(variance - excess, of_noise.clamp_min(0.0).square()).sqrt()
        bound = self.bound
        off = known.abs() + excess.sqrt() * bound + torch.linalg.vector_norm(z, dim=0) * self.rounding
        # a variance of zero where the prior's is zero too, or where nothing is known about it
        ratio = torch.where(off > 0, off / least, torch.zeros_like(off))
        if self.correction is None:
            ratio = ratio.clamp_max(bound)
        return PointErrors(known.cpu(), ratio.cpu(), variance.sqrt().cpu(), least.cpu())

    def proven_errors(self, variance: Tensor, excess: Tensor) -> PointErrors:
        """Bound errors as `errors` does, without solutions z̃: those of means by the bound for all of them."""
        variance = variance.cpu()
        least = (variance - excess.to(variance)).clamp_min(0.0).sqrt()
        return PointErrors(torch.zeros_like(variance), torch.full_like(variance, self.bound), variance.sqrt(), least)


@dataclass(frozen=True, eq=False)
class PointErrors:
    """Errors of the predictions at some test points.

    Args:
        known: (c,) exact mean − predicted mean as far as known; added to the mean, it corrects it.
        mean: (c,) bounds on the error of the mean, in posterior standard deviations of f.
        predicted_sd, least_sd: (c,) the predicted standard deviation of f, and a lower bound on the exact one.
    """

    known: Tensor
    mean: Tensor
    predicted_sd: Tensor
    least_sd: Tensor

    def sd(self, noise: float = 0.0) -> Tensor:
        """Return bounds on how much too large the standard deviation of f plus noise is, relative to the exact one."""
        predicted, least = ((sd.double().square() + noise).sqrt() for sd in (self.predicted_sd, self.least_sd))
        return torch.where(predicted > 0, predicted / least - 1, torch.zeros_like(predicted))


@dataclass(frozen=True, eq=False)
class PredictionAccuracy:
    """How far predictions may be from the exact posterior at the same hyperparameters.

    Args:
        mean_errors: (s,) bounds on the errors of the means of sampled test points, in posterior standard deviations.
        sd_errors: (s,) bounds on the relative errors of their standard deviations: of f, or of observations if the
            predictions included noise.
        points: number of test points from which the sample was drawn at random; s: they all were solved for.
        proven: bound on the error of every mean, in posterior standard deviations; may be infinite.
        how: how `proven` is known, in words: where the residual was measured on random rows, it is no proof.
        product_error: largest error of the products k(x*, X) W at the sampled points, in posterior standard deviations.
        has_series: whether these products are approximate.
        has_noise: whether the predictions included noise.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> h = apviz.Hyperparameters("matern52", lengthscale=(0.2,), outputscale=1.0, noise=1e-2)
        >>> posterior = apviz.Posterior(x, torch.sin(6 * x), h, apviz.ConjugateGradient(tol=1e-3), device="cpu")
        >>> accuracy = posterior.accuracy(torch.linspace(0, 1, 5_000), count=64)
        >>> accuracy.mean_error() < accuracy.proven
        True
    """

    mean_errors: NDArray[np.float64]
    sd_errors: NDArray[np.float64]
    points: int
    proven: float
    how: str = "proven"
    product_error: float = 0.0
    has_series: bool = False
    has_noise: bool = False

    @classmethod
    def of(
        cls, errors: Iterable[PointErrors], points: int, proven: float, how: str = "proven", product_error: float = 0.0,
        noise: float = 0.0,
    ) -> PredictionAccuracy:  # fmt: skip
        """Return the accuracy from errors of batches of sampled points.

        Args:
            errors: of batches of sampled points.
            points, proven, how: as in the class.
            product_error: in the target's units.
            noise: what the predictions added to the variance of f.
        """
        of_each = [(each.mean, each.sd(noise), each.least_sd) for each in errors]
        off, sd, least = (np.concatenate([*(part.double().numpy() for part in parts), []]) for parts in (
            zip(*of_each, strict=True) if of_each else ((), (), ())
        ))  # fmt: skip
        of_product = product_error / least if product_error else np.zeros_like(off)
        return cls(
            off + of_product, sd, points, proven, how, float(of_product.max(initial=0.0)), product_error > 0, noise > 0
        )

    def with_means_of(self, solution: Solution | None, bound: float) -> PredictionAccuracy:
        """Return the accuracy of other means at these points, from the solve and the bound that hold for all."""
        errors = np.full_like(self.mean_errors, bound + self.product_error)
        return replace(self, mean_errors=errors, proven=bound, how=how_known(solution))

    def thinned(self, most: int) -> PredictionAccuracy:
        """Return the accuracy from a random sample of at most this many of the sampled points."""
        kept = np.random.default_rng(0).permutation(self.sampled)[:most]
        return replace(self, mean_errors=self.mean_errors[kept], sd_errors=self.sd_errors[kept])

    @property
    def sampled(self) -> int:
        """Number of test points that were solved for."""
        return len(self.mean_errors)

    def share(self, share: float = SHARE, confidence: float = CONFIDENCE) -> float:
        """Return the share of predictions that the sample can bound: `share`, or less if it is too small.

        The largest of s errors exceeds the share q of all with a probability of 1 − qˢ, which must be `confidence`.
        """
        if self.sampled == 0 or self.sampled >= self.points:
            return share if self.sampled else 0.0
        return float(min(share, (1 - confidence) ** (1 / self.sampled)))

    def mean_error(self, share: float = SHARE, confidence: float = CONFIDENCE) -> float:
        """Return a bound on the error of this share of means, in posterior standard deviations of f.

        It holds with this confidence over the random choice of the sample. If the sample is too small for it, it
        bounds the smaller share that `share()` returns.
        """
        return min(self.proven + self.product_error, self._bound(self.mean_errors, share, confidence))

    def sd_error(self, share: float = SHARE, confidence: float = CONFIDENCE) -> float:
        """Return a bound on the relative error of this share of standard deviations, as `mean_error` does."""
        return self._bound(self.sd_errors, share, confidence)

    def _bound(self, errors: NDArray[np.float64], share: float, confidence: float) -> float:
        for name, value in (("share", share), ("confidence", confidence)):
            require(0 < value < 1, name, value, "a number between 0 and 1")
        if not len(errors):
            return float("inf")
        ordered, s = np.sort(errors), len(errors)
        if s >= self.points:
            return float(ordered[int(np.ceil(share * s)) - 1])
        # the k-th smallest exceeds the quantile unless at least k of s errors are below it
        enough = np.flatnonzero(binom.cdf(np.arange(s), s, self.share(share, confidence)) >= confidence - 1e-12)
        return float(ordered[enough[0] if len(enough) else -1])

    @property
    def how_in_words(self) -> str:
        """How the bound on the error of every mean is known, and how means are computed if that has an error too."""
        how = "proven by its residual" if self.how == "proven" else self.how
        return f"{how} for the solve; {SERIES}" if self.has_series else how

    @property
    def sentence(self) -> str:
        """Say how accurate predictions are, and how that is known."""
        proven = f"no mean is off by more than {_plain(self.proven)} posterior sd ({self.how_in_words})"
        if not self.sampled:
            return proven[0].upper() + proven[1:] if np.isfinite(self.proven) else "The error of the means is not known"
        share, mean, sd = self.share(), self.mean_error(), self.sd_error()
        # rounded down: less is claimed
        means = f"{math.floor(100 * share + 1e-9)}% of means are within {_plain(mean)} posterior sd of the exact GP"
        much = f"{_plain(100 * sd)}%" if sd < 1 else f"{_plain(1 + sd)} times"
        name = "sd with noise" if self.has_noise else "sd"
        sds = f"{name} at most {much} too large" if np.isfinite(sd) else "the error of sd is not known"
        known = "all test points" if self.sampled >= self.points else (
            f"{self.sampled} of {self.points:,} test points, {CONFIDENCE:.0%} confidence"
        )  # fmt: skip
        return f"{means}, {sds} ({known})" + (f"; {proven}" if self.proven < 1 else "")

    def __str__(self) -> str:
        return self.sentence


def how_known(solution: Solution | None) -> str:
    """Say how the bound on the error of every mean is known: it is no proof where rows were drawn at random."""
    certificate = None if solution is None else solution.certificate
    if certificate is None or certificate.kind != "sampled":
        return "proven"
    return f"its residual is known from {certificate.rows} random rows"


def together(several: Iterable[PredictionAccuracy]) -> PredictionAccuracy:
    """Return the accuracy of predictions in slices, each with its sample.

    Each slice keeps errors in proportion to its points, at least one, as a sample of all points would have them.
    """
    all_of = list(several)
    require_whole("the number of slices", len(all_of), 1)
    share = min((each.sampled / each.points for each in all_of if each.points), default=1.0)
    rng, mean, sd = np.random.default_rng(0), [], []
    for each in all_of:
        kept = rng.permutation(each.sampled)[: max(1, math.floor(share * each.points + 1e-9)) if share else 0]
        mean.append(each.mean_errors[kept])
        sd.append(each.sd_errors[kept])
    worst = max(all_of, key=lambda each: each.proven)
    points = sum(each.points for each in all_of)
    return PredictionAccuracy(
        np.concatenate(mean),
        np.concatenate(sd),
        points,
        worst.proven,
        worst.how,
        max(each.product_error for each in all_of),
        any(each.has_series for each in all_of),
        any(each.has_noise for each in all_of),
    )


def _plain(error: float) -> str:
    """Format an error with two digits, never below the least that is said."""
    return f"{max(error, LEAST_ERROR):.2g}" if np.isfinite(error) else "an unknown number of"
