"""Pictures of every widget in JupyterLab, light and dark, on a large screen and on a phone: `make screenshots`.

python -m tests.widgets.screenshots [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from apviz import widgets
from tests.conftest import launch_browser
from tests.notebooks.lab import Desk, Lab
from tests.notebooks.making import written

WIDGETS = sorted(name for name in widgets.__all__ if name != "check")
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
WIDTHS = {"1500": 1500, "390": 390}
#: timeout for a widget that solves when it is created, in seconds
PATIENCE = 120


def main(folder: Path) -> None:
    """Write `widget-NAME-THEME-WIDTH.png` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with launch_browser() as browser:
        for theme, shown_as in THEMES.items():
            with tempfile.TemporaryDirectory() as place:
                notebooks = Path(place) / "notebooks"
                notebooks.mkdir()
                for name in WIDGETS:
                    written(
                        notebooks / f"{name}.ipynb", "from apviz import widgets", f"widgets.{name}(theme={theme!r})"
                    )
                lab = Lab(Path(place), notebooks, shown_as)
                try:
                    for name in WIDGETS:
                        photograph(browser, lab, name, theme, folder)
                finally:
                    lab.stop()


def photograph(browser, lab: Lab, name: str, theme: str, folder: Path) -> None:
    """Photograph a widget with all its controls at every width."""
    tab = browser.new_page(viewport={"width": 1500, "height": 1000})
    desk = Desk(lab, tab).open(f"{name}.ipynb")
    desk.run_all(PATIENCE)
    (widget,) = desk.widgets()
    tab.keyboard.press("Control+b")  # hides the file browser
    for label, width in WIDTHS.items():
        # the notebook scrolls inside the page, so the window must be as high as the notebook
        tab.set_viewport_size({"width": width, "height": 4000})
        tab.wait_for_timeout(2500)
        path = folder / f"widget-{name}-{theme}-{label}.png"
        widget.screenshot(path=path)
        print(path, flush=True)
    tab.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"))
