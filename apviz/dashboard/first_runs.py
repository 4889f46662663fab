"""What a new folder of runs begins with: seconds of work, once, so that no page opens with an empty chart."""

from __future__ import annotations

from pathlib import Path

from apviz import datasets
from apviz.comparison import build_system, choose_hyperparameters, choose_solvers, compare
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.methods import NoiseSweep
from apviz.dashboard.settings.systems import DEFAULT_N, SystemSpec
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.gp.training import Training
from apviz.gp.training_settings import TrainingSettings
from apviz.solvers import AlternatingProjection

#: data of the first runs: it comes with apviz
DATA = "china"
#: rows of the training and of the sweep, and of their blocks
SMALL_N, SMALL_BLOCK = 300, 100
#: updates of the comparison with a picture
PICTURES = 60


def first_runs(folder: RunsFolder) -> None:
    """Records, in a folder without any run, a training, a sweep over the noise, and at last a comparison."""
    if folder.names():
        return
    train(folder.path)
    sweep_noise(folder.path)
    compare_methods(folder.path)


def train(folder: Path) -> None:
    """Trains until σ² has settled, which takes about two seconds."""
    data = datasets.load(DATA, n=SMALL_N)
    solver = AlternatingProjection(block_size=SMALL_BLOCK, tol=1.0, min_epochs=11)
    settings = TrainingSettings(solver=solver, steps=80, probes=4, spectrum=True)
    path = folder / f"{DATA}-n{SMALL_N} training {solver.label}.zarr"
    Training(data.train_x, data.train_y, settings, path=path, dataset=DATA).run()


def sweep_noise(folder: Path) -> None:
    """Solves by the two methods of the paper's Figure 4 at five noises, which takes about two seconds."""
    spec = SystemSpec(DATA, SMALL_N, rhs=2)
    chosen = spec.build(Limits())
    solvers = choose_solvers(["ap", "cg"], rules=["gauss-southwell"], block_sizes=[SMALL_BLOCK], max_epochs=200)
    for factor in NoiseSweep().factors():
        loaded = spec.at_noise(chosen, factor)
        for _ in compare(loaded.system, solvers, folder, data=loaded.data, mean=loaded.hyperparameters.mean):
            pass


def compare_methods(folder: Path) -> None:
    """Solves what the landing page shows, and Look inside, which takes about five seconds."""
    data = datasets.load(DATA, n=DEFAULT_N)
    chosen = choose_hyperparameters(data)
    solvers = choose_solvers(["ap", "overlap", "cg", "pcg"], block_sizes=[100, 400])
    for _ in compare(
        build_system(data, chosen, rhs=4), solvers, folder, data=data, mean=chosen.mean, pictures=PICTURES
    ):
        pass
