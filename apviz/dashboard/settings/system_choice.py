"""Settings of the system, shared by the pages of a session, and their widgets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz import datasets
from apviz.dashboard.address import Seeds
from apviz.dashboard.components.server_owned import server_owned
from apviz.dashboard.components.text import escape
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.fields import Fields
from apviz.dashboard.settings.own_table import OwnTablePanel, notes_in_words
from apviz.dashboard.settings.systems import (
    BY_HAND,
    DEFAULT_N,
    DTYPES,
    FITTED,
    FROM_CARD,
    SystemSpec,
    read_lengthscales,
)
from apviz.dashboard.store.own_data import OwnData, OwnTable
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS

#: Value of the noise on its chip before a fit.
LATER = "to be fitted"
#: Most seeds of one comparison.
MOST_SEEDS = 20
#: Default limit on training rows of a user's own table; a comparison then takes about a minute.
OWN_N = 10_000


class SystemChoice(param.Parameterized):
    """Settings of a system; a session has one of them.

    Args:
        own: Tables of visitors; None if there are none, and none can be stored.
        in_use: Function that returns the names of the data sets that jobs use.
    """

    dataset = param.Selector(default="china", objects=["china"], label="Data set")
    n = param.Integer(DEFAULT_N, bounds=(10, None), label="Training rows")
    source = param.Selector(default=FROM_CARD, objects=[FROM_CARD, FITTED, BY_HAND], label="Hyperparameters")
    kernel = param.Selector(default="matern52", objects=list(KERNELS), label="Kernel")
    lengthscale = param.String("0.2", label="Lengthscale (one number, or one per input)")
    outputscale = param.Number(1.0, bounds=(0, None), inclusive_bounds=(False, True), label="Outputscale")
    noise = param.Number(0.01, bounds=(0, None), inclusive_bounds=(False, True), label="Noise variance σ²")
    rhs = param.Integer(4, bounds=(1, 64), label="Target and random vectors")
    seed = Seeds(
        [0], most=MOST_SEEDS, label="Seeds, such as 0, 1, 2",
        doc="Every method runs once per seed: the seed decides split, random vectors and random block orders.",
    )  # fmt: skip
    dtype = param.Selector(default="float32", objects=list(DTYPES), label="Precision")

    def __init__(
        self,
        limits: Limits,
        own: OwnData | None = None,
        in_use: Callable[[], Collection[str]] = tuple,
        **params: object,
    ) -> None:
        super().__init__(**{"n": min(DEFAULT_N, limits.max_n)} | params)
        self.limits, self.own, self.in_use = limits, own or OwnData(None), in_use
        self.param.n.bounds = (10, limits.max_n)
        self.list_datasets()
        self.param.watch(lambda event: self._fit_n(), "dataset")

        self._initial = self.param.values()

    @property
    def is_untouched(self) -> bool:
        """Return whether all settings have their initial values."""
        return bool(self.param.values() == self._initial)

    def list_datasets(self) -> None:
        """Offer the data sets on this machine, and the tables of visitors."""
        here = [name for name in datasets.registry if datasets.is_here(name)]
        here.sort(key=lambda name: datasets.card(name).n)
        self.param.dataset.objects = [*self.own.names(), *here]

    def has(self, dataset: str) -> bool:
        """Return whether a data set can be chosen: it is offered, and no other visitor has removed it."""
        is_there = dataset in datasets.registry or self.own.find(dataset) is not None
        return is_there and dataset in self.param.dataset.objects

    def use_own(self, table: OwnTable) -> None:
        """Store a visitor's table, and select it.

        Raises:
            OSError: It cannot be stored.
        """
        name = self.own.add(table)
        self.list_datasets()
        self.dataset = name

    def remove_own(self) -> None:
        """Remove the selected table of a visitor, and select the default.

        Raises:
            OSError: It is missing.
            ValueError: A job uses it.
        """
        name = self.dataset
        if name in self.in_use():
            raise ValueError(f"{name} is in use by a run. Stop the run, or wait for its end, then remove the table")
        self.dataset = self.param.dataset.default
        self.own.remove(name)
        self.list_datasets()

    def _fit_n(self) -> None:
        """Set n to the default of the data and bound it; a visitor's own table uses all rows, up to `OWN_N`."""
        own = self.own.find(self.dataset)
        rows = datasets.train_size(datasets.card(self.dataset).n) if own is None else own.rows
        most = min(self.limits.max_n, rows)
        n = min(most, DEFAULT_N if own is None else OWN_N)
        # the bounds must hold during the change too
        self.param.n.bounds = (10, max(most, self.n))
        self.n = n
        self.param.n.bounds = (10, most)

    def check_setting(self, name: str, value: object) -> None:
        """Check a setting that a field may hold although it is invalid: the lengthscales, which are text.

        Raises:
            ValueError: The lengthscales are not numbers above 0.
        """
        if name == "lengthscale":
            read_lengthscales(str(value))

    def spec(self, *, first_seed: bool = False) -> SystemSpec:
        """Return the current settings as plain values.

        Args:
            first_seed: Whether to use the first of several seeds, instead of refusing them.

        Raises:
            ValueError: The lengthscales are not numbers, the table was removed, or there are several seeds.
        """
        if len(self.seed) > 1 and not first_seed:
            given = ", ".join(map(str, self.seed))
            raise ValueError(f"this page solves for one seed, and the seeds are {given}: choose one under Advanced")
        own = self.own.find(self.dataset)
        if own is None and self.dataset not in datasets.registry:
            raise ValueError(f"the table {self.dataset} was removed; choose other data, or upload the file again")
        return SystemSpec(
            dataset=self.dataset, n=self.n, source=self.source, kernel=self.kernel,
            lengthscale=read_lengthscales(self.lengthscale), outputscale=self.outputscale, noise=self.noise,
            rhs=self.rhs, seed=self.seed[0], dtype=self.dtype, own=own,
        )  # fmt: skip


class SystemPanel:
    """Widgets of `SystemChoice`, shared by the pages of a session; each is made once, here and in the browser.

    Args:
        folder: Folder of uploaded files.

    Attributes:
        data: Widgets of the data set; `data_fields` are the fields among them.
        own: Widgets of the visitor's own table.
        kernel: Widgets of the kernel and the noise.
        advanced: Widgets of right-hand sides, seed and precision; `fields` are the fields of all.
    """

    def __init__(self, choice: SystemChoice, folder: Path) -> None:
        self._choice, self._folder = choice, folder
        self.data_fields = Fields()
        self.fields = Fields(shared=self.data_fields)

    @cached_property
    def data(self) -> pn.Column:
        choice, wide = self._choice, {"sizing_mode": "stretch_width"}
        card = server_owned(pmui.Typography("", variant="body2"))

        def describe(*events: object) -> None:
            card.object = describe_dataset(choice)

        names = pmui.Select.from_param(choice.param.dataset, **wide)

        def list_names(*events: object) -> None:
            names.options = {dataset_label(choice, name): name for name in choice.param.dataset.objects}

        choice.param.watch(describe, ["dataset"])
        choice.param.watch(list_names, "dataset", what="objects")
        describe()
        list_names()
        return pn.Column(
            names, card,
            self.data_fields.add(choice.param.n, **wide), **wide,
        )  # fmt: skip

    @cached_property
    def own(self) -> Viewable:
        panel = OwnTablePanel(self._choice, self._folder)
        self._choice.param.watch(lambda event: panel.show_chosen(), ["dataset"])
        return panel.view

    @cached_property
    def kernel(self) -> pn.Column:
        choice, p, wide = self._choice, self._choice.param, {"sizing_mode": "stretch_width"}
        kernel = pmui.Select.from_param(p.kernel, options={KERNELS[name].title: name for name in KERNELS}, **wide)
        numbers = [self.fields.add(each, **wide) for each in (p.lengthscale, p.outputscale, p.noise)]
        about = server_owned(pmui.Typography("", variant="body2"))

        def describe(*events: object) -> None:
            about.object = describe_hyperparameters(choice)
            for field in numbers:
                field.visible = choice.source == BY_HAND
            kernel.visible = choice.source != FROM_CARD

        choice.param.watch(describe, ["dataset", "source"])
        describe()
        return pn.Column(pmui.Select.from_param(p.source, **wide), about, kernel, *numbers, **wide)

    @cached_property
    def advanced(self) -> pn.Column:
        p, wide = self._choice.param, {"sizing_mode": "stretch_width"}
        return pn.Column(
            self.fields.add(p.rhs, **wide), self.fields.add(p.seed, **wide),
            pmui.RadioButtonGroup.from_param(p.dtype, label="Precision", size="small"), **wide,
        )  # fmt: skip


def dataset_label(system: SystemChoice, name: str) -> str:
    """Return the entry of a data set in the list: name, subject and size."""
    own = system.own.find(name)
    if own is not None:
        return f"{name}: your table, {own.rows:,} rows to train on"
    card = datasets.card(name)
    return f"{name}: {card.title.removeprefix(f'{name}: ')}, {card.n:,} rows"


def dataset_words(system: SystemChoice) -> str:
    """Return the number of inputs of the selected data, of a table in columns; empty if it is unknown."""
    own = system.own.find(system.dataset)
    if own is not None:
        columns = () if own.choices.inputs is None else own.choices.inputs
        return f"{len(columns)} column{'s' * (len(columns) != 1)}" if columns else ""
    return str(datasets.card(system.dataset).d) if system.dataset in datasets.registry else ""


def known_hyperparameters(system: SystemChoice) -> Hyperparameters | None:
    """Return the hyperparameters that the next solve has; None if they are fitted when it runs."""
    if system.source == BY_HAND:
        try:
            scales = read_lengthscales(system.lengthscale)
        except ValueError:
            scales = ()  # the field says what is wrong
        return Hyperparameters(system.kernel, scales, system.outputscale, system.noise)
    if system.source == FITTED or system.dataset not in datasets.registry:
        return None
    return datasets.card(system.dataset).hyperparameters


def hyperparameter_words(system: SystemChoice) -> tuple[str, str]:
    """Return the kernel and the noise of the next solve, in words."""
    known = known_hyperparameters(system)
    if known is None:
        return f"{KERNELS[system.kernel].title}, {LATER}", LATER
    return _title(known), f"{known.noise:.3g}"


def _title(known: Hyperparameters) -> str:
    return KERNELS[known.kernel].title if isinstance(known.kernel, str) else str(known.kernel)


def describe_dataset(system: SystemChoice) -> str:
    """Return sentences on the selected data set: size, licence, source."""
    name = system.dataset
    own = system.own.find(name)
    if own is not None:
        target = escape(str(own.choices.target))
        return f"Your table: {own.rows:,} rows to train on. Target: {target}.{notes_in_words(own.notes)}"
    card = datasets.card(name)
    return f"**{card.title}**: {card.n:,} rows, {card.d} inputs. Licence: {card.licence}. {card.citation}"


def describe_hyperparameters(system: SystemChoice) -> str:
    """Return a sentence on the source of the hyperparameters."""
    if system.source == BY_HAND:
        return "As given below."
    fitted = "Fitted in seconds, to at most 1,000 training rows, when it runs."
    if system.source == FITTED or system.own.find(system.dataset) is not None:
        return fitted
    known = datasets.card(system.dataset).hyperparameters
    if known is None:
        return fitted
    return f"{_title(known)}, σ² = {known.noise:.3g} in units of the scaled target; {known.provenance}."
