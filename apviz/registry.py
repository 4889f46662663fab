"""A registry: the classes of one kind, by their names in settings, on the command line and in traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Registry(Mapping[str, type[T]], Generic[T]):
    """A mapping from names to classes in the order of registration, for listing, saving and loading objects.

    Args:
        what: name of the setting that accepts them, for messages.
        where: package of the classes.

    Examples:
        >>> from apviz.rules import RULES
        >>> RULES["cyclic"]
        <class 'apviz.rules.Cyclic'>
        >>> RULES.make("random", seed=3)
        Random(seed=3)
    """

    def __init__(self, what: str, where: str) -> None:
        self.what, self.where = what, where
        self._kinds: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Return a decorator that registers a class under this name, unless another class has it."""

        def put(kind: type[T]) -> type[T]:
            known = self._kinds.get(name)
            # running a notebook cell again defines its class again
            if known is not None and (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
                raise ValueError(f"{self.what} {name!r} is already registered by {self._kinds[name].__name__}")
            self._kinds[name] = kind
            return kind

        return put

    def make(self, name: object, **settings: Any) -> T:
        """Make an object of the class called `name`, with those of the settings that it accepts."""
        if not isinstance(name, str) or name not in self._kinds:
            known = ", ".join(self)
            raise ValueError(f"{self.what} must be one of {known}, or an object of {self.where}, got {name!r:.200}")
        kind = self._kinds[name]
        taken = getattr(kind, "__dataclass_fields__", {})
        return kind(**{key: value for key, value in settings.items() if key in taken})

    def name_of(self, value: object) -> str:
        """Return the registered name of an object's class, otherwise the class's own name."""
        return next((name for name, kind in self.items() if type(value) is kind), type(value).__name__)

    def __getitem__(self, name: str) -> type[T]:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)
