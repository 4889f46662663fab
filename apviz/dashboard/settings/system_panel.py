"""The settings of the system in the sidebar: data with its card, hyperparameters, and a file of one's own."""

from __future__ import annotations

from pathlib import Path

import panel_material_ui as pmui
from panel.viewable import Viewable

from apviz import datasets
from apviz.dashboard.components.server_owned import one_way
from apviz.dashboard.components.text import plain
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.systems import CARD, FIT, HAND, SystemChoice
from apviz.dashboard.settings.upload import upload_panel


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
