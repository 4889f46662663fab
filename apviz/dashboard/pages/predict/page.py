"""The page Predict: a model of the chosen data, how well it predicts, and predictions of a table or a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.dashboard.components.deleted_list import DeletedList
from apviz.dashboard.components.dropper import Dropper
from apviz.dashboard.components.server_owned import button
from apviz.dashboard.jobs.job import Job
from apviz.dashboard.jobs.job_bar import JobBar
from apviz.dashboard.jobs.prediction_job import EXAMPLE_DATA, ExampleJob, FitJob, PredictJob
from apviz.dashboard.pages.base import Page, Shared
from apviz.dashboard.pages.predict.showing import HALF, ModelView, PredictionsView
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.store.examples import PREFIX
from apviz.dashboard.store.models import Models
from apviz.dashboard.store.own_data import discard, receive
from apviz.dashboard.store.trash import TRASH_DAYS
from apviz.kernels.stationary import KERNELS

_WIDE: dict[str, Any] = {"sizing_mode": "stretch_width"}
NO_MODEL = "none yet"
_WHAT_WILL_BE_SEEN = """Choose data, rows and a kernel. **Fit**, above, trains the hyperparameters and fits a model to
the chosen rows. The page then shows how well the model predicts rows that it leaves out. With a model you can predict:

- a table that you upload: each row gets a mean, an sd and a 95% interval;
- a grid over one, two or three inputs: you get a curve with its interval, a map, or a file."""
_WHAT_THE_EXAMPLE_IS = f"""This model is an **example**: the brightness of a photograph by column (*{EXAMPLE_DATA}*).
For a model of your own, choose data above and press **Fit**."""


class PredictChoice(param.Parameterized):
    """Settings of the page: the model, and what it predicts."""

    model = param.String("", label="the model")
    points = param.Integer(100, bounds=(2, 100_000), label="Points along each input")
    observation = param.Boolean(False, label="Intervals of new observations, noise included")


class Predict(Page):
    """Page of one model of the folder, and its last predictions."""

    name = "predict"
    title = "Predict"
    asks = frozenset({"data"})
    settings_title = "Kernel"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.choice, self.kept = PredictChoice(), Models(shared.runs.path)
        self.models = [self.choice]
        self.job: FitJob | PredictJob | None = None
        #: The table to predict, in a folder of its own.
        self._table: Path | None = None
        self._bar = JobBar(self.fit, self.stop, label="Fit", is_running=lambda: self.has_running)
        self.fields = Fields(self._bar.show_problems, shared.system_panel.data_fields)
        self._list = pmui.Select(
            label="Model", options=[NO_MODEL], value=NO_MODEL, margin=(8, 12), styles={"flex": "1 1 260px"}, **_WIDE
        )
        self._list.param.watch(lambda event: self._select(event.new), "value")
        self._delete = button("Delete this model", "delete", self.delete, color="error", margin=(16, 12))
        self._picker = pn.Row(self._list, self._delete, visible=False, styles={"flex-wrap": "wrap"}, **_WIDE)
        self.deleted = DeletedList(f"Deleted model, kept for {TRASH_DAYS} days", self.bring_back)
        self._nothing = pmui.Paper(
            pmui.Typography("No model yet", variant="h6", margin=(8, 12, 0, 12)),
            pmui.Typography(_WHAT_WILL_BE_SEEN, variant="body1", margin=(0, 12, 8, 12)),
            button("Try the example", "play_arrow", self.fit_example, margin=(0, 12, 12, 12)),
            margin=8, elevation=1, **_WIDE,
        )  # fmt: skip
        self._example = pmui.Typography(
            _WHAT_THE_EXAMPLE_IS, variant="body2", margin=(4, 12), visible=False, **_WIDE,
        )  # fmt: skip
        self.model, self.predictions = ModelView(shared), PredictionsView(shared)
        self._asked = self._make_asked()
        self.choice.param.watch(lambda event: self._show(), ["model"])

    def _make_asked(self) -> pmui.Paper:
        """Return the card with the choice of what to predict."""
        p, most = self.choice.param, self.shared.limits.max_upload_mb
        self.drop = Dropper(self.shared.folder, most, self._arrived, self._refuse, multiple=False, height=90, **_WIDE)
        self._again = button("Predict the table", "play_arrow", self.predict_table, disabled=True)
        points = self.fields.add(p.points, width=220)
        grid = button("Predict a grid", "grid_on", self.predict_grid)
        about = (
            f"Drop a table with the model's inputs: CSV, text or Parquet, up to {most} MB. Columns are found by name, "
            "in any order; other columns are copied."
        )
        half = {"styles": HALF, **_WIDE}
        return pmui.Paper(
            pmui.Typography("What to predict", variant="h6", margin=(8, 12, 0, 12)),
            pn.FlexBox(
                pn.Column(pmui.Typography(about, variant="body2"), self.drop, self._again, **half),
                pn.Column(
                    pmui.Typography("Or predict a grid over the range of the fitted rows, for up to three inputs.",
                                    variant="body2"),
                    points, grid, pmui.Checkbox.from_param(p.observation), **half,
                ),
                **_WIDE,
            ),
            margin=8, elevation=1, **_WIDE,
        )  # fmt: skip

    # --- contents -------------------------------------------------------------------------------------------------

    def settings(self) -> list[Viewable]:
        s = self.shared.system.param
        return [pmui.Select.from_param(s.kernel, **_WIDE), self.fields.add(s.seed, **_WIDE)]

    def settings_words(self) -> str:
        return KERNELS[self.shared.system.kernel].title

    def make_main(self) -> Viewable:
        return pn.Column(
            self._bar.view, self._picker,
            pn.Row(self.deleted.list, self.deleted.button, margin=(0, 2), **_WIDE), self._nothing, self._example,
            self.model.view, self._asked, self.predictions.view, **_WIDE,
        )  # fmt: skip

    # --- events ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        names = self.kept.names()
        if names and not self.choice.model:
            self.choice.model = names[0]
        else:
            self._show()

    def redraw(self) -> None:
        self._show()

    def tick(self) -> None:
        self.follow(self.job, self._bar, self._take)
        self.draw_next()

    def shows(self, job: Job) -> bool:
        return job is self.job

    def adopt(self, job: Job) -> None:
        if isinstance(job, FitJob | PredictJob) and (self.job is None or not self.job.is_active):
            self.job = job

    def fit(self) -> None:
        """Fit a model to the chosen data."""
        if self.fields.ready():
            self._start(lambda: FitJob(self.shared.queue, self.shared.limits, self.kept, self.shared.system.spec()))

    def fit_example(self) -> None:
        """Fit the example, whatever data are chosen."""
        self._start(lambda: ExampleJob(self.shared.queue, self.shared.limits, self.kept))

    def predict_table(self) -> None:
        """Predict the dropped table."""
        if self._table is not None:
            self._predict(self._table)

    def predict_grid(self) -> None:
        """Predict a grid."""
        if self.fields.ready("points"):
            self._predict(None)

    def _predict(self, table: Path | None) -> None:
        shared, choice = self.shared, self.choice
        self._start(
            lambda: PredictJob(
                shared.queue, shared.limits, self.kept, choice.model, table=table, points=choice.points,
                observation=choice.observation,
            )
        )  # fmt: skip

    def _start(self, make: Any) -> None:
        if self.job is not None and self.job.is_active:
            what = "a fit" if isinstance(self.job, FitJob) else "a prediction"
            self._bar.refuse(f"{what} is running; wait for it, or stop it first")
            return
        try:
            self.job = make()
        except (ValueError, OSError) as error:
            self._refuse(error)
            return
        self.shared.start(self.job)

    def stop(self) -> None:
        """Ask the running job to stop."""
        if self.job is not None:
            self.job.stop()

    def delete(self) -> None:
        """Move the model that is shown to the trash, with its predictions."""
        try:
            self.kept.delete(self.choice.model)
        except (ValueError, OSError) as error:
            self._refuse(error)
        self.choice.model = next(iter(self.kept.names()), "")

    def bring_back(self, key: str) -> None:
        """Restore a deleted model, and show it."""
        try:
            self.choice.model = self.kept.restore(key)
        except (ValueError, OSError) as error:
            self._refuse(error)
            self._show()

    def _take(self, job: FitJob | PredictJob) -> None:
        """Show the result of a job that has ended."""
        if job.state != "done":
            return
        if job.name != self.choice.model:
            self.choice.model = job.name
        else:
            self._show()

    def _arrived(self, name: str, path: Path) -> None:
        try:
            table = receive(path, name)
        except (ValueError, OSError) as error:
            discard(path)
            self._refuse(error)
            return
        if self._table is not None:
            discard(self._table)
        self._table = table
        self._again.param.update(label=f"Predict {table.name}", disabled=False)
        self.predict_table()

    def _refuse(self, error: Exception) -> None:
        self._bar.refuse(str(error))

    def _select(self, name: str | None) -> None:
        if name not in (None, NO_MODEL):
            self.choice.model = name

    # --- what is shown --------------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Show the model and its last predictions; draw them in the next ticks."""
        names, name = self.kept.names(), self.choice.model
        options = names if name in names else [NO_MODEL, *names]
        self._list.param.update(options=options, value=name if name in names else NO_MODEL)
        record = predicted = None
        try:
            if name:
                record, predicted = self.kept.record(name), self.kept.predictions(name)
        except (ValueError, OSError) as error:
            self._refuse(error)
        self.deleted.show(self.kept.deleted())
        self._nothing.visible, self._picker.visible = not names, bool(names)
        self._example.visible = record is not None and name.startswith(PREFIX)
        self._asked.visible = self._delete.visible = record is not None
        self.draw_later(self.model, lambda: self.model.show(record))
        self.draw_later(self.predictions, lambda: self.predictions.show(name, record, predicted))
