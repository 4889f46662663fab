"""What widgets share: explained controls, presets, reset, figures that change in place, a fallback without Python."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import ipywidgets
import plotly.graph_objects as go

from apviz.plots.parts.style import ThemeName, theme_named


@dataclass(frozen=True)
class Control:
    """A widget with a value.

    Args:
        says: one sentence on what it does, with the formula; HTML.
    """

    widget: Any
    says: str
    #: shown in place of the widget, if that is a part of something
    shown: Any = None


class Lesson(ipywidgets.VBox):
    """Controls on the left, figures on the right.

    A notebook that was saved, and a page on the web, have no Python behind them: there the figures of the last state
    stand in place of the widget, with plotly's own zoom and hover.

    Args:
        theme: of the figures, light or dark.
        values: what controls start at, in place of the first preset's values.

    Attributes:
        title, text: what one can learn here.
        presets: named values of controls; the first is what `reset` goes back to.
        scrub: the control whose values a page without Python steps through; empty for none.

    Raises:
        ValueError: an unknown control or theme.
    """

    title: ClassVar[str]
    text: ClassVar[str]
    presets: ClassVar[dict[str, dict[str, Any]]]
    scrub: ClassVar[str] = ""

    def __init__(self, *, theme: ThemeName = "light", **values: Any) -> None:
        theme_named(theme)
        self.theme: ThemeName = theme
        self.controls = self.make_controls()
        unknown = sorted(set(values) - set(self.controls))
        if unknown:
            known = ", ".join(self.controls)
            raise ValueError(f"{unknown[0]} is no control of {type(self).__name__}; there are {known}")
        self._quiet = True
        self._apply(next(iter(self.presets.values())) | values)
        self.figures = [go.FigureWidget(figure) for figure in self.draw()]
        self._preset = ipywidgets.Dropdown(description="preset", options=list(self.presets))
        self._preset.observe(lambda change: self.choose(change["new"]), "value")
        reset = ipywidgets.Button(description="reset", icon="undo")
        reset.on_click(lambda button: self.reset())
        rows = [
            ipywidgets.VBox([control.shown or control.widget, ipywidgets.HTML(f"<small>{control.says}</small>")])
            for control in self.controls.values()
        ]
        left = ipywidgets.VBox(
            [ipywidgets.HBox([self._preset, reset]), *rows],
            layout=ipywidgets.Layout(min_width="320px", flex="1 1 320px"),
        )
        right = ipywidgets.VBox(list(self.figures), layout=ipywidgets.Layout(flex="3 1 560px", min_width="0"))
        body = ipywidgets.Box([left, right], layout=ipywidgets.Layout(display="flex", flex_flow="row wrap"))
        super().__init__([ipywidgets.HTML(f"<h3>{self.title}</h3><p>{self.text}</p>"), body])
        for control in self.controls.values():
            control.widget.observe(lambda change: self.refresh(), "value")
        self._quiet = False

    @abstractmethod
    def make_controls(self) -> dict[str, Control]:
        """The controls by name."""

    @abstractmethod
    def draw(self) -> Sequence[go.Figure]:
        """The figures of the state that the controls are in; always the same traces, in the same order."""

    def value(self, name: str) -> Any:
        """The value of a control."""
        return self.controls[name].widget.value

    def choose(self, preset: str) -> None:
        """Sets the controls to a preset."""
        self._quiet = True
        self._apply(next(iter(self.presets.values())) | self.presets[preset])
        self._quiet = False
        self.refresh()

    def reset(self) -> None:
        """Back to the first preset."""
        first = next(iter(self.presets))
        self._preset.value = first
        self.choose(first)

    def refresh(self) -> None:
        """Draws the figures anew, in place."""
        if self._quiet:
            return
        for shown, figure in zip(self.figures, self.draw(), strict=True):
            with shown.batch_update():
                for old, new in zip(shown.data, figure.data, strict=True):
                    old.update(new.to_plotly_json(), overwrite=True)
                shown.layout.update(figure.layout.to_plotly_json(), overwrite=True)

    def _apply(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self.controls[name].widget.value = value

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        if isinstance(bundle, dict):
            pages = [figure.to_html(full_html=False, include_plotlyjs="cdn") for figure in self.draw()]
            bundle["text/html"] = f"<h3>{self.title}</h3><p>{self.text}</p>" + "".join(pages)
        return bundle
