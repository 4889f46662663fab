"""What is known about each data set: its size, source, licence and recipe."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

from apviz.hyperparameters import Hyperparameters

UCI = "https://archive.ics.uci.edu"
CC_BY_4 = "CC BY 4.0"


@dataclass(frozen=True)
class Card:
    """What a reader should know before using a data set.

    `n` counts rows after cleaning (training and test together). `d_raw` counts the recipe's inputs,
    `d` those left once inputs without variance are dropped: the number of columns that `load` returns.
    `files` are the names looked for in the data folders, the first being the one `fetch` writes.
    `sha256=None` means that no official checksum is known: such a file is checked by n and d after loading.
    `documented` says what the source or the paper states about the recipe, `reading` what we read into it.
    """

    name: str
    title: str
    n: int
    d: int
    d_raw: int
    target: str
    licence: str
    citation: str
    page: str
    documented: str
    reading: str
    doi: str | None = None
    urls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sha256: str | None = None
    how_to_get: str = ""
    hyperparameters: Hyperparameters | None = None

    @property
    def checked_by(self) -> str:
        """One sentence: how a downloaded copy is verified."""
        if self.sha256:
            return f"SHA-256 {self.sha256}"
        return f"no official checksum is known; checked by its size after loading (n = {self.n:,}, d = {self.d})"


@cache
def _fitted() -> dict[str, Hyperparameters]:
    text = resources.files("apviz.datasets").joinpath("hyperparameters.json").read_text("utf-8")
    return {
        name: Hyperparameters(**{**values, "lengthscale": tuple(values["lengthscale"])})
        for name, values in json.loads(text).items()
    }


def _uci(
    number: int,
    slug: str,
    name: str,
    n: int,
    d: int,
    *files: str,
    title: str,
    target: str,
    citation: str,
    documented: str,
    reading: str,
    doi: str | None = None,
    d_raw: int | None = None,
) -> Card:
    return Card(
        name=name,
        title=title,
        n=n,
        d=d,
        d_raw=d if d_raw is None else d_raw,
        target=target,
        licence=CC_BY_4,
        citation=citation,
        page=f"{UCI}/dataset/{number}/{slug}",
        documented=documented,
        reading=reading,
        doi=doi,
        urls=(f"{UCI}/static/public/{number}/{slug}.zip",),
        files=(f"{slug}.zip", *files),
        hyperparameters=_fitted().get(name),
    )


def _prepared(
    name: str,
    n: int,
    d: int,
    *,
    title: str,
    target: str,
    licence: str,
    citation: str,
    page: str,
    documented: str,
    reading: str,
    doi: str | None = None,
    d_raw: int | None = None,
) -> Card:
    return Card(
        name=name,
        title=title,
        n=n,
        d=d,
        d_raw=d if d_raw is None else d_raw,
        target=target,
        licence=licence,
        citation=citation,
        page=page,
        documented=documented,
        reading=reading,
        doi=doi,
        files=(f"{name}/data.csv.gz", f"{name}.csv.gz", f"{name}.csv"),
        how_to_get=(
            "No official archive holds exactly this prepared table. A collection with files of the same names and "
            "layout is https://github.com/treforevans/uci_datasets; its content is checked by n and d only."
        ),
        hyperparameters=_fitted().get(name),
    )


def _paper_cards() -> tuple[Card, ...]:
    return (
        _uci(
            440,
            "sgemm+gpu+kernel+performance",
            "sgemm",
            241_600,
            14,
            "sgemm_product_dataset.zip",
            "sgemm_product.csv",
            title="SGEMM GPU kernel performance",
            target="log of the mean of the four run times (log ms)",
            citation="Paredes, E. G. and Ballester-Ripoll, R. (2017). SGEMM GPU kernel performance. UCI Machine "
            "Learning Repository.",
            doi="10.24432/C5MK70",
            documented="14 tuning parameters, four run times. The data set's own notes advise the logarithm of the "
            "times.",
            reading="None open: n, d and the target agree with the paper's table and the authors' code.",
        ),
        _uci(
            501,
            "beijing+multi+site+air+quality+data",
            "airquality",
            382_168,
            13,
            "PRSA2017_Data_20130301-20170228.zip",
            title="Beijing multi-site air quality",
            target="PM2.5 (µg/m³)",
            citation="Chen, S. (2017). Beijing Multi-Site Air Quality. UCI Machine Learning Repository.",
            doi="10.24432/C5RK5G",
            documented="Rows with a missing value, and the columns No, PM10, year and day, are dropped; wind "
            "direction and station become integer labels in sorted order, as in the authors' code.",
            reading="Stations are concatenated in the order of the archive, which fixes what a seed selects.",
        ),
        _uci(
            246,
            "3d+road+network+north+jutland+denmark",
            "3droad",
            434_874,
            3,
            "3D_spatial_network.txt",
            title="3D road network (North Jutland, Denmark)",
            target="altitude (m)",
            citation="Kaul, M. (2013). 3D Road Network (North Jutland, Denmark). UCI Machine Learning Repository.",
            documented="Comma-separated OSM id, longitude, latitude, altitude; d = 3 in the paper's table.",
            reading="d = 3 means that the OSM id is an input, first in the file's order; the paper used a prepared "
            "copy.",
        ),
        _uci(
            203,
            "yearpredictionmsd",
            "song",
            515_345,
            90,
            "YearPredictionMSD.txt.zip",
            "YearPredictionMSD.txt",
            title="YearPredictionMSD",
            target="year of release",
            citation="Bertin-Mahieux, T. (2011). Year Prediction MSD. UCI Machine Learning Repository.",
            doi="10.24432/C50K61",
            documented="Comma-separated: the year, then 90 timbre features.",
            reading="Year untransformed, rows in file order. The random split of the paper is used, not the split by "
            "artist that the donor recommends; the paper used a prepared copy.",
        ),
        _uci(
            248,
            "buzz+in+social+media",
            "buzz",
            583_250,
            77,
            "regression.tar.gz",
            "Twitter.data",
            title="Buzz in social media (Twitter)",
            target="log(1 + mean number of active discussions)",
            citation="Kawala, F., Douzal, A., Gaussier, E. and Diemert, E. (2013). Buzz in social media. UCI Machine "
            "Learning Repository.",
            doi="10.24432/C56G6V",
            documented="Twitter.data: 77 features (11 quantities at 7 times), then the target, comma-separated, no "
            "header.",
            reading="The logarithm of the target is our reading (it is common for this heavy-tailed count); the paper "
            "used a prepared copy whose recipe is not published.",
        ),
        _uci(
            235,
            "individual+household+electric+power+consumption",
            "houseelectric",
            2_049_280,
            11,
            "household_power_consumption.zip",
            "household_power_consumption.txt",
            d_raw=12,
            title="Individual household electric power consumption",
            target="log of global active power (log kW)",
            citation="Hebrail, G. and Berard, A. (2006). Individual Household Electric Power Consumption. UCI Machine "
            "Learning Repository.",
            doi="10.24432/C58K54",
            documented="Semicolon-separated; date dd/mm/yyyy, time hh:mm:ss, seven quantities; missing values as '?' "
            "or empty. Rows with one are dropped: 2,049,280 remain, as in the paper.",
            reading="Inputs: day, month, year, hour, minute, second (constant, so dropped), reactive power, voltage, "
            "intensity, three sub-meterings: 11 as in the paper. The order and the log target are our reading; the "
            "published lengthscales, whose only short one (0.06) falls on intensity, agree with both.",
        ),
        _uci(
            322,
            "gas+sensor+array+under+dynamic+gas+mixtures",
            "gassensors",
            4_178_504,
            17,
            "ethylene_methane.txt",
            title="Gas sensor array under dynamic gas mixtures (methane)",
            target="methane concentration (ppm)",
            citation="Fonollosa, J. (2015). Gas sensor array under dynamic gas mixtures. UCI Machine Learning "
            "Repository.",
            doi="10.24432/C5WP4C",
            documented="ethylene_methane.txt: one header line, then time, methane, ethylene and 16 sensors, separated "
            "by white space. The authors' code predicts methane from the sensors; the paper says 17 inputs.",
            reading="The 17th input is time, as the description in the authors' code suggests, although that code "
            "uses the 16 sensors only.",
        ),
    )


def _prepared_cards() -> tuple[Card, ...]:
    centred = "The table comes without a header, inputs and target already centred; the target is the last column."
    return (
        _prepared(
            "bike",
            17_379,
            17,
            title="Bike sharing (hourly)",
            target="last column: log of the rental count, centred",
            licence=CC_BY_4,
            citation="Fanaee-T, H. (2013). Bike Sharing. UCI Machine Learning Repository.",
            page=f"{UCI}/dataset/275/bike+sharing+dataset",
            doi="10.24432/C5W894",
            documented=centred,
            reading="The target is the centred logarithm of the count. The last two inputs add up to the count "
            "(casual and registered riders), so it can be predicted almost without noise; inputs 0 and 1 recur as 4 "
            "and 5.",
        ),
        _prepared(
            "protein",
            45_730,
            9,
            title="Physicochemical properties of protein tertiary structure",
            target="last column: log(1 + RMSD), centred",
            licence=CC_BY_4,
            citation="Rana, P. (2013). Physicochemical Properties of Protein Tertiary Structure. UCI Machine Learning "
            "Repository.",
            page=f"{UCI}/dataset/265/physicochemical+properties+of+protein+tertiary+structure",
            doi="10.24432/C5QW3H",
            documented=centred,
            reading="The values agree with log(1 + RMSD), RMSD from 0 to 21 Å, centred.",
        ),
        _prepared(
            "kin40k",
            40_000,
            8,
            title="kin40k: kinematics of a robot arm",
            target="last column: distance of the arm's end from a point, as prepared",
            licence="not stated",
            citation="Schwaighofer, A. and Tresp, V. (2002). Transductive and inductive methods for approximate "
            "Gaussian process regression. NIPS 15.",
            page="https://github.com/treforevans/uci_datasets",
            documented="Simulated, not a UCI set: a larger draw from the kin family of the DELVE archive (forward "
            "kinematics of an eight-link arm). " + centred,
            reading="None beyond the column order.",
        ),
        _prepared(
            "keggundirected",
            63_608,
            26,
            d_raw=27,
            title="KEGG metabolic reaction network (undirected)",
            target="last column, as prepared",
            licence=CC_BY_4,
            citation="Naeem, M. and Asghar, S. (2011). KEGG Metabolic Reaction Network (Undirected). UCI Machine "
            "Learning Repository.",
            page=f"{UCI}/dataset/221/kegg+metabolic+reaction+network+undirected",
            documented=centred,
            reading="27 inputs, one of them constant, so 26 after preprocessing. How missing values of the original "
            "were filled is not stated.",
        ),
    )


def _bundled_cards() -> tuple[Card, ...]:
    return (
        Card(
            name="china",
            title="A photograph: grey value by pixel position",
            n=273_280,
            d=2,
            d_raw=2,
            target="luminance (0 to 255)",
            licence="CC BY 2.0",
            citation="Photograph by danielbuechele, distributed with scikit-learn as china.jpg.",
            page="https://www.flickr.com/photos/danielbuechele/6061409035/",
            documented="427 × 640 pixels; inputs are row and column. Luminance is 0.299 R + 0.587 G + 0.114 B (ITU-R "
            "BT.601).",
            reading="With n given, pixels are first thinned on a regular grid, so that a subset is still a picture.",
            how_to_get="It comes with scikit-learn (and needs Pillow to be read): nothing to fetch.",
            hyperparameters=_fitted().get("china"),
        ),
        Card(
            name="china-profile",
            title="The photograph along one axis: mean grey value by column",
            n=640,
            d=1,
            d_raw=1,
            target="mean luminance of a column (0 to 255)",
            licence="CC BY 2.0",
            citation="Photograph by danielbuechele, distributed with scikit-learn as china.jpg.",
            page="https://www.flickr.com/photos/danielbuechele/6061409035/",
            documented="The luminance of 'china', averaged over the 427 pixels of each of its 640 columns.",
            reading="None open: it is made here, for pictures of functions of one input.",
            how_to_get="It comes with scikit-learn (and needs Pillow to be read): nothing to fetch.",
            hyperparameters=_fitted().get("china-profile"),
        ),
        Card(
            name="diabetes",
            title="Diabetes progression",
            n=442,
            d=10,
            d_raw=10,
            target="disease progression after one year",
            licence="not stated; distributed with scikit-learn (BSD 3-Clause)",
            citation="Efron, B., Hastie, T., Johnstone, I. and Tibshirani, R. (2004). Least angle regression. Annals "
            "of Statistics 32(2).",
            page="https://www4.stat.ncsu.edu/~boos/var.select/diabetes.html",
            documented="Ten baseline variables of 442 patients.",
            reading="None open.",
            how_to_get="It comes with scikit-learn: nothing to fetch.",
            hyperparameters=_fitted().get("diabetes"),
        ),
    )


CARDS: dict[str, Card] = {card.name: card for card in (*_paper_cards(), *_prepared_cards(), *_bundled_cards())}
