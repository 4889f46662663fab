"""Which system: the settings that the pages of a session share, and their widgets in the sidebar."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz import datasets
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.text import escape
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.systems import (
    BY_HAND,
    DEFAULT_N,
    DTYPES,
    FITTED,
    FROM_CARD,
    SystemSpec,
    read_lengthscales,
)
from apviz.dashboard.settings.uploaded_file import Upload, check, discard, receive
from apviz.kernels import KERNELS

#: reads the files of all sessions
_READERS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="apviz-file")


class SystemChoice(param.Parameterized):
    """Settings of a system; a session has one of them.

    Attributes:
        uploads: the files of this session, by the names they are offered under.
    """

    dataset = param.Selector(default="china", objects=["china"], label="Data set")
    n = param.Integer(DEFAULT_N, bounds=(10, None), label="Training rows n")
    source = param.Selector(default=FROM_CARD, objects=[FROM_CARD, FITTED, BY_HAND], label="Hyperparameters")
    kernel = param.Selector(default="matern52", objects=list(KERNELS), label="Kernel")
    lengthscale = param.String("0.2", label="Lengthscale (one number, or one per input)")
    outputscale = param.Number(1.0, bounds=(0, None), inclusive_bounds=(False, True), label="Outputscale")
    noise = param.Number(0.01, bounds=(0, None), inclusive_bounds=(False, True), label="Noise variance σ²")
    rhs = param.Integer(4, bounds=(1, 64), label="Right-hand sides (targets and probes)")
    seed = param.Integer(0, bounds=(0, None), label="Seed of split and probes")
    dtype = param.Selector(default="float32", objects=list(DTYPES), label="Precision")

    def __init__(self, limits: Limits, **params: object) -> None:
        super().__init__(**{"n": min(DEFAULT_N, limits.max_n)} | params)
        self.limits = limits
        self.uploads: dict[str, Upload] = {}
        self.param.n.bounds = (10, limits.max_n)
        self.list_datasets()
        self.param.watch(lambda event: self._fit_n(), "dataset")

    def list_datasets(self) -> None:
        """Offers the data sets that are on this machine, and this session's own."""
        here = [name for name in datasets.registry if datasets.is_here(name)]
        self.param.dataset.objects = [*here, *self.uploads]

    def add_upload(self, upload: Upload) -> str:
        """Offers a file, and returns the name it has from then on in this session and in its traces.

        It is that of the file, unless a data set, another file or another target has it: recorded runs stand for what
        they were run on.
        """
        own = upload.path.name
        names = chain([own], (f"{own} ({number})" for number in count(2)))
        name = next(each for each in names if each not in datasets.registry and self._is_free(each, upload))
        self.uploads.setdefault(name, upload)
        self.list_datasets()
        return name

    def _is_free(self, name: str, upload: Upload) -> bool:
        """Whether nothing has this name, or the same file with the same target."""
        known = self.uploads.get(name)
        if known is None:
            return True
        return known.target == upload.target and filecmp.cmp(known.path, upload.path, shallow=False)

    def _fit_n(self) -> None:
        """Lowers n to the rows that the data set has to train on."""
        upload = self.uploads.get(self.dataset)
        rows = datasets.train_size(datasets.card(self.dataset).n) if upload is None else upload.rows
        self.n = min(self.n, rows)

    def check_setting(self, name: str, value: object) -> None:
        """Checks what only a field may hold for a while: the lengthscales are text, and read when they are used.

        Raises:
            ValueError: lengthscales that are no numbers above 0.
        """
        if name == "lengthscale":
            read_lengthscales(str(value))

    def spec(self) -> SystemSpec:
        """Plain values of the settings as they are now.

        Raises:
            ValueError: lengthscales that are no numbers.
        """
        return SystemSpec(
            dataset=self.dataset, n=self.n, source=self.source, kernel=self.kernel,
            lengthscale=read_lengthscales(self.lengthscale), outputscale=self.outputscale, noise=self.noise,
            rhs=self.rhs, seed=self.seed, dtype=self.dtype, upload=self.uploads.get(self.dataset),
        )  # fmt: skip


def system_panel(system: SystemChoice, folder: Path, fields: Fields) -> list[Viewable]:
    """Widgets of `SystemChoice`, from top to bottom; uploaded files lie in `folder`."""
    p = system.param
    wide = {"sizing_mode": "stretch_width"}
    by_hand = [
        pmui.Select.from_param(p.kernel, **wide),
        fields.add(p.lengthscale, **wide),
        fields.add(p.outputscale, **wide),
        fields.add(p.noise, **wide),
    ]
    about = server_owned(pmui.Typography("", variant="body2"))

    def describe(*events: object) -> None:
        about.object = describe_hyperparameters(system)
        for field in by_hand[1:]:
            field.visible = system.source == BY_HAND
        by_hand[0].visible = system.source != FROM_CARD

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


def data_panel(system: SystemChoice, folder: Path, fields: Fields) -> list[Viewable]:
    """Widgets of the data alone; uploaded files lie in `folder`."""
    p = system.param
    wide = {"sizing_mode": "stretch_width"}
    card = server_owned(pmui.Typography("", variant="body2"))

    def describe(*events: object) -> None:
        card.object = describe_dataset(system)

    system.param.watch(describe, ["dataset"])
    describe()
    return [
        pmui.Typography("Data", variant="h6"),
        pmui.Select.from_param(p.dataset, **wide),
        card,
        upload_panel(system, folder),
        fields.add(p.n, **wide),
    ]


def upload_panel(system: SystemChoice, folder: Path) -> Viewable:
    """Widgets to drop a file, choose its target and use it; it lies in `folder`."""
    limits = system.limits
    #: the last file that came; it is in use only once "Use this file" was pressed, and it was found good
    received: list[Path] = []
    drop = pn.widgets.FileDropper(
        max_file_size=f"{limits.max_upload_mb}MB", multiple=False, sizing_mode="stretch_width", height=90
    )
    target = pmui.Select(label="Column to predict", options=[], visible=False, sizing_mode="stretch_width")
    use = server_owned(pmui.Button(label="Use this file", variant="outlined", visible=False))
    note = server_owned(pmui.Alert(object="", severity="error", visible=False, sizing_mode="stretch_width"))

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
                note.param.update(object=escape(str(error)), visible=True)
                return
            received.append(path)
            # a button that is there stays: hidden and shown again at once, it sometimes stayed as it was while loading
            target.param.update(options=columns, value=columns[-1], visible=True)
            use.visible = True

    def use_it(event: Any) -> None:
        if not received:
            return
        # taken out while it is read, so that another that comes meanwhile does not remove it
        path, column = received.pop(), str(target.value)
        page = pn.state.curdoc
        if page is None:
            finish(path, column, partial(check, path, column))
            return
        use.disabled = True
        # a large table takes seconds, in which other visitors go on. Not by a coroutine, of which Panel sometimes keeps
        # what it changes after an await until something else happens on the page
        reading = _READERS.submit(check, path, column)
        reading.add_done_callback(lambda _: page.add_next_tick_callback(partial(finish, path, column, reading.result)))

    def finish(path: Path, column: str, rows: Callable[[], int]) -> None:
        try:
            system.dataset = system.add_upload(Upload(path, column, rows()))
            note.visible = False
        except (ValueError, OSError) as error:
            note.param.update(object=escape(str(error)), visible=True)
        finally:
            use.disabled = False
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


def describe_dataset(system: SystemChoice) -> str:
    """Sentences on the data set that is chosen: size, licence, source."""
    name = system.dataset
    upload = system.uploads.get(name)
    if upload is not None:
        target = escape(str(upload.target))
        return f"Your own file, for this session only: {upload.rows:,} rows to train on. Target: {target}."
    card = datasets.card(name)
    return f"**{card.title}**: {card.n:,} rows, d = {card.d}. Licence: {card.licence}. {card.citation}"


def describe_hyperparameters(system: SystemChoice) -> str:
    """Sentence on where the hyperparameters come from."""
    if system.source == BY_HAND:
        return "As given below."
    fitted = "Fitted in seconds, to at most 1,000 training rows, when it runs."
    if system.source == FITTED or system.dataset in system.uploads:
        return fitted
    known = datasets.card(system.dataset).hyperparameters
    return fitted if known is None else f"{known.kernel}, σ² = {known.noise:.3g}; {known.provenance}."
