"""More hooks: live progress, stopping on request or at a limit, test error after each epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import scipy.linalg
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor

from apviz.operators.interface import MAX_SPAN
from apviz.settings import require, require_kind, require_number, require_whole
from apviz.solvers.interface import Epoch, Hook, Solution
from apviz.solvers.run import Run
from apviz.system import check_finite, tensor_of
from apviz.tracing.trace import certificate_words, residual_words, status_words


class ProgressHook(Hook):
    """Show one live line per solve: how far the residual has fallen towards the tolerance, on a log scale.

    A terminal shows a line by rich, a notebook a bar by ipywidgets.

    Args:
        console: where to draw in a terminal; None: standard error.
        transient: remove the line when the solve ends, for solves that are steps of something longer.
        also: called after every epoch; returns words to append, such as the time left.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> import io, rich.console
        >>> shown = io.StringIO()
        >>> progress = apviz.ProgressHook(rich.console.Console(file=shown, width=120))
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(), hooks=[progress])
        >>> "Converged" in shown.getvalue()
        True
    """

    def __init__(
        self, console: Console | None = None, *, transient: bool = False, also: Callable[[], str] | None = None
    ) -> None:
        if console is not None:
            require_kind("console", console, Console, "a rich.console.Console, or None")
        self.console, self.transient, self.also = console or Console(stderr=True), transient, also

    def on_start(self, run: Run) -> None:
        self._run, self._tol = run, run.stopping.tol
        label = run.solver.method.name
        self._bar = _NotebookBar(label) if _in_notebook() else _TerminalBar(label, self.console, self.transient)

    def on_epoch(self, epoch: Epoch) -> None:
        done = 0.0
        if 0 < epoch.residual < math.inf:
            done = min(1.0, max(0.0, math.log(epoch.residual) / math.log(self._tol) if self._tol < 1 else 0.0))
        also = self.also() if self.also else ""
        residual = residual_words(epoch.residual, self._run.residual_is_measured)
        self._bar.show(done, f"residual {residual}, work {epoch.work:.1f}{', ' if also else ''}{also}")

    def on_stop(self, solution: Solution) -> None:
        residual = residual_words(solution.residual, solution.residual_is_measured)
        residual += certificate_words(solution.certificate.kind if solution.certificate else "")
        self._bar.close(f"{status_words(str(solution.stop_reason))} (residual {residual})")

    def on_abandon(self, error: BaseException) -> None:
        if hasattr(self, "_bar"):
            self._bar.close("Interrupted")


class _TerminalBar:
    def __init__(self, label: str, console: Console, transient: bool) -> None:
        columns = (TextColumn("{task.description:<26}"), BarColumn(12), TextColumn("{task.fields[text]}"))
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=transient)
        self._task = self._progress.add_task(label, total=1.0, text="set-up done")
        self._progress.start()

    def show(self, done: float, text: str) -> None:
        self._progress.update(self._task, completed=done, text=text)

    def close(self, text: str) -> None:
        self._progress.update(self._task, text=text)
        self._progress.stop()


class _NotebookBar:
    def __init__(self, label: str) -> None:
        import ipywidgets
        from IPython.display import display

        self._bar = ipywidgets.FloatProgress(min=0.0, max=1.0)
        self._text = ipywidgets.Label("set-up done")
        display(ipywidgets.HBox([ipywidgets.Label(label), self._bar, self._text]))

    def show(self, done: float, text: str) -> None:
        self._bar.value, self._text.value = done, text

    def close(self, text: str) -> None:
        self._text.value = text


def _in_notebook() -> bool:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    shell: Any = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class StopHook(Hook):
    """Stop a solve after the update that passes a limit, or on request from any thread.

    Args:
        max_seconds: limit in seconds of the solve, set-up included.
        max_work: limit in kernel entries ÷ n², set-up included.
        when: called after every epoch; a sentence stops the solve, None continues.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> stop = apviz.StopHook(when=lambda epoch: "far enough" if epoch.residual < 0.5 else None)
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(tol=1e-9), hooks=[stop])
        >>> solution.stop_message, solution.residual < 0.5
        ('stopped: far enough', True)
    """

    def __init__(
        self,
        *,
        max_seconds: float = math.inf,
        max_work: float = math.inf,
        when: Callable[[Epoch], str | None] | None = None,
    ) -> None:
        for name, limit in (("max_seconds", max_seconds), ("max_work", max_work)):
            require(isinstance(limit, Real) and limit >= 0, name, limit, "a number, at least 0")
        self.max_seconds, self.max_work, self.when = max_seconds, max_work, when
        self._asked: str | None = None

    def request(self, why: str = "asked for") -> None:
        """Stop the solve within one update; may be called from another thread."""
        self._asked = why

    def on_start(self, run: Run) -> None:
        self._run = run

    def on_stop(self, solution: Solution) -> None:
        # not in on_start: a request during the set-up would be lost
        self._asked = None

    def on_abandon(self, error: BaseException) -> None:
        self._asked = None

    def on_update(self, update: object) -> None:
        if self._asked:
            self._run.request_stop(self._asked)
        elif self._run.work > self.max_work:
            self._run.request_stop(f"the work limit of {self.max_work:g} was reached")
        elif self.max_seconds < math.inf and self._run.seconds() > self.max_seconds:
            self._run.request_stop(f"the time limit of {self.max_seconds:g} s was reached")

    def on_epoch(self, epoch: Epoch) -> None:
        why = self.when(epoch) if self.when else None
        if why:
            self._run.request_stop(why)


class PredictionHook(Hook):
    """Measure the test RMSE after each epoch, which shows when more solving no longer matters.

    The predictive mean is μ + k(X*, X) W[:, 0], so the first right-hand side must be the targets minus μ. Its
    kernel entries, in float64, are counted separately (`prediction_work`), and its time does not count as the solve's.

    Args:
        test_x: (m, d) test inputs.
        test_y: (m,) test targets.
        mean: μ, the prior mean that was subtracted from the targets.
        every: epochs between evaluations.

    Raises:
        ValueError: shapes that do not match.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> between, recorder = (x[:-1, None] + x[1:, None]) / 2, apviz.Recorder()
        >>> prediction = apviz.PredictionHook(between, torch.sin(6 * between[:, 0]))
        >>> solution = apviz.solve(system, apviz.ConjugateGradient(), hooks=[prediction, recorder])
        >>> rmse = recorder.trace["epoch"]["test_rmse"]
        >>> bool(rmse[-1] < 0.1 * rmse[0])  # epoch 0 predicts the prior mean
        True
    """

    def __init__(self, test_x: Tensor, test_y: Tensor, *, mean: float = 0.0, every: int = 1) -> None:
        test_x, test_y = tensor_of(test_x, "test_x"), tensor_of(test_y, "test_y")
        if test_x.ndim != 2 or test_y.shape != test_x.shape[:1] or not test_x.numel():
            raise ValueError(
                f"test_x must be (m, d) and test_y (m,), m and d at least 1, got {tuple(test_x.shape)} and "
                f"{tuple(test_y.shape)}"
            )
        check_finite(test_x, "test_x")
        check_finite(test_y[:, None], "test_y")
        require_number("mean", mean, -math.inf, "a finite number")
        require_whole("every", every, 1)
        self.test_x, self.test_y, self.mean, self.every = test_x, test_y, float(mean), every

    def on_start(self, run: Run) -> None:
        self._entries, self._operator = 0, run.system.operator.exact()
        if self.test_x.shape[1] != run.system.d:
            raise ValueError(f"test_x has {self.test_x.shape[1]} columns, the system {run.system.d}")
        span = float(self._operator.scaled(self.test_x.to(run.system.device)).abs().max())
        if not span < MAX_SPAN:
            raise ValueError(
                f"test_x spans {span:.1e} lengthscales, more than {MAX_SPAN:.0e}: distances would overflow"
            )

    def measure(self, run: Run) -> Mapping[str, float]:
        if run.epoch_number % self.every:
            return {"prediction_work": self._entries / run.system.n**2}
        # in float64, like the weights: predictions from large weights depend on their last digits
        predicted = self._operator.cross_matmul(self.test_x, run.weights[:, :1].contiguous())[:, 0]
        self._entries += len(self.test_x) * run.system.n
        error = (predicted.double().cpu() + self.mean - self.test_y.double().cpu()).numpy()
        # BLAS scales: no square underflows or overflows
        rmse = float(scipy.linalg.norm(error)) / math.sqrt(len(error))
        return {"test_rmse": rmse, "prediction_work": self._entries / run.system.n**2}
