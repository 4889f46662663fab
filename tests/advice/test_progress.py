"""The progress of a solve: the time left, and immediate warnings."""

from __future__ import annotations

import io
import math

import pytest
import rich.console

import apviz
from apviz.advice.forecast import Band, Forecast
from apviz.advice.progress import Progress, ProgressOfAll
from tests.advice.test_pilots import made

TOL = 1e-3


def forecast_of(likely, low, high, chance=0.9):
    band = Band(likely, low, high)
    return Forecast(apviz.ConjugateGradient(), band, band, 0.0, chance, "why")


def followed(progress, decay, epochs, setup=1.0, each=0.5):
    """Follow `epochs` epochs of `each` seconds; each one multiplies the residual by `decay`."""
    for number in range(epochs + 1):
        progress.follow(setup + each * number, max(decay**number, 1e-12), setup, TOL)
    return progress


@pytest.mark.parametrize("decay", [0.3, 0.5, 0.8])
def test_for_a_steadily_falling_residual_the_time_left_becomes_exact(decay):
    needed = math.log(TOL) / math.log(decay)
    total = 1.0 + 0.5 * needed
    progress = Progress(forecast_of(1.4 * total, total / 2, 2 * total))
    at = round(0.8 * needed)
    followed(progress, decay, at)
    remaining = total - (1.0 + 0.5 * at)
    # the forecast counts for the remaining fifth
    assert remaining <= progress.left.likely < remaining + 0.11 * total
    assert progress.left.low <= progress.left.likely <= progress.left.high and not progress.warning
    assert followed(progress, decay, math.ceil(needed) + 1).left.likely == 0.0


def test_before_the_first_epochs_the_time_left_is_the_forecast():
    progress = Progress(forecast_of(8.0, 6.0, 12.0))
    assert progress.left == (8.0, 6.0, 12.0)
    progress.follow(2.0, 1.0, 2.0, TOL)
    assert progress.left == (6.0, 4.0, 10.0) and progress.words == "about 6 s left"


def test_a_solve_that_misses_its_forecast_warns_and_names_a_better_method():
    others = {"quick": forecast_of(20.0, 15.0, 30.0), "hopeless": forecast_of(1.0, 1.0, 1.0, chance=0.1)}
    progress = Progress(forecast_of(8.0, 6.0, 12.0), others)
    followed(progress, 0.9, 3)
    assert progress.warning == (
        "Slower than forecast, 6 s to 12 s in all: about 31 s more. quick was forecast to take 20 s: stop, and use it."
    )
    left = (math.log(TOL) / math.log(0.9) - 3) * 0.5
    assert progress.left.likely == pytest.approx(left) and progress.left.high == math.inf


def test_a_stalled_solve_warns_and_names_no_slower_method():
    for decay, words in ((1.0, "no end in sight"), (0.9, "more.")):
        progress = Progress(forecast_of(8.0, 6.0, 12.0), {"slow": forecast_of(1e4, 1e4, math.inf)})
        assert words in followed(progress, decay, 5).warning and "slow" not in progress.warning


def test_the_progress_line_of_a_solve_shows_the_time_left():
    progress, said = Progress(forecast_of(1e4, 1e4, 1e4)), list[str]()
    console = rich.console.Console(file=io.StringIO(), width=200, force_terminal=True)
    bar = apviz.ProgressHook(console, also=lambda: progress.words)

    class Reader(apviz.Hook):
        def on_epoch(self, epoch):
            said.append(bar._bar._progress.tasks[0].fields["text"])

    system = made(n=600, lengthscale=0.3, noise=0.05)
    solution = apviz.solve(system, apviz.ConjugateGradient(tol=1e-3), hooks=[progress, bar, Reader()])
    assert solution.converged and progress.left.likely == 0.0 and not progress.words
    assert said[0].endswith(", work 0.0, about 2.8 h left") and "left" not in said[-1]


def test_a_forecast_without_an_upper_limit_is_shown_as_such_until_epochs_are_measured():
    progress = Progress(forecast_of(8.0, 8.0, math.inf))
    assert progress.words == "about 8 s or more left"
    followed(progress, 0.5, 1)
    assert progress.words == "about 6.5 s or more left"
    followed(progress, 0.5, 8)
    # 0.5 s for each halving, of which log₂(1000) − 8 remain
    assert progress.words == "about 0.98 s left" and progress.left.likely == pytest.approx(0.5 * (math.log2(1000) - 8))


def test_each_of_several_solves_has_its_own_forecast_or_none():
    system, said = made(n=600, lengthscale=0.3, noise=0.05), dict[str, str]()
    cg, loose = apviz.ConjugateGradient(tol=1e-3), apviz.ConjugateGradient(tol=1e-2)
    band, other = Band(7200.0, 7200.0, 7200.0), Band(60.0, 60.0, 60.0)
    progress_of_all = ProgressOfAll({
        "tight": Forecast(cg, band, band, 0.0, 0.9, "why"), "loose": Forecast(loose, other, other, 0.0, 0.9, "why"),
    })  # fmt: skip

    class Reader(apviz.Hook):
        def on_epoch(self, epoch):
            said.setdefault(self.name, progress_of_all.words)

    reader = Reader()
    for reader.name, solver in {"tight": cg, "loose": loose, "none": apviz.ConjugateGradient(tol=0.5)}.items():
        apviz.solve(system, solver, hooks=[progress_of_all, reader])
    assert said == {"tight": "about 2 h left", "loose": "about 60 s left", "none": ""}
