"""The site: `make docs`, or `python -m sphinx docs docs/build`."""

import os
import sys
from importlib import metadata
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from building.figures import draw, finish, in_reading_order
from building.links import REPOSITORY, is_there

os.environ.setdefault("KEOPS_VERBOSE", "0")  # it prints which machine it is on

project = "apviz"
author = copyright = "The apviz developers"
release = metadata.version("apviz")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.githubpages",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "building.links",
    "building.formulas",
    "building.lessons",
    "building.trust",
    "building.accessible",
]
exclude_patterns = ["build", "building", "gallery"]
if is_there("notebooks/html/index.html"):
    tags.add("lessons")  # noqa: F821
if is_there("notebooks/slides/index.html"):
    tags.add("slides")  # noqa: F821

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
# links that are complete as they are: made by `building.links`
myst_url_schemes = {"http": None, "https": None, "mailto": None, "built": "{{path}}"}

default_role = "py:obj"
python_use_unqualified_type_names = True
autosummary_generate = True
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # scikit-learn's, whose texts have its own links
    "exclude-members": "set_fit_request, set_predict_request, set_score_request",
}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "figures",
    "filename_pattern": "/",
    "subsection_order": ["gallery/predictions", "gallery/solves", "gallery/many_runs"],
    "within_subsection_order": in_reading_order,
    "image_scrapers": (draw,),
    "thumbnail_size": (540, 360),
    "capture_repr": (),
    "backreferences_dir": "figures/backreferences",
    "doc_module": ("apviz",),
    "reference_url": {"apviz": None},
    "reset_modules": (),
    # a figure is made of apviz, not of its script alone
    "run_stale_examples": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 60,
    "download_all_examples": False,
    "remove_config_comments": True,
}

# two rooms may have one name, which a signature cannot tell apart; a function among the settings
suppress_warnings = ["ref.python", "config.cache"]

html_theme = "pydata_sphinx_theme"
html_title = "apviz"
html_context = {"default_mode": "auto"}
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"}), ("tables.js", {"defer": "defer"})]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
# pages that have none below them
without = (
    "lessons",
    "lecture",
    "mathematics",
    "data",
    "architecture",
    "contributing",
    "changelog",
    "search",
    "genindex",
)
html_sidebars: dict[str, list[str]] = {page: [] for page in (*without, "lessons/*")}
html_theme_options = {
    "icon_links": [{"name": "GitHub", "url": REPOSITORY, "icon": "fa-brands fa-github"}],
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app):
    app.connect("build-finished", finish)
