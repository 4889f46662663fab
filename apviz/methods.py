"""Registry of methods: name, description and settings, with one entry per method.

Command line, dashboard, screen names, colours and comparisons read it. A method consists of one file with its solver
or preconditioner, and one entry here; `family` and `preconditioner` are the names under which those are registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

#: Families, by the names under which `apviz.solvers` registers them.
ALTERNATING_PROJECTION: Final = "alternating-projection"
CONJUGATE_GRADIENT: Final = "conjugate-gradient"
CHOLESKY: Final = "cholesky"
COLOURED_PROJECTION: Final = "coloured-projection"

#: Settings of alternating projection recommended by apviz: overlapping blocks of neighbours, and steps along past ones.
RECOMMENDED: Final[dict[str, Any]] = {
    "block_size": "auto", "partition": "principal-axis-tree", "overlap": "auto", "step": "subspace",
    "columns": "skeletons", "precision": "auto", "fallback_rank": "auto",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MethodSetting:
    """A setting that several methods share: label of at most four words, sentence of help, range of a number."""

    label: str
    help: str
    low: float | None = None
    high: float | None = None


#: Settings by name, as solvers and preconditioners have them.
SETTINGS: Final[dict[str, MethodSetting]] = {
    "rule": MethodSetting(label="Block rule", help="Which block is projected onto next."),
    "partition": MethodSetting(label="Partition", help="How rows are cut into blocks."),
    "block_size": MethodSetting(label="Block size b", help="Rows a block owns.", low=1),
    "overlap": MethodSetting(
        label="Overlap (share of block)",
        help="Rows a block also solves on, as a fraction of its own rows.",
        low=0,
        high=4,
    ),
    "rank": MethodSetting(label="Preconditioner rank", help="Rank of a low-rank preconditioner.", low=1),
    "tol": MethodSetting(label="Tolerance", help="Mean relative residual to reach.", low=0, high=1),
    "max_epochs": MethodSetting(
        label="Max. epochs / iterations", help="Limit of epochs, or of CG iterations.", low=1, high=100_000
    ),
}


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """Method that a user can select by name.

    Args:
        name: Display name.
        description: One sentence.
        family: Family of the solver, as `apviz.solvers` registers it.
        preconditioner: Preconditioner, as `apviz.preconditioners` registers it.
        named: Settings in parentheses after the name, such as the rank.
        usual: Usual values of settings, which are not mentioned.
        sweeps: Settings that accept several values, each for a separate solver.
        fixed: Settings that define this method.
        colours: Colours on white and on black; None for those of methods without their own.
    """

    name: str
    description: str
    family: str
    preconditioner: str | None = None
    named: tuple[str, ...] = ()
    usual: Mapping[str, Any] = field(default_factory=dict)
    sweeps: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    colours: tuple[str, str] | None = None


#: Methods by their name in `apviz compare --methods`.
METHODS: Final[dict[str, MethodEntry]] = {
    "ap": MethodEntry(
        name="Alternating projection", family=ALTERNATING_PROJECTION, named=("rule", "block_size"),
        sweeps=("block_size", "partition", "rule"),
        description="Projects onto one block of rows after another, as the paper does, with the settings given.",
    ),
    "overlap": MethodEntry(
        name="Overlapping projections", family=ALTERNATING_PROJECTION, fixed=RECOMMENDED, named=("rule",),
        usual={"rule": "gauss-southwell", "partition": "principal-axis-tree"},
        description="Alternating projection on overlapping blocks of neighbours, with everything chosen by apviz.",
    ),
    "cg": MethodEntry(
        name="CG", family=CONJUGATE_GRADIENT, colours=("#A83600", "#E8592F"),
        description="Conjugate gradients without a preconditioner.",
    ),
    "pcg": MethodEntry(
        name="CG + pivoted Cholesky", family=CONJUGATE_GRADIENT, preconditioner="pivoted-cholesky",
        named=("rank",), sweeps=("rank",), colours=("#1A1A1F", "#F4F4F4"),
        description="CG with a pivoted Cholesky preconditioner of each rank.",
    ),
    "rpcg": MethodEntry(
        name="CG + randomly pivoted Cholesky", family=CONJUGATE_GRADIENT, preconditioner="randomly-pivoted-cholesky",
        named=("rank",), sweeps=("rank",), colours=("#7A45F0", "#9470F0"),
        description="CG with a randomly pivoted Cholesky preconditioner of each rank.",
    ),
    "nystrom": MethodEntry(
        name="CG + Nyström", family=CONJUGATE_GRADIENT, preconditioner="nystrom", named=("rank",),
        sweeps=("rank",),
        description="CG with the randomised Nyström preconditioner of each rank.",
    ),
    "schwarz": MethodEntry(
        name="CG + two-level Schwarz", family=CONJUGATE_GRADIENT, preconditioner="two-level-schwarz",
        usual={"partition": "principal-axis-tree"}, colours=("#A88454", "#E9D694"),
        description="CG preconditioned by overlapping blocks and a coarse space, with everything chosen by apviz.",
    ),
    "colours": MethodEntry(
        name="Coloured projections", family=COLOURED_PROJECTION, colours=("#00808A", "#2FB7C0"),
        usual={"partition": "principal-axis-tree", "overlap": 0.5, "rank": 500},
        description="Sweeps over overlapping blocks, far-apart ones at once; fast with the Fourier operator.",
    ),
    "auto": MethodEntry(
        name="Automatic (recommended)", family="automatic",
        description="The method that apviz chooses for the system.",
    ),
    "cholesky": MethodEntry(
        name="Cholesky", family=CHOLESKY, colours=("#8C9096", "#8C9097"),
        description="Factors the whole matrix: exact, n³/3 multiplications, three n × n arrays.",
    ),
    "cd++": MethodEntry(
        name="CD++", family="coordinate-descent++",
        description="Randomised block coordinate descent with momentum (Dereziński et al.).",
    ),
    "askotch": MethodEntry(
        name="ASkotch", family="askotch",
        description="Accelerated sketch-and-project with Nyström blocks (Rathore et al.).",
    ),
    "sdd": MethodEntry(
        name="Stochastic dual descent", family="stochastic-dual-descent",
        description="Random batches of dual coordinates with momentum and averaging (Lin et al.).",
    ),
    "gradient": MethodEntry(
        name="Gradient descent", family="gradient-descent", fixed={"step": "constant"},
        description="Gradient descent with the constant step 1/λmax, estimated.",
    ),
    "steepest": MethodEntry(
        name="Steepest descent", family="gradient-descent", fixed={"step": "exact"},
        description="Gradient descent with exact line searches.",
    ),
}  # fmt: skip


#: Names of rules and partitions; others use their registered names.
RULE_WORDS: Final[dict[str, str]] = {
    "gauss-southwell": "greedy", "gauss-southwell (short block last)": "greedy, short block last",
}  # fmt: skip
PARTITION_WORDS: Final[dict[str, str]] = {
    "sequential": "consecutive rows", "shuffled": "random rows", "kd-tree": "k-d tree blocks",
    "principal-axis-tree": "blocks of neighbours",
}  # fmt: skip


#: Names of settings that a solver chooses, and values of them that are codes.
CHOICE_WORDS: Final[dict[str, str]] = {
    "precision.recursion": "dtype of the recursion", "precision.factors": "dtype of the factors",
    "recursion": "dtype of the recursion", "columns.rank": "skeleton rank", "skeletons": "more skeletons",
    "step.length": "past directions", "coarse_rank": "coarse space, rank", "fallback_rank": "CG if slow, rank",
}  # fmt: skip
CHOSEN_VALUES: Final[dict[str, str]] = {
    "system": "as the system", "recursion": "as the recursion", "AlternatingProjection": "alternating projection",
    "ColouredProjection": "coloured projections", "ConjugateGradient": "CG",
}  # fmt: skip


def choices_in_words(choices: Mapping[str, str]) -> list[str]:
    """Return what a solver chose as `block size: 523 (reason)`, from the recorded `value: reason` by setting."""
    found = []
    for setting, chosen in choices.items():
        value, _, why = chosen.partition(": ")
        name = CHOICE_WORDS.get(setting, setting.replace("_", " "))
        found.append(f"{name}: {CHOSEN_VALUES.get(value, value)}{f' ({why})' if why else ''}")
    return found


def in_words(settings: Mapping[str, Any]) -> list[str]:
    """Return settings without their own words as `name value`."""
    return [f"{name.replace('_', ' ')} {value}" for name, value in settings.items()]


def entry_of(
    family: str, preconditioner: str | None = None, *, overlaps: bool = False, variant: str = ""
) -> MethodEntry | None:
    """Return the entry of a method; None if the registry has none of its family and preconditioner.

    `overlaps` distinguishes alternating projection on overlapping blocks, `variant` steepest descent from gradient
    descent.
    """

    def fits(entry: MethodEntry) -> bool:
        if ("overlap" in entry.fixed) is not overlaps:
            return False
        return overlaps or set(in_words(entry.fixed)) <= set(variant.split(", "))

    found = [each for each in METHODS.values() if (each.family, each.preconditioner) == (family, preconditioner)]
    return next(filter(fits, found), found[0] if found else None)
