"""Problems of data: all of them are told at once, the first with their places."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

from unspool.errors import DataError, DataWarning

#: Problems that a message lists.
LISTED = 10
#: Labels that a message lists.
EXAMPLES = 5


class Problems:
    """What is wrong in a file, in the order in which it is found.

    Example:
        problems = Problems()
        problems.add("a.conll, line 3: 'x' has no tag. Write the tag after the word.")
        problems.refuse()
    """

    def __init__(self, found: Iterable[str] = ()) -> None:
        self._found = list(found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, problem: str) -> None:
        """Another problem: its place, what is wrong, and the remedy."""
        self._found.append(problem)

    def __str__(self) -> str:
        if len(self._found) == 1:
            return self._found[0]
        listed = "\n".join(f"  {problem}" for problem in self._found[:LISTED])
        more = len(self._found) - LISTED
        return f"{len(self._found):,} problems:\n{listed}" + (f"\n  … and {more:,} more." if more > 0 else "")

    def refuse(self) -> None:
        """Raise all of them as one error; nothing if there are none."""
        if self._found:
            raise DataError(str(self))

    def warn(self, how: str) -> None:
        """Say all of them in one warning, and how the data is read all the same; nothing if there are none."""
        if self._found:
            warn(f"{how} {self}")


def warn(text: str) -> None:
    """Say something about data that is read all the same."""
    warnings.warn(text, DataWarning, stacklevel=3)


def warn_unseen(
    what: str,
    whole: str,
    total: int,
    unseen: Sequence[str],
    place: str,
    *,
    having: int | None = None,
    how: str = "They count as wrong; the loss is computed without them.",
) -> None:
    """Say that some labels, or tags, do not occur in the training data; nothing if there are none.

    Args:
        what: What was not seen: "label", "tag".
        whole: What has it, in the plural: "examples", "words".
        total: How many there are in all.
        unseen: Those that were not seen, each as often as it occurs.
        place: The file and line of the first.
        having: How many examples have any of them; None: as many as there are, one per example.
        how: What they mean for the metrics.
    """
    if unseen:
        warn(
            f"{place}: {len(unseen) if having is None else having:,} of {total:,} {whole} have a {what} that does not "
            f"occur in the training data: {_listed(unseen)}. {how}"
        )


def _listed(labels: Iterable[str]) -> str:
    counted = Counter(labels)
    listed = ", ".join(f"{label!r} ({count:,})" for label, count in counted.most_common(EXAMPLES))
    return listed + ", …" * (len(counted) > EXAMPLES)
