"""The theme of Material's components, from the tokens of `tokens.css`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from apviz.plots._style import ThemeName

STYLE: Final = Path(__file__).with_name("tokens.css").read_text("utf-8")
_TOKEN: Final = re.compile(r"--apviz-([\w-]+):\s*([^;]+);")
#: Font size in pixels on a projector, where text becomes 1.4 times as large, as in charts.
_LECTURE_PIXELS: Final = 16.6


def tokens(theme: ThemeName) -> dict[str, str]:
    """Return the tokens of a theme by name, without their prefix.

    Examples:
        >>> tokens("dark")["paper"] != tokens("light")["paper"], tokens("dark")["type"]
        (True, '14px')
    """
    light, dark = STYLE.split('[data-theme="dark"]')
    return dict(_TOKEN.findall(light)) | (dict(_TOKEN.findall(dark)) if theme == "dark" else {})


def material_theme(theme: ThemeName, *, lecture: bool) -> dict[str, Any]:
    """Return the configuration of Material's theme: colours and type of the tokens, flat cards, a slim header."""
    of = tokens(theme)
    typography: dict[str, Any] = {
        # the font of the charts, because the default would load eleven files
        "fontFamily": of["font"], "fontSize": _LECTURE_PIXELS if lecture else int(of["type"].removesuffix("px")),
        "h6": {"fontSize": "1.7rem" if lecture else of["type-title"], "fontWeight": 600, "lineHeight": 1.3},
        "button": {"textTransform": "none"},
    }  # fmt: skip
    border = f"1px solid {of['line']}"
    focus = {"outline": f"2px solid {of['accent']}", "outlineOffset": "2px"}
    components = {
        # the only heading of the first level is the title of the page; h5 is an empty line at the top of the drawer
        "MuiTypography": {"defaultProps": {"variantMapping": {"h3": "h1", "h5": "div", "h6": "h2"}}},
        "MuiAppBar": {"styleOverrides": {"root": {
            "backgroundColor": of["paper"], "backgroundImage": "none", "color": of["ink"], "boxShadow": "none",
            "borderBottom": border,
            "& .title": {"color": f"{of['ink']} !important", "fontSize": of["type-title"], "fontWeight": 700},
            "& .MuiToolbar-root > .MuiBox-root + .MuiBox-root": {"minWidth": 0},
        }}},
        "MuiToolbar": {"styleOverrides": {"root": {"minHeight": f"{of['header']} !important"}}},
        "MuiPaper": {"styleOverrides": {
            "root": {"backgroundImage": "none"}, "elevation1": {"boxShadow": "none", "border": border},
        }},
        "MuiTabs": {"styleOverrides": {
            "indicator": {"backgroundColor": f"{of['accent']} !important"},
            # on a phone there are more tabs to the right
            "scroller": {"@media (max-width: 600px)": {
                "maskImage": "linear-gradient(to right, #000 calc(100% - 32px), transparent)", "paddingRight": "32px",
            }},
        }},
        "MuiTab": {"styleOverrides": {"root": {"&.Mui-selected": {"color": f"{of['accent']} !important"}}}},
        # a tooltip below the player would cover the title of a chart
        "MuiTooltip": {"defaultProps": {"placement": "top"}},
        "MuiButtonBase": {"styleOverrides": {"root": {"&.Mui-focusVisible": focus}}},
        # a message next to its icon, and no space for an empty title
        "MuiAlert": {"styleOverrides": {
            "message": {
                "& p": {"margin": 0}, "& p:last-child": {"paddingBottom": "8px"},
                "& .MuiAlertTitle-root:empty": {"display": "none"},
            },
        }},
    }  # fmt: skip
    palette = {
        "primary": {"main": of["accent"], "contrastText": of["on-accent"]},
        "background": {"default": of["paper"], "paper": of["paper"]},
        "text": {"primary": of["ink"], "secondary": of["muted"]}, "divider": of["line"],
    }  # fmt: skip
    return {"palette": palette, "typography": typography, "components": components}
