"""Text of figures: settings below titles, names of runs and their stop reasons, labels of systems of few points."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from apviz.analysis.sweeps import settings
from apviz.kernels import KERNELS
from apviz.method import Method, distinct_names, indices_of
from apviz.rkhs import Span, StationaryKernel
from apviz.tracing.trace import Trace

#: Characters of a caption line and of a title line that fit a phone, 390 px wide, between the margins of a page.
CAPTION_WIDTH: Final = 52
TITLE_WIDTH: Final = 36


def settings_labels(traces: Sequence[Trace]) -> list[str]:
    """Return shared method, data set, n, d, b, kernel, noise and dtype of traces; the range of what differs."""
    parts = [
        escaped(shared_method(traces)), _setting(traces, "dataset", str), _setting(traces, "n", _count, "n = "),
        _setting(traces, "d", _count, "d = "), _setting(traces, "block_size", _count, "b = "),
        _setting(traces, "kernel", _title), _setting(traces, "kernel_parameters", _values),
        _setting(traces, "noise", _number, "σ² = "),
        _setting(traces, "dtype", lambda name: str(name).removeprefix("torch.")),
    ]  # fmt: skip
    return [part for part in parts if part]


def without_numbers(kernel: str) -> str:
    """Return the printed form of a sum or product of kernels without numbers: `Matern52 + Periodic × Linear`."""
    names = re.sub(r"\.on\(\[[^\]]*\]\)", "", re.sub(r"\(\w+=[^()]*(\([^()]*\)[^()]*)*\)", "", kernel))
    return names.replace(" * ", " × ")


def wrapped(parts: Iterable[str], width: int = CAPTION_WIDTH) -> list[tuple[str, str]]:
    """Return parts joined by dots, on lines that fit a phone, because plotly does not break lines.

    Each line is paired with the separator between it and the line before; the first has an empty one.
    """
    lines: list[tuple[str, str]] = []
    for part in parts:
        if lines and len(lines[-1][0]) + len(part) + 3 <= width:
            line, separator = lines[-1]
            lines[-1] = (f"{line} · {part}", separator)
            continue
        for place, line in enumerate(textwrap.wrap(part, width)):
            lines.append((line, " " if place else " · " if lines else ""))
    return lines


def run_names(
    traces: Sequence[Trace], labels: Sequence[str] | None = None, *, leave_out: Sequence[str] = ()
) -> list[str]:
    """Return a distinct name for each run: its method, or one of `labels`; for runs of one method, what differs.

    If the settings of the caption do not distinguish runs of one method, any other setting does, unless `leave_out` has
    it; otherwise their start time.
    """
    heads = distinct_names([trace.method for trace in traces]) if labels is None else list(labels)
    if labels is None and shared_method(traces):
        heads = [""] * len(traces)
    names = list(heads)
    for head, places in indices_of(heads).items():
        of_one = [traces[place] for place in places]
        for place, differences in zip(places, _differences(of_one, leave_out), strict=True):
            names[place] = ", ".join(part for part in (head, *differences) if part)
    for alike in (places for places in indices_of(names).values() if len(places) > 1):
        found = _last_differences([traces[place] for place in alike], leave_out)
        for place, difference in zip(alike, found, strict=True):
            names[place] = ", ".join(part for part in (names[place], difference) if part)
    return [escaped(name or trace.method_name) for name, trace in zip(names, traces, strict=True)]


def shared_method(traces: Sequence[Trace]) -> str:
    """Return the method that runs share, apart from the block size; the caption shows it instead of the legend."""
    if len(traces) < 2:
        return ""
    plain = {_but_for_the_block_size(trace) for trace in traces}
    return plain.pop().name if len(plain) == 1 else ""


def _but_for_the_block_size(trace: Trace) -> Method:
    return trace.method if trace.block_size is None else trace.method.without("block_size")


def full_names(traces: Sequence[Trace]) -> list[str]:
    """Return names of runs for sentences: with their method, and as plain text instead of HTML."""
    methods = distinct_names([trace.method for trace in traces])
    return [html.unescape(name) for name in run_names(traces, methods)]


def method_names(traces: Sequence[Trace]) -> list[str]:
    """Return the method of each run for a table, with precision and seed if they differ.

    For runs of one method, the name also says who chose it, if that differs.
    """
    names = distinct_names([trace.method for trace in traces])
    shown: dict[str, Callable[[Any], str]] = {"dtype": str, "seed": "seed {}".format}
    differing = [key for key in shown if len({trace.attrs.get(key) for trace in traces}) > 1]
    choosers = [_chooser(trace.attrs.get("choices", "{}")) for trace in traces]
    takers: dict[str, set[str]] = {}
    for name, who in zip(names, choosers, strict=True):
        takers.setdefault(name, set()).add(who)
    return [
        ", ".join([
            name, *([who] if len(takers[name]) > 1 else []),
            *(shown[key](trace.attrs[key]) for key in differing if key in trace.attrs),
        ])
        for trace, name, who in zip(traces, names, choosers, strict=True)
    ]  # fmt: skip


def legend_entry(name: str, trace: Trace) -> str:
    """Return the name of a run and its outcome, on two lines if one would not fit a phone."""
    return entry_saying(name, trace.status())


def entry_saying(name: str, what: str) -> str:
    """Return the name of a run and a remark on it, on two lines if one would not fit a phone."""
    separator = "<br>" if len(name) + len(what) > CAPTION_WIDTH - 12 else " — "
    return f"{name}{separator}{what}"


def escaped(text: str) -> str:
    """Escape text from a trace, parts of which plotly would read as HTML."""
    return html.escape(text, quote=False)


def _differences(traces: Sequence[Trace], leave_out: Sequence[str]) -> list[list[str]]:
    """Return for each run of one method the values of the settings that differ, as text."""
    found: list[list[str]] = [[] for _ in traces]
    for key, (sign, form) in _TOLD.items():
        if key in leave_out:
            continue
        values = [trace.block_size if key == "block_size" else trace.attrs.get(key) for trace in traces]
        forms = [None if value is None else form(value) for value in values]
        # a kernel without lengthscales has an empty text
        texts = [sign + text if text else None for text in forms]
        if len({text for text in texts if text is not None}) > 1:
            for differences, text in zip(found, texts, strict=True):
                differences.extend([text] if text is not None else [])
    return found


def _last_differences(traces: Sequence[Trace], leave_out: Sequence[str]) -> list[str]:
    """Return the difference of runs whose settings above are all equal: other settings, otherwise their start times."""
    every = [settings(trace) for trace in traces]
    no_difference = {*_NAMES, *leave_out}
    differing = [
        key for key in every[0] if len({str(each.get(key)) for each in every}) > 1 and key not in no_difference
    ]
    found = [", ".join(f"{key} {each[key]}" for key in differing if key in each) for each in every]
    if len(set(found)) == len(found):
        return found
    begun = [str(trace.attrs.get("created", ""))[:19].replace("T", " ") for trace in traces]
    days = {text[:10] for text in begun}
    found = [f"begun {text if len(days) > 1 else text[11:]}" for text in begun]
    if len(set(found)) == len(found):
        return found
    # copies of one run, or two runs started within a second
    return [f"{text} ({found[: place + 1].count(text)} of {found.count(text)})" for place, text in enumerate(found)]


def _setting(traces: Sequence[Trace], key: str, form: Callable[[Any], str], sign: str = "") -> str:
    found = [trace.block_size if key == "block_size" else trace.attrs.get(key) for trace in traces]
    found += [trace.attrs.get(f"largest_{key}") for trace in traces]  # largest of values by row
    values: set[Any] = {value for value in found if value not in (None, "")}
    if not values:
        return ""
    numeric = all(isinstance(value, (int, float)) for value in values)
    if numeric and len(values) > 1:
        return f"{sign}{form(min(values))}–{form(max(values))}"
    return sign + escaped(", ".join(sorted({form(value) for value in values})))


def _title(kernel: str) -> str:
    return KERNELS[kernel].title if kernel in KERNELS else without_numbers(str(kernel))


def _span(values: Sequence[float]) -> str:
    ends = sorted({_number(min(values)), _number(max(values))}, key=float) if len(values) else []
    return "–".join(ends)


def _count(value: int) -> str:
    return f"{value:,}"


def _values(text: str) -> str:
    """Format numbers by name, stored in a trace as JSON."""
    return ", ".join(f"{name} = {value:.3g}" for name, value in json.loads(text).items())


def _chooser(choices: str) -> str:
    """Return who chose the method, by the recorded choices: `auto` may choose the method set by hand too."""
    return "chosen by apviz" if "method" in json.loads(choices) else "as set"


def _number(value: float) -> str:
    return f"{value:.3g}"


#: Settings that distinguish runs in a legend, with the prefix and the format of their values.
_TOLD: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    "dataset": ("", str), "n": ("n = ", _count), "block_size": ("b = ", _count), "noise": ("σ² = ", _number),
    "kernel": ("", _title), "lengthscale": ("ℓ = ", _span), "kernel_parameters": ("", _values), "dtype": ("", str),
    "operator": ("", str), "tol": ("tolerance ", _number), "choices": ("", _chooser), "seed": ("seed ", str),
}  # fmt: skip
#: Further attributes that are not settings, or are part of a name already.
_NAMES: Final = frozenset({"method", "solver", "trace id", "block size"})


def system_label(span: Span) -> str:
    """Return number of points n, kernel, lengthscale ℓ and noise σ² of a system of few points."""
    kernel = span.kernel
    if not isinstance(kernel, StationaryKernel):
        return f"n = {span.n} · {getattr(kernel, '__name__', 'own kernel')} · σ² = {span.noise:.3g}"
    lengths = kernel.lengthscale if isinstance(kernel.lengthscale, tuple) else (kernel.lengthscale,)
    scales = ", ".join(f"{each:.3g}" for each in lengths)
    return f"n = {span.n} · {KERNELS[kernel.name].title}, ℓ = {scales} · σ² = {span.noise:.3g}"


def blocks_label(blocks: Sequence[Sequence[int]]) -> str:
    """Format blocks as sets of points, such as {1, 2} {3}, counting points from 1."""
    return " ".join("{" + ", ".join(str(point + 1) for point in block) + "}" for block in blocks)
