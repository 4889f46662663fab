"""Pictures of every page of the dashboard, light and dark, on a projector and on a phone: `make screenshots`.

python -m tests.dashboard.screenshots [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from apviz.dashboard.pages import PAGES
from tests.conftest import launch_browser
from tests.dashboard.browser.server import Server

#: name: (theme, width, height, with --lecture)
VIEWS = {
    "light": ("light", 1500, 1000, False),
    "dark": ("dark", 1500, 1000, False),
    "lecture": ("light", 1920, 1080, True),
    "phone": ("light", 390, 844, False),
    "phone-dark": ("dark", 390, 844, False),
}
#: milliseconds without changes after which a page counts as complete
QUIET = 1500


def main(folder: Path) -> None:
    """Write `PAGE-VIEW.png` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, launch_browser() as browser:
        # the first start makes the small comparison of all pages
        plain, lecture = Server(Path(place)), Server(Path(place), "--lecture")
        try:
            for name in PAGES:
                for view, (theme, width, height, large) in VIEWS.items():
                    address = (lecture if large else plain).address({"page": name, "theme": theme})
                    path = folder / f"{name}-{view}.png"
                    photograph(browser, address, path, width, height)
                    print(path, flush=True)
        finally:
            plain.kill()
            lecture.kill()


def photograph(browser: Any, address: str, path: Path, width: int, height: int) -> None:
    """Photograph a whole page once it no longer changes."""
    tab = browser.new_page(viewport={"width": width, "height": height})
    tab.goto(address)
    tab.get_by_role("tab").first.wait_for()
    tab.locator("#apviz-first").wait_for(state="detached", timeout=120_000)
    bottom = wait_until_quiet(tab)
    # the page scrolls inside itself, so the window must be as high as its content
    tab.set_viewport_size({"width": width, "height": max(height, min(bottom + 20, 8000))})
    tab.wait_for_timeout(QUIET)
    tab.screenshot(path=path)
    tab.close()


def wait_until_quiet(tab: Any) -> int:
    """Wait until a page no longer changes; return the lowest pixel of its content."""
    before = ""
    while (now := tab.evaluate(_STATE)) != before:
        before = now
        tab.wait_for_timeout(QUIET)
    return int(now.split()[0])


_STATE = """() => {
    let height = 0, drawn = 0, count = 0;
    const walk = (root) => {
        for (const each of root.querySelectorAll("*")) {
            count++;
            if (!each.children.length) height = Math.max(height, each.getBoundingClientRect().bottom);
            if (each.classList.contains("main-svg")) drawn++;
            if (each.shadowRoot) walk(each.shadowRoot);
        }
    };
    walk(document);
    return `${Math.ceil(height)} ${drawn} ${count}`;
}"""


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"))
