"""Which trainings: those of the runs folder, and the authors' own where their file is here."""

from __future__ import annotations

import param

from apviz.dashboard.runs.trainings import Trainings
from apviz.experiments.published.authors import SEEDS
from apviz.experiments.published.trainings import published_traces
from apviz.tracing import Trace

PUBLISHED = "published:"
#: the data set of the paper's own figure comes first
_ORDER = sorted(SEEDS, key=lambda name: name != "airquality")
#: trainings in one chart
MOST = 6


class TrainingChoice(param.Parameterized):
    """The trainings of a chart, by their names in the folder; `published:airquality` is the authors' own."""

    trainings = param.ListSelector(default=[], objects=[], check_on_set=True, label="Trainings")

    def offer(self, here: Trainings) -> None:
        """Offers what there is, and drops from the choice what is not there any more."""
        published = [f"{PUBLISHED}{name}" for name in _ORDER if published_traces(name)]
        self.param.trainings.objects = [*here.names(), *published]
        self.trainings = [name for name in self.trainings if name in self.param.trainings.objects]

    def choose_first(self) -> None:
        """Where nothing is chosen: the newest training, or the first published one."""
        if not self.trainings and self.param.trainings.objects:
            self.trainings = self.param.trainings.objects[:1]

    def open(self, here: Trainings) -> list[Trace]:
        """The traces.

        Raises:
            FileNotFoundError, ValueError: a run that is gone, or does not open.
        """
        found: list[Trace] = []
        for name in self.trainings[:MOST]:
            found += published_traces(name.removeprefix(PUBLISHED)) if name.startswith(PUBLISHED) else [here.open(name)]
        return found
