"""The settings of the system in the sidebar: data with its card, hyperparameters, and a file of one's own.

Drop a file of one's own, choose its target, use it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz import datasets
from apviz.dashboard.components.server_owned import one_way
from apviz.dashboard.components.text import plain
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.systems import CARD, FIT, HAND, SystemChoice, Upload
from apviz.dashboard.settings.uploaded_file import check, discard, receive


def upload_panel(system: SystemChoice, folder: Path) -> Viewable:
    """Drop a file, choose its target, use it; it lies in `folder`."""
    limits = system.limits
    #: the last file that came; it is in use only once "Use this file" was pressed, and it was found good
    received: list[Path] = []
    drop = pn.widgets.FileDropper(
        max_file_size=f"{limits.max_upload_mb}MB", multiple=False, sizing_mode="stretch_width", height=90
    )
    target = pmui.Select(label="Column to predict", options=[], visible=False, sizing_mode="stretch_width")
    use = pmui.Button(label="Use this file", variant="outlined", visible=False)
    note = one_way(pmui.Alert(object="", severity="error", visible=False, sizing_mode="stretch_width"))

    def discard_unused(path: Path) -> None:
        if path not in [upload.path for upload in system.uploads.values()]:
            discard(path)

    def arrived(event: Any) -> None:
        # emptied, for the dropper would hand over a file again after another has replaced it
        files = dict(drop.value)
        drop.value.clear()
        # it also tells that a file was taken away: that before this one, which may be after this one came
        if not files:
            return
        note.visible = False
        while received:
            discard_unused(received.pop())
        for name, content in files.items():
            try:
                path, columns = receive(folder, name, content, limits)
            except (ValueError, OSError) as error:
                target.visible = use.visible = False
                note.param.update(object=plain(str(error)), visible=True)
                return
            received.append(path)
            # a button that is there stays: hidden and shown again at once, it sometimes stayed as it was while loading
            target.param.update(options=columns, value=columns[-1], visible=True)
            use.visible = True

    async def use_it(event: Any) -> None:
        if not received:
            return
        # taken out while it is read, so that another that comes meanwhile does not remove it
        path, column = received.pop(), str(target.value)
        use.loading = True
        try:
            # a large table takes seconds, in which other visitors go on
            rows = await asyncio.to_thread(check, path, column)
        except (ValueError, OSError) as error:
            note.param.update(object=plain(str(error)), visible=True)
        else:
            system.dataset = system.offer_upload(Upload(path, column, rows))
            note.visible = False
        finally:
            use.loading = False
        if received:
            discard_unused(path)
        else:
            # it can be used again, with another column
            received.append(path)

    drop.param.watch(arrived, "value")
    use.on_click(use_it)
    label = f"A file of your own: CSV or Parquet, up to {limits.max_upload_mb} MB, parsed as numbers only."
    return pmui.Accordion(
        ("Your own data", pn.Column(pmui.Typography(label, variant="body2"), drop, target, use, note,
                                    sizing_mode="stretch_width")),
        sizing_mode="stretch_width", margin=(4, 0), title_variant="body1",
    )  # fmt: skip


def data_panel(system: SystemChoice, folder: Path, fields: Fields) -> list[Viewable]:
    """Widgets of the data alone; a file of one's own lies in `folder`."""
    p = system.param
    wide = {"sizing_mode": "stretch_width"}
    card = one_way(pmui.Typography("", variant="body2"))

    def describe(*events: object) -> None:
        card.object = card_words(system)

    system.param.watch(describe, ["dataset"])
    describe()
    return [
        pmui.Typography("Data", variant="h6"),
        pmui.Select.from_param(p.dataset, **wide),
        card,
        upload_panel(system, folder),
        fields.add(p.n, **wide),
    ]


def system_panel(system: SystemChoice, folder: Path, fields: Fields) -> list[Viewable]:
    """Widgets of `SystemChoice`; a file of one's own lies in `folder`."""
    p = system.param
    wide = {"sizing_mode": "stretch_width"}
    by_hand = [
        pmui.Select.from_param(p.kernel, **wide),
        fields.add(p.lengthscale, **wide),
        fields.add(p.outputscale, **wide),
        fields.add(p.noise, **wide),
    ]
    about = one_way(pmui.Typography("", variant="body2"))

    def describe(*events: object) -> None:
        about.object = hyperparameter_words(system)
        for field in by_hand[1:]:
            field.visible = system.source == HAND
        by_hand[0].visible = system.source != CARD

    system.param.watch(describe, ["dataset", "source"])
    describe()
    return [
        *data_panel(system, folder, fields),
        pmui.Typography("System", variant="h6"),
        pmui.Select.from_param(p.source, **wide),
        about,
        *by_hand,
        fields.add(p.rhs, **wide),
        fields.add(p.seed, **wide),
        pmui.RadioButtonGroup.from_param(p.dtype, label="Precision", size="small"),
    ]


def card_words(system: SystemChoice) -> str:
    """What is known about the data set."""
    name = system.dataset
    upload = system.uploads.get(name)
    if upload is not None:
        target = plain(str(upload.target))
        return f"Your own file, for this session only: {upload.rows:,} rows to train on. Target: {target}."
    card = datasets.card(name)
    return f"**{card.title}**: {card.n:,} rows, d = {card.d}. Licence: {card.licence}. {card.citation}"


def hyperparameter_words(system: SystemChoice) -> str:
    """Where the hyperparameters come from."""
    if system.source == HAND:
        return "As given below."
    fitted = "Fitted in seconds, to at most 1,000 training rows, when it runs."
    if system.source == FIT or system.dataset in system.uploads:
        return fitted
    known = datasets.card(system.dataset).hyperparameters
    return fitted if known is None else f"{known.kernel}, σ² = {known.noise:.3g}; {known.provenance}."
