"""Widgets that live in the browser: they answer there, in a notebook with Python and on a page without it.

Python describes a widget (its controls, presets and words), has the same state as traits, and computes from it with
`apviz.rkhs`, the reference; the modules of `js/` draw. A test holds both against one another.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import anywidget
import traitlets
from IPython.display import publish_display_data

from apviz.kernels import KERNELS
from apviz.plots._style import COLORS, FONT, THEMES
from apviz.widgets.bundle import notebook_module, page_script

#: media type of a widget's words and values, for pages that have its script
LIVE: Final = "application/vnd.apviz.widget+json"
#: key in an output's metadata that says it stands instead of a widget; the value is the widget's id
STATIC: Final = "apviz_static"

_OUTPUT: Final = ".jp-OutputArea-child"
#: a style for notebooks: one of both outputs is seen. Jupyter saves no widget, and in its place says "model not found"
#: (ipywidgets#3773)
_ONE_OF_BOTH: Final = (
    f"{_OUTPUT}:has(+ {_OUTPUT} .apviz-static) > .jp-OutputArea-output.jupyter-widgets:not(:has(*)), "
    f"{_OUTPUT}:has(.apviz-widget) + {_OUTPUT}:has(.apviz-static) {{ display: none }}"
)

#: round numbers of a decade, those of ISO 3's series R″10
ROUND_NUMBERS: Final = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_DECADES: Final = range(-6, 6)


def style() -> str:
    """Style of all live widgets, with the colours of `apviz.plots`."""
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
) -> dict[str, Any]:
    """Describes a slider over evenly spaced numbers; the explanation is one sentence of HTML.

    Args:
        names: of numbers that are read as words.
    """
    described = {"kind": "range", "label": label, "explanation": explanation, "min": low, "max": high, "step": step}
    return described | ({"names": dict(names)} if names else {})


def log_slider(label: str, explanation: str, low: float, high: float) -> dict[str, Any]:
    """Describes a slider over round numbers, evenly spaced on a log scale."""
    return {"kind": "places", "label": label, "explanation": explanation, "places": round_numbers(label, low, high)}


def round_numbers(what: str, low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, evenly spaced on a log scale.

    Args:
        what: has them, for messages.
        low, high: round numbers themselves, between 1e-6 and 1e5.

    Raises:
        ValueError: an end that is none of them.
    """
    every = [float(f"{digits}e{decade}") for decade in _DECADES for digits in ROUND_NUMBERS]
    for end in (low, high):
        if end not in every:
            known = ", ".join(ROUND_NUMBERS)
            raise ValueError(f"{what} from {low:g} to {high:g}: an end must be one of {known}, ×10ᵏ")
    return [each for each in every if low <= each <= high]


def choice(label: str, explanation: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Describes a choice between values, each with a title."""
    pairs = [[title, value] for value, title in options.items()]
    return {"kind": "choice", "label": label, "explanation": explanation, "options": pairs}


def steps(label: str, explanation: str, last: int, interval: int | None = None) -> dict[str, Any]:
    """Describe steps from 0 to the last, which can be played: one a second, or one every `interval` milliseconds."""
    return slider(label, explanation, 0, last, 1) | {"kind": "steps"} | ({"interval": interval} if interval else {})


def switch(label: str, explanation: str) -> dict[str, Any]:
    """Describes a button that is pressed or not."""
    return {"kind": "switch", "label": label, "explanation": explanation}


def kernel_choice() -> dict[str, Any]:
    """Describes a choice between all kernels."""
    return choice(
        "kernel", "k(x, x′): Matérn-5/2 is (1 + q + q²/3) exp(−q), q = √5 |x − x′| / ℓ.",
        {name: kind.title for name, kind in KERNELS.items()},
    )  # fmt: skip


def place(face: Mapping[str, Any], values: Mapping[str, Any], look: Mapping[str, Any]) -> str:
    """HTML of a place that the script of a page brings to life."""
    plain = json.dumps({"face": face, "values": values, "look": look}, ensure_ascii=False).replace("<", "\\u003c")
    words = f"<h3>{face['title']}</h3><p>{face['text']}</p>"
    return f'<div class="apviz-place">{words}<script type="application/json">{plain}</script></div>'


class LiveWidget(anywidget.AnyWidget):
    """A widget that answers in the browser, whose state Python reads and sets as traits.

    Args:
        theme: of the figures: light, dark, or auto, which is that of JupyterLab or of the page around.
        lecture: large enough for a projector.
        values: of the traits, instead of the first preset's.

    Attributes:
        title, text, sentence: what one can learn here; in the sentence `{name}` is a number that can be dragged.
        controls: what moves each trait, by its name.
        in_sight: the controls that are not under "more"; with the presets, three at most.
        presets: named values; the first sets every trait, and is what `reset` goes back to.
        betting: a question and its answers by value, for a widget with a trait `bet`: before the bet, which is an
            answer or `shown`, presets are called A, B, …, and what would tell is not drawn.
        hidden_until: the trait that reveals what was bet on, instead of `betting` where a bet is placed otherwise.

    Raises:
        ValueError: an unknown setting, or a value that it cannot have.
    """

    title: ClassVar[str]
    text: ClassVar[str]
    sentence: ClassVar[str]
    controls: ClassVar[dict[str, dict[str, Any]]]
    in_sight: ClassVar[tuple[str, ...]]
    presets: ClassVar[dict[str, dict[str, Any]]]
    betting: ClassVar[tuple[str, dict[str, str]] | None] = None
    hidden_until: ClassVar[str] = ""

    _esm = notebook_module()
    _css = style()
    face = traitlets.Dict().tag(sync=True)
    theme = traitlets.Enum(["auto", "light", "dark"], "auto").tag(sync=True)
    lecture = traitlets.Bool(False).tag(sync=True)

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
        """What only Python draws, such as random numbers, for the modules."""
        return {}

    @classmethod
    def _face(cls) -> dict[str, Any]:
        face = {
            "name": cls.__name__, "title": cls.title, "text": cls.text, "sentence": cls.sentence,
            "controls": cls.controls, "inSight": list(cls.in_sight), "presets": cls.presets,
            "hiddenUntil": cls.hidden_until, "given": cls.given(),
        }  # fmt: skip
        if cls.betting is None:
            return face
        question, answers = cls.betting
        return face | {
            "betting": {"question": question, "options": [[title, value] for value, title in answers.items()]}
        }

    @property
    def values(self) -> dict[str, Any]:
        """State by name, as the presets have it."""
        return {name: getattr(self, name) for name in next(iter(self.presets.values()))}

    def choose(self, preset: str) -> None:
        """Takes the values of a preset.

        Raises:
            ValueError: an unknown preset.
        """
        if preset not in self.presets:
            raise ValueError(f"preset must be one of {', '.join(self.presets)}, got {preset!r}")
        with self.hold_sync(), self.hold_trait_notifications():
            for name, value in (next(iter(self.presets.values())) | self.presets[preset]).items():
                setattr(self, name, value)

    def reset(self) -> None:
        """Goes back to the first preset."""
        self.choose(next(iter(self.presets)))

    def static_output(self) -> dict[str, Any]:
        """The widget as an output of a notebook that needs no Python, by media type."""
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
            # they keep a widget's outputs apart, so that it could not hide the other
            publish_display_data(output | view)
            return
        publish_display_data(view)
        seen = f"<style>{_ONE_OF_BOTH}</style>"
        publish_display_data(output | {"text/html": seen + output["text/html"]}, {STATIC: self.model_id})
