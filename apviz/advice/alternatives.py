"""What would change the advice: another tolerance, other right-hand sides, another dtype."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from apviz.advice.forecast import Band, Forecast, direct, forecast, in_words
from apviz.advice.rehearsing import Candidate, Rehearsing
from apviz.advice.twins import Rehearsal
from apviz.solvers import Cholesky

#: seconds that differ by less are the same
NOTABLE: Final = 1.5
#: a tolerance larger or smaller by so much is looked at
TIMES: Final = 10.0
#: seconds of a solve below which only the larger one is, for all else must be rehearsed or measured
WORTH_MEASURING: Final = 0.5
#: times the work of a rehearsal that another one to the smaller tolerance may take
MOST_TIMES: Final = 3.0
#: right-hand sides in place of one
MANY_SIDES: Final = 16
#: methods that are rehearsed anew for another setting
REHEARSED: Final = 2


@dataclass(frozen=True)
class Alternative:
    """Something that would change the advice, or the seconds by half as much again.

    Attributes:
        change: in words, such as "to 0.001", "16 right-hand sides", "float64".
        best: the method to take then.
        seconds: that it would take, an estimate; infinite where no method is expected to converge.
        sentence: of all this.
    """

    change: str
    best: str
    seconds: Band
    sentence: str


def what_would_change(
    rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float
) -> tuple[Alternative, ...]:
    """Report what would, from the curves of rehearsals; other right-hand sides and dtypes rehearse the best anew.

    Args:
        candidates: by name, the best first.
    """
    advised = next(iter(candidates.values())).forecast
    if all(each.half is None for each in candidates.values()):
        return ()
    changes = [_looser(rehearsing, candidates, tol * TIMES)] if tol * TIMES < 1 else []
    if advised.seconds.likely > WORTH_MEASURING or advised.chance < 0.5:
        changes += [
            _tighter(rehearsing, candidates, tol / TIMES),
            _other_sides(rehearsing, candidates, tol),
            _other_dtype(rehearsing, candidates),
        ]
    found = (_notable(change, forecasts, candidates) for change, forecasts in changes)
    return tuple(each for each in found if each is not None)


def _looser(rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float) -> tuple[str, dict[str, Forecast]]:
    """To a tolerance that rehearsals passed on their way."""
    found = {}
    for name, each in candidates.items():
        solver: Any = replace(each.solver, tol=tol)  # type: ignore[call-arg]
        if each.half is None:
            found[name] = replace(each.forecast, solver=solver)
        elif half := each.half.to(tol):
            found[name] = rehearsing.of(solver, half, each.whole.to(tol) if each.whole else None)
    return f"to {tol:g}", found


def _tighter(
    rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float
) -> tuple[str, dict[str, Forecast]]:
    """To a tolerance to which the likely ones are rehearsed again, as long as that takes little more."""
    found = {}
    for name, each in _likely(candidates):
        solver: Any = replace(each.solver, tol=tol)  # type: ignore[call-arg]
        if each.half is None:
            found[name] = replace(each.forecast, solver=solver)
        elif each.half.converged:
            half = rehearsing.anew(solver, MOST_TIMES * each.half.work)
            found[name] = rehearsing.of(solver, half, _larger(each, half))
    return f"to {tol:g}", found


def _other_sides(
    rehearsing: Rehearsing, candidates: Mapping[str, Candidate], tol: float
) -> tuple[str, dict[str, Forecast]]:
    """Of one right-hand side in place of several by its own curve; of several in place of one they are rehearsed."""
    system = rehearsing.system
    one = system.b.shape[1] > 1
    columns = 1 if one else MANY_SIDES
    prices, found = rehearsing.prices.of_columns(columns), dict[str, Forecast]()
    for name, each in _likely(candidates):
        solver = each.asked.resolve(system.operator, columns)[0]
        if each.half is None or isinstance(solver, Cholesky):
            found[name] = direct(Cholesky(), system.operator, prices)
            continue
        half = each.half.to(tol, alone=True) if one else rehearsing.of_other_sides(solver)
        if half is not None:
            found[name] = forecast(solver, system.operator, columns, prices, half, _larger(each, half))
    return "1 right-hand side" if one else f"{MANY_SIDES} right-hand sides", found


def _other_dtype(rehearsing: Rehearsing, candidates: Mapping[str, Candidate]) -> tuple[str, dict[str, Forecast]]:
    """The same epochs at other prices; rehearsed in the other dtype where rounding may tell them apart."""
    system, found = rehearsing.system, dict[str, Forecast]()
    dtype, columns = (torch.float32 if system.dtype == torch.float64 else torch.float64), system.b.shape[1]
    operator, prices = system.operator.in_dtype(dtype), rehearsing.prices.in_dtype(dtype)
    for name, each in _likely(candidates):
        solver = each.asked.resolve(operator, columns)[0]
        if each.half is None or isinstance(solver, Cholesky):
            found[name] = direct(Cholesky(), operator, prices)
            continue
        half, now = each.half, each.forecast
        then = forecast(solver, operator, columns, prices, half, _larger(each, half))
        gains = then.seconds.likely * NOTABLE < now.seconds.likely
        if (dtype == torch.float32 and gains) or now.chance < 0.5:
            half = rehearsing.in_dtype(solver, dtype)
            then = forecast(solver, operator, columns, prices, half, _larger(each, half))
        found[name] = then
    return str(dtype).removeprefix("torch."), found


def _likely(candidates: Mapping[str, Candidate]) -> list[tuple[str, Candidate]]:
    """The few that may be the best under another setting too."""
    best = next(iter(candidates.values())).forecast.seconds.likely
    return [
        (name, each) for number, (name, each) in enumerate(candidates.items())
        if not number or (number < REHEARSED and each.forecast.seconds.likely < NOTABLE * best)
    ]  # fmt: skip


def _larger(each: Candidate, half: Rehearsal) -> Rehearsal | None:
    """What the larger twin would have taken, were it to the smaller one as it was."""
    whole, before = each.whole, each.half
    if whole is None or before is None or not (whole.converged and before.converged and half.converged):
        return None
    more, passes = half.epochs / before.epochs, max(half.passes, whole.passes)
    work = whole.setup_work + passes + whole.projected * more
    return replace(whole, epochs=whole.epochs * more, passes=passes, work=work)


def _notable(change: str, forecasts: Mapping[str, Forecast], candidates: Mapping[str, Candidate]) -> Alternative | None:
    """What is to be said of a change: nothing where the same method takes about the same."""
    advised, now = next((name, each.forecast) for name, each in candidates.items())
    arriving = {name: each for name, each in forecasts.items() if each.chance > 0.5 and each.is_bounded}
    then, arrives, what = forecasts.get(advised), now.chance >= 0.5, change[:1].upper() + change[1:]
    if not arriving:
        if not arrives or then is None:
            return None
        if then.chance < 0.5:
            said = f"{what}: none of those rehearsed is expected to converge. {advised}: {then.reason}."
            return Alternative(change, advised, Band(math.inf, math.inf, math.inf), said)
        if then.seconds.likely < NOTABLE * now.seconds.likely:
            return None
        said = f"{what}: {advised} would take more than {in_words(then.seconds.likely)}."
        return Alternative(change, advised, then.seconds, said)
    best = min(arriving, key=lambda name: arriving[name].seconds.likely)
    if advised in arriving and arriving[advised].seconds.likely < NOTABLE * arriving[best].seconds.likely:
        best = advised
    seconds = arriving[best].seconds
    about = f"about {in_words(seconds.likely)}"
    if not arrives:
        return Alternative(change, best, seconds, f"{what}: {best} is expected to converge, in {about}.")
    if best == advised:
        ratio = seconds.likely / now.seconds.likely
        if 1 / NOTABLE < ratio < NOTABLE:
            return None
        said = f"{what}: {about} in place of {in_words(now.seconds.likely)} with {best}."
        return Alternative(change, best, seconds, said)
    if then is None:
        return None  # what it would take is not known
    least = "about" if then.is_bounded else "more than"
    if then.chance < 0.5:
        said = f"{what}: take {best}, {about}. {advised} is not expected to converge."
    else:
        said = f"{what}: take {best}, {about}. {advised} would take {least} {in_words(then.seconds.likely)}."
    return Alternative(change, best, seconds, said)
