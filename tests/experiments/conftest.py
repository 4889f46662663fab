"""Small experiments: the same code, with fewer steps, epochs and test rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apviz.experiments import EXPERIMENTS, Options, Row, measuring, run, sources
from apviz.experiments.catalogue import batch_size, convergence, lanczos_rank, rules, test_time, training
from apviz.solvers import Hook

#: Adam steps instead of the paper's 50 and 100
STEPS = 3

Finished = tuple[Options, dict[str, Row], int]


class CutHook(Hook):
    """Interrupts update `update` of solve `solve`, both counted from 1, and counts the started solves."""

    def __init__(self, solve: int = 0, update: int = 1) -> None:
        self.solve, self.update = solve, update
        self.started = 0

    def on_start(self, run) -> None:
        self.started += 1
        self._updates = 0

    def on_update(self, update) -> None:
        self._updates += 1
        if self.started == self.solve and self._updates == self.update:
            raise KeyboardInterrupt


@pytest.fixture
def small() -> Iterator[None]:
    """Shrink every experiment to about a second; test_experiment_methods tests the settings of the paper."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "STEPS", STEPS)
        patch.setattr(measuring, "MORE_STEPS", {})
        patch.setattr(sources, "TEST_ROWS", 200)
        patch.setattr(sources, "REDUCED_MAX_TEST_EPOCHS", 60)
        patch.setattr(convergence, "REDUCED_MAX_EPOCHS", 60)
        patch.setattr(test_time, "REDUCED_MAX_EPOCHS", 60)
        patch.setattr(batch_size, "MAX_EPOCHS", 4)
        # the share of the paper would give blocks of one row for 200 rows
        patch.setattr(batch_size, "SIZES", (20_000, 50_000))
        patch.setattr(rules, "MILESTONES", (1, 2, 4))
        patch.setattr(training, "SVGP_STEPS", 8)
        patch.setattr(training, "SVGP_MIN_INDUCING_POINTS", 16)
        patch.setattr(lanczos_rank, "TEST_ROWS", 40)
        yield


@pytest.fixture(scope="session")
def kept(tmp_path_factory) -> tuple[Path, dict[str, Finished]]:
    """Return the shared folder of experiments, and the finished ones."""
    return tmp_path_factory.mktemp("experiments"), {}


@pytest.fixture
def finished(small, kept) -> Callable[[str], Finished]:
    """Return a function that runs an experiment once on 200 pixels: options, rows, and its number of solves."""
    out, found = kept

    def finish(name: str) -> Finished:
        if name not in found:
            hook = CutHook()
            options = Options(200, "cpu", out=out, dataset="china", hooks=[hook])
            rows = {cell.key: row for cell, row in run(EXPERIMENTS[name], options)}
            found[name] = (options, rows, hook.started)
        return found[name]

    return finish


class Looking:
    """Helpers of the tests for tables, rows and folders."""

    Cut = CutHook

    @staticmethod
    def words(tables) -> str:
        """Return all texts of tables."""
        return "\n".join(
            " ".join((table.title, *table.headings, *(cell for row in table.rows for cell in row), table.note))
            for table in tables
        )

    @staticmethod
    def column(table, heading: str) -> list[str]:
        """Return the cells under a heading."""
        index = list(table.headings).index(heading)
        return [row[index] for row in table.rows]

    @staticmethod
    def same_but_for_time(row: Row) -> Row:
        """Return a row without times."""
        kept = {name: value for name, value in row.items() if "seconds" not in name}
        if "reached" in kept:
            kept["reached"] = {
                level: place and {name: value for name, value in place.items() if name != "seconds"}
                for level, place in kept["reached"].items()
            }
        return kept

    @staticmethod
    def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
        """Return the files of finished cells in a folder, and their times of modification."""
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.glob("*.json")}


@pytest.fixture(scope="session")
def look() -> type[Looking]:
    return Looking
