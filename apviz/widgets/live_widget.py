"""Widgets that run in the browser, in a notebook with Python and on a page without it.

Python describes a widget (its controls, presets and texts), has its state as traits, and computes results with
`apviz.rkhs`, the reference. The modules of `js/` draw. A test compares both.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import anywidget
import traitlets
from IPython.display import publish_display_data

from apviz.kernels import KERNELS
from apviz.plots._style import COLORS, FONT, THEMES
from apviz.widgets.bundle import notebook_module, page_script

#: Media type of a widget's texts and values, for pages that have its script.
LIVE: Final = "application/vnd.apviz.widget+json"
#: Key in an output's metadata that marks a replacement of a widget; the value is the widget's id.
STATIC: Final = "apviz_static"

_OUTPUT: Final = ".jp-OutputArea-child"
#: Style for notebooks that shows only one of both outputs. Jupyter does not save widgets, and writes "model not found"
#: instead (ipywidgets#3773).
_ONE_OF_BOTH: Final = (
    f"{_OUTPUT}:has(+ {_OUTPUT} .apviz-static) > .jp-OutputArea-output.jupyter-widgets:not(:has(*)), "
    f"{_OUTPUT}:has(.apviz-widget) + {_OUTPUT}:has(.apviz-static) {{ display: none }}"
)

#: Round numbers of a decade, from ISO 3's series R″10.
ROUND_NUMBERS: Final = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_DECADES: Final = range(-6, 6)


def style() -> str:
    """Return the style of all live widgets, with the colours of `apviz.plots`."""
    dark = THEMES["dark"]
    colors = {name: (getattr(light, name), getattr(dark, name)) for light in [THEMES["light"]] for name in
              ("paper", "ink", "muted", "grid")}  # fmt: skip
    colors |= {name: COLORS[name] for name in ("gauss-southwell", "cyclic", "random", "shuffled", "CG")}
    pairs = "".join(f" --{name}: light-dark({one}, {other});" for name, (one, other) in colors.items())
    return f".apviz-live {{ --font: {FONT};{pairs} }}\n" + Path(__file__).with_name("live_widget.css").read_text(
        "utf-8"
    )


def slider(
    label: str, explanation: str, low: float, high: float, step: float, names: Mapping[str, str] | None = None
) -> Any:
    """Return a trait with a slider over evenly spaced numbers; the explanation is one sentence of HTML.

    Args:
        names: Words for some of the numbers.
    """
    control = {"kind": "range", "label": label, "explanation": explanation, "min": low, "max": high, "step": step}
    return _number([low, high, step], low, high, control | ({"names": dict(names)} if names else {}))


def places(label: str, explanation: str, numbers: Sequence[float], names: Mapping[str, str] | None = None) -> Any:
    """Return a trait with a slider over the given numbers, in increasing order.

    Args:
        names: Words for some of the numbers.
    """
    control = {"kind": "places", "label": label, "explanation": explanation, "places": list(numbers)}
    return _number(numbers, numbers[0], numbers[-1], control | ({"names": dict(names)} if names else {}))


def log_slider(label: str, explanation: str, low: float, high: float) -> Any:
    """Return a trait with a slider over round numbers, evenly spaced on a log scale."""
    return places(label, explanation, round_numbers(label, low, high))


def round_numbers(what: str, low: float, high: float) -> list[float]:
    """Return round numbers from `low` to `high`, evenly spaced on a log scale.

    Args:
        what: Name of the quantity, for messages.
        low: Smallest number, itself round, at least 1e-6.
        high: Largest number, itself round, below 1e6.

    Raises:
        ValueError: An end that is not a round number.
    """
    every = [float(f"{digits}e{decade}") for decade in _DECADES for digits in ROUND_NUMBERS]
    for end in (low, high):
        if end not in every:
            known = ", ".join(ROUND_NUMBERS)
            raise ValueError(f"{what} from {low:g} to {high:g}: an end must be one of {known}, ×10ᵏ")
    return [each for each in every if low <= each <= high]


def choice(label: str, explanation: str, options: Mapping[str, str]) -> Any:
    """Return a trait with a choice between values, each with a title."""
    pairs = [[title, value] for value, title in options.items()]
    control = {"kind": "choice", "label": label, "explanation": explanation, "options": pairs}
    return traitlets.Enum(list(options), next(iter(options))).tag(sync=True, control=control)


def steps(label: str, explanation: str, last: int, interval: int | None = None) -> Any:
    """Return a trait of steps from 0 to the last, which can be played: one a second, or one every `interval` ms."""
    trait = slider(label, explanation, 0, last, 1)
    trait.metadata["control"] |= {"kind": "steps"} | ({"interval": interval} if interval else {})
    return trait


def switch(label: str, explanation: str) -> Any:
    """Return a trait with a button that can be switched on and off."""
    return traitlets.Bool().tag(sync=True, control={"kind": "switch", "label": label, "explanation": explanation})


def kernel_choice() -> Any:
    """Return a trait with a choice between all kernels."""
    return choice(
        "kernel", "k(x, x′): Matérn-5/2 is (1 + q + q²/3) exp(−q), q = √5 |x − x′| / ℓ.",
        {name: kind.title for name, kind in KERNELS.items()},
    )  # fmt: skip


def _number(numbers: Sequence[float], low: float, high: float, control: dict[str, Any]) -> Any:
    kind: Any = traitlets.Int if all(isinstance(each, int) for each in numbers) else traitlets.Float
    return kind(low, min=low, max=high).tag(sync=True, control=control)


def place(face: Mapping[str, Any], values: Mapping[str, Any], look: Mapping[str, Any]) -> str:
    """Return HTML that the script of a page turns into a live widget."""
    plain = json.dumps({"face": face, "values": values, "look": look}, ensure_ascii=False).replace("<", "\\u003c")
    words = f"<h3>{face['title']}</h3><p>{face['text']}</p>"
    return f'<div class="apviz-place">{words}<script type="application/json">{plain}</script></div>'


class LiveWidget(anywidget.AnyWidget):
    """Widget that runs in the browser; Python reads and sets its state as traits.

    Args:
        theme: Theme of the figures: light, dark, or auto, which follows JupyterLab or the page.
        lecture: Whether to enlarge the widget for a projector.
        values: Values of the traits, instead of those of the first preset.

    Attributes:
        title: Title of the widget.
        text: Explanation of the widget.
        sentence: Sentence on the current state, in which `{name}` is a number that can be dragged. `{name:word}` adds a
            word that is in the singular for 1.
        controls: Controls of the traits, by name, in the order of the traits.
        in_sight: Names of the controls that are not under "more"; with the presets, at most three.
        presets: Named values; the first preset sets every trait, and `reset` returns to it.
        betting: Question and its answers by value, for a widget with a trait `bet`. Before the bet, which is an answer
            or `shown`, presets are called A, B, …, and anything that would reveal the answer is hidden.
        opening: Name of steps that play once, from 0, when a page shows the widget for the first time.
        hidden_until: Trait that reveals the answer, used instead of `betting` if the bet is placed otherwise.

    Raises:
        ValueError: An unknown setting, or an invalid value.
    """

    title: ClassVar[str]
    text: ClassVar[str]
    sentence: ClassVar[str]
    controls: ClassVar[dict[str, dict[str, Any]]] = {}  # replaced, never changed
    in_sight: ClassVar[tuple[str, ...]]
    presets: ClassVar[dict[str, dict[str, Any]]]
    betting: ClassVar[tuple[str, dict[str, str]] | None] = None
    hidden_until: ClassVar[str] = ""
    opening: ClassVar[str] = ""

    _esm = notebook_module()
    _css = style()
    face = traitlets.Dict().tag(sync=True)
    theme = traitlets.Enum(["auto", "light", "dark"], "auto").tag(sync=True)
    lecture = traitlets.Bool(False).tag(sync=True)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        traits = {name: each for name, each in vars(cls).items() if isinstance(each, traitlets.TraitType)}
        own = {name: each.metadata["control"] for name, each in traits.items() if "control" in each.metadata}
        cls.controls = cls.controls | own  # a widget's own class is a subclass without traits of its own

    def __init__(self, *, theme: str = "auto", lecture: bool = False, **values: Any) -> None:
        first = next(iter(self.presets.values()))
        for name in values:
            if name not in first:
                raise ValueError(f"{name} is not a setting of {type(self).__name__}; there are {', '.join(first)}")
        try:
            super().__init__(face=self._face(), theme=theme, lecture=lecture, **(first | values))
        except traitlets.TraitError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from error

    @classmethod
    def given(cls) -> dict[str, Any]:
        """Return data for the modules that only Python can draw, such as random numbers."""
        return {}

    @classmethod
    def _face(cls) -> dict[str, Any]:
        face = {
            "name": cls.__name__, "title": cls.title, "text": cls.text, "sentence": cls.sentence,
            "controls": cls.controls, "inSight": list(cls.in_sight), "presets": cls.presets,
            "hiddenUntil": cls.hidden_until, "opening": cls.opening, "given": cls.given(),
        }  # fmt: skip
        if cls.betting is None:
            return face
        question, answers = cls.betting
        return face | {
            "betting": {"question": question, "options": [[title, value] for value, title in answers.items()]}
        }

    @property
    def values(self) -> dict[str, Any]:
        """Return the state by name, in the form of a preset."""
        return {name: getattr(self, name) for name in next(iter(self.presets.values()))}

    def choose(self, preset: str) -> None:
        """Set the values of a preset.

        Raises:
            ValueError: An unknown preset.
        """
        if preset not in self.presets:
            raise ValueError(f"preset must be one of {', '.join(self.presets)}, got {preset!r}")
        with self.hold_sync(), self.hold_trait_notifications():
            for name, value in (next(iter(self.presets.values())) | self.presets[preset]).items():
                setattr(self, name, value)

    def reset(self) -> None:
        """Return to the first preset."""
        self.choose(next(iter(self.presets)))

    def static_output(self) -> dict[str, Any]:
        """Return the widget as a notebook output that needs no Python, by media type."""
        look = {"theme": self.theme, "lecture": self.lecture}
        placed = place(self._face(), self.values, look)
        html = f"<style>{style()}</style>{placed}<script>{page_script()}</script>"
        return {
            LIVE: {"face": self._face(), "values": self.values, "look": look},
            "text/html": f"<div class='apviz-static'>{html}</div>",
            "text/plain": self.title,
        }

    def _ipython_display_(self) -> None:
        view, _ = self._repr_mimebundle_() or ({}, {})
        output = self.static_output()
        if "VSCODE_PID" in os.environ or "google.colab" in sys.modules:
            # these front ends separate the outputs of a widget, so one could not hide the other
            publish_display_data(output | view)
            return
        publish_display_data(view)
        seen = f"<style>{_ONE_OF_BOTH}</style>"
        publish_display_data(output | {"text/html": seen + output["text/html"]}, {STATIC: self.model_id})
