"""The first runs of a new folder, a few seconds of work done once, so that no page has an empty chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from apviz import datasets
from apviz.comparison import Recording, build_system, choose_hyperparameters, choose_solvers, compare
from apviz.dashboard.jobs.job import Job, JobQueue, Stopped
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.methods import NoiseSweep
from apviz.dashboard.settings.systems import DEFAULT_N, SystemSpec
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.gp.training import Training
from apviz.gp.training_settings import TrainingSettings
from apviz.solvers import AlternatingProjection, Hook, Solver

#: Data set of the first runs, which is part of apviz.
DATA = "china"
#: Rows of the training and of the sweep; rows of their blocks.
SMALL_N, SMALL_BLOCK = 300, 100
#: Updates of the comparison that get a picture.
PICTURES = 60

Done = Callable[[], None]


class FirstRuns(Job):
    """Job that records a training, then a noise sweep, then a comparison in a folder without runs."""

    title = "First examples of this folder"

    def __init__(self, queue: JobQueue, folder: RunsFolder) -> None:
        super().__init__(queue)
        self._folder, self._count = folder, 0
        self._of = 1 + len(NoiseSweep().factors()) * len(_sweep_solvers()) + len(_comparison_solvers())

    def work(self) -> None:
        hooks = [self.stop_hook]
        stages = {"a training": train, "a sweep over the noise": sweep_noise, "a comparison": compare_methods}
        for what, make in stages.items():
            self._what = what
            self._say()
            make(self._folder.path, hooks, self._done)
        self.message = f"{self._count} runs recorded"

    def _done(self) -> None:
        if self.stopping:
            raise Stopped
        self._count += 1
        self._say()
        self.version += 1

    def _say(self) -> None:
        self.progress = min(1.0, self._count / self._of)
        self.message = f"{self._what}; {self._count} of {self._of} runs are there"


def first_runs(folder: RunsFolder) -> None:
    """Record the first runs now, if the folder contains no run."""
    if not folder.names():
        FirstRuns(JobQueue(1), folder).work()


def train(folder: Path, hooks: Sequence[Hook] = (), done: Done = lambda: None) -> None:
    """Train until σ² has settled, which takes about two seconds."""
    data = datasets.load(DATA, n=SMALL_N)
    solver = AlternatingProjection(block_size=SMALL_BLOCK, tol=1.0, min_epochs=11)
    settings = TrainingSettings(solver=solver, steps=80, probes=4, spectrum=True)
    path = folder / f"{DATA}-n{SMALL_N} training {solver.method.name}.zarr"
    Training(data.train_x, data.train_y, settings, path=path, dataset=DATA).run(hooks)
    done()


def sweep_noise(folder: Path, hooks: Sequence[Hook] = (), done: Done = lambda: None) -> None:
    """Solve with the two methods of the paper's Figure 4 at five noise levels, which takes about two seconds."""
    spec = SystemSpec(DATA, SMALL_N, rhs=2)
    chosen = spec.build(Limits())
    solvers = _sweep_solvers()
    for factor in NoiseSweep().factors():
        loaded = spec.at_noise(chosen, factor)
        recording = Recording(loaded.data, loaded.hyperparameters.mean)
        for _ in compare(loaded.system, solvers, folder, recording, hooks):
            done()


def compare_methods(folder: Path, hooks: Sequence[Hook] = (), done: Done = lambda: None) -> None:
    """Solve the system that the landing page and Look inside show, which takes about five seconds."""
    data = datasets.load(DATA, n=DEFAULT_N)
    chosen = choose_hyperparameters(data)
    solvers = _comparison_solvers()
    system = build_system(data, chosen, rhs=4)
    for _ in compare(system, solvers, folder, Recording(data, chosen.mean, PICTURES), hooks):
        done()


def _sweep_solvers() -> list[Solver]:
    return choose_solvers(["ap", "cg"], rules=["gauss-southwell"], block_sizes=[SMALL_BLOCK], max_epochs=200)


def _comparison_solvers() -> list[Solver]:
    return choose_solvers(["ap", "overlap", "cg", "pcg"], block_sizes=[100, 400])
