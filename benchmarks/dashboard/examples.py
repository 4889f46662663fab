"""The examples of a new folder of the dashboard: a comparison, a noise sweep and a training.

python -m benchmarks.dashboard.examples
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

from apviz import datasets
from apviz.comparison import Recording, build_system, choose_hyperparameters, choose_solvers, compare
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.methods import NoiseSweep
from apviz.dashboard.settings.systems import DEFAULT_N, SystemSpec
from apviz.dashboard.store.examples import PATH, PREFIX
from apviz.gp.training.settings import TrainingSettings
from apviz.gp.training.training import Training
from apviz.solvers import AlternatingProjection

#: Data set of the examples, which is part of apviz.
DATA = "china"
#: Rows of the training and of the sweep; rows of their blocks.
SMALL_N, SMALL_BLOCK = 300, 100
#: Updates of the two replayed solves that get a picture.
PICTURES = 30
#: Addition to the name of the machine in the examples.
MACHINE = " (stored example)"


def train(folder: Path) -> None:
    """Train until σ² has settled."""
    data = datasets.load(DATA, n=SMALL_N)
    solver = AlternatingProjection(block_size=SMALL_BLOCK, tol=1.0, min_epochs=11)
    settings = TrainingSettings(solver=solver, steps=80, probes=4, spectrum=True)
    path = folder / f"{DATA}-n{SMALL_N} training {solver.method.name}.zarr"
    Training(data.train_x, data.train_y, settings, path=path, dataset=DATA).run()


def sweep_noise(folder: Path) -> None:
    """Solve with the two methods of the paper's Figure 4 at five noise levels."""
    spec = SystemSpec(DATA, SMALL_N, rhs=2)
    chosen = spec.build(Limits())
    solvers = choose_solvers(
        ["ap", "cg"], rules=["gauss-southwell"], block_sizes=[SMALL_BLOCK], partitions=["sequential"], max_epochs=200
    )
    for factor in NoiseSweep().factors():
        loaded = spec.at_noise(chosen, factor)
        list(compare(loaded.system, solvers, folder, Recording(loaded.data, loaded.hyperparameters.mean)))


def compare_methods(folder: Path) -> None:
    """Solve the system that Compare and Replay show; two of the solves get pictures."""
    data = datasets.load(DATA, n=DEFAULT_N)
    chosen = choose_hyperparameters(data)
    system = build_system(data, chosen, rhs=4)
    several = choose_solvers(["ap", "overlap", "cg", "pcg", "schwarz", "cholesky"], block_sizes=[100, 400])
    replayed = [each for each in several if each.method.rule == "gauss-southwell" and each.method.block_size != 400]
    others = [each for each in several if each not in replayed]
    for solvers, pictures in ((others, 0), (replayed, PICTURES)):
        list(compare(system, solvers, folder, Recording(data, chosen.mean, pictures)))


def mark_machine(folder: Path) -> None:
    """Mark the machine in all traces, so that no claim joins their seconds with those of a machine of the same name."""
    for path in folder.glob("*.zarr/zarr.json"):
        root = json.loads(path.read_bytes())
        root["attributes"]["device_name"] += MACHINE
        path.write_text(json.dumps(root, separators=(",", ":")), "utf-8")


def main() -> None:
    """Record the examples, and write them into the package."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train(folder)
        sweep_noise(folder)
        compare_methods(folder)
        mark_machine(folder)
        with zipfile.ZipFile(PATH, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, f"{PREFIX}{path.relative_to(folder)}")
    print(f"{PATH}: {PATH.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
