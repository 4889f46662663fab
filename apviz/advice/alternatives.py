"""Changes that alter the advice: another tolerance, other right-hand sides, another dtype."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from apviz.advice.forecast import Band, Forecast, forecast, in_words, without_rehearsal
from apviz.advice.pilots import Rehearsal
from apviz.advice.rehearsing import Candidate, Rehearsing
from apviz.operators import Operator
from apviz.solvers import Solver
from apviz.solvers.choosing.costs import UNREHEARSED, CostModel

#: seconds that differ by a smaller factor count as equal
NOTABLE: Final = 1.5
#: factor to the larger and the smaller tolerance
TIMES: Final = 10.0
#: For a faster solve, in seconds, only the larger tolerance is considered: the rest needs rehearsals or measurements.
WORTH_MEASURING: Final = 0.5
#: work limit of a rehearsal to the smaller tolerance, in units of the first rehearsal's work
MOST_TIMES: Final = 3.0
#: alternative number of right-hand sides to one
MANY_SIDES: Final = 16
#: number of methods that are rehearsed again for another setting
REHEARSED: Final = 2


@dataclass(frozen=True)
class Alternative:
    """A change that alters the advice, or its seconds by a factor of at least 1.5.

    Attributes:
        change: the change, such as "to 0.001", "16 right-hand sides", "float64".
        best: the method to use after the change.
        seconds: estimated seconds; infinite if no method is expected to converge.
        sentence: a sentence that says all this.
    """

    change: str
    best: str
    seconds: Band
    sentence: str


def what_would_change(
    rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float
) -> tuple[Alternative, ...]:
    """Return the changes that alter the advice.

    Other tolerances use the curves of rehearsals; other right-hand sides and dtypes rehearse the best methods again.

    Args:
        candidates: candidates by name, the best first.
    """
    advised = next(iter(candidates.values())).forecast
    if all(each.half is None for each in candidates.values()):
        return ()
    changes = [_looser(rehearsing, candidates, tol * TIMES)] if tol * TIMES < 1 else []
    if advised.seconds.likely > WORTH_MEASURING or advised.chance < 0.5:
        changes += [
            test(rehearsing, candidates, tol)
            for test in (_tighter, _other_sides, _other_dtype)
            if rehearsing.budget.allows_another
        ]
    found = (_notable(change, forecasts, candidates) for change, forecasts in changes)
    return tuple(each for each in found if each is not None)


def _known(name: str, solver: Solver, operator: Operator, columns: int, costs: CostModel) -> dict[str, Forecast]:
    """Return the forecast of a method that needs no rehearsal, by its name; empty if it cannot be used there."""
    forecast = without_rehearsal(solver, operator, columns, costs)
    return {} if forecast is None else {name: forecast}


def _looser(rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float) -> tuple[str, dict[str, Forecast]]:
    """Forecast solves to a larger tolerance, from the curves of the rehearsals."""
    found: dict[str, Forecast] = {}
    for name, each in candidates.items():
        solver: Any = replace(each.solver, tol=tol)  # type: ignore[call-arg]
        if each.half is None:
            found |= _known(name, solver, rehearsing.system.operator, rehearsing.system.b.shape[1], rehearsing.costs)
        elif half := each.half.to(tol):
            found[name] = rehearsing.of(solver, half, each.whole.to(tol) if each.whole else None)
    return f"to {tol:g}", found


def _tighter(
    rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float
) -> tuple[str, dict[str, Forecast]]:
    """Forecast solves to a tenth of the tolerance by rehearsing the likely methods again, with limited work."""
    tol /= TIMES
    found: dict[str, Forecast] = {}
    for name, each in _likely(candidates):
        solver: Any = replace(each.solver, tol=tol)  # type: ignore[call-arg]
        if each.half is None:
            found |= _known(name, solver, rehearsing.system.operator, rehearsing.system.b.shape[1], rehearsing.costs)
        elif each.half.converged:
            half = rehearsing.rehearse_again(solver, MOST_TIMES * each.half.work)
            found[name] = rehearsing.of(solver, half, _larger(each, half))
    return f"to {tol:g}", found


def _other_sides(
    rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float
) -> tuple[str, dict[str, Forecast]]:
    """Forecast one right-hand side instead of several from its curve, or several instead of one by rehearsals."""
    system = rehearsing.system
    one = system.b.shape[1] > 1
    columns = 1 if one else MANY_SIDES
    costs, found = rehearsing.costs.of_columns(columns), dict[str, Forecast]()
    for name, each in _likely(candidates):
        solver = each.asked.resolve(system.operator, columns)[0]
        if each.half is None or solver.name in UNREHEARSED:
            found |= _known(name, solver, system.operator, columns, costs)
            continue
        half = each.half.to(tol, alone=True) if one else rehearsing.of_other_sides(solver)
        if half is not None:
            found[name] = forecast(solver, system.operator, columns, costs, half, _larger(each, half))
    return "1 right-hand side" if one else f"{MANY_SIDES} right-hand sides", found


def _other_dtype(
    rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float
) -> tuple[str, dict[str, Forecast]]:
    """Forecast another dtype: the same epochs at other costs, rehearsed again if rounding may matter."""
    system, found = rehearsing.system, dict[str, Forecast]()
    dtype, columns = (torch.float32 if system.dtype == torch.float64 else torch.float64), system.b.shape[1]
    operator, costs = system.operator.in_dtype(dtype), rehearsing.costs.in_dtype(dtype)
    for name, each in _likely(candidates):
        solver = each.asked.resolve(operator, columns)[0]
        if each.half is None or solver.name in UNREHEARSED:
            found |= _known(name, solver, operator, columns, costs)
            continue
        half, now = each.half, each.forecast
        then = forecast(solver, operator, columns, costs, half, _larger(each, half))
        gains = then.seconds.likely * NOTABLE < now.seconds.likely
        if (dtype == torch.float32 and gains) or now.chance < 0.5:
            half = rehearsing.in_dtype(solver, dtype)
            then = forecast(solver, operator, columns, costs, half, _larger(each, half))
        found[name] = then
    return str(dtype).removeprefix("torch."), found


def _likely(candidates: Mapping[str, Candidate]) -> list[tuple[str, Candidate]]:
    """Return the few candidates that may also be the best under another setting."""
    best = next(iter(candidates.values())).forecast.seconds.likely
    return [
        (name, each) for number, (name, each) in enumerate(candidates.items())
        if not number or (number < REHEARSED and each.forecast.seconds.likely < NOTABLE * best)
    ]  # fmt: skip


def _larger(each: Candidate, half: Rehearsal) -> Rehearsal | None:
    """Estimate the rehearsal on the larger pilot system, with the old ratio of both pilot systems."""
    whole, before = each.whole, each.half
    if whole is None or before is None or not (whole.converged and before.converged and half.converged):
        return None
    more, passes = half.epochs / before.epochs, max(half.passes, whole.passes)
    work = whole.setup_work + passes + whole.projected * more
    return replace(whole, epochs=whole.epochs * more, passes=passes, work=work)


def _notable(change: str, forecasts: Mapping[str, Forecast], candidates: Mapping[str, Candidate]) -> Alternative | None:
    """Return the alternative of a change, or None if the same method takes about as long."""
    advised, now = next((name, each.forecast) for name, each in candidates.items())
    converging = {name: each for name, each in forecasts.items() if each.chance > 0.5 and each.is_bounded}
    then, converges, what = forecasts.get(advised), now.chance >= 0.5, change[:1].upper() + change[1:]
    if not converging:
        if not converges or then is None:
            return None
        if then.chance < 0.5:
            said = f"{what}: no rehearsed method is expected to converge. {advised}: {then.reason}."
            return Alternative(change, advised, Band(math.inf, math.inf, math.inf), said)
        if then.seconds.likely < NOTABLE * now.seconds.likely:
            return None
        said = f"{what}: {advised} would take {then.seconds.in_words}."
        return Alternative(change, advised, then.seconds, said)
    best = min(converging, key=lambda name: converging[name].seconds.likely)
    if advised in converging and converging[advised].seconds.likely < NOTABLE * converging[best].seconds.likely:
        best = advised
    seconds = converging[best].seconds
    about = seconds.in_words
    if not converges:
        return Alternative(change, best, seconds, f"{what}: {best} is expected to converge, in {about}.")
    if best == advised:
        ratio = seconds.likely / now.seconds.likely
        if 1 / NOTABLE < ratio < NOTABLE:
            return None
        said = f"{what}: {about} instead of {in_words(now.seconds.likely)} with {best}."
        return Alternative(change, best, seconds, said)
    if then is None:
        return None  # what it would take is not known
    if then.chance < 0.5:
        said = f"{what}: use {best}, {about}. {advised} is not expected to converge."
    else:
        said = f"{what}: use {best}, {about}. {advised} would take {then.seconds.in_words}."
    return Alternative(change, best, seconds, said)
