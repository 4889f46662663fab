"""Labels of figures: the settings under every title, names of runs and how they ended; then those of few points."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from apviz.kernels import KERNELS, Stationary

if TYPE_CHECKING:
    from apviz.rkhs import EigenPath, Span
    from apviz.tracing.trace import Trace

#: characters of a caption line and a title line that fit a phone, 390 px wide, between the margins of a page
CAPTION_WIDTH: Final = 52
TITLE_WIDTH: Final = 36

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def settings_labels(traces: Sequence[Trace]) -> list[str]:
    """Data set, n, d, b, kernel, noise and dtype of traces; where they differ in one, its range."""
    parts = [
        _setting(traces, "dataset", str),
        _setting(traces, "n", _count, "n = "),
        _setting(traces, "d", _count, "d = "),
        _setting(traces, "block_size", _count, "b = "),
        _setting(traces, "kernel", lambda name: KERNELS[name].title if name in KERNELS else without_numbers(str(name))),
        _setting(traces, "kernel_parameters", _values),
        _setting(traces, "noise", _number, "σ² = "),
        _setting(traces, "dtype", lambda name: str(name).removeprefix("torch.")),
    ]
    return [part for part in parts if part]


def without_numbers(kernel: str) -> str:
    """A sum or product of kernels as it prints itself, by their names alone: `Matern52 + Periodic × Linear`."""
    names = re.sub(r"\.on\(\[[^\]]*\]\)", "", re.sub(r"\(\w+=[^()]*(\([^()]*\)[^()]*)*\)", "", kernel))
    return names.replace(" * ", " × ")


def wrapped(parts: Iterable[str], width: int = CAPTION_WIDTH) -> list[tuple[str, str]]:
    """Parts joined by dots, on lines that fit a phone; plotly breaks no lines by itself.

    Each line comes with the separator between it and the line before; none for the first.
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


def outcome(trace: Trace) -> str:
    """Outcome of a run in words, so that one which did not converge never looks like one that did."""
    reason = trace.attrs.get("stop_reason")
    if reason == "converged":
        return "converged"
    return f"not converged ({reason})" if reason else "unfinished (interrupted or still running)"


def run_names(
    traces: Sequence[Trace], labels: Sequence[str] | None = None, *, leave_out: Sequence[str] = ()
) -> list[str]:
    """Name of each run: its method, the settings that differ where several share it, and a number where none does.

    Args:
        labels: in place of the methods.
        leave_out: settings that are no difference.
    """
    labels = [trace.label for trace in traces] if labels is None else labels
    names = []
    for i, trace in enumerate(traces):
        twins = [other for other, label in zip(traces, labels, strict=True) if label == labels[i]]
        name = labels[i]
        names.append(name + (_difference(trace, twins, leave_out) if len(twins) > 1 else ""))
    # what no setting tells apart is numbered
    numbered = [
        f"{name}, run {1 + names[:i].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)
    ]
    return [escaped(name) for name in numbered]


def method_names(traces: Sequence[Trace]) -> list[str]:
    """Method of each run for a table: without block size, which has a column; with precision, seed if they differ."""
    shown: dict[str, Callable[[Any], str]] = {"dtype": str, "seed": "seed {}".format}
    differing = [key for key in shown if len({trace.attrs.get(key) for trace in traces}) > 1]
    return [
        ", ".join(
            [
                trace.method_name,
                *(shown[key](trace.attrs[key]) for key in differing if key in trace.attrs),
            ]
        )
        for trace in traces
    ]


def legend_entry(name: str, trace: Trace) -> str:
    """Name of a run and its outcome, on two lines where one would not fit a phone."""
    return entry_saying(name, outcome(trace))


def entry_saying(name: str, what: str) -> str:
    """Name of a run and something about it, on two lines where one would not fit a phone."""
    separator = "<br>" if len(name) + len(what) > CAPTION_WIDTH - 12 else " — "
    return f"{name}{separator}{what}"


def escaped(text: str) -> str:
    """Text from a trace, of which plotly would read parts as HTML."""
    return html.escape(text, quote=False)


def _difference(trace: Trace, twins: Sequence[Trace], leave_out: Sequence[str]) -> str:
    known: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
        ("dataset", "", str),
        ("n", "n = ", _count),
        ("noise", "σ² = ", _number),
        ("kernel_parameters", "", _values),
        ("dtype", "", str),
        ("operator", "", str),
        ("tol", "tolerance ", _number),
        ("seed", "seed ", str),
    )
    shown = [each for each in known if each[0] not in leave_out]
    texts = [
        sign + form(trace.attrs[key])
        for key, sign, form in shown
        if key in trace.attrs and len({form(twin.attrs[key]) for twin in twins if key in twin.attrs}) > 1
    ]
    return "".join(f", {text}" for text in texts)


def _setting(traces: Sequence[Trace], key: str, form: Callable[[Any], str], sign: str = "") -> str:
    found = [trace.block_size if key == "block_size" else trace.attrs.get(key) for trace in traces]
    found += [trace.attrs.get(f"largest_{key}") for trace in traces]  # of what rows have each their own
    values: set[Any] = {value for value in found if value not in (None, "")}
    if not values:
        return ""
    numeric = all(isinstance(value, (int, float)) for value in values)
    if numeric and len(values) > 1:
        return f"{sign}{form(min(values))}–{form(max(values))}"
    return sign + escaped(", ".join(sorted({form(value) for value in values})))


def _count(value: int) -> str:
    return f"{value:,}"


def _values(text: str) -> str:
    """Numbers by name, which a trace has as JSON."""
    return ", ".join(f"{name} = {value:.3g}" for name, value in json.loads(text).items())


def _number(value: float) -> str:
    return f"{value:.3g}"


def system_label(span: Span) -> str:
    """Number of points n, kernel, lengthscale ℓ and noise σ² of a system of few points."""
    kernel = span.kernel
    if not isinstance(kernel, Stationary):
        return f"n = {span.n} · {kernel.name} · σ² = {span.noise:.3g}"
    lengths = kernel.lengthscale if isinstance(kernel.lengthscale, tuple) else (kernel.lengthscale,)
    scales = ", ".join(f"{each:.3g}" for each in lengths)
    return f"n = {span.n} · {kernel.title}, ℓ = {scales} · σ² = {span.noise:.3g}"


def blocks_label(blocks: Sequence[Sequence[int]]) -> str:
    """Blocks as sets of points, such as {1, 2} {3}: people count points from 1."""
    return " ".join("{" + ", ".join(str(point + 1) for point in block) + "}" for block in blocks)


def subscript(number: int) -> str:
    """Digits below the line, as in x₁₂."""
    return str(number).translate(_SUBSCRIPTS)


def superscript(number: int) -> str:
    """Digits in brackets above the line, as in s⁽³⁾: the number of a step and no power."""
    return f"⁽{str(number).translate(_SUPERSCRIPTS)}⁾"


def comparison_labels(cg: EigenPath, ap: EigenPath) -> list[str]:
    """Lines that state the system of CG and alternating projection side by side: n, kernel, noise, b, κ and κ′."""
    sizes = [len(rows) for rows in ap.trajectory.blocks]
    apart = sum(sizes) == cg.trajectory.span.n
    blocks = f"b = {max(sizes)}" if apart else f"blocks with margin: {max(sizes)}"
    return [system_label(cg.trajectory.span), f"{blocks} · κ = {_plain(cg.kappa)} · κ′ = {_plain(ap.kappa_prime())}"]


def progress_label(cg: EigenPath, ap: EigenPath, work: float) -> str:
    """Line that says how far both have come after so much work."""
    return f"work {work:g}: CG {_of_how_many(cg, work, 'iteration')}, AP {_of_how_many(ap, work, 'update')}"


def _of_how_many(path: EigenPath, work: float, name: str) -> str:
    done = path.at(work)
    if done < 0:
        return "still factors its blocks"
    return f"{done} {name}{'' if done == 1 else 's'}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
