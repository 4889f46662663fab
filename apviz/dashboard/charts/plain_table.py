"""A table of values that nobody sorts or clicks."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import panel as pn

# Panel's own type stays as small as it is, also on a projector
_STYLE: Final = "table.panel-df { font-size: 0.875rem; }"


def plain_table(frame: pd.DataFrame, **options: Any) -> pn.pane.DataFrame:
    """As wide as the page; text in it is shown as it is."""
    return pn.pane.DataFrame(frame, escape=True, sizing_mode="stretch_width", stylesheets=[_STYLE], **options)
