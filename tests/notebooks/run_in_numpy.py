"""Run the code cells of a notebook where NumPy and lazy_loader are the only libraries, as in a browser.

python tests/notebooks/run_in_numpy.py NOTEBOOK: prints what the cells print, and the SVG of a last expression.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

ALLOWED = {*sys.stdlib_module_names, "apviz", "numpy", "lazy_loader"}


class Browser(MetaPathFinder):
    """Raises for every library that the page in the browser does not install."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ImportError(f"{name} is not in the browser")


def main(path: Path) -> None:
    sys.meta_path.insert(0, Browser())
    names: dict = {}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
            # a cell may await, as in Jupyter
            waiting = eval(compile(tree, cell["id"], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.isawaitable(waiting):
                asyncio.run(waiting)
            shown = eval(compile(last, cell["id"], "eval"), names) if last else None
            if hasattr(shown, "_repr_svg_"):
                print(shown._repr_svg_())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
