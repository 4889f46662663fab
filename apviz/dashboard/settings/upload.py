"""A file of one's own: checked and parsed as data, kept for the session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz.dashboard.settings.systems import SystemChoice, Upload
from apviz.datasets.tables import SUFFIXES, read_table


def receive(folder: Path, name: str, content: bytes | str) -> tuple[Path, list[str]]:
    """Writes an uploaded file into the session's folder; returns its path and the names of its columns.

    Raises:
        ValueError: another kind of file, an empty one, or one that is no table.
    """
    plain = Path(name).name
    if not plain.lower().endswith(SUFFIXES) or plain.startswith("."):
        raise ValueError(f"{plain}: files ending in {', '.join(SUFFIXES)} are accepted")
    path = folder / plain
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        if plain.lower().endswith((".parquet", ".pq")):
            import pyarrow.parquet

            columns = list(pyarrow.parquet.read_schema(path).names)
        else:
            columns = list(pd.read_csv(path, nrows=50).columns)
    except Exception as error:
        path.unlink()
        raise ValueError(f"{plain} cannot be read as a table: {error}") from error
    if len(columns) < 2:
        path.unlink()
        raise ValueError(f"{plain} has one column; a target and at least one input are needed, separated by commas")
    return path, [str(column) for column in columns]


def check(path: Path, target: str) -> None:
    """Reads the whole table.

    Raises:
        ValueError: columns that are not numbers; the message names them.
    """
    read_table(path, target)


def upload_panel(system: SystemChoice, folder: Path) -> Viewable:
    """Drop a file, choose its target, use it; it lies in `folder`."""
    limits, received = system.limits, dict[str, Any]()
    drop = pn.widgets.FileDropper(
        max_file_size=f"{limits.max_upload_mb}MB", multiple=False, sizing_mode="stretch_width", height=90
    )
    target = pmui.Select(label="Column to predict", options=[], visible=False, sizing_mode="stretch_width")
    use = pmui.Button(label="Use this file", variant="outlined", visible=False)
    note = pmui.Alert(object="", severity="error", visible=False, sizing_mode="stretch_width")

    def arrived(event: Any) -> None:
        note.visible = target.visible = use.visible = False
        # emptied, for the dropper would hand over a file again after another has replaced it
        files = dict(drop.value)
        drop.value.clear()
        for name, content in files.items():
            try:
                received["path"], columns = receive(folder, name, content)
            except ValueError as error:
                note.param.update(object=str(error), visible=True)
                return
            target.param.update(options=columns, value=columns[-1], visible=True)
            use.visible = True

    def use_it(event: Any) -> None:
        path: Path = received["path"]
        try:
            check(path, target.value)
        except ValueError as error:
            note.param.update(object=str(error).replace(f"{path.parent}/", ""), visible=True)
            return
        system.uploads[path.name] = Upload(path, target.value)
        system.offer_datasets()
        system.dataset = path.name
        note.visible = False

    drop.param.watch(arrived, "value")
    use.on_click(use_it)
    label = f"A file of your own: CSV or Parquet, up to {limits.max_upload_mb} MB, parsed as numbers only."
    return pmui.Accordion(
        ("Your own data", pn.Column(pmui.Typography(label, variant="body2"), drop, target, use, note,
                                    sizing_mode="stretch_width")),
        sizing_mode="stretch_width", margin=(4, 0), title_variant="body1",
    )  # fmt: skip
