"""Pinned runs of the page Compare: the settings in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import panel as pn
import panel_material_ui as pmui

from apviz.analysis.sweeps import settings_table
from apviz.dashboard.components.tables import plain_table
from apviz.plots._labels import full_names
from apviz.tracing import Trace


class Pinned:
    """Card with the settings in which pinned runs differ; empty for fewer than two."""

    def __init__(self) -> None:
        self.view = pn.Column(sizing_mode="stretch_width", margin=0)

    def show(self, traces: Mapping[str, Trace], pinned: Sequence[str]) -> None:
        """Compare the pinned ones among runs by their names in the folder."""
        runs = [traces[name] for name in pinned if name in traces]
        if len(runs) < 2:
            self.view[:] = []
            return
        settings = pd.DataFrame(settings_table(runs, only_differences=True), index=full_names(runs)).T
        wide = {"sizing_mode": "stretch_width"}
        heading = pmui.Typography("Pinned runs: settings that differ", variant="h6", margin=(8, 12, 0, 12))
        table = pn.Column(plain_table(settings), margin=(0, 12), styles={"overflow-x": "auto"}, **wide)
        self.view[:] = [pmui.Paper(heading, table, margin=8, elevation=1, **wide)]
