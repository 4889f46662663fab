"""The settings of the runs that are shown: how the current settings differ from them, and how to take them over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import panel as pn
import panel_material_ui as pmui

from apviz.dashboard.components.server_owned import button, server_owned
from apviz.dashboard.components.text import escape
from apviz.dashboard.settings.system_choice import SystemChoice, known_hyperparameters
from apviz.dashboard.settings.systems import BY_HAND, FROM_CARD
from apviz.kernels import KERNELS

#: Setting, its attribute in a trace, and its name in a sentence.
_PLAIN = (
    ("dataset", "dataset", "data set"), ("n", "n", "rows"), ("rhs", "right_hand_sides", "right-hand sides"),
    ("dtype", "dtype", "precision"),
)  # fmt: skip
#: Relative difference below which two noises are the same.
_SAME = 1e-6


def differences(system: SystemChoice, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings that differ from those of a run, as `rows 2,000 (shown: 1,712)`.

    Args:
        runs: Root attributes of the shown runs; the one that differs least counts.
    """
    found = min((_differences(system, attrs) for attrs in runs), key=len, default=[])
    shown = sorted({attrs["seed"] for attrs in runs if attrs.get("seed") is not None})
    if shown and not set(system.seed) <= set(shown):
        mine, theirs = (", ".join(map(str, seeds)) for seeds in (system.seed, shown))
        found = [*found, f"seed {mine} (shown: {theirs})"]
    return found


def data_differences(system: SystemChoice, attrs: Mapping[str, Any]) -> list[str]:
    """Return how the chosen data differ from those of a trace."""
    return [
        f"{word} {_written(mine)} (shown: {_written(attrs[attribute])})"
        for name, attribute, word in _PLAIN[:2]
        if attribute in attrs and (mine := getattr(system, name)) != attrs[attribute]
    ]


def _differences(system: SystemChoice, attrs: Mapping[str, Any]) -> list[str]:
    found = data_differences(system, attrs)
    for name, attribute, word in _PLAIN[2:]:
        mine, shown = getattr(system, name), attrs.get(attribute)
        if shown is not None and mine != shown:
            found.append(f"{word} {_written(mine)} (shown: {_written(shown)})")
    known = known_hyperparameters(system) if "largest_noise" not in attrs else None
    if known is not None and system.dataset == attrs["dataset"]:
        if isinstance(known.kernel, str) and known.kernel != attrs["kernel"]:
            found.append(f"kernel {_kernel(known.kernel)} (shown: {_kernel(attrs['kernel'])})")
        if not math.isclose(known.noise, attrs["noise"], rel_tol=_SAME):
            found.append(f"noise {known.noise:.3g} (shown: {attrs['noise']:.3g})")
    return found


def _written(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _kernel(name: str) -> str:
    return KERNELS[name].title if name in KERNELS else name


def adopt(system: SystemChoice, attrs: Mapping[str, Any]) -> None:
    """Take over the settings of a run, as far as this server has its data and accepts its values."""
    if attrs["dataset"] not in system.param.dataset.objects:
        return
    system.dataset = attrs["dataset"]
    for name, attribute, _ in _PLAIN[1:]:
        try:
            setattr(system, name, attrs[attribute])
        except (KeyError, ValueError):
            continue  # it stays, and the page says that it differs
    if attrs.get("seed") is not None:
        system.param.update(seed=[attrs["seed"]])
    system.source = FROM_CARD
    if _differences(system, attrs) and str(attrs["kernel"]) in KERNELS and attrs["lengthscale"]:
        scales = ", ".join(f"{each:.6g}" for each in attrs["lengthscale"])
        system.param.update(
            source=BY_HAND, kernel=attrs["kernel"], lengthscale=scales, outputscale=attrs["outputscale"],
            noise=attrs["noise"],
        )  # fmt: skip


class Notice:
    """Yellow bar: the settings differ from what is shown.

    Args:
        use_shown: Called to take over the settings of what is shown.
        run: Label of the button that solves with the settings.
    """

    def __init__(self, use_shown: Callable[[], None], run: str = "Run") -> None:
        #: Label of the button that solves with the settings.
        self.run = run
        self._words = server_owned(pmui.Typography("", variant="body2", margin=(6, 12), styles={"flex": "1 1 260px"}))
        self.reset = button("Reset to shown settings", "undo", use_shown, variant="text", margin=(2, 8))
        self.view = pn.FlexBox(
            align_items="center", sizing_mode="stretch_width", visible=False, margin=0,
            styles={"background": "var(--apviz-notice)", "color": "var(--apviz-on-notice)"},
        )  # fmt: skip
        self.said: list[str] = []

    def show(self, found: Sequence[str], *, data: str = "", is_here: bool = True, is_example: bool = False) -> None:
        """Show differences; hide the bar if there are none.

        Args:
            data: Data set that is shown, if another is chosen.
            is_here: Whether that data set can be chosen; a removed table cannot.
            is_example: Whether only stored examples are shown.
        """
        self.said = list(found)
        if found:
            shown = "the stored example" if is_example else "runs with other settings"
            said = f"The charts still show {data}" if data else f"The charts show {shown}; you have {'; '.join(found)}"
            said = f"The charts show {data}, a data set that is not here" if data and not is_here else said
            self._words.object = escape(f"{said}. Press {self.run}.")
            # browsers draw hidden components too, so it is empty until it is needed
            self.view[:] = [self._words, self.reset]
        self.reset.visible = is_here
        self.view.visible = bool(found)
