"""Changes of a model that are tried one at a time: the first that removes everything wrong names the cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from gpytorch import settings

from apviz.analysis.diagnosis import LITTLE_NOISE_RATIO, USUAL_TOL, Diagnosis, Limit
from apviz.analysis.diagnosis.data import Evidence
from apviz.gpytorch.context import alternating_projection
from apviz.gpytorch.rescue.copying import Copy
from apviz.gpytorch.rescue.measuring import LARGE_ERROR, Context, Exact, Solved, exact, solved
from apviz.gpytorch.rescue.model_diagnosis import ModelDiagnosis, reported
from apviz.solvers import Automatic, overlapping

#: tolerances to try if predictions are off at the usual one
TIGHTER_TOLS = (1e-4, 1e-6)
#: the same for GPyTorch's CG, which takes no step where pᵀKp is under 1e-10, and so cannot reach 1e-6
TIGHTER_CG_TOLS = (1e-4, 1e-5)
#: largest κ after merging duplicates, relative to κ before, at which they count as the cause
KAPPA_SHARE = 0.1
#: smallest relative error that is given as a number
LEAST_SHARE = 1e-3
#: largest number of characters of an error message in the evidence
SHOWN_LETTERS = 160


class Measured:
    """The rules that need solves."""

    def __init__(self, given: Copy, truth: Exact, n: int, remarks: tuple[str, ...]) -> None:
        self.given, self.truth, self.n, self.remarks = given, truth, n, remarks
        self.before: Solved | None = None
        self.after: Solved | None = None
        # number of duplicates, and κ without them, if they matter
        self.copies: tuple[int, float] | None = None

    @property
    def native(self) -> Solved:
        """Return the results of GPyTorch without changes, measured on first use."""
        if self.before is None:
            # subsampled rows are solved in the way of all rows
            self.before = solved(self.given, self.truth, self._and(), spectrum=None)
        return self.before

    def nothing(self, known: Evidence) -> Diagnosis:
        native = self.native
        if native.unconverged:
            end = native.unconverged[0]["epoch"].isel(epoch=-1)
            self.remarks += (
                f"CG reports its tolerance of {native.unconverged[0].attrs['tol']:g} as met, but B − KW is at "
                f"{float(end['checked_residual']):.2g}; no measured result suffers.",
            )
        return Diagnosis(Limit.NOTHING, f"{self._figures(native)}{self._of_rows()}", "No change is needed.")

    def first_remedy(self, known: Evidence) -> Diagnosis | None:
        """Return the first change that fixes the results, if any result is off."""
        truth = self.truth
        if self.native.is_good and not self.native.complains:
            return None
        tried: list[tuple[Diagnosis, Solved]] = []
        # negative variances are the only problem
        only_negative = self.native.negative and self.native.is_near and self.native.trains
        refused: set[str] = set()
        for limit, advice, change, attempt in self._changes(truth):
            if "solver" in change and refused:
                continue
            # after a tolerance that was not met, skip smaller ones
            if tried and tried[-1][1].complains and tried[-1][0].change.keys() == change.keys():
                continue
            after = attempt()
            if after.error:
                if "solver" in change:
                    refused.add(after.error)
                continue
            evidence = f"{self._what_happened()} {self._condition(truth)}{self._of_rows()}"
            named = Limit.VARIANCES if only_negative else limit
            tried.append((Diagnosis(named, evidence, advice, change), after))
            if after.is_good and not after.complains:
                break
        self.remarks += tuple(f"apviz's own solvers could not be tried: {shortened(error)}" for error in refused)
        if tried and tried[-1][1].is_good:
            found, self.after = tried[-1]
            return found
        if not tried:
            evidence = f"{self._what_happened()} {self._condition(truth)}{self._of_rows()}"
            advice = "Every change we tried raised an error: raise the noise."
            return Diagnosis(Limit.CONDITIONING, evidence, advice)
        best, self.after = min(tried, key=lambda pair: (not pair[1].predicts, not pair[1].trains, pair[1].variance))
        advice = f"{best.advice} This helps most of all changes we tried, but not enough: raise the noise too."
        return replace(best, limit=Limit.CONDITIONING, advice=advice)

    def _changes(self, truth: Exact) -> Iterator[tuple[Limit, str, dict[str, Any], Callable[[], Solved]]]:
        """Yield limit, advice, change, and the function that tries it."""
        native, given = self.native, self.given
        merged = given.merged()
        if merged is not None:
            fewer, copies = merged
            of_fewer = exact(fewer)
            if of_fewer.kappa()[0] <= KAPPA_SHARE * truth.kappa()[0]:
                # merging keeps the posterior of all rows
                aim = replace(of_fewer, mean=truth.mean, variance=truth.variance, noise=truth.noise)
                advice = (
                    f"Merge duplicates: {fewer.rows:,} rows are distinct, and c duplicates are equivalent to one row "
                    "with the mean of their targets and noise σ²/c: "
                    "gpytorch.likelihoods.FixedNoiseGaussianLikelihood(noise / counts), inside "
                    "gpytorch.settings.min_fixed_noise if that is small."
                )
                self.copies = (copies, of_fewer.kappa()[0])
                for tight in ({}, *self._tolerances()):
                    then = f" Then set a smaller tolerance: {_as_settings(tight)}." if tight else ""
                    attempt = partial(solved, fewer, aim, self._and(_entered(tight)))
                    yield Limit.DUPLICATES, f"{advice}{then}", {"rows": "distinct", **tight}, attempt
        if settings.fast_pred_var.on() and not native.predicts:
            for tight in ({}, *self._tolerances()):
                off = _entered({"fast_pred_var": False, **tight})
                then = f", with {_as_settings(tight)}" if tight else ""
                yield (
                    Limit.RANK, f"Predict without gpytorch.settings.fast_pred_var(){then}.",
                    {"fast_pred_var": False, **tight}, partial(solved, given, truth, self._and(off)),
                )  # fmt: skip
        for change in self._tolerances() if native.trace is None or native.trace.converged else ():
            advice = f"Use a smaller tolerance: {_as_settings(change)}."
            yield Limit.LOOSE, advice, change, partial(solved, given, truth, self._and(_entered(change)))
        if given.targets.dtype != torch.float64:
            double, advice = given.double(), "Use float64: model.double(), likelihood.double(), and the data in float64"
            yield Limit.PRECISION, f"{advice}.", {"dtype": "float64"}, partial(solved, double, truth, self._and())
            for change in self._tolerances():
                yield (
                    Limit.PRECISION, f"{advice}; then set a smaller tolerance: {_as_settings(change)}.",
                    {"dtype": "float64", **change}, partial(solved, double, truth, self._and(_entered(change))),
                )  # fmt: skip
        little = self.noise < LITTLE_NOISE_RATIO * truth.signal
        limit = Limit.NOISE if little else Limit.CONDITIONING
        more = f" A noise of {10 * self.noise:.1g} or more would help any solver, if the data allow it."
        for here in (given, given.double()) if given.targets.dtype != torch.float64 else (given,):
            first, change = ("", {}) if here is given else ("Use float64, and train", {"dtype": "float64"})
            for tol in (USUAL_TOL, *TIGHTER_TOLS):
                how = "" if tol == USUAL_TOL else f"solver=apviz.Automatic(tol={tol:g})"
                advice = f"{first or 'Train'} and predict inside apviz.gpytorch.alternating_projection({how})."
                tight = {"tol": tol} if how else {}
                yield (
                    limit, advice + (more if little else ""), {**change, "solver": "auto", **tight},
                    partial(self._by_apviz, here, tol),
                )  # fmt: skip
        if native.by_cg:
            advice = f"Use float64 and Cholesky: gpytorch.settings.max_cholesky_size({self.n})."
            every: Context = lambda: settings.max_cholesky_size(self.n)  # noqa: E731
            change = {"dtype": "float64", "max_cholesky_size": self.n}
            yield limit, advice, change, partial(solved, given.double(), truth, self._and(every))

    def _tolerances(self) -> Iterator[dict[str, Any]]:
        """Yield smaller tolerances for those of GPyTorch's CG that are too loose."""
        native = self.native
        if not native.by_cg:
            return
        training = {} if native.trains or settings.cg_tolerance.value() <= USUAL_TOL else {"cg_tolerance": USUAL_TOL}
        if native.predicts:
            if training:
                yield training
            return
        for tol in TIGHTER_CG_TOLS:
            if tol < settings.eval_cg_tolerance.value():
                yield training | {"eval_cg_tolerance": tol}

    def _and(self, context: Context = nullcontext) -> Context:
        """Make GPyTorch solve the subsampled rows in the way of all rows, unless `context` overrides it."""

        def both() -> AbstractContextManager[Any]:
            stack = ExitStack()
            if self.n != self.given.rows and self.n > settings.max_cholesky_size.value():
                stack.enter_context(settings.max_cholesky_size(0))
            stack.enter_context(context())
            return stack

        return both

    def _by_apviz(self, given: Copy, tol: float) -> Solved:
        # the context's default solver; but for a subsample not Cholesky, which suits few rows only
        by_default = None if tol == USUAL_TOL else Automatic(tol=tol)
        solver = by_default if self.n == self.given.rows else overlapping(tol=tol)
        return solved(given, self.truth, lambda: alternating_projection(solver=solver), is_apviz=True)

    # --- wording --------------------------------------------------------------------------------------------------

    def _what_happened(self) -> str:
        native, dtype = self.native, str(self.given.targets.dtype).removeprefix("torch.")
        if native.error:
            return f"GPyTorch in {dtype} raised {shortened(native.error)}."
        words = [f"GPyTorch without CG, in {dtype}{', after it added jitter to the diagonal' if native.jitter else ''}"]
        if native.trace is not None:
            end, tol = native.trace["epoch"].isel(epoch=-1), float(native.trace.attrs["tol"])
            met = {"converged": "met", "stagnated": "wrongly claims to have met"}.get(native.trace.outcome, "missed")
            words = [
                f"GPyTorch's CG in {dtype} {met} its tolerance of {tol:g} in training, after {int(end['epoch']):,} "
                "iterations",
                f"The mean residual is {float(end['residual']):.2g} by its recursion and {native.all_residuals:.2g} by "
                f"B − KW; that of the targets is {native.residual:.2g} in float64, and 1 at W = 0",
            ]
        if not native.log_likelihood_error <= LARGE_ERROR:
            words.append(
                f"The log likelihood per row is {native.log_likelihood:.3g} instead of {self.truth.log_likelihood:.3g}"
            )
        late = [t for t in native.unconverged if t is not native.trace]
        if late:
            words.append(f"In prediction, CG ended at a residual of {float(late[0]['epoch']['residual'][-1]):.2g}")
        return f"{'. '.join(words)}. {self._figures(native)}"

    def _figures(self, found: Solved) -> str:
        words, variances = [], ""
        if math.isfinite(found.gradient):
            words.append(f"the gradient is off by {_in_percent(found.gradient)}")
        if math.isfinite(found.mean):
            words.append(f"predicted means by up to {found.mean:.2g} standard deviations")
            variances = f" Variances with the noise are off by {off_by(found.variance)}."
        if found.negative:
            variances += f" {found.negative} of {self.truth.variance.numel()} variances of f are negative."
        return (f"Against Cholesky in float64 {', '.join(words)}." if words else "") + variances

    def _condition(self, truth: Exact) -> str:
        """Describe κ, σ², rounding errors in float32, and duplicate rows."""
        kappa, how = truth.kappa()
        share = self.noise / truth.signal if truth.signal else math.inf
        text = f"{how} {kappa:.2g}; σ² = {self.noise:.2g} is {share:.1g} of k(x, x)"
        if self.given.targets.dtype == torch.float32:
            rounding = torch.finfo(torch.float32).eps * kappa * self.noise
            text += f", and rounding in float32 may move eigenvalues by ε·λmax = {rounding:.1g}"
        if self.copies is not None:
            count, without = self.copies
            text += f". {count:,} of the {self.given.rows:,} rows are duplicates: without them κ = {without:.2g}"
        return text + "."

    @property
    def noise(self) -> float:
        """Return σ² of the model, also if a subsample was measured with a share of it."""
        return self.truth.noise / self.given.share

    def _of_rows(self) -> str:
        if self.given.rows == self.n:
            return ""
        return (
            f" Measured on {self.given.rows:,} of the {self.n:,} rows, drawn at random; each has the noise of "
            f"{self.n / self.given.rows:.3g} rows combined, so that κ is about that of all rows."
        )

    def reported(self, found: Diagnosis) -> ModelDiagnosis:
        return reported(found, self.n, self.remarks, self.given.rows, self.before, self.after)


def _entered(values: Mapping[str, float]) -> Context:
    """Return a context with these GPyTorch settings."""

    def entered() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for name, value in values.items():
            stack.enter_context(getattr(settings, name)(value))
        return stack

    return entered


def _as_settings(values: Mapping[str, float]) -> str:
    return ", ".join(f"gpytorch.settings.{name}({value:g})" for name, value in values.items())


def off_by(ratio: float) -> str:
    """Describe the largest ratio of two variances, at least 1: in percent below 2, as a factor from there on."""
    if ratio >= 2:
        return f"a factor of up to {ratio:.3g}"
    return f"{'' if ratio - 1 < LEAST_SHARE else 'up to '}{_in_percent(ratio - 1)}"


def _in_percent(share: float) -> str:
    return "under 0.1%" if share < LEAST_SHARE else f"{share:.1%}"


def shortened(error: object) -> str:
    """Return the first line of an error, with its kind."""
    text = str(error).split("\n")[0]
    kind = f"{type(error).__name__}: " if isinstance(error, Exception) else ""
    return f"{kind}{text[:SHOWN_LETTERS]}"
