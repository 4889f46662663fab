"""System of a job: data and hyperparameters as plain values, chosen by a visitor or read from a trace."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch

from apviz import datasets
from apviz.comparison import build_system, choose_hyperparameters
from apviz.dashboard.limits import Limits
from apviz.dashboard.store.own_data import OwnTable, without_folder
from apviz.datasets import Dataset, DatasetUnavailable
from apviz.datasets.loading import load_raw
from apviz.datasets.preprocessing import RawTable
from apviz.datasets.tables.preparing import dataset_of, prepare_table
from apviz.datasets.tables.table import Table, inspect_table
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel
from apviz.solvers import Hook
from apviz.system import KernelSystem
from apviz.table_models.fitting import some_rows, with_varying_inputs
from apviz.tracing.trace import kernel_of

DTYPES = {"float32": torch.float32, "float64": torch.float64}
FROM_CARD, FITTED, BY_HAND = "of the data set", "fitted here", "by hand"
#: Number of rows of the landing page; a comparison of ten solvers takes seconds.
DEFAULT_N = 1_712


@dataclass(frozen=True)
class Loaded:
    """System ready to be solved, with its data and hyperparameters."""

    data: Dataset
    hyperparameters: Hyperparameters
    system: KernelSystem


@dataclass(frozen=True)
class SystemSpec:
    """Plain values, which a job passes to its thread; the names are those of `SystemChoice`.

    Args:
        source: Source of the hyperparameters: `FROM_CARD`, `FITTED` or `BY_HAND`. Only `BY_HAND` uses those given here.
        kernel: Name of a kernel; or, for a recorded run, the kernel itself with its lengthscales and scales.
        own: Table behind `dataset`; None for a data set of apviz.
    """

    dataset: str
    n: int
    source: str = FROM_CARD
    kernel: str | Kernel = "matern52"
    lengthscale: tuple[float, ...] = (0.2,)
    outputscale: float = 1.0
    noise: float = 0.01
    rhs: int = 4
    seed: int = 0
    dtype: str = "float32"
    own: OwnTable | None = None

    def load(self) -> Dataset:
        """Return the data, split and standardised.

        Raises:
            DatasetUnavailable: The data set is missing; the message says how to get it.
            ValueError: An unknown name, or an invalid file.
        """
        dtype = DTYPES[self.dtype]
        if self.own is not None:
            with self._own_table(self.own) as table:
                data = dataset_of(table, self.own.choices, seed=self.seed, n=self.n, dtype=dtype)
            # under the offered name, by which a trace finds it again
            return replace(data, card=replace(data.card, name=self.dataset))
        return datasets.load(self.dataset, seed=self.seed, n=self.n, dtype=dtype)

    def load_rows(self, limits: Limits) -> tuple[RawTable, int]:
        """Return rows in their own units, for a model of the table, and the number of rows of the table.

        None are held out: if n is all training rows, these are all rows of the table, up to the limit.

        Raises:
            DatasetUnavailable, ValueError: as in `load`.
        """
        self.check(limits)
        choose: Callable[..., RawTable]
        if self.own is None:
            raw = load_raw(self.dataset)
            choose = partial(some_rows, raw, source=self.dataset)
        else:
            with self._own_table(self.own) as table:
                raw = prepare_table(table, self.own.choices)
            # from the table, because the chosen rows decide which texts are inputs
            choose = partial(prepare_table, table, self.own.choices)
        total = len(raw.target)
        n = min(total if self.n >= raw.train_rows else self.n, limits.max_n)
        return with_varying_inputs(choose(n=n, seed=self.seed) if n < total else raw, self.dataset), total

    @contextmanager
    def _own_table(self, own: OwnTable) -> Iterator[Table]:
        """Yield a visitor's table; errors name the table, not the server's path."""
        choices = own.choices
        try:
            read = {each: getattr(choices, each) for each in ("header", "target", "decimal", "dates")}
            yield inspect_table(own.path, **read)
        except FileNotFoundError as error:
            raise ValueError(f"the table {self.dataset} has been removed; upload the file again") from error
        except ValueError as error:
            raise ValueError(without_folder(error, own.path)) from error

    def check(self, limits: Limits) -> None:
        """Check everything that can be checked before any work.

        Raises:
            ValueError: More rows than the limit.
        """
        if self.n > limits.max_n:
            raise ValueError(
                f"n = {self.n:,} is above this server's limit of {limits.max_n:,} rows; use fewer, or start it with "
                f"`apviz dashboard --max-n {self.n}`"
            )

    def build(self, limits: Limits, hooks: Sequence[Hook] = ()) -> Loaded:
        """Return the system with its data and hyperparameters, which are fitted if there are none.

        Args:
            hooks: Hooks of the solves of a fit.

        Raises:
            ValueError: More rows than the limit; or an error of `load` or `choose_hyperparameters`.
        """
        self.check(limits)
        data = self.load()
        if isinstance(self.kernel, Kernel):
            chosen = choose_hyperparameters(data, self.kernel, noise=self.noise)
        elif self.source == BY_HAND:
            chosen = choose_hyperparameters(data, self.kernel, self.lengthscale, self.outputscale, self.noise)
        elif self.source == FITTED:
            chosen = choose_hyperparameters(data, self.kernel, fit=True, hooks=hooks)
        else:
            chosen = choose_hyperparameters(data, hooks=hooks)
        return self._with(data, chosen)

    def at_noise(self, loaded: Loaded, factor: float) -> Loaded:
        """Return the same system with `factor` times the noise, without loading or fitting again."""
        if factor == 1:
            return loaded
        chosen = loaded.hyperparameters
        where = f"{chosen.provenance}; {factor:.3g} times its noise"
        return self._with(loaded.data, replace(chosen, noise=factor * chosen.noise, provenance=where))

    def at_seed(self, loaded: Loaded, seed: int) -> Loaded:
        """Return the system with another split, other probes, and the same hyperparameters, without fitting again."""
        other = replace(self, seed=seed)
        return other._with(other.load(), loaded.hyperparameters)

    def _with(self, data: Dataset, chosen: Hyperparameters) -> Loaded:
        system = build_system(data, chosen, rhs=self.rhs, seed=self.seed, dtype=DTYPES[self.dtype])
        return Loaded(data.for_comparison(), chosen, system)


def spec_of(attrs: Mapping[str, object], find_own: Callable[[str], OwnTable | None]) -> SystemSpec:
    """Return the system of a recorded run, from the root attributes of its trace.

    Raises:
        ValueError: The data are no longer available, or the kernel is not part of apviz.
    """
    a: Mapping[str, object] = attrs
    kernel = kernel_of(a)
    if "largest_noise" in a:
        raise ValueError("a system with one noise per row can only be solved again in Python")
    name = str(a["dataset"])
    own = data_of("run", name, attrs, find_own)
    return SystemSpec(
        dataset=name, n=int(str(a["n"])), source=BY_HAND, kernel=kernel, noise=float(str(a["noise"])),
        rhs=int(str(a["right_hand_sides"])), seed=int(str(a.get("seed", 0))), dtype=str(a["dtype"]), own=own,
    )  # fmt: skip


def data_of(
    what: str, name: str, attrs: Mapping[str, object], find_own: Callable[[str], OwnTable | None]
) -> OwnTable | None:
    """Return the table behind the name of a data set in a trace; None for a data set of apviz.

    Args:
        what: Kind of the trace: a run, or a training.
        attrs: Root attributes of the trace.

    Raises:
        ValueError: The data are no longer available, or another table has that name.
    """
    own = find_own(name)
    preparation = json.loads(str(attrs.get("data_preparation", "{}")))
    missing = f"the data of this {what}, {name or 'without a name'}, are not on this server"
    if own is not None and not own.is_that_of(preparation):
        raise ValueError(
            f"{missing}: the table of that name is another file, or has other columns or rows; upload the file "
            f"again and choose the target {preparation.get('target')} and {len(preparation.get('inputs', []))} inputs"
        )
    if own is None and name not in datasets.registry:
        raise ValueError(f"{missing}; upload the file again" + (f", under the name {name}" if name else ""))
    if own is None:
        try:
            datasets.require_here(name)
        except DatasetUnavailable as error:
            raise ValueError(str(error)) from error
    return own


def read_lengthscales(text: str) -> tuple[float, ...]:
    """Return the lengthscales from the text of a field: one number, or one per input.

    Raises:
        ValueError: The text is not numbers above 0.
    """
    try:
        numbers = tuple(float(word) for word in text.replace(",", " ").split())
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number < math.inf for number in numbers):
        raise ValueError(
            f"the lengthscale must be one number, or one per input, above 0, such as 0.1, 0.2; got {text!r:.80}"
        )
    return numbers
