"""Race: several solves of one system take turns, so that their curves grow together.

Every solve has its own thread, and one at a time has the turn: the one that has used the least work, or the fewest
seconds, so far. Turns change between updates. A waiting solve is inside a hook, with its clock stopped. So its
numbers, and the seconds in its trace, are those of a solve that runs alone. A set-up is not interrupted, and the
set-ups of all solves are in memory together.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from apviz.comparison import Outcome, Recording, recorded_solve
from apviz.solvers.interface import Epoch, Hook, Solver, Update
from apviz.solvers.run import Run
from apviz.system import KernelSystem

By = Literal["work", "seconds"]

#: Shortest turn in seconds; a turn is longer if an update is.
TURN_SECONDS = 0.02


class Turns:
    """Scheduler of a race, which can also stop all of its solves.

    Args:
        by: Quantity to share equally: `work`, or `seconds`.

    Raises:
        ValueError: Another `by`.
    """

    def __init__(self, by: By = "work") -> None:
        if by not in get_args(By):
            raise ValueError(f"by must be {' or '.join(get_args(By))}, got {by!r}")
        self.by = by
        self.stopped_because = ""
        self._lanes: list[_Lane] = []
        self._turn: _Lane | None = None
        self._changed = threading.Condition()

    def stop(self, why: str = "requested") -> None:
        """Stop every solve after its current update; solves that have not started do not start."""
        self.stopped_because = why

    def join(self) -> _Lane:
        """Return the hook of one more solve, the last of its hooks; the first solve has the turn."""
        lane = _Lane(self)
        with self._changed:
            self._lanes.append(lane)
            self._turn = self._turn or lane
        return lane

    def leave(self, lane: _Lane) -> None:
        """Remove a solve that has ended, so that the others continue."""
        with self._changed:
            self._lanes.remove(lane)
            self._pass_on()

    def wait(self, lane: _Lane) -> None:
        """Wait until a solve has the turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn is lane)

    def pass_on(self) -> None:
        """Give the turn to the solve that has used the least."""
        with self._changed:
            self._pass_on()

    def has_turn(self, lane: _Lane) -> bool:
        """Test whether it is a solve's turn."""
        return self._turn is lane

    def _pass_on(self) -> None:
        self._turn = min(self._lanes, key=lambda lane: lane.taken, default=None)
        self._changed.notify_all()


class _Lane(Hook):
    """Hook in which a solve waits for its turn, with the work or the seconds taken so far."""

    def __init__(self, turns: Turns) -> None:
        self._turns, self.taken, self._until = turns, 0.0, 0.0

    def on_start(self, run: Run) -> None:
        self._run = run

    def on_update(self, update: Update) -> None:
        if time.perf_counter() >= self._until or self._turns.stopped_because:
            self._offer(update.work if self._turns.by == "work" else self._run.seconds())

    def on_epoch(self, epoch: Epoch) -> None:
        # the set-up counts as one long turn
        if epoch.number == 0:
            self._offer(epoch.work if self._turns.by == "work" else epoch.seconds)

    def _offer(self, taken: float) -> None:
        """Pass the turn on if another solve has used less."""
        self.taken = taken
        self._turns.pass_on()
        if not self._turns.has_turn(self):
            with self._run.clock.pause():
                self._turns.wait(self)
        self._until = time.perf_counter() + TURN_SECONDS
        if self._turns.stopped_because:
            self._run.request_stop(self._turns.stopped_because)


def race(
    system: KernelSystem,
    solvers: Sequence[Solver],
    out: Path,
    turns: Turns | None = None,
    *,
    recording: Recording | None = None,
    hooks: Callable[[Solver], Sequence[Hook]] = lambda solver: (),
) -> Iterator[Outcome]:
    """Run solvers as a race, each with a trace in `out`; a failure does not end the others.

    Args:
        turns: the scheduler; None: by work.
        hooks: returns the hooks of a solver's run; they must not be shared between runs.

    Yields:
        One outcome per solver, in the order in which they end. On Ctrl-C, finished outcomes precede the exception.

    Examples:
        >>> import pathlib, tempfile, torch, apviz
        >>> from apviz.racing import Turns, race
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> solvers = [apviz.AlternatingProjection(block_size=50), apviz.ConjugateGradient()]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     outcomes = list(race(system, solvers, pathlib.Path(folder), Turns("seconds")))
        >>> all(outcome.trace.converged for outcome in outcomes)
        True
    """
    turns, recording = turns or Turns(), recording or Recording()
    system.operator.prepare()
    ended: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()

    def solve(solver: Solver, lane: _Lane) -> None:
        turns.wait(lane)
        try:
            begins = not turns.stopped_because
            ended.put(recorded_solve(system, solver, out, recording, [*hooks(solver), lane])[0] if begins else None)
        except BaseException as error:
            ended.put(error)
        finally:
            turns.leave(lane)

    lanes = [turns.join() for _ in solvers]
    threads = [
        threading.Thread(target=solve, args=pair, daemon=True) for pair in zip(solvers, lanes, strict=True)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    try:
        yield from _outcomes(ended, len(threads), turns)
    finally:
        turns.stop(turns.stopped_because or "the race was abandoned")
        for thread in threads:
            thread.join()


def _outcomes(ended: queue.SimpleQueue[Outcome | BaseException | None], count: int, turns: Turns) -> Iterator[Outcome]:
    """Yield outcomes until all solves have ended; Ctrl-C stops the solves and is raised at the end."""
    interrupt: KeyboardInterrupt | None = None
    while count:
        try:
            outcome = ended.get()
        except KeyboardInterrupt as signal:
            interrupt = signal
            turns.stop("interrupted")
            continue
        count -= 1
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome is not None:
            yield outcome
    if interrupt is not None:
        raise interrupt
