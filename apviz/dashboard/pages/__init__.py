"""The pages; each page of more than one file has a folder. No page imports another."""

from apviz.dashboard.pages.base import Page
from apviz.dashboard.pages.compare.page import Compare
from apviz.dashboard.pages.inside import Inside
from apviz.dashboard.pages.predict.page import Predict
from apviz.dashboard.pages.runs.page import Runs
from apviz.dashboard.pages.sweeps.batch_size import BatchSize
from apviz.dashboard.pages.sweeps.conditioning import Conditioning
from apviz.dashboard.pages.training.page import Training

#: Pages by their name in the address, in the order of the tabs.
PAGES: dict[str, type[Page]] = {
    page.name: page
    for page in (
        Compare,
        Predict,
        BatchSize,
        Conditioning,
        Training,
        Inside,
        Runs,
    )
}
