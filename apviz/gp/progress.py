"""Live progress of a training: a line every few steps."""

from __future__ import annotations

from rich.console import Console

from apviz.gp.training import Step, TrainingHook, TrainingSettings
from apviz.settings import require_whole


class TrainingProgress(TrainingHook):
    """Prints σ², what the solve took, and the time that is left, every few steps and after the last.

    Args:
        console: where to; None: standard error.
        every: steps between lines.

    Raises:
        ValueError: `every` below 1.
    """

    def __init__(self, console: Console | None = None, every: int = 10) -> None:
        require_whole("every", every, 1)
        self.console, self.every = console or Console(stderr=True), every
        self._seconds, self._steps = 0.0, 0

    def on_step(self, step: Step, settings: TrainingSettings) -> None:
        self._seconds, self._steps = self._seconds + step.seconds, self._steps + 1
        if step.number % self.every and step.number != settings.steps:
            return
        left = (settings.steps - step.number) * self._seconds / self._steps
        solution = step.solution
        solved = f"{solution.epochs} epochs to residual {solution.residual:.2g}"
        unconverged = "" if solution.converged else ", not converged"
        self.console.print(
            f"{settings.solver.label}: step {step.number} of {settings.steps}, σ² = "
            f"{step.hyperparameters_after.noise:.3g}, {solved}{unconverged}, {left:.0f} s left",
            highlight=False,
        )
        if step.number == settings.steps:
            self._seconds, self._steps = 0.0, 0  # the next training begins afresh
