"""The only place with settings: the bar of chips, and the drawer with the editor that a chip opens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import panel as pn
import panel_material_ui as pmui
import param
from panel.viewable import Viewable

from apviz.dashboard.components.script_component import ScriptComponent
from apviz.dashboard.components.server_owned import button
from apviz.dashboard.pages.base import Page, Shared
from apviz.dashboard.settings.methods import UNLIMITED
from apviz.dashboard.settings.system_choice import dataset_words, hyperparameter_words

#: Titles of the editors that belong to no page.
_TITLES = {"data": "Data", "own": "Your own data", "kernel": "Kernel and noise"}
_HERE = Path(__file__).parent / "components"


class Chip(NamedTuple):
    """A chip.

    Args:
        editor: Name of the editor that it opens.
        value: Value of the setting; empty for an action.
    """

    editor: str
    label: str
    value: str = ""


class Bar(ScriptComponent):
    """Toolbar of chips: one stop of the tab key, and the arrow keys move inside.

    Args:
        open: Called with the name of an editor when its chip is pressed.
    """

    chips = param.List([], item_type=list, doc="of each the editor, the label and the value")
    editor = param.String("", doc="the editor that is open, or empty")

    _esm = _HERE / "bar.js"
    _stylesheets: ClassVar[list[str]] = [(_HERE / "bar.css").read_text("utf-8")]

    def __init__(self, open: Callable[[str], None], **params: Any) -> None:
        super().__init__(**params)
        self.on_msg(lambda event: open(str(event.data)))


class Editors:
    """Chips and editors of the page that is shown. An editor is built when it is first opened, and kept.

    Args:
        show: Called with whether the drawer is to be open.

    Attributes:
        bar: Chips.
        drawer: Contents of the drawer, empty until it has an editor.
    """

    def __init__(self, shared: Shared, page: Callable[[], Page], show: Callable[[bool], None]) -> None:
        self._shared, self._page, self._show = shared, page, show
        self._parts: dict[str, pn.Column] = {}
        wide: dict[str, Any] = {"sizing_mode": "stretch_width"}
        self.bar = Bar(self.open, margin=0, **wide)
        # at the end of the title's line; the title itself belongs to its part, because it would change too late
        place = {"position": "absolute", "right": "0", "z-index": "1"}
        self._close = button("Close settings", "close", self.close, variant="text", margin=(10, 8), styles=place)
        shared.system.param.watch(lambda event: self._data_chosen(event.new), "dataset")
        self.drawer = pn.Column(styles=UNLIMITED | {"position": "relative"}, **wide)

    def update(self) -> None:
        """Show the current values on the chips."""
        chips = [list(chip) for chip in self._chips()]
        if chips != self.bar.chips:
            self.bar.chips = chips

    def open(self, editor: str) -> None:
        """Open an editor; close it if it is open or the name is empty."""
        if editor in ("", self.bar.editor):
            self.close()
            return
        page = self._page()
        names = _parts_of(editor, page)
        for name in names:
            self._make(name, page)
        for name, part in self._parts.items():
            part.visible = name in names
        self.bar.editor = editor
        self._show(True)

    def close(self) -> None:
        """Close the editor that is open."""
        self.bar.editor = ""
        self._show(False)

    def _data_chosen(self, dataset: str) -> None:
        """Close the editor of the visitor's tables once one of them is used, because the answer is on the page."""
        if self.bar.editor == "own" and self._shared.system.own.find(dataset) is not None:
            self.close()

    def make_ahead(self) -> bool:
        """Build a part of an editor of the page before it is opened; return whether one was missing."""
        page = self._page()
        for chip in self._chips():
            for name in _parts_of(chip.editor, page):
                if name not in self._parts:
                    self._make(name, page)
                    self._parts[name].visible = False
                    return True
        return False

    def _make(self, name: str, page: Page) -> None:
        if name not in self._parts:
            self._parts[name] = pn.Column(*self._build(name, page), sizing_mode="stretch_width", styles=UNLIMITED)
            self.drawer.extend([*([] if len(self.drawer) else [self._close]), self._parts[name]])

    def _build(self, name: str, page: Page) -> list[Viewable]:
        if name.endswith(" settings"):
            return [_title(page.settings_title), *page.settings()]
        if name.endswith(" advanced"):
            return [_title("Advanced"), *page.advanced()]
        part = getattr(self._shared.system_panel, name)
        # the advanced settings of the system follow those of the page
        return [part] if name == "advanced" else [_title(_TITLES[name]), part]

    def _chips(self) -> list[Chip]:
        page, system, chips = self._page(), self._shared.system, list[Chip]()
        if "data" in page.asks:
            rows, inputs = f"{system.n:,}", dataset_words(system)
            chips += [Chip("data", "Data set", system.dataset), Chip("data", "Rows", rows)]
            chips += [Chip("data", "Inputs", inputs)] if inputs else []
        if "system" in page.asks:
            kernel, noise = hyperparameter_words(system)
            chips += [Chip("kernel", "Kernel", kernel), Chip("kernel", "Noise σ²", noise)]
        if page.settings_title:
            chips.append(Chip("settings", page.settings_title, page.settings_words()))
        if page.has_advanced:
            chips.append(Chip("advanced", "Advanced"))
        if "data" in page.asks:
            chips.append(Chip("own", "Use my data"))
        return chips


def _title(text: str) -> pmui.Typography:
    """Return the title of an editor, which leaves space for the button next to it."""
    return pmui.Typography(text, variant="h6", margin=(12, 150, 4, 12))


def _parts_of(editor: str, page: Page) -> list[str]:
    """Return the parts that an editor shows of a page, by name."""
    if editor == "advanced":
        return [f"{page.name} advanced", *(["advanced"] if "system" in page.asks else [])]
    return [f"{page.name} settings"] if editor == "settings" else [editor]
