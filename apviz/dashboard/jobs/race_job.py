"""The job of a race: the solvers of a comparison take short turns, so that their curves grow together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apviz.dashboard.jobs.comparison_job import ComparisonJob
from apviz.dashboard.jobs.live import LiveHook
from apviz.dashboard.settings.systems import Loaded
from apviz.racing import By, Turns, race
from apviz.solvers import Hook, Solution, Solver
from apviz.solvers.run import Run
from apviz.system import KernelSystem
from apviz.tracing import Trace


class RaceJob(ComparisonJob):
    """Job that solves one system with several solvers as a race.

    Args:
        by: Quantity that the solvers share equally: `work` or `seconds`.
        others: Arguments of `ComparisonJob`.
    """

    def __init__(self, *others: Any, by: By, **options: Any) -> None:
        super().__init__(*others, **options)
        self._turns = Turns(by)
        self._lanes: list[_LiveLane] = []
        self._looked: list[tuple[_LiveLane, dict[str, Trace]]] = []
        self.next_look = 0.0

    def stop(self) -> None:
        super().stop()
        self._turns.stop("requested in the dashboard")

    @property
    def growing(self) -> dict[str, Trace]:
        return {name: trace for lane, traces in self._looked if lane.goes_on for name, trace in traces.items()}

    @property
    def status(self) -> str:
        """Return a sentence on the number of ended solves and on the solve whose turn it is."""
        if self.state != "running" or not self._lanes:
            return super().status
        stopping = "stopping · " if self.stopping else ""
        ended = f"{len(self.done)} of {self._count} have ended"
        return f"{stopping}race on {self._turns.by} · {ended} · {self.live.text or 'setting up'}"

    @property
    def fraction_done(self) -> float:
        return sum(lane.progress for lane in list(self._lanes)) / max(1, self._count)

    def _compare(self, loaded: Loaded) -> None:
        outcomes = race(
            loaded.system, self._solvers, self._runs.path, self._turns,
            recording=self._recording(loaded), hooks=self._hooks_of,
        )  # fmt: skip
        for outcome in outcomes:
            self._keep(outcome)

    def _affordable(self, system: KernelSystem) -> list[Solver]:
        found = super()._affordable(system)
        if refused := self._limits.why_too_large_together(found, system.x):
            raise ValueError(refused)
        return found

    def _hooks_of(self, solver: Solver) -> Sequence[Hook]:
        lane = _LiveLane(self)
        self._lanes.append(lane)
        return [lane]

    def look(self, lane: LiveHook) -> None:
        """Read all traces in the thread whose turn it is while the others wait, so that all curves are simultaneous."""
        self._looked = [(each, each.look()) for each in self._lanes if each.goes_on]
        self.live = lane
        self._grew()


class _LiveLane(LiveHook):
    """Hook of one solve of a race. All solves share the time of the next read.

    Attributes:
        goes_on: Whether its solve has begun and not yet ended.
    """

    def __init__(self, job: RaceJob) -> None:
        self._job, self.goes_on = job, False
        super().__init__(lambda: job.look(self))

    @property
    def _next(self) -> float:
        return self._job.next_look

    @_next.setter
    def _next(self, value: float) -> None:
        self._job.next_look = value

    def look(self) -> dict[str, Trace]:
        """Return the trace of this solve, by its name in the folder."""
        return self._named(self._recorder.trace)

    def on_start(self, run: Run) -> None:
        super().on_start(run)
        self.goes_on = True

    def on_stop(self, solution: Solution) -> None:
        self.goes_on = False
        super().on_stop(solution)

    def on_abandon(self, error: BaseException) -> None:
        self.goes_on = False
        super().on_abandon(error)
