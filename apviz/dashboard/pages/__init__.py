"""The pages, one a file."""

from apviz.dashboard.pages.base import Page
from apviz.dashboard.pages.compare import Compare

#: by their name in the address, in the order of the tabs
PAGES: dict[str, type[Page]] = {page.name: page for page in (Compare,)}
