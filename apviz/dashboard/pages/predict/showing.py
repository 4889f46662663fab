"""A model and its predictions on the page: in words, as charts, tables and files to download."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui
import xarray as xr

from apviz import plots
from apviz.dashboard.components.chart_card import FILL, FILLS, ChartCard
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.tables import plain_table
from apviz.dashboard.components.text import escape
from apviz.dashboard.pages.base import Shared
from apviz.dashboard.store.models import MODEL, PICTURE, TABLE, ModelRecord, PredictionsRecord
from apviz.gp.estimator.leave_one_out import LeftOut
from apviz.plots.models.prediction import LINE
from apviz.table_models.describing import LEVEL

_WIDE: dict[str, Any] = {"sizing_mode": "stretch_width"}
#: Two cards side by side, also next to the settings on a small screen.
HALF = {"flex": "1 1 420px", "min-width": "min(100%, 340px)", "align-self": "stretch", "height": "auto"}
#: Pixels of the axes of the charts, and of maps, which are lower where their pixels are square.
_AXES, _MAP_AXES = 380, 640
_FORMATS = {".csv": "CSV", ".parquet": "Parquet", ".nc": "NetCDF"}


class ModelView:
    """How well a model predicts rows that it left out, and its hyperparameters."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.words = server_owned(pmui.Typography("", variant="body1", margin=(0, 12, 8, 12)))
        self.warnings = _warnings()
        self.table = pn.Column(margin=(0, 12), **_WIDE)
        self.chart = _card(
            "Predicted against observed",
            "Each row was predicted from all others. An interval that reaches the line contains what was observed.",
            lambda found, theme: plots.predicted_against_observed(
                found[0]["target"], found[0]["mean"], found[0]["std"], name=found[0]["name"], theme=theme
            ),
            lambda found: pd.DataFrame({name: found[0][name] for name in ("target", "mean", "std")}), shared,
        )  # fmt: skip
        about = pmui.Paper(
            pmui.Typography("How well it predicts", variant="h6", margin=(8, 12, 0, 12)), self.words, self.warnings,
            pmui.Typography("Hyperparameters", variant="h6", margin=(8, 12, 0, 12)), self.table,
            margin=8, elevation=1, styles=HALF, stylesheets=[FILL], sx=FILLS, **_WIDE,
        )  # fmt: skip
        self.chart.view.styles = HALF
        self.view = pn.FlexBox(about, self.chart.view, visible=False, **_WIDE)

    def show(self, record: ModelRecord | None) -> None:
        """Show a model; nothing without one."""
        self.view.visible = record is not None
        if record is None:
            return
        self.words.object = model_in_words(record)
        _say_warnings(self.warnings, record.warnings)
        frame = pd.DataFrame(record.hyperparameters)
        self.table[:] = [plain_table(frame, index=False, header=False, text_align="start")]
        found: Any = [record.checked | {"name": record.target}]
        self.chart.show(found, self._shared.theme)


class PredictionsView:
    """Predictions as a curve, a map or a table, with their accuracy and files to download."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.words = server_owned(pmui.Typography("", variant="body1", margin=(0, 12, 8, 12)))
        self.warnings = _warnings()
        self.download = pn.pane.HTML("", margin=(0, 12, 12, 12), **_WIDE)
        self.table = pn.Column(margin=(0, 12, 12, 12), **_WIDE)
        text = {
            "mean": "The posterior mean; over one input also its interval and the data.",
            "sd": "How uncertain the function is: more so far from the data.",
        }
        self.charts = {
            name: _card(
                title, text[name],
                lambda found, theme, name=name: plots.prediction(found[0], name, observed=found[1], theme=theme),
                lambda found: found[0].to_dataframe().reset_index(), shared,
            )
            for name, title in (("mean", "Predicted mean"), ("sd", "Predicted standard deviation"))
        }  # fmt: skip
        for card in self.charts.values():
            card.view.styles = HALF
        self.view = pn.Column(
            pmui.Paper(
                pmui.Typography("Predictions", variant="h6", margin=(8, 12, 0, 12)), self.words, self.warnings,
                self.download, self.table, margin=8, elevation=1, **_WIDE,
            ),
            pn.FlexBox(*(card.view for card in self.charts.values()), **_WIDE), visible=False, **_WIDE,
        )  # fmt: skip

    def show(self, name: str, model: ModelRecord | None, predicted: tuple[Path, PredictionsRecord] | None) -> None:
        """Show the predictions of a model; nothing without any."""
        self.view.visible = model is not None and predicted is not None
        if model is None or predicted is None:
            return
        folder, record = predicted
        self.words.object = predictions_in_words(record)
        _say_warnings(self.warnings, record.warnings)
        self.download.object = links(name, folder.name, record, LINE[self._shared.theme])
        picture = xr.load_dataset(folder / PICTURE, engine="scipy") if (folder / PICTURE).is_file() else None
        is_drawn_grid = picture is not None and ".nc" in record.endings
        head = pd.DataFrame(record.head)
        about = f"The first {len(head):,} of {record.rows:,} rows; the files have all."
        first = [pmui.Typography(about, variant="body2"), plain_table(head, index=False)]
        self.table[:] = [] if is_drawn_grid else first
        is_map = picture is not None and len(picture.coords) > 1
        for key, card in self.charts.items():
            card.view.visible = picture is not None and (is_map or key == "mean")
            if card.view.visible:
                card.chart.axes = _MAP_AXES if is_map else _AXES
                found: Any = [picture, tuple(model.data) or None]
                card.show(found, self._shared.theme)


def model_in_words(record: ModelRecord) -> str:
    """Return sentences on a model: its data, how well it predicts rows that it left out, and how accurate it is."""
    observed, mean, sds = (np.array(record.checked[key]) for key in ("target", "mean", "std"))
    left, count, target = LeftOut(np.arange(len(mean)), observed, mean, sds), len(mean), escape(record.target)
    rows = f"all {record.rows:,} rows" if record.rows == record.total else f"{record.rows:,} of {record.total:,} rows"
    sd = float(left.target.std(ddof=1))
    words = [
        f"{escape(record.kernel)}, fitted to {rows} of **{escape(record.dataset)}**.",
        f"Each of {count:,} rows was predicted from the other {record.rows - 1:,}. A prediction of {target} is "
        f"typically off by **{left.rmse:.3g}** (RMSE; the sd of {target} is {sd:.3g}), and "
        f"**{left.coverage(LEVEL):.1%}** of the observations are inside their {LEVEL:.0%} interval. "
        f"Negative log likelihood: {left.negative_log_likelihood:.3g} nats a row.",
        *(f"{escape(fact)}." for fact in record.facts),
    ]
    return "  \n".join(words) + _list(record.notes)


def predictions_in_words(record: PredictionsRecord) -> str:
    """Return sentences on predictions: of what, in which units, and how accurate they are."""
    what = f"**{escape(record.source)}**, {record.rows:,} points. {escape(record.what)}."
    return f"{what}  \n{escape(record.accuracy)}.{_list(record.notes)}"


def links(name: str, folder: str, record: PredictionsRecord, color: str) -> str:
    """Return HTML with a link to each file of a set of predictions, and to the model."""
    stem = Path(record.source).stem if "." in record.source else name
    files = [(f"{folder}/{TABLE}{ending}", f"{stem} predicted{ending}", _FORMATS[ending]) for ending in record.endings]
    files.append((MODEL, f"{name}.apviz", "Model, for apviz predict"))
    made = [
        f'<a href="models/{quote(name)}/{path}" download="{html.escape(as_, quote=True)}" '
        f'style="color: {color}">{words}</a>'
        for path, as_, words in files
    ]
    return f'<div style="display: flex; flex-wrap: wrap; gap: 0.4em 1.5em">Download: {"".join(made)}</div>'


def _card(heading: str, text: str, draw: Any, table: Any, shared: Shared) -> ChartCard:
    """Return a card for a figure that is not of traces; the card shows whatever its functions take."""
    return ChartCard(
        heading, text, draw, table=table, sentence=lambda found: text, axes=_AXES, lecture=shared.lecture
    )  # fmt: skip


def _warnings() -> pmui.Alert:
    return server_owned(
        pmui.Alert(object="", severity="warning", variant="outlined", visible=False, margin=(0, 12, 8, 12), **_WIDE)
    )


def _say_warnings(alert: pmui.Alert, warnings: Sequence[str]) -> None:
    lines = "  \n".join(escape(each[:1].upper() + each[1:]) for each in warnings)
    alert.param.update(object=lines, visible=bool(warnings))


def _list(notes: Sequence[str]) -> str:
    return "\n\n" + "\n".join(f"- {escape(note[:1].upper() + note[1:])}." for note in notes) if notes else ""
