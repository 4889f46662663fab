"""The pages; each page of more than one file has a folder. No page imports another."""

from apviz.dashboard.pages.base import Page
from apviz.dashboard.pages.compare.page import Compare
from apviz.dashboard.pages.predict.page import Predict
from apviz.dashboard.pages.replay.page import Replay
from apviz.dashboard.pages.runs.page import Runs
from apviz.dashboard.pages.sweeps.block_size import BlockSize
from apviz.dashboard.pages.sweeps.noise import Noise
from apviz.dashboard.pages.training.page import Training

#: Pages by their name in the address, in the order of the tabs.
PAGES: dict[str, type[Page]] = {
    page.name: page for page in (Compare, Predict, Replay, BlockSize, Noise, Training, Runs)
}
