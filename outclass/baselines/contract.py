"""What every method to compare with offers, and what it is given."""

from typing import ClassVar, Literal, NamedTuple, Protocol, Self

from outclass.arrays import Floats, Ints

Uses = Literal["confidences", "features", "both"]
"""Which of an item's vectors a method reads."""
On = Literal["features", "confidences"]
"""Which of them, for methods that read either."""


class Items(NamedTuple):
    confidences: Floats
    """(n, k) the backbone's output activities (logits) of each item; of width 0 for methods that do not use them."""
    features: Floats
    """(n, d)"""

    def vectors(self, on: On) -> Floats:
        return self.features if on == "features" else self.confidences


class Baseline(Protocol):
    """Fitted on train items of known classes, it scores items; higher is more novel."""

    name: ClassVar[str]
    uses: ClassVar[Uses]

    def fit(self, items: Items, labels: Ints) -> Self:
        """``labels`` are 0 to k - 1, and every class occurs."""
        ...

    def score(self, items: Items, size: int = 1) -> Floats:
        """The novelty (n,) of each row, which is an item, or the mean of ``size`` items of one set."""
        ...
