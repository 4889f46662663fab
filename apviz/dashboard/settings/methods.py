"""Settings of compared methods, and of sweeps over block sizes or noises."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.comparison import choose_block_sizes, choose_solvers
from apviz.dashboard.settings.fields import Fields
from apviz.method import Method
from apviz.methods import METHODS, PARTITION_WORDS, RULE_WORDS, SETTINGS
from apviz.partitions import PARTITIONS
from apviz.rules import RULES
from apviz.solvers import Solver
from apviz.tracing import Trace

_CAP = SETTINGS["max_epochs"]
#: Registered names by the words that a person says, for widgets.
_RULES = {"gauss-southwell": "greedy (Gauss–Southwell)", "shuffled": "shuffled (new order every epoch)"}
RULE_OPTIONS = {_RULES.get(name, RULE_WORDS.get(name, name)): name for name in RULES if name != "shuffled"}
RULE_OPTIONS[_RULES["shuffled"]] = "shuffled"
# data sets are shuffled before they are solved, so consecutive rows are not near each other
PARTITION_OPTIONS = {"scattered rows (shuffled)": "sequential"} | {
    PARTITION_WORDS.get(name, name): name for name in PARTITIONS if name != "sequential"
}

#: Style of a component that may be higher than the window, which Bokeh's default forbids.
UNLIMITED = {"max-height": "none"}
#: Look of options whose first line is a name, and whose other lines describe it.
_DESCRIBED = {
    "& .MuiFormControlLabel-root": {"alignItems": "flex-start"},
    "& .MuiFormControlLabel-label": {
        "whiteSpace": "pre-line", "fontSize": "0.8rem", "color": "text.secondary", "paddingTop": "8px",
        "&::first-line": {"fontSize": "1rem", "color": "text.primary"},
    },
}  # fmt: skip


def number(name: str, default: float, *, above: bool = False) -> param.Number:
    """Return the parameter of a setting of `apviz.methods.SETTINGS`.

    Args:
        above: Whether the lower bound itself is excluded.
    """
    setting = SETTINGS[name]
    bounds = (setting.low, setting.high)
    return param.Number(default, bounds=bounds, inclusive_bounds=(not above, True), label=setting.label)


#: Settings over which methods are swept, and the names of their lists of values.
_LISTS = {"rule": "rules", "partition": "partitions", "block_size": "block_sizes", "rank": "ranks"}


class MethodChoice(param.Parameterized):
    """Settings of the selected methods."""

    methods = param.ListSelector(default=["ap", "overlap", "cg", "pcg"], objects=list(METHODS), label="Methods")
    rules = param.ListSelector(
        default=["gauss-southwell", "cyclic", "random"], objects=list(RULES), label=SETTINGS["rule"].label
    )
    partitions = param.ListSelector(default=["sequential"], objects=list(PARTITIONS), label=SETTINGS["partition"].label)
    block_sizes = param.List(default=[100, 400], item_type=int, label=SETTINGS["block_size"].label)
    overlap = number("overlap", 0.0)
    ranks = param.List(default=[100], item_type=int, label=SETTINGS["rank"].label)
    tol = number("tol", 0.01, above=True)
    max_epochs = param.Integer(100, bounds=(1, int(_CAP.high or 0)), label=_CAP.label)

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._initial = self.param.values()

    @property
    def is_untouched(self) -> bool:
        """Return whether all settings have their initial values."""
        return bool(self.param.values() == self._initial)

    def adopt(self, traces: Sequence[Trace]) -> None:
        """Select the methods of runs, with their settings, as far as this page offers them."""
        methods = [trace.method for trace in traces]
        keys = {entry.name: key for key, entry in METHODS.items()}
        known = {each: keys[each.kind] for each in methods if each.kind in keys}
        if not known:
            return
        found: dict[str, Any] = {"methods": [key for key in METHODS if key in known.values()]}
        for setting, name in _LISTS.items():
            values = {getattr(each, setting) for each, key in known.items() if setting in METHODS[key].sweeps}
            if values and None not in values:
                options = getattr(self.param[name], "objects", None) or sorted(values)
                found[name] = [each for each in options if each in values]
        solvers = [json.loads(trace.attrs.get("solver_settings", "{}")) for trace in traces]
        for name in ("tol", "max_epochs"):
            values = {each[name] for each in solvers if each.get(name) is not None}
            if len(values) == 1:
                found[name] = values.pop()
        try:
            self.param.update(**found)
        except ValueError:
            return  # solved in Python with settings that this page does not offer

    def tick(self, method: Method) -> bool:
        """Tick a method, with its rank; return whether that changed a setting."""
        key = next((key for key, entry in METHODS.items() if entry.name == method.kind), None)
        if key is None:
            return False
        found: dict[str, Any] = {} if key in self.methods else {"methods": [*self.methods, key]}
        if "rank" in METHODS[key].sweeps and method.rank is not None and method.rank not in self.ranks:
            chosen = [] if self.ranks == self._initial["ranks"] else self.ranks
            found["ranks"] = [*chosen, method.rank]
        self.param.update(**found)
        return bool(found)

    def solvers(self, seed: int) -> list[Solver]:
        """Return the solvers, one for every combination of the settings.

        Methods with few runs come first: then every method has a result soon, and the page a verdict.

        Raises:
            ValueError: Nothing is selected, or a solver rejects a setting.
        """
        self._require_values()
        found = [
            choose_solvers(
                [method], rules=self.rules, block_sizes=self.block_sizes, partitions=self.partitions,
                overlap=self.overlap, ranks=self.ranks, tol=self.tol, max_epochs=self.max_epochs, seed=seed,
            )
            for method in METHODS if method in self.methods
        ]  # fmt: skip
        if not found:
            raise ValueError("no method is chosen: tick at least one")
        return [solver for solvers in sorted(found, key=len) for solver in solvers]

    def count_solvers(self) -> int:
        """Return the number of solvers, without checking the settings."""
        given = {"rule": self.rules, "partition": self.partitions, "block_size": self.block_sizes, "rank": self.ranks}
        return sum(math.prod(len(given[name]) for name in METHODS[method].sweeps) for method in self.methods)

    def _require_values(self) -> None:
        """Check that every selected method has values of the settings it is swept over.

        Raises:
            ValueError: A setting without values.
        """
        given = {"rule": self.rules, "partition": self.partitions, "block_size": self.block_sizes, "rank": self.ranks}
        for entry in (METHODS[method] for method in self.methods):
            missing = [name.replace("_", " ") for name in entry.sweeps if not given[name]]
            if missing:
                raise ValueError(
                    f"“{entry.name}” is ticked, and no {' and no '.join(missing)} is given: give at least one, or "
                    "untick the method"
                )


def method_panel(methods: MethodChoice, fields: Fields) -> list[Viewable]:
    """Return the widgets of the methods, and of what most visitors change."""
    m, wide = methods.param, {"sizing_mode": "stretch_width"}
    # the recommendation first; the description of each on the lines below its name
    first = {"auto": METHODS["auto"]} | METHODS
    options = {f"{entry.name}\n{entry.description}": key for key, entry in first.items()}
    return [
        pmui.CheckBoxGroup.from_param(m.methods, label="", options=options, sx=_DESCRIBED, styles=UNLIMITED),
        *(fields.add(each, **wide) for each in (m.block_sizes, m.tol, m.max_epochs)),
    ]


def advanced_method_panel(methods: MethodChoice, fields: Fields) -> list[Viewable]:
    """Return the widgets of rules, partitions, overlap and ranks."""
    m, wide = methods.param, {"sizing_mode": "stretch_width"}
    return [
        pmui.MultiChoice.from_param(m.rules, options=RULE_OPTIONS, **wide),
        pmui.MultiChoice.from_param(m.partitions, options=PARTITION_OPTIONS, **wide),
        fields.add(m.overlap, **wide), fields.add(m.ranks, **wide),
    ]  # fmt: skip


class BlockChoice(param.Parameterized):
    """Settings of alternating projection with one rule and one partition."""

    rule = param.Selector(default="gauss-southwell", objects=list(RULES), label=SETTINGS["rule"].label)
    partition = param.Selector(default="sequential", objects=list(PARTITIONS), label=SETTINGS["partition"].label)
    overlap = number("overlap", 0.0)
    tol = number("tol", 0.01, above=True)
    max_epochs = param.Integer(200, bounds=(1, int(_CAP.high or 0)), label=_CAP.label)

    def block_panel(self, fields: Fields) -> list[Viewable]:
        """Return the widgets of rule, partition and overlap."""
        p, wide = self.param, {"sizing_mode": "stretch_width"}
        return [
            pmui.Select.from_param(p.rule, options=RULE_OPTIONS, **wide),
            pmui.Select.from_param(p.partition, options=PARTITION_OPTIONS, **wide), fields.add(p.overlap, **wide),
        ]  # fmt: skip


class BlockSizeSweep(BlockChoice):
    """Settings of a sweep over the block size: alternating projection with every b."""

    sizes = param.List([], item_type=int, label="Block size b (empty: n/2 … n/64)")

    def solvers(self, n: int) -> list[Solver]:
        """Return the solvers, one for every b, for a system of n rows.

        Raises:
            ValueError: The solver rejects a setting.
        """
        sizes = sorted(set(self.sizes)) or choose_block_sizes(n)
        return choose_solvers(
            ["ap"], rules=[self.rule], block_sizes=sizes, partitions=[self.partition], overlap=self.overlap,
            tol=self.tol, max_epochs=self.max_epochs,
        )  # fmt: skip


class NoiseSweep(param.Parameterized):
    """Settings of a sweep over the noise, around that of the system."""

    below = param.Number(2.0, bounds=(0, 6), label="Factors of 10 below the chosen σ²")
    above = param.Number(2.0, bounds=(0, 6), label="Factors of 10 above the chosen σ²")
    per_decade = param.Integer(1, bounds=(1, 10), label="Noise levels per factor of 10")

    def factors(self) -> list[float]:
        """Return the factors of the chosen σ², largest first, because easy systems come first."""
        low, high = -int(self.below * self.per_decade), int(self.above * self.per_decade)
        return [float(f"{10 ** (step / self.per_decade):.3g}") for step in range(high, low - 1, -1)]
