"""Files out of runs, and runs out of files: in a thread, for a large one takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from apviz.dashboard.jobs.job import Gate, Job
from apviz.dashboard.plain_text import without_formulas
from apviz.dashboard.runs.runs_folder import RunsFolder
from apviz.report import write_report
from apviz.tracing import TrainingTrace

#: what can be made of runs, and the suffix of the file
FORMATS: Final = {
    "Traces (.zarr.zip)": ".zarr.zip",
    "Epochs, or iterations (CSV)": "-epochs.csv",
    "Updates (CSV)": "-updates.csv",
    "Steps of trainings (CSV)": "-steps.csv",
    "Report (HTML)": ".html",
}
_GROUPS: Final = {"-epochs.csv": "epoch", "-updates.csv": "update", "-steps.csv": "step"}


class FileJob(Job):
    """Does something with files; `then` is called by the page with what came out, when it is done."""

    def __init__(self, do: Callable[[], list[str]], then: Callable[[list[str]], None]) -> None:
        # not behind the solves
        super().__init__(Gate(1))
        self._do, self._then = do, then
        self._result: list[str] = []

    def work(self) -> None:
        self._result = self._do()

    def deliver(self) -> None:
        """In the page's own thread."""
        if self.state == "done":
            self._then(self._result)


def write_file(runs: RunsFolder, names: Sequence[str], suffix: str, folder: Path) -> Path:
    """Writes runs into a file in `folder`, whole: nothing is left out of long ones.

    Raises:
        ValueError: no run that has it.
    """
    if not names:
        raise ValueError("no run is chosen; tick some in the table")
    path = folder / f"{names[0] if len(names) == 1 else f'apviz-{len(names)}-runs'}{suffix}"
    if suffix == ".zarr.zip":
        with path.open("wb") as file:
            runs.export(names, file)
        return path
    traces = {name: runs.open(name) for name in names}
    if suffix == ".html":
        solves = [t for t in traces.values() if not isinstance(t, TrainingTrace) and "epoch" in t]
        if not solves:
            raise ValueError("a report is of solves, and all runs chosen are trainings; take their steps as CSV")
        return write_report(solves, path)
    group = _GROUPS[suffix]
    frames = [
        trace.to_dataframe(group).reset_index().assign(run=name) for name, trace in traces.items() if group in trace
    ]
    if not frames:
        raise ValueError(f"none of the runs chosen has recorded a single {group}")
    without_formulas(pd.concat(frames, ignore_index=True)).set_index("run").to_csv(path)
    return path
