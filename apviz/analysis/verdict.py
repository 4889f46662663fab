"""Verdict on runs of one system: which was fastest, how the others compare, and what to change.

Measured runs rank before extrapolated ones, and these before bounds. The cost of a run to its tolerance is

- *measured* if it converged;
- *extrapolated* if it stopped before, at the rate of its residual in the later half of its epochs;
- a *bound* for plain CG without such a rate: ½√κ·log(2√κ/tol) iterations in exact arithmetic, at its pace;
- *unknown* if rounding stopped it, or the extrapolation is longer than `FARTHEST` times the recorded epochs.

The action is that of `apviz.diagnose` on the fastest run, so verdict and diagnosis agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

import numpy as np

from apviz.analysis.diagnosis import Diagnosis, Limit, diagnose
from apviz.analysis.errors import conjugate_gradient_iterations
from apviz.analysis.sweeps import machine_of, system_key
from apviz.method import distinct_names
from apviz.tracing import Trace
from apviz.tracing.trace import is_estimate

#: Relative difference of seconds up to which it is given in percent.
SMALL_DIFFERENCE = 0.2
#: Multiple of the recorded epochs beyond which an extrapolation is meaningless.
FARTHEST = 100.0
#: Multiple of the recorded epochs that is worth waiting for.
MORE_EPOCHS = 20
#: κ up to which all digits are written.
WRITTEN_OUT = 10_000
#: Most words of a sentence.
MOST_WORDS = 20
#: Time between runs beyond which the load of their machine may differ, so that the verdict says it.
APART = timedelta(hours=12)
#: Number of epochs below which a residual has no rate.
FEWEST_EPOCHS = 4

_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Basis(Enum):
    """Source of the cost of a run to its tolerance."""

    MEASURED = "measured"
    EXTRAPOLATED = "extrapolated"
    BOUND = "bound"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Standing:
    """Ranked run.

    Args:
        name: Name that distinguishes it from the others.
        seconds: Seconds to its tolerance, set-up included; NaN if unknown.
        work: Work to its tolerance, set-up included; NaN if unknown.
        basis: Source of both.
    """

    trace: Trace
    name: str
    seconds: float
    work: float
    basis: Basis


@dataclass(frozen=True)
class Verdict:
    """Verdict in words, with the runs and the diagnosis it is based on.

    Args:
        standings: Compared runs, best first: converged runs by seconds, then the others.
        left_out: Number of runs of another system, to another tolerance, or on another machine.
        best: Fastest converged run; None if none converged.
        headline: Answer: which was fastest, and how others compare.
        others: Reason: further facts about the runs and κ; may be empty.
        change: Action; empty if there is nothing to do.
        diagnosis: Diagnosis of the fastest run, or if none converged, of the one with the smallest residual.
        named: Runs that the headline names.
    """

    standings: tuple[Standing, ...]
    left_out: int
    best: Standing | None
    headline: str
    others: str
    change: str
    diagnosis: Diagnosis | None
    named: tuple[Standing, ...] = ()

    @property
    def sentence(self) -> str:
        """Return headline, reason and action on one line."""
        return " ".join(part for part in (self.headline, self.others, self.change) if part)


def judge(traces: Iterable[Trace], names: Sequence[str] | None = None, *, more_to_come: bool = False) -> Verdict:
    """Compare runs of one system to one tolerance on one machine; if there are several, the most frequent one.

    A run that converged to a smaller tolerance met this one too. It is compared if it was the fastest.

    Args:
        names: Names of the runs, if their methods do not distinguish them.
        more_to_come: Whether other solves are running, so that missing methods are not mentioned.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> for solver in (apviz.Cholesky(), apviz.ConjugateGradient(tol=0.01, max_epochs=5)):
        ...     solution = apviz.solvers.attempt(system, solver, hooks=[recorder])
        >>> found = apviz.analysis.judge(recorder.traces)
        >>> found.best.name, found.others
        ('Cholesky', '1 run stopped at 5 epochs without converging. Condition number κ = 8,237.')
    """
    given = list(traces)
    called = distinct_names([trace.method for trace in given]) if names is None else list(names)
    shown = [(trace, name) for trace, name in zip(given, called, strict=True) if "epoch" in trace]
    groups: dict[str, list[Standing]] = {}
    for trace, name in shown:
        groups.setdefault(f"{trace.attrs.get('tol')} {_comparable(trace)}", []).append(standing(trace, name))
    # of two groups of equal size, the later
    runs = max(reversed(groups.values()), key=len, default=[])
    ordered = _ordered(_with_faster(runs, groups.values()))
    if not ordered:
        return Verdict((), len(given), None, "Nothing has run yet.", "", "", None)
    best = ordered[0] if ordered[0].basis is Basis.MEASURED else None
    looked_at = best or min(ordered, key=lambda run: _last(run.trace, "residual"))
    # includes runs to other tolerances, as wherever this run is diagnosed
    diagnosis = diagnose(looked_at.trace, [trace for trace, _ in shown])
    headline = _won(ordered, best, more_to_come) if best else _unconverged(ordered, looked_at)
    left_out = len(given) - len(ordered)
    others = _others(ordered, looked_at, left_out)
    named = (best, *_rivals(ordered)) if best else (looked_at,)
    return Verdict(tuple(ordered), left_out, best, headline, others, _change(diagnosis), diagnosis, named)


def _with_faster(runs: list[Standing], groups: Iterable[list[Standing]]) -> list[Standing]:
    """Add the fastest run of the same system that converged to a smaller tolerance, if it was faster than all."""
    if not runs:
        return runs
    tol, key = runs[0].trace.attrs.get("tol"), _comparable(runs[0].trace)
    tighter = [
        run for group in groups for run in group
        if run.basis is Basis.MEASURED and tol and (run.trace.attrs.get("tol") or math.inf) < tol
        and _comparable(run.trace) == key
    ]  # fmt: skip
    fastest = min(tighter, key=lambda run: run.seconds, default=None)
    rivals = [run.seconds for run in runs if run.basis is Basis.MEASURED]
    return [*runs, fastest] if fastest is not None and fastest.seconds < min(rivals, default=math.inf) else runs


def _comparable(trace: Trace) -> str:
    """Return a key that runs share whose seconds compare."""
    return f"{system_key(trace.attrs)} {machine_of(trace.attrs)}"


def standing(trace: Trace, name: str = "") -> Standing:
    """Return the cost of a run to its tolerance, and how it is known."""
    name = name or trace.method_name
    seconds, work = _last(trace, "seconds"), _last(trace, "work")
    if trace.converged:
        return Standing(trace, name, seconds, work, Basis.MEASURED)
    done, total, basis = _last(trace, "epoch"), math.nan, Basis.UNKNOWN
    if trace.outcome not in ("stagnated", "diverged") and done > 0 and trace.attrs.get("tol"):
        total, basis = _epochs_to_tolerance(trace, done)
    if basis is Basis.UNKNOWN:
        return Standing(trace, name, math.nan, math.nan, basis)
    more, epochs = (total - done) / done, trace["epoch"]
    spent_seconds, spent_work = seconds - float(epochs["seconds"][0]), work - float(epochs["work"][0])
    return Standing(trace, name, seconds + more * spent_seconds, work + more * spent_work, basis)


def _epochs_to_tolerance(trace: Trace, done: float) -> tuple[float, Basis]:
    """Return the total number of epochs, or iterations, and how it is known."""
    tol, kappa = float(trace.attrs["tol"]), _kappa(trace)
    bound = math.nan
    if trace.method.is_plain_cg and math.isfinite(kappa):
        bound = math.ceil(conjugate_gradient_iterations(np.array(kappa), tol))
    residual = trace["epoch"]["residual"].values
    late = residual[len(residual) // 2 :]
    if len(residual) > FEWEST_EPOCHS and (np.isfinite(late) & (late > 0)).all():
        # over the complete later half, because the residual of some rules jumps
        fall = -float(np.polyfit(np.arange(len(late)), np.log(late), 1)[0])
        total = done + (max(0.0, math.log(float(late[-1]) / tol) / fall) if fall > 0 else math.inf)
        if total <= (1 + FARTHEST) * done and not total > max(bound, done):
            return total, Basis.EXTRAPOLATED
    # beyond the bound, rounding dominates, which the bound ignores
    return (bound, Basis.BOUND) if bound > done else (math.nan, Basis.UNKNOWN)


def what_next(trace: Trace) -> str:
    """Return advice for a run that did not converge: how many epochs it needs in all, or another remedy.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solver = apviz.AlternatingProjection(block_size=50, tol=1e-3, max_epochs=2)
        >>> solution = apviz.solve(system, solver, hooks=[recorder])
        >>> apviz.analysis.what_next(recorder.trace).partition(":")[0]
        'Too few epochs to estimate a rate'
    """
    residuals, done = trace["epoch"]["residual"].values, int(_last(trace, "epoch"))
    if not math.isfinite(residuals[-1]) or not math.isfinite(trace.attrs.get("tol", math.nan)):
        return "Its residual is not finite: use another block size, or CG."
    if len(residuals) <= FEWEST_EPOCHS:
        return f"Too few epochs to estimate a rate: allow {max(20, 10 * done):,} and sweep again."
    total, _ = _epochs_to_tolerance(trace, done)
    if not total <= (1 + MORE_EPOCHS) * done:
        half = residuals[len(residuals) // 2 :]
        fallen = 1 - (half[-1] / half[0]) ** (1 / (len(half) - 1))
        return (
            f"In the later half of its epochs the residual fell by {max(0.0, 100 * fallen):.2g}% an epoch: more epochs "
            "would not help. Use blocks of neighbours with an overlap, a larger b, or a looser tolerance."
        )
    seconds = time_words(standing(trace).seconds)
    return f"It needs about {math.ceil(total):,} epochs ({seconds}). Allow {_round_up(1.2 * total):,}, to be safe."


def _round_up(value: float) -> int:
    step = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return int(math.ceil(value / step) * step)


def _ordered(runs: Sequence[Standing]) -> list[Standing]:
    """Return the fastest first: converged runs, then by extrapolated or bounded cost, then unknown ones by residual."""

    def place(run: Standing) -> tuple[int, float]:
        if run.basis is Basis.UNKNOWN:
            residual = _last(run.trace, "residual")
            return 2, residual if math.isfinite(residual) else math.inf
        return int(run.basis is not Basis.MEASURED), run.seconds

    return sorted(runs, key=place)


def _won(ordered: Sequence[Standing], best: Standing, more_to_come: bool) -> str:
    """Return the headline: the fastest run, the next one and plain CG."""
    rivals = _rivals(ordered)
    parts = [f"{best.name} solved it in {time_words(best.seconds)}", *(_compared(run, best) for run in rivals)]
    if not rivals:
        parts.append("no other run has ended yet" if more_to_come else "no other method ran")
    return sentences(parts)


def _rivals(ordered: Sequence[Standing]) -> list[Standing]:
    """Return the runs with which the headline compares the fastest one."""
    rivals = list(ordered[1:2])
    if not any(run.trace.method.is_plain_cg for run in ordered[:2]):
        rivals += [run for run in ordered[2:] if run.trace.method.is_plain_cg][:1]
    return rivals


def sentences(parts: Sequence[str]) -> str:
    """Join the first part as a sentence, and the others in one more if that stays short."""
    first, *rest = parts
    together = "; ".join(rest)
    if len(together.split()) <= MOST_WORDS:
        rest = [together] if rest else []
    return " ".join(f"{each}." for each in [first, *(f"{each[:1].upper()}{each[1:]}" for each in rest)])


def _compared(run: Standing, best: Standing) -> str:
    """Compare a run with the fastest by measurements."""
    if run.basis is not Basis.MEASURED:
        return f"{run.name} {_stopped(run.trace)}"
    return compared(run.name, run.seconds, best.seconds)


def compared(name: str, seconds: float, shortest: float) -> str:
    """Return a clause that compares a time with the shortest one."""
    times = seconds / shortest if shortest > 0 else 1.0
    if round(100 * (times - 1)) < 1:
        return f"{name} took the same time"
    if times < 1 + SMALL_DIFFERENCE:
        return f"{name} took {times - 1:.0%} more time"
    return f"{name} took {times:{'.2g' if times < 10 else ',.0f'}} times as long"


def _stopped(trace: Trace) -> str:
    how = {"stagnated": "stagnated", "diverged": "diverged", "stopped": "was stopped"}.get(trace.outcome, "stopped")
    return f"{how} at residual {trace.residual_in_words('.3g')} after {time_words(_last(trace, 'seconds'))}"


def _unconverged(ordered: Sequence[Standing], closest: Standing) -> str:
    tol = closest.trace.attrs.get("tol")
    aim = f" to {tol:g}" if tol else ""
    if len(ordered) == 1:
        return f"{closest.name} did not converge{aim}. It {_stopped(closest.trace)}."
    return f"None of the {len(ordered)} runs converged{aim}. {closest.name} came closest: it {_stopped(closest.trace)}."


def _others(ordered: Sequence[Standing], looked_at: Standing, left_out: int) -> str:
    """Return the reason of a verdict: unconverged runs, the cost of the named run, κ, and runs left out."""
    said = []
    if looked_at.basis is Basis.EXTRAPOLATED:
        said.append(f"{looked_at.name} needs about {time_words(looked_at.seconds)} in all (extrapolated)")
    if looked_at.basis is Basis.BOUND:
        iterations, _ = _epochs_to_tolerance(looked_at.trace, _last(looked_at.trace, "epoch"))
        said.append(f"{looked_at.name} needs at most {iterations:,.0f} iterations in exact arithmetic (a bound)")
        said.append(f"At the pace it had, that is about {time_words(looked_at.seconds)}")
    failed = [run.trace for run in ordered if run.basis is not Basis.MEASURED]
    limits = {int(_last(trace, "epoch")) for trace in failed if trace.outcome == "max_epochs"}
    capped = sum(trace.outcome == "max_epochs" for trace in failed)
    if capped:
        at = f"at {limits.pop():,} epochs" if len(limits) == 1 else "at their epoch limits"
        said.append(f"{capped} run{'s' if capped > 1 else ''} stopped {at} without converging")
    if halted := sum(trace.outcome == "stopped" for trace in failed):
        said.append(f"{halted} run{'s were' if halted > 1 else ' was'} stopped early")
    if more := len(failed) - capped - halted:
        other = "other " if capped or halted else ""
        said.append(f"{more} {other}run{'s' if more > 1 else ''} did not converge")
    if math.isfinite(_kappa(trace := _best_known_kappa(ordered))):
        said.append(f"Condition number {_condition(trace)}")
    said += made_apart([looked_at.trace, *(run.trace for run in _rivals(ordered))])
    if left_out:
        verb = "run does not compare: it has" if left_out == 1 else "runs do not compare: they have"
        said.append(f"{left_out} other {verb} another system, tolerance or machine")
    return " ".join(f"{each}." for each in said)


def made_apart(traces: Iterable[Trace]) -> list[str]:
    """Return a sentence if compared runs were made more than `APART` apart; none otherwise."""
    created = sorted(datetime.fromisoformat(each.attrs["created"]) for each in traces if each.attrs.get("created"))
    if not created or created[-1] - created[0] <= APART:
        return []
    first, last = (f"{each:%Y-%m-%d %H:%M}" for each in (created[0], created[-1]))
    return [f"The runs compared were not made at one time, but from {first} to {last}"]


def _change(diagnosis: Diagnosis) -> str:
    """Return the action; empty if nothing is wrong."""
    if diagnosis.limit is Limit.NOTHING:
        return ""
    cause = diagnosis.limit.value.partition(":")[0]
    return f"{cause[:1].upper()}{cause[1:]}. {diagnosis.advice}"


def _best_known_kappa(runs: Sequence[Standing]) -> Trace:
    """Return a run whose κ is exact, if there is one; all runs are of one system."""
    known = [run.trace for run in runs if math.isfinite(_kappa(run.trace))] or [runs[0].trace]
    return min(known, key=lambda trace: is_estimate(trace["spectrum"]["kappa"]) if "spectrum" in trace else True)


def _kappa(trace: Trace) -> float:
    return float(trace["spectrum"]["kappa"]) if "spectrum" in trace else math.nan


def _condition(trace: Trace) -> str:
    """Return κ with the sign for its accuracy, a large one as a power of ten."""
    text = trace.condition(form=",.0f" if _kappa(trace) < WRITTEN_OUT else ".1e")
    return re.sub(r"e([+-])0*(\d+)", lambda power: f"·10{_power(power)}", text)


def _power(found: re.Match[str]) -> str:
    return f"{found[1].removeprefix('+')}{found[2]}".translate(_SUPERSCRIPTS)


def _last(trace: Trace, name: str) -> float:
    return float(trace["epoch"][name][-1])


def time_words(seconds: float) -> str:
    """Format seconds to two digits, long times in minutes or hours."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.2g} h"
