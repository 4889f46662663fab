"""Rules on data and hyperparameters, shared by solves, trainings and GPyTorch models.

They read `Evidence`, with None for quantities that were not measured. Thresholds are constants of this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apviz.analysis.diagnosis.engine import NotMeasured
from apviz.analysis.diagnosis.limits import Diagnosis, Limit

Answer = Diagnosis | NotMeasured | None

# fewer rows barely determine hyperparameters, and their test error is chance
FEWEST_ROWS: Final = 12
# smaller correlations with the nearest row carry no information: at 5 lengthscales, RBF has 4e-6, Matérn-5/2 8e-4
LITTLE_CORRELATION: Final = 0.02
# if all prior correlations exceed this, K is practically constant
ALIKE_CORRELATION: Final = 0.999
# κ without the duplicates ÷ κ, and κ from which that matters
MERGED_KAPPA_SHARE, LARGE_KAPPA = 0.1, 500.0
# variance of the targets of equal inputs ÷ σ² above which σ² contradicts the data
DISAGREEMENT: Final = 10.0
# range of mean square of targets ÷ prior variance; outside it, targets and prior have different scales
TARGET_RATIOS: Final = (1e-4, 100.0)
# range of standard deviations of ordinary data; within it, a hyperparameter is the cause
ORDINARY: Final = (1e-3, 1e3)
# lengthscale ÷ deviation, outputscale ÷ mean square, and σ² ÷ mean square of collapsed or exploded hyperparameters
ASTRAY_LENGTHSCALE, ASTRAY_OUTPUTSCALE, ASTRAY_NOISE = 1e4, 1e6, 100.0
# an input that spreads over this many lengthscales, and this multiple of another's spread, has other units
WIDE_SPREAD, SPREAD_RATIO = 30.0, 30.0
# test RMSE ÷ that of the mean from which the model predicts little
LITTLE_GAIN: Final = 0.9
# test RMSE ÷ that of the mean is 1 up to this difference if the model predicts the mean exactly
NO_GAIN: Final = 1e-3
# σ² within this factor of its lower bound is at it; the second factor lowers the proposed bound
ON_FLOOR_FACTOR, FLOOR_FACTOR = 1.1, 10.0
# increase of the log likelihood per unit decrease of log σ², in nats, from which a lower bound matters
FLOOR_NATS = 1.0
# a loss has risen if it is this much above the lowest, in nats per row; typical losses above the second are sums
# over rows
RISEN_LOSS, SUMMED_LOSS = 1.0, 20.0
#: Number of names, numbers and columns that are written out.
SHOWN: Final = 4

SMALLER_STEP = (
    "Restart, or continue from before the rise, with a tenth of the learning rate. If a loss becomes NaN later, use "
    "float64."
)
STANDARDISE = "Standardise the inputs, or give every input a lengthscale of its own, and fit them."


class Odd(NamedTuple):
    """Oddity of a table; see `apviz.datasets.tables.oddities`."""

    kind: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Measured quantities of data and hyperparameters, None if not measured.

    Args:
        rows: Number of training rows.
        oddities: Oddities of the table; see `apviz.datasets.tables.oddities`.
        distinct: Number of rows with distinct inputs.
        kappa: Condition number of K of all rows.
        merged_kappa: Condition number of K with duplicates merged.
        disagreement: Variance of the targets of rows with equal inputs, around their means.
        noise: σ².
        signal: Mean of k(x, x).
        target_square: Mean square of the targets minus the prior mean.
        nearest: Median over rows of the prior correlation with the nearest other row.
        smallest: Smallest prior correlation of two rows.
        test_nearest: Median over test rows of the prior correlation with the nearest training row.
        spreads: Standard deviation of every input that has a lengthscale, in lengthscales.
        deviations: Standard deviation of every input that has a lengthscale.
        inputs: Sentence on the ranges of the inputs.
        standardised: Whether apviz scaled training and test rows together.
        gain: Test RMSE ÷ that of the prior mean, the lowest of a solved system.
        losses: Losses of a training, one per step, if known.
        log_likelihood: Log likelihood per row, which tells whether losses are sums over rows.
        noise_floor: Lower bound of σ².
        falling_noise: Increase of the log likelihood per unit decrease of log σ², in nats.
        only_mean: Whether the test RMSE was that of the prior mean throughout.
    """

    rows: int
    oddities: Sequence[Odd] | None = None
    distinct: int | None = None
    kappa: float | None = None
    merged_kappa: float | None = None
    disagreement: float | None = None
    noise: float = math.nan
    signal: float = math.nan
    target_square: float | None = None
    nearest: float | None = None
    smallest: float | None = None
    test_nearest: float | None = None
    spreads: Sequence[float] = ()
    deviations: Sequence[float] = ()
    inputs: str = ""
    standardised: bool = False
    gain: float | None = None
    only_mean: bool | None = None
    losses: Sequence[float] = ()
    log_likelihood: float | None = None
    noise_floor: float | None = None
    falling_noise: float | None = None

    def odd(self, *kinds: str) -> str | None:
        """Return the oddities of these kinds as sentences; None if there are none."""
        said = [each.message for each in self.oddities or () if each.kind in kinds]
        return " ".join(f"{text[:1].upper()}{text[1:]}." for text in said) or None

    @property
    def predicts_little(self) -> bool:
        return self.gain is not None and self.gain >= LITTLE_GAIN

    @property
    def is_diagonal(self) -> bool:
        return self.nearest is not None and self.nearest < LITTLE_CORRELATION

    @property
    def is_alike(self) -> bool:
        return self.smallest is not None and self.smallest >= ALIKE_CORRELATION

    @property
    def is_ordinary(self) -> bool:
        """Test whether inputs and targets have ordinary scales, so that a hyperparameter is the cause."""
        square = self.target_square
        ordinary = square is None or ORDINARY[0] < math.sqrt(square) < ORDINARY[1]
        return ordinary and all(ORDINARY[0] < each < ORDINARY[1] for each in self.deviations)


def few_rows(e: Evidence) -> Answer:
    """Test whether there are too few rows to learn from."""
    if e.rows >= FEWEST_ROWS:
        return None
    evidence = f"There are {e.rows} training rows: any solver is exact, and a test error says little."
    return Diagnosis(Limit.FEW_ROWS, evidence, f"Collect at least {FEWEST_ROWS} rows before you judge the model.")


def outliers(e: Evidence) -> Answer:
    """Test whether a column has values far outside its range."""
    if e.oddities is None:
        return NotMeasured("outliers")
    narrow = min(e.deviations, default=1.0)
    if e.standardised and narrow < ORDINARY[0]:
        evidence = (
            f"All rows were standardised together, and the training rows have a standard deviation of {narrow:.2g}. "
            "A value in the other rows is so extreme that it set the scale."
        )
        return Diagnosis(Limit.OUTLIERS, evidence, "Correct the value that set the scale, or leave out its row.")
    said = e.odd("outlier in inputs", "outlier in targets")
    return Diagnosis(Limit.OUTLIERS, said, "Correct these values, or leave out their rows.") if said else None


def equal_columns(e: Evidence) -> Answer:
    """Test whether columns are equal."""
    said = e.odd("equal columns")
    return Diagnosis(Limit.EQUAL_COLUMNS, said, "Keep only one of these columns.") if said else None


def duplicates(e: Evidence) -> Answer:
    """Test whether σ² contradicts the targets of rows with equal inputs, or merging these rows divides κ by ten."""
    if e.distinct is None:
        return NotMeasured("duplicate rows")
    if e.distinct >= e.rows:
        return None
    facts = [duplicates_in_words(e.distinct, e.rows)]
    contradicts = e.disagreement is not None and e.disagreement > DISAGREEMENT * e.noise
    if contradicts:
        facts.append(f"Their targets differ with variance {e.disagreement:.2g}, but σ² = {e.noise:.2g}.")
    kappa, merged = e.kappa or 0.0, math.inf if e.merged_kappa is None else e.merged_kappa
    if kappa >= LARGE_KAPPA and merged <= MERGED_KAPPA_SHARE * kappa:
        facts.append(f"κ is about {kappa:.2g}; merged it would be about {merged:.2g}.")
    if len(facts) < 2:
        return None
    advice = "Merge duplicate rows into one with the mean of their targets, and noise σ² ÷ their number."
    return Diagnosis(Limit.DUPLICATES, " ".join(facts), advice)


def id_column(e: Evidence) -> Answer:
    """Test whether a column numbers the rows, if rows are uncorrelated or the model predicts little."""
    said = e.odd("ID-like column")
    if said is None or not (e.is_diagonal or e.predicts_little):
        return None
    return Diagnosis(Limit.ID_COLUMN, f"{said}{_consequence(e)}", "Leave this column out of the inputs.")


def units(e: Evidence) -> Answer:
    """Test whether inputs have units too different for one lengthscale."""
    if len(e.spreads) < 2 or not (e.is_diagonal or e.predicts_little):
        return None
    widest, narrowest = max(e.spreads), min(e.spreads)
    if widest < max(WIDE_SPREAD, SPREAD_RATIO * narrowest):
        return None
    evidence = (
        f"One input has a standard deviation of {widest:.3g} lengthscales, another of {narrowest:.2g}. Along the "
        f"first, no two rows are close.{_consequence(e)}"
    )
    return Diagnosis(Limit.SCALE, evidence, STANDARDISE)


def astray(e: Evidence) -> Answer:
    """Test whether a hyperparameter is far beyond the scale of the data, if that is ordinary."""
    if not e.is_ordinary:
        return None
    found = []
    pairs = [(s, d) for s, d in zip(e.spreads, e.deviations, strict=False) if s > 0]
    if pairs and all(s > ASTRAY_LENGTHSCALE for s, _ in pairs):
        found.append("has collapsed")
    if pairs and all(s < 1 / ASTRAY_LENGTHSCALE for s, _ in pairs):
        found.append("has exploded")
    if found:
        scales = ", ".join(sorted({f"{d / s:.3g}" for s, d in pairs})[:SHOWN])
        size = ", ".join(sorted({f"{d:.2g}" for _, d in pairs})[:SHOWN])
        return _restart(f"The lengthscale {found[0]} to {scales}; the inputs have standard deviations of {size}.")
    square = e.target_square
    if not square or not math.isfinite(e.signal):
        return None
    root = f"the targets have mean square {square:.3g}"
    if not 1 / ASTRAY_OUTPUTSCALE <= e.signal / square <= ASTRAY_OUTPUTSCALE:
        how = "collapsed" if e.signal < square else "exploded"
        return _restart(f"The outputscale has {how} to {e.signal:.3g}; {root}.")
    if e.noise > ASTRAY_NOISE * square:
        return _restart(f"The noise has exploded to σ² = {e.noise:.3g}; {root}.")
    return None


def _restart(evidence: str) -> Diagnosis:
    advice = (
        "Fit the hyperparameters again from ordinary values, with a smaller step. The scale of the data is ordinary."
    )
    return Diagnosis(Limit.COLLAPSED, evidence, advice, {})


def target_scale(e: Evidence) -> Answer:
    """Test whether the scale of the targets contradicts the prior."""
    if e.target_square is None or not math.isfinite(e.signal):
        return NotMeasured("the scale of the targets")
    prior = e.signal + e.noise
    if not e.target_square or TARGET_RATIOS[0] < e.target_square / prior < TARGET_RATIOS[1]:
        return None
    evidence = (
        f"Targets minus the prior mean have root mean square {math.sqrt(e.target_square):.3g}; the prior expects "
        f"{math.sqrt(prior):.3g}."
    )
    advice = "Standardise the targets: y = (y − y.mean()) / y.std(), and undo that in the predictions."
    return Diagnosis(Limit.SCALE, evidence, advice, {"targets": "standardised"})


def independent(e: Evidence) -> Answer:
    """Test whether rows are too far apart to be correlated."""
    if e.nearest is None:
        return NotMeasured("how close rows are in lengthscales")
    if not e.is_diagonal:
        return None
    evidence = (
        f"The prior correlation of a row with its nearest neighbour is {e.nearest:.1g}. K is close to diagonal, and "
        f"predictions between the rows are the prior mean.{_consequence(e, diagonal=False)}"
    )
    if not all(ORDINARY[0] < each < ORDINARY[1] for each in e.deviations):
        return Diagnosis(Limit.SCALE, f"{evidence} {e.inputs}".rstrip(), STANDARDISE, {"inputs": "standardised"})
    return Diagnosis(Limit.INDEPENDENT, evidence, "Fit the lengthscale, starting from a larger one.")


def extrapolation(e: Evidence) -> Answer:
    """Test whether test rows are uncorrelated with all training rows."""
    if e.test_nearest is not None and e.test_nearest < LITTLE_CORRELATION:
        evidence = (
            f"The prior correlation of a test row with its nearest training row is {e.test_nearest:.1g}: predictions "
            "there are the prior mean."
            + (f" Between neighbouring training rows it is {e.nearest:.2g}." if e.nearest is not None else "")
        )
    elif e.test_nearest is None and e.only_mean and not e.is_alike and (e.nearest or 0.0) >= LITTLE_CORRELATION:
        evidence = (
            "Predictions at the test rows are the prior mean, though training rows correlate by "
            f"{e.nearest:.2g} with their nearest neighbours."
        )
    else:
        return None
    return Diagnosis(Limit.EXTRAPOLATION, evidence, "Predict near training rows, or add rows where you predict.")


def alike(e: Evidence) -> Answer:
    """Test whether rows are so close in lengthscales that the model sees one row, without evidence that it predicts."""
    if not e.is_alike or (e.gain is not None and not e.predicts_little):
        return None
    evidence = f"All prior correlations are above {e.smallest:.4g}: the model sees all rows as one.{_consequence(e)}"
    return Diagnosis(Limit.SMOOTH, evidence, "Fit the lengthscale, starting from a shorter one.")


def stepped_too_far(losses: Sequence[float], rows: int, log_likelihood: float | None = None) -> Diagnosis | None:
    """Test whether the losses of a training ended far above their lowest, or are no longer finite.

    One loss per step, of a row or summed over all rows: sums are recognised by the log likelihood of a row, or if that
    is not known by their size.
    """
    finite = [loss for loss in losses if math.isfinite(loss)]
    are_sums = bool(finite) and np.median(np.abs(finite)) > SUMMED_LOSS
    if finite and log_likelihood is not None and math.isfinite(log_likelihood):
        are_sums = abs(finite[-1] + rows * log_likelihood) < abs(finite[-1] + log_likelihood)
    of_rows = rows if are_sums else 1
    if not finite or (len(finite) == len(losses) and finite[-1] < min(finite) + of_rows * RISEN_LOSS):
        return None
    return Diagnosis(Limit.STEP, history(losses), SMALLER_STEP, {"lr": "a tenth"})


def stepped(e: Evidence) -> Answer:
    """Test whether the losses of a training rose."""
    return stepped_too_far(e.losses, e.rows, e.log_likelihood)


def on_floor(e: Evidence) -> Answer:
    """Test whether the noise is at its lower bound and a smaller noise is more likely."""
    if e.noise_floor == 0:
        return None
    if e.noise_floor is None or e.falling_noise is None:
        return NotMeasured("whether the noise is at its lower bound")
    if e.noise > ON_FLOOR_FACTOR * e.noise_floor or e.falling_noise < FLOOR_NATS:
        return None
    evidence = (
        f"σ² = {e.noise:.3g} is at its lower bound of {e.noise_floor:.3g}. The log likelihood gains "
        f"{e.falling_noise:.3g} nats for each unit that log σ² falls."
    )
    lower = float(f"{e.noise_floor / FLOOR_FACTOR:.3g}")
    return Diagnosis(Limit.FLOOR, evidence, f"Use a lower bound of {lower:g}, if so little noise is plausible.",
                     {"noise_floor": lower})  # fmt: skip


def history(losses: Sequence[float]) -> str:
    """Return a sentence on the losses; empty for fewer than two."""
    first = next((k for k, loss in enumerate(losses) if not math.isfinite(loss)), None)
    if first is not None:
        before = f", {losses[first - 1]:.4g} in the step before" if first else ""
        return f"The loss was first {losses[first]} in step {first + 1} of {len(losses)}{before}."
    if len(losses) < 2:
        return ""
    best = min(range(len(losses)), key=losses.__getitem__)
    return f"The loss was lowest in step {best + 1}, {losses[best]:.5g}; in step {len(losses)} it is {losses[-1]:.5g}."


RULES: Final = (
    few_rows, outliers, equal_columns, duplicates, id_column, astray, units, target_scale, independent, extrapolation,
    alike,
)  # fmt: skip


def remarks(e: Evidence) -> list[str]:
    """Return oddities of the data that were not the cause, as sentences."""
    said = [
        e.odd(
            "near-duplicate rows", "target among the inputs", "two target values", "ID-like column", "constant column"
        )
    ]
    if e.distinct is not None and e.distinct < e.rows:
        said.append(duplicates_in_words(e.distinct, e.rows))
    return [each for each in said if each]


def duplicates_in_words(distinct: int, rows: int) -> str:
    """Return a sentence on duplicate rows."""
    return f"Only {distinct:,} of the {rows:,} training rows have distinct inputs."


def _consequence(e: Evidence, diagonal: bool = True) -> str:
    if e.predicts_little:
        return f" The test RMSE is {e.gain:.1%} of that of predicting the mean."
    if diagonal and e.is_diagonal:
        return f" The prior correlation of a row with its nearest neighbour is {e.nearest:.1g}."
    return ""
