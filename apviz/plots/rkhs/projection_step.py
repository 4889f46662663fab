"""Projection in the kernel's Hilbert space, as it is: three points span three dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import plotly.graph_objects as go

from apviz.plots._axes import finish
from apviz.plots._labels import blocks_label, subscript, superscript, system_label
from apviz.plots._style import CAPTION_SIZE, TEXT_SIZE, Theme, ThemeName, rule_color, theme_named
from apviz.plots.rkhs._arrows import arc, heads, polyline, rectangle, right_angle, shafts

if TYPE_CHECKING:
    from apviz.rkhs import StepGeometry

#: what starts at the origin: r⁽ʲ⁾, which goes to zero, or s⁽ʲ⁾, which goes to g
Picture = Literal["residual", "solution"]
HEIGHT = 560


def projection_step(geometry: StepGeometry, *, picture: Picture = "residual", theme: ThemeName = "light") -> go.Figure:
    """Arrows k(xᵢ, ·), the span of the chosen block, what is projected onto it, the projection, and what is left.

    Axes are the coordinates in which K = LLᵀ has the rows of L as k(xᵢ, ·): to scale, so that right angles are right.
    Every step has the same traces and ranges.

    Args:
        picture: `residual` has r⁽ʲ⁻¹⁾ and the block's span start at the origin, as in the paper's appendix A;
            `solution` has them start at s⁽ʲ⁻¹⁾, so that r⁽ʲ⁾ ends at g, as in the paper's Figure 2.

    Raises:
        ValueError: a trajectory of other than three points; an unknown picture or theme.

    Examples:
        >>> import apviz
        >>> from apviz import rkhs
        >>> from apviz.plots.rkhs import projection_step
        >>> span = rkhs.Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.4), noise=0.1)
        >>> found = rkhs.trajectory_on(span, [1.0, -0.5, 0.7], [(0, 1), (2,)], steps=4)
        >>> geometry = rkhs.step_geometry(found, 2)
        >>> figure = projection_step(geometry)
        >>> figure.layout.scene.aspectmode  # right angles are drawn as such
        'cube'
    """
    colors = theme_named(theme)
    if geometry.trajectory.span.n != 3:
        raise ValueError(f"projection_step draws three points, this trajectory has {geometry.trajectory.span.n}")
    if picture not in get_args(Picture):
        raise ValueError(f"picture must be one of {', '.join(get_args(Picture))}, got {picture!r}")
    span_color, projected, left = step_colors(theme)
    centre, half = _box(geometry)
    head = 0.09 * half
    start = geometry.goal - geometry.before if picture == "solution" else np.zeros(3)
    corner, tip = start + geometry.projection, start + geometry.before
    figure = go.Figure()
    _add_span(figure, geometry, start, half, span_color)
    in_block = [point in geometry.block for point in range(3)]
    for lit in (False, True):
        rows = geometry.kernels[[point for point in range(3) if in_block[point] == lit]]
        _add_arrows(figure, np.zeros_like(rows), rows, head, span_color if lit else colors.muted, 5, "")
    _add_angles(figure, geometry, half, colors)
    _add_path(figure, geometry, picture, colors)
    before, after = _names(geometry, picture)
    _add_arrows(figure, start[None], tip[None], head, colors.ink, 6, before)
    _add_arrows(figure, start[None], corner[None], head, projected, 7, "its projection onto the span")
    # r⁽ʲ⁾, drawn where the projection ended, so that the right angle is seen; nothing is left over before a projection
    _add_arrows(figure, corner[None], tip[None] if geometry.number else corner[None], head, left, 7, after)
    mark = right_angle(corner, start - corner, tip - corner, 0.1 * half)
    figure.add_scatter3d(
        **mark, mode="lines", line={"color": colors.ink, "width": 4}, hoverinfo="skip", showlegend=False
    )
    _add_labels(figure, geometry, half, tip, picture, colors)
    axis = {
        "showbackground": False, "gridcolor": colors.grid, "zerolinecolor": colors.muted, "zeroline": True,
        "nticks": 5, "tickfont": {"size": 11, "color": colors.muted}, "showspikes": False,
    }  # fmt: skip
    ranges = [[float(middle - half), float(middle + half)] for middle in centre]
    figure.update_layout(
        height=HEIGHT,
        scene={
            # a cube with sides of one length in H: equal scales
            "aspectmode": "cube",
            "camera": {"eye": {"x": 1.0, "y": -1.38, "z": 0.86}, "center": {"x": 0, "y": 0, "z": -0.12}},
            "uirevision": "projection_step",
            **{
                f"{name}axis": {
                    **axis,
                    "title": {"text": f"e{subscript(i + 1)}", "font": {"size": CAPTION_SIZE, "color": colors.muted}},
                    "range": ranges[i],
                }
                for i, name in enumerate("xyz")
            },
        },
    )
    return finish(figure, [], colors, _title(geometry), "projection_step", _notes(geometry))


def step_colors(theme: ThemeName) -> tuple[str, str, str]:
    """Colours of the block and its span, of the projection, and of what is left: the same in all figures of a step."""
    return rule_color("cyclic", theme), rule_color("gauss-southwell", theme), rule_color("random", theme)


def _title(geometry: StepGeometry) -> str:
    if geometry.number == 0:
        return "Before the first projection: r⁽⁰⁾ = g"
    return f"Step {geometry.number}: onto the span of {blocks_label([geometry.block])}"


def _notes(geometry: StepGeometry) -> list[str]:
    trajectory, degrees = geometry.trajectory, np.degrees(geometry.kernel_angles)
    pairs = ((0, 1), (0, 2), (1, 2))
    between = ", ".join(f"k{subscript(i + 1)}k{subscript(j + 1)} {degrees[i, j]:.1f}°" for i, j in pairs)
    blocks = f"{trajectory.method.label} · blocks {blocks_label(trajectory.blocks)}"
    notes = [system_label(trajectory.span), blocks, f"angles: {between}"]
    # as many lines at every step, so that nothing below moves
    to_span = "no block is chosen yet"
    if geometry.number:
        before, after = (superscript(geometry.number - 1), superscript(geometry.number))
        to_span = (
            f"to the span of {blocks_label([geometry.block])}: r{before} {_degrees(geometry.angle_before)}, "
            f"r{after} {_degrees(geometry.angle_after)}"
        )
    notes.append(to_span)
    return notes


def _degrees(angle: float) -> str:
    return "none, it is 0" if np.isnan(angle) else f"{np.degrees(angle):.1f}°"


def _names(geometry: StepGeometry, picture: Picture) -> tuple[str, str]:
    j = geometry.number
    before = f"r{superscript(max(j - 1, 0))}" + (" = g" if j <= 1 else "")
    if picture == "solution" and j > 1:
        before += f" = g − s{superscript(j - 1)}"
    return before, f"r{superscript(j)}, what is left" if j else "what is left"


def _box(geometry: StepGeometry) -> tuple[np.ndarray, float]:
    """Middle and half a side of a cube that holds both pictures of the whole trajectory."""
    held = [np.zeros((1, 3)), geometry.kernels, geometry.residuals, geometry.goal - geometry.residuals]
    points = np.concatenate(held)
    low, high = points.min(0), points.max(0)
    return 0.5 * (low + high), 0.63 * float((high - low).max())


def _add_span(figure: go.Figure, geometry: StepGeometry, start: np.ndarray, half: float, color: str) -> None:
    """The plane or the line of the block through `start`, both traces always there."""
    held = np.vstack([np.zeros(3), geometry.kernels[list(geometry.block)], geometry.projection])
    surface: dict[str, Any] = {key: np.zeros(0) for key in "xyzijk"}
    edge = np.zeros((0, 3))
    if len(geometry.block) == 2:
        surface, edge = rectangle(geometry.basis, held, 0.12 * half)
        surface |= {name: surface[name] + start[i] for i, name in enumerate("xyz")}
    elif len(geometry.block) == 1:
        places = held @ geometry.basis
        edge = np.array([places.min() - 0.3 * half, places.max() + 0.3 * half])[:, None] * geometry.basis.T
    figure.add_mesh3d(**surface, color=color, opacity=0.22, hoverinfo="skip", showlegend=False, flatshading=True)
    figure.add_scatter3d(
        **polyline([start + edge]), mode="lines", line={"color": color, "width": 3}, hoverinfo="skip",
        name=f"span of {blocks_label([geometry.block])}" if geometry.block else "span of the block",
    )  # fmt: skip


def _add_arrows(
    figure: go.Figure, tails: np.ndarray, tips: np.ndarray, head: float, color: str, width: float, name: str
) -> None:
    figure.add_scatter3d(
        **shafts(tails, tips, head), mode="lines", line={"color": color, "width": width}, name=name,
        showlegend=bool(name), hoverinfo="skip",
    )  # fmt: skip
    figure.add_mesh3d(
        **heads(tails, tips, head), color=color, opacity=1.0, hoverinfo="skip", showlegend=False,
        lighting={"ambient": 0.8, "diffuse": 0.4, "specular": 0.0},
    )  # fmt: skip


def _add_angles(figure: go.Figure, geometry: StepGeometry, half: float, colors: Theme) -> None:
    kernels = geometry.kernels
    shortest = float(np.linalg.norm(kernels, axis=1).min())
    pairs = ((0, 1), (0, 2), (1, 2))
    arcs = [
        arc(kernels[i], kernels[j], shortest * radius) for (i, j), radius in zip(pairs, (0.45, 0.66, 0.3), strict=True)
    ]
    figure.add_scatter3d(
        **polyline(arcs), mode="lines", line={"color": colors.muted, "width": 2}, hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip
    middles = np.array([each[len(each) // 2] for each in arcs]) * 1.12
    degrees = [f"{np.degrees(geometry.kernel_angles[i, j]):.0f}°" for i, j in pairs]
    figure.add_scatter3d(
        x=middles[:, 0], y=middles[:, 1], z=middles[:, 2], mode="text", text=degrees, hoverinfo="skip",
        textposition="middle center",
        textfont={"size": CAPTION_SIZE, "color": colors.muted}, showlegend=False,
    )  # fmt: skip


def _add_path(figure: go.Figure, geometry: StepGeometry, picture: Picture, colors: Theme) -> None:
    walked = geometry.residuals[: geometry.number + 1]
    points = geometry.goal - walked if picture == "solution" else walked
    name = "s" if picture == "solution" else "r"
    figure.add_scatter3d(
        x=points[:, 0], y=points[:, 1], z=points[:, 2], mode="lines+markers", name=f"path of {name}⁽⁰⁾, {name}⁽¹⁾, …",
        line={"color": colors.muted, "width": 2}, marker={"color": colors.muted, "size": 3},
        customdata=np.arange(len(points)),
        hovertemplate=f"{name} after step %{{customdata}}<extra></extra>",
    )  # fmt: skip


def _add_labels(
    figure: go.Figure, geometry: StepGeometry, half: float, tip: np.ndarray, picture: Picture, colors: Theme
) -> None:
    """Names at the tips, moved apart where the tips are near one another."""
    ends = np.vstack([geometry.kernels, tip])
    words = [f"k(x{subscript(i + 1)}, ·)" for i in range(3)]
    words.append("g" if picture == "solution" or geometry.number <= 1 else f"r{superscript(geometry.number - 1)}")
    apart, outwards = _unit(ends - ends.mean(0)), _unit(ends)
    places = ends + half * (0.05 * apart + 0.13 * outwards)
    figure.add_scatter3d(
        x=places[:, 0], y=places[:, 1], z=places[:, 2], mode="text", text=words, hoverinfo="skip",
        textposition="middle center",
        textfont={"size": TEXT_SIZE, "color": colors.ink}, showlegend=False,
    )  # fmt: skip


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
