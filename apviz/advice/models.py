"""Advice on models: which one, exact or approximate, predicts best on a table within some minutes.

It is learned from the results of `benchmarks.referee`, on other people's data. Nothing is fitted to the table itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from apviz.advice.forecast import in_words
from apviz.settings import require, require_number, require_whole

#: results of the referee, written by `python -m benchmarks.referee advice`
RESULTS: Final = Path(__file__).with_name("referee.json")
#: NLL of the mean and standard deviation of a standardised target, in nats a row
OF_THE_MEAN: Final = 0.5 * math.log(2 * math.pi) + 0.5
#: width of the neighbourhood in log₁₀ of rows, inputs, and processor seconds
WIDTHS: Final = (0.35, 0.35, 0.5)
#: share of the gain that is lost where a model did not finish, the most that any loses
NOT_FINISHED: Final = 1.0
#: models whose expected losses differ by less are equally good, and the faster one is advised
EQUAL: Final = 0.01
#: a model that applies to fewer data sets nearby is not advised
FEWEST_SETS: Final = 3
#: widths to the nearest result from which the advice is a guess
FAR: Final = 2.0


class Judged(NamedTuple):
    """Results of all models on one data set with some rows and a budget.

    Args:
        data: name of the data set.
        n, d: training rows and inputs.
        budget: processor seconds.
        nll: test NLL in nats a row by model; None if it did not finish. Models that do not apply are missing.
        seconds: processor seconds by model, of those that finished.
        memory: bytes by model, of those that finished.
    """

    data: str
    n: int
    d: int
    budget: float
    nll: Mapping[str, float | None]
    seconds: Mapping[str, float]
    memory: Mapping[str, float]

    def losses(self) -> dict[str, float]:
        """Return the lost share of the gain by model: 0 for the best, 1 for the mean of the target."""
        done = {name: value for name, value in self.nll.items() if value is not None}
        if not done:
            return dict.fromkeys(self.nll, NOT_FINISHED)
        best = min(done.values())
        gain = max(OF_THE_MEAN - best, 1e-9)
        return {
            name: NOT_FINISHED if value is None else min((value - best) / gain, NOT_FINISHED)
            for name, value in self.nll.items()
        }


@dataclass(frozen=True)
class ModelForecast:
    """What is expected of a model.

    Attributes:
        name: model and library.
        loss: expected share of the gain over predicting the mean that it loses against the best model, 0 to 1.
        seconds: expected processor seconds of fit and 1,000 predictions.
        memory: expected bytes, in addition to the data.
        package: package to install; empty if apviz has it.
        sets: data sets that the expectation comes from.
    """

    name: str
    loss: float
    seconds: float
    memory: float
    package: str
    sets: int


@dataclass(frozen=True)
class ModelAdvice:
    """Which model to fit to a table within some minutes, learned from results on other data.

    Attributes:
        n, d: rows and inputs of the table; with equal inputs merged.
        seconds: processor seconds that may be used.
        models: forecasts, the best first.
        left_out: reason by name for each model that does not apply.
        is_far: no result is from a table about as large with about as many seconds.
        merged_rows: rows before equal inputs are merged.

    Examples:
        >>> import apviz
        >>> advice = apviz.advise_models(1_000, 8, minutes=0.2)
        >>> advice.best.name
        'exact, apviz'
    """

    n: int
    d: int
    seconds: float
    models: tuple[ModelForecast, ...]
    left_out: Mapping[str, str]
    is_far: bool
    merged_rows: int

    @property
    def best(self) -> ModelForecast:
        """Recommended model."""
        return self.models[0]

    @property
    def headline(self) -> str:
        """Return the recommended model, its expected seconds and its expected loss."""
        best = self.best
        said = f"Use {_in_words(best.name)}: about {in_words(best.seconds)}, {_loss_in_words(best.loss)}."
        return f"Merge rows with equal inputs first. {said}" if self.merged_rows > self.n else said

    @property
    def reason(self) -> str:
        """Return where the advice comes from, and how far that is from the table."""
        said = f"This is an average over results on {self.best.sets} data sets; those most like yours count most."
        if self.merged_rows > self.n:
            said = f"{self.merged_rows:,} rows have {self.n:,} distinct inputs. {said}"
        if self.is_far:
            said += " No result is from a table of about this size with as many seconds: this is a guess."
        return said

    @property
    def action(self) -> str:
        """Return how to fit the model."""
        best = self.best
        if best.package:
            return f"It is in another library: pip install {best.package}."
        return "Fit it with apviz fit, or apviz.GaussianProcess."

    def rows(self) -> list[dict[str, str]]:
        """Return a table with one row for each model, as text for people."""
        return [
            {
                "model": each.name,
                "expected loss": f"{each.loss:.0%}",
                "seconds": f"{each.seconds:.2g}",
                "memory": f"{each.memory / 1e6:,.0f} MB",
                "from": f"{each.sets} data sets",
            }
            for each in self.models
        ]

    @property
    def origin(self) -> str:
        """Return a sentence on the origin of the numbers."""
        return (
            "All numbers are estimates from results on other data. The loss is a share of the NLL gained over the "
            "mean of the target; 0% is the best model."
        )


def advise_models(n: int, d: int, *, minutes: float = 5.0, distinct: int | None = None) -> ModelAdvice:
    """Recommend a model for a table, exact or approximate, from what the referee measured on other data.

    The expected loss of a model is its average over all results, with Gaussian weights in the logarithms of rows,
    inputs and seconds: those most like the table count most.

    Args:
        n: rows.
        d: inputs.
        minutes: processor minutes of one core for fit and predictions.
        distinct: rows with distinct inputs; None: all are distinct.

    Raises:
        ValueError: a number is out of range.

    Examples:
        >>> import apviz
        >>> [each.name for each in apviz.advise_models(1_000, 8, minutes=0.2).models][0]
        'exact, apviz'
    """
    require_whole("n", n, 1)
    require_whole("d", d, 1)
    require_number("minutes", minutes, 0.0, "a positive number of processor minutes", strictly=True)
    rows = n
    if distinct is not None:
        require_whole("distinct", distinct, 1)
        require(distinct <= n, "distinct", distinct, f"from 1 to n = {n}")
        rows = distinct
    results = stored()
    models, left_out = expected(results.judged, rows, d, 60 * minutes, results.models)
    near = min(_distance(each, rows, d, 60 * minutes) for each in results.judged)
    return ModelAdvice(rows, d, 60 * minutes, models, left_out, near > FAR, n)


class Stored(NamedTuple):
    """The results in the package: judged tables, and package and most inputs of each model."""

    judged: Sequence[Judged]
    models: Mapping[str, Mapping[str, Any]]


@lru_cache(maxsize=1)
def stored() -> Stored:
    """Read the results in the package."""
    found = json.loads(RESULTS.read_text("utf-8"))
    return Stored([Judged(**each) for each in found["judged"]], found["models"])


def expected(
    judged: Iterable[Judged], n: int, d: int, seconds: float, models: Mapping[str, Mapping[str, Any]]
) -> tuple[tuple[ModelForecast, ...], dict[str, str]]:
    """Return the forecast of every model that applies, the best first, and why others do not apply."""
    judged = list(judged)
    squares = [_distance(each, n, d, seconds) ** 2 for each in judged]
    # relative to the nearest, which decides if all are far
    near = [
        (each, each.losses(), math.exp(-0.5 * (square - min(squares))))
        for each, square in zip(judged, squares, strict=True)
    ]
    found, left_out = [], dict[str, str]()
    for name, about in models.items():
        most = about["most_inputs"]
        if most is not None and d > most:
            left_out[name] = f"takes up to {most} inputs, not {d}"
            continue
        tables = [(each, losses[name], weight) for each, losses, weight in near if name in losses]
        sets = {each.data for each, _, _ in tables}
        if len(sets) < min(FEWEST_SETS, len({each.data for each, _, _ in near})):
            left_out[name] = "has too few results"
            continue
        done = [(each, weight) for each, _, weight in tables if name in each.seconds]
        used = _mean((math.log(each.seconds[name]), weight) for each, weight in done)
        memory = _mean((math.log(max(each.memory[name], 1e6)), weight) for each, weight in done)
        loss = _mean((loss, weight) for _, loss, weight in tables)
        found.append(
            ModelForecast(name, loss, min(math.exp(used), seconds), math.exp(memory), about["package"], len(sets))
        )
    return tuple(_ordered(found)), left_out


def _ordered(found: list[ModelForecast]) -> list[ModelForecast]:
    """Return the models by loss, but first the fastest of those that are as good as the best."""
    found = sorted(found, key=lambda each: each.loss)
    equal = [each for each in found if each.loss <= found[0].loss + EQUAL]
    first = min(equal, key=lambda each: each.seconds)
    return [first, *(each for each in found if each is not first)]


def _distance(each: Judged, n: int, d: int, seconds: float) -> float:
    """Return the distance of a result from a table, in widths."""
    ratios = each.n / n, each.d / d, each.budget / seconds
    return math.hypot(*(math.log10(ratio) / width for ratio, width in zip(ratios, WIDTHS, strict=True)))


def _mean(values: Iterable[tuple[float, float]]) -> float:
    """Return the weighted mean; infinite if there is no value."""
    total = weights = 0.0
    for value, weight in values:
        total, weights = total + value * weight, weights + weight
    return total / weights if weights else math.inf


def _in_words(name: str) -> str:
    model, _, library = name.rpartition(", ")
    return f"{'the exact GP' if model == 'exact' else model} by {library}"


def _loss_in_words(loss: float) -> str:
    return "expected to be as good as the best" if loss < EQUAL else f"expected to lose {loss:.0%} against the best"
