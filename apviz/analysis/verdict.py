"""Verdict on runs of one system: which method was best, how far the others are from it, why, and what to change.

What a run needs to its tolerance is *measured* where it converged. Where it was cut off it is, and is called,

- a *bound* for plain CG: ½√κ·log(2√κ/tol) iterations, in exact arithmetic, at the pace it had;
- *extrapolated* for everything else: at the rate at which its residual fell in the later half of its epochs;
- *unknown* where rounding stopped it, where its residual did not fall, or where the extrapolation would be longer than
  `FARTHEST` times what was seen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from apviz.analysis.diagnosis import LARGE_KAPPA, Diagnosis, Limit, diagnose
from apviz.analysis.errors import conjugate_gradient_iterations
from apviz.analysis.sweeps import system_key
from apviz.tracing import Trace
from apviz.tracing.trace import is_estimate

#: times nearer to each other than this are those of one method, measured twice
SAME_TIME = 0.1
#: what another run took less work by, to be worth a word
LESS_WORK = 0.1
#: an extrapolation over more epochs than so many times those that were seen says nothing
FARTHEST = 100.0
#: κ up to which all of its digits are written
WRITTEN_OUT = 10_000
#: epochs without which a residual has no rate
FEWEST_EPOCHS = 4

_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Basis(Enum):
    """How the cost of a run to its tolerance is known."""

    MEASURED = "measured"
    EXTRAPOLATED = "extrapolated"
    BOUND = "bound"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Standing:
    """A run among others.

    Args:
        name: what it is called among them.
        seconds, work: to its tolerance, set-up included; NaN where that is unknown.
        basis: how they are known.
    """

    trace: Trace
    name: str
    seconds: float
    work: float
    basis: Basis


@dataclass(frozen=True)
class Verdict:
    """A verdict in words, with what it rests on.

    Args:
        standings: the runs that are compared, the best first: those that converged by seconds, then the others.
        left_out: number of runs of another system, or to another tolerance.
        best: the best of those that converged; None for none.
        headline: which was best, and how another compares.
        others: what else is to be said of the others; may be empty.
        change: what to change, or that there is nothing.
        diagnosis: of the best, or where none converged of the closest.
    """

    standings: tuple[Standing, ...]
    left_out: int
    best: Standing | None
    headline: str
    others: str
    change: str
    diagnosis: Diagnosis | None

    @property
    def sentence(self) -> str:
        """All of it on one line."""
        return " ".join(part for part in (self.headline, self.others, self.change) if part)


def judge(traces: Iterable[Trace], names: Sequence[str] | None = None, *, more_to_come: bool = False) -> Verdict:
    """Compares runs of one system to one tolerance; of several systems those of the one that most of the runs share.

    Args:
        names: of the runs, where their methods do not tell them apart.
        more_to_come: others are being solved, so that nothing is said of what did not run.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> for solver in (apviz.Cholesky(), apviz.ConjugateGradient(tol=0.01, max_epochs=5)):
        ...     solution = apviz.solvers.attempt(system, solver, hooks=[recorder])
        >>> found = apviz.analysis.judge(recorder.traces)
        >>> found.best.trace.label, found.others
        ('Cholesky', '')
    """
    given = list(traces)
    called = [trace.label for trace in given] if names is None else list(names)
    shown = [(trace, name) for trace, name in zip(given, called, strict=True) if "epoch" in trace]
    groups: dict[str, list[Standing]] = {}
    for trace, name in shown:
        groups.setdefault(f"{trace.attrs.get('tol')} {system_key(trace.attrs)}", []).append(standing(trace, name))
    # of two that are as large, the later
    runs = max(reversed(groups.values()), key=len, default=[])
    ordered = _ordered(runs)
    if not ordered:
        return Verdict((), len(given), None, "Nothing has run yet.", "", "", None)
    best = next((run for run in ordered if run.basis is Basis.MEASURED), None)
    looked_at = best or min(ordered, key=lambda run: _last(run.trace, "residual"))
    diagnosis = diagnose(looked_at.trace, [run.trace for run in ordered])
    rival = _rival(ordered, best)
    if best is None:
        headline = _unconverged(ordered, looked_at, more_to_come)
    else:
        headline = _won(ordered, best, rival, more_to_come)
    others = _others(ordered, best, rival, len(given) - len(ordered))
    return Verdict(
        tuple(ordered), len(given) - len(ordered), best, headline, others, _change(diagnosis, looked_at), diagnosis
    )


def standing(trace: Trace, name: str = "") -> Standing:
    """Says what a run needs to its tolerance, and how that is known."""
    name = name or trace.label
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
    """Epochs, or iterations, in all, and how they are known."""
    tol, kappa = float(trace.attrs["tol"]), _kappa(trace)
    if trace.method.is_plain_cg and math.isfinite(kappa):
        bound = math.ceil(conjugate_gradient_iterations(np.array(kappa), tol))
        # beyond it rounding rules, of which it knows nothing
        if bound > done:
            return bound, Basis.BOUND
    residual = trace["epoch"]["residual"].values
    late = residual[len(residual) // 2 :]
    if len(residual) <= FEWEST_EPOCHS or not (np.isfinite(late) & (late > 0)).all():
        return math.nan, Basis.UNKNOWN
    # of the whole later half, for the residual of some rules leaps
    fall = -float(np.polyfit(np.arange(len(late)), np.log(late), 1)[0])
    more = math.log(float(late[-1]) / tol) / fall if fall > 0 else math.inf
    return (done + max(0.0, more), Basis.EXTRAPOLATED) if more <= FARTHEST * done else (math.nan, Basis.UNKNOWN)


def _ordered(runs: Sequence[Standing]) -> list[Standing]:
    """The best first: what converged, by seconds, then what would take least; at last what is not known."""

    def place(run: Standing) -> tuple[int, float]:
        rank = (Basis.MEASURED, Basis.EXTRAPOLATED, Basis.BOUND, Basis.UNKNOWN).index(run.basis)
        if run.basis is Basis.UNKNOWN:
            residual = _last(run.trace, "residual")
            return 2, residual if math.isfinite(residual) else math.inf
        return min(rank, 1), run.seconds

    ordered = sorted(runs, key=place)
    quick = [run for run in ordered if run.basis is Basis.MEASURED and run.seconds <= _longest_tie(ordered[0])]
    # of those that took as long, the one that worked least
    return sorted(quick, key=lambda run: run.work) + [run for run in ordered if run not in quick]


def _longest_tie(first: Standing) -> float:
    return (1 + SAME_TIME) * first.seconds


def _rival(ordered: Sequence[Standing], best: Standing | None) -> Standing | None:
    """The run that the best is compared with: plain CG, which theory speaks of, else the next."""
    if best is None:
        return None
    others = [run for run in ordered if run is not best]
    return next((run for run in others if run.trace.method.is_plain_cg), others[0] if others else None)


def _won(ordered: Sequence[Standing], best: Standing, rival: Standing | None, more_to_come: bool) -> str:
    cost = f"{_time(best.seconds)} and {best.work:.3g} work"
    absent = "" if more_to_come else _of_absent_cg(ordered)
    if rival is None:
        alone = "nothing else has ended yet" if more_to_come else "nothing else ran"
        return f"{best.name}: {cost}; {alone}{absent}."
    return f"{best.name}, {cost}; {_compared(rival, best)}{absent}."


def _compared(run: Standing, best: Standing) -> str:
    """A run beside the best, as the end of a sentence."""
    explains = run.basis is Basis.BOUND or (run.trace.method.is_plain_cg and _kappa(run.trace) >= LARGE_KAPPA)
    because = f" because {_condition(run.trace)}" if explains else ""
    if run.basis is Basis.MEASURED:
        times = run.seconds / best.seconds if best.seconds > 0 else 1.0
        as_long = "as long" if times <= 1 + SAME_TIME else f"{times:{'.2g' if times < 10 else ',.0f'}} times as long"
        return f"{run.name} took {_time(run.seconds)}, {as_long}, and {run.work:.3g} work{because}"
    return f"{run.name} {_would_take(run)}{because}"


def _would_take(run: Standing) -> str:
    """Of a run that did not converge, what it would have needed, said with how that is known."""
    if run.basis is Basis.BOUND:
        about = "about " if is_estimate(run.trace["spectrum"]["kappa"]) else ""
        return f"would take up to {about}{_time(run.seconds)} in all (a bound)"
    if run.basis is Basis.EXTRAPOLATED:
        return f"would take about {_time(run.seconds)} in all (extrapolated)"
    return f"did not get there: it {_ended(run.trace)} at residual {_last(run.trace, 'residual'):.2g}"


def _ended(trace: Trace) -> str:
    if trace.outcome in ("stagnated", "diverged"):
        return trace.outcome
    return "was cut off" if trace.finished else "was interrupted, or still runs,"


def _of_absent_cg(ordered: Sequence[Standing]) -> str:
    """What theory says of CG where it is not among the runs."""
    if any(run.trace.method.is_plain_cg for run in ordered):
        return ""
    trace = _best_known_kappa(ordered)
    tol, kappa = trace.attrs.get("tol"), _kappa(trace)
    if not tol or not math.isfinite(kappa):
        return ""
    most = math.ceil(conjugate_gradient_iterations(np.array(kappa), float(tol)))
    about = "about " if is_estimate(trace["spectrum"]["kappa"]) else ""
    return f"; CG, which did not run, would take up to {about}{most:,} work (a bound) because {_condition(trace)}"


def _unconverged(ordered: Sequence[Standing], closest: Standing, more_to_come: bool) -> str:
    tol = closest.trace.attrs.get("tol")
    aim = f" to {tol:g}" if tol else ""
    spent = f"{_time(_last(closest.trace, 'seconds'))} and {_last(closest.trace, 'work'):.3g} work"
    end = f"residual {closest.trace.residual_in_words('.2g')} after {spent}"
    onwards = "" if closest.basis is Basis.UNKNOWN else f", and {_would_take(closest)}"
    why = ""
    if math.isfinite(_kappa(closest.trace)):
        why = f"; {_condition(closest.trace)}"
    if len(ordered) == 1:
        alone = "" if more_to_come else " alone ran, and"
        return f"{closest.name}{alone} did not converge{aim}: {end}{onwards}{why}."
    return f"None of the {len(ordered)} runs converged{aim}; the closest, {closest.name}, is at {end}{onwards}{why}."


def _others(ordered: Sequence[Standing], best: Standing | None, rival: Standing | None, left_out: int) -> str:
    parts = []
    done = [run for run in ordered if run.basis is Basis.MEASURED]
    if best is not None:
        thrifty = min(done, key=lambda run: run.work)
        if thrifty.work < (1 - LESS_WORK) * best.work:
            parts.append(f"{thrifty.name} took the least work, {thrifty.work:.3g}")
        failed = [run for run in ordered if run.basis is not Basis.MEASURED and run is not rival]
        if failed:
            parts.append(f"{len(failed)} of the {len(ordered)} runs did not converge")
    if left_out:
        solve = "run solves" if left_out == 1 else "runs solve"
        parts.append(f"{left_out} other {solve} another system, or to another tolerance")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _change(diagnosis: Diagnosis, run: Standing) -> str:
    if diagnosis.limit is Limit.NOTHING:
        return "Nothing to change."
    cause = diagnosis.limit.value.partition(":")[0]
    return f"{cause[:1].upper()}{cause[1:]}: {diagnosis.advice[:1].lower()}{diagnosis.advice[1:]}"


def _best_known_kappa(runs: Sequence[Standing]) -> Trace:
    """A run whose κ is exact, where there is one: all are of one system."""
    known = [run.trace for run in runs if math.isfinite(_kappa(run.trace))] or [runs[0].trace]
    return min(known, key=lambda trace: is_estimate(trace["spectrum"]["kappa"]) if "spectrum" in trace else True)


def _kappa(trace: Trace) -> float:
    return float(trace["spectrum"]["kappa"]) if "spectrum" in trace else math.nan


def _condition(trace: Trace) -> str:
    """κ with the sign that says how well it is known, a large one as a power of ten."""
    text = trace.condition(form=",.0f" if _kappa(trace) < WRITTEN_OUT else ".1e")
    return re.sub(r"e([+-])0*(\d+)", lambda power: f"·10{_power(power)}", text)


def _power(found: re.Match[str]) -> str:
    return f"{found[1].removeprefix('+')}{found[2]}".translate(_SUPERSCRIPTS)


def _last(trace: Trace, name: str) -> float:
    return float(trace["epoch"][name][-1])


def _time(seconds: float) -> str:
    """Seconds to two digits, or minutes or hours of what takes long."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.2g} h"
