"""The sidebar of the page Runs: find runs, take them in from files, and bring deleted ones back."""

from __future__ import annotations

import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.pages.runs.deleted import DeletedRuns
from apviz.dashboard.pages.runs.files import Files
from apviz.dashboard.pages.runs.view import RunsView
from apviz.dashboard.runs.trash import TRASH_DAYS


def runs_panel(choice: RunsView, files: Files, deleted: DeletedRuns, max_upload_mb: int) -> list[Viewable]:
    """From top to bottom."""
    return [
        pmui.Typography("Find", variant="h6"),
        pmui.TextInput.from_param(choice.param.filter, label="Filter", sizing_mode="stretch_width"),
        pmui.Typography("Words of name, method, data set, how it ended, or note.", variant="body2"),
        pmui.Typography("Import", variant="h6"),
        pmui.Typography(
            f"Traces as .zarr.zip, up to {max_upload_mb} MB; read as data only, and never over another run.",
            variant="body2",
        ),
        files.drop,
        pmui.Typography("Deleted", variant="h6"),
        pmui.Typography(f"Deleted runs are kept for {TRASH_DAYS} days.", variant="body2"),
        deleted.list,
        deleted.button,
    ]
