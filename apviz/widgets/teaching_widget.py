"""What all widgets share: explained controls, presets, reset, figures that change in place, static ones elsewhere."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import ipywidgets
import plotly.graph_objects as go
from IPython.display import publish_display_data
from traitlets import TraitError

from apviz.plots._style import ThemeName, theme_named
from apviz.widgets.chart import Chart
from apviz.widgets.controls import Control
from apviz.widgets.static_export import (
    HIDE_MISSING_WIDGET,
    MAX_STATES,
    STATIC,
    FigureDict,
    evenly_spaced,
    figure_html,
    figure_output,
    hide_static_figures,
    slider_figures,
)

_STYLE: Final = Path(__file__).with_name("teaching_widget.css")

T = TypeVar("T")


class TeachingWidget(ipywidgets.VBox):
    """Controls on the left, figures on the right.

    A notebook that was saved, and a page on the web, have no Python behind them: there static figures stand in place
    of the widget, whose slider steps through the values of one control. Jupyter saves no widget, and in its place
    shows "model not found" (ipywidgets#3773); so static figures are outputs of their own, which the widget hides
    while it lives, and which hide that message when it does not.

    Args:
        theme: of the figures, light or dark.
        values: what controls start at, in place of the first preset's values.

    Attributes:
        title, text: what one can learn here.
        presets: named values of controls; the first is what `reset` goes back to.
        static_control: the control whose values a page without Python steps through; empty for none.
        static_values: values of controls on such a page, in place of the widget's own: nobody can press a button there.
        figures: as they are shown now.

    Raises:
        ValueError: an unknown control or theme; a value that a control cannot have.
    """

    title: ClassVar[str]
    text: ClassVar[str]
    presets: ClassVar[dict[str, dict[str, Any]]]
    static_control: ClassVar[str] = ""
    static_values: ClassVar[dict[str, Any]] = {}
    #: so many of the last figures stand beside one another, where there is room
    beside: ClassVar[int] = 0

    def __init__(self, *, theme: ThemeName = "light", **values: Any) -> None:
        theme_named(theme)
        self.theme: ThemeName = theme
        self.controls = self.make_controls()
        unknown = sorted(set(values) - set(self.controls))
        if unknown:
            known = ", ".join(self.controls)
            raise ValueError(f"{unknown[0]} is no control of {type(self).__name__}; there are {known}")
        self._updating = True
        self._apply(next(iter(self.presets.values())) | values)
        self.figures = list(self.draw())
        self.charts = [Chart(figure) for figure in self.figures]
        self._preset = ipywidgets.Dropdown(description="preset", options=list(self.presets))
        self._preset.observe(lambda change: self.choose(change["new"]), "value")
        reset = ipywidgets.Button(description="reset", icon="undo")
        reset.on_click(lambda button: self.reset())
        rows = [
            ipywidgets.VBox([control.container or control.widget, ipywidgets.HTML(_explained(control.explanation))])
            for control in self.controls.values()
        ]
        self._sets = ipywidgets.HTML(self._preset_words(next(iter(self.presets))))
        first = ipywidgets.VBox([ipywidgets.HBox([self._preset, reset]), self._sets])
        left = ipywidgets.VBox([first, *rows]).add_class("apviz-controls")
        right = ipywidgets.VBox(self._placed()).add_class("apviz-charts")
        body = ipywidgets.Box([left, right]).add_class("apviz-body")
        style = f"<style>{_STYLE.read_text('utf-8')}{hide_static_figures(len(self.figures))}</style>"
        super().__init__([ipywidgets.HTML(style + self._heading()), body])
        self.add_class("apviz-widget").add_class(f"apviz-figures-{len(self.figures)}")
        for control in self.controls.values():
            control.widget.observe(lambda change: self.refresh(), "value")
        self._updating = False

    @abstractmethod
    def make_controls(self) -> dict[str, Control]:
        """Makes the controls, by name."""

    @abstractmethod
    def draw(self) -> Sequence[go.Figure]:
        """Draws the figures of the controls' values; always the same traces, in the same order."""

    def value(self, name: str) -> Any:
        """Value of a control."""
        return self.controls[name].widget.value

    def computed(self, names: Sequence[str], compute: Callable[[], T]) -> T:
        """Returns what `compute` gives for the values of these controls; kept until one of them changes."""
        key = tuple(self.value(name) for name in names)
        if self._computed is None or self._computed[0] != key:
            self._computed = (key, compute())
        found: T = self._computed[1]
        return found

    _computed: tuple[tuple[Any, ...], Any] | None = None

    def choose(self, preset: str) -> None:
        """Sets the controls to a preset."""
        self._updating = True
        self._apply(next(iter(self.presets.values())) | self.presets[preset])
        self._updating = False
        self._sets.value = self._preset_words(preset)
        self.refresh()

    def reset(self) -> None:
        """Goes back to the first preset."""
        first = next(iter(self.presets))
        if self._preset.value == first:
            self.choose(first)
        else:
            self._preset.value = first

    def refresh(self) -> None:
        """Draws the figures anew, in place."""
        if self._updating:
            return
        self.figures = list(self.draw())
        for chart, figure in zip(self.charts, self.figures, strict=True):
            chart.show(figure)

    def _preset_words(self, preset: str) -> str:
        """A preset in words: what is different from the first."""
        if preset == next(iter(self.presets)):
            return _explained("What reset goes back to.")
        words = [f"{self.controls[name].widget.description} = {value}" for name, value in self.presets[preset].items()]
        return _explained(f"Sets {escape(', '.join(words))}, and all else as reset does.")

    def _placed(self) -> list[Any]:
        split = len(self.charts) - self.beside
        part = ipywidgets.Layout(flex="1 1 340px", min_width="0")
        last = [ipywidgets.VBox([chart], layout=part) for chart in self.charts[split:]]
        row = ipywidgets.Box(last, layout=ipywidgets.Layout(display="flex", flex_flow="row wrap"))
        return [*self.charts[:split], *([row] if last else [])]

    def _apply(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            control = self.controls[name].widget
            try:
                control.value = value
            except TraitError as error:
                options = getattr(control, "options", ())
                known = ", ".join(str(each[1] if isinstance(each, tuple) else each) for each in options)
                why = f"it is one of {known}" if known else str(error)
                raise ValueError(f"{name} of {type(self).__name__} cannot be {value!r}: {why}") from error

    def static_figures(self) -> list[FigureDict]:
        """Figures for a page without Python, one for each of the widget's, with a slider over one control's values."""
        own = {name: self.value(name) for name in self.static_values}
        self._updating = True
        self._apply(self.static_values)
        try:
            return self._stepped()
        finally:
            self._updating = True
            self._apply(own)
            self._updating = False

    def _stepped(self) -> list[FigureDict]:
        if not self.static_control:
            return slider_figures([self.draw()], [""], 0, "", theme_named(self.theme))
        control = self.controls[self.static_control].widget
        before = control.value
        values = list(range(control.min, control.max + 1, getattr(control, "step", 1)))
        now = min(range(len(values)), key=lambda k: abs(values[k] - before))
        places = evenly_spaced(len(values), MAX_STATES, now)
        values = [values[k] for k in places]
        states = []
        with control.hold_sync():
            self._updating = True
            try:
                for value in values:
                    control.value = value
                    states.append(self.draw())
            finally:
                control.value = before
                self._updating = False
        what = control.description or self.static_control
        names = [str(value) for value in values]
        return slider_figures(states, names, places.index(now), what, theme_named(self.theme))

    def _heading(self) -> str:
        return f"<h3>{self.title}</h3><p>{self.text}</p>"

    def _static_heading(self) -> str:
        """What stands above the static figures."""
        moves = (
            f"the slider moves <b>{self.controls[self.static_control].widget.description}</b>"
            if self.static_control
            else "nothing moves"
        )
        return f"{self._heading()}<p><small>Without Python, {moves}; run the notebook to move everything.</small></p>"

    def _ipython_display_(self) -> None:
        if "VSCODE_PID" in os.environ or "google.colab" in sys.modules:
            # they keep a widget's outputs apart, so that it could not hide the static figures
            publish_display_data(self._repr_mimebundle_())
            return
        publish_display_data(super()._repr_mimebundle_())
        mark = {STATIC: self.model_id}
        words = f"<style>{HIDE_MISSING_WIDGET}</style><div class='apviz-static'>{self._static_heading()}</div>"
        publish_display_data({"text/html": words, "text/plain": self.title}, mark)
        for figure in self.static_figures():
            publish_display_data(figure_output(figure), mark)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        if isinstance(bundle, dict):
            pages = [figure_html(figure, False if i else "cdn") for i, figure in enumerate(self.static_figures())]
            bundle["text/html"] = self._static_heading() + "".join(pages)
        return bundle


def _explained(words: str) -> str:
    return f"<div class='apviz-explanation'>{words}</div>"
