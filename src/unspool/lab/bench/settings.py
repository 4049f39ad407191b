"""Settings: how much is measured, of what, and against whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from unspool.cells.cell import check_size
from unspool.errors import UnknownNameError
from unspool.lab.bench.cases import GATES, Case, Point

#: Is told what is measured; what begins with "!" is a remark that belongs to the report.
Say = Callable[[str], None]
PEERS = ("torch", "jax", "onnxruntime")


@dataclass(frozen=True)
class Settings:
    """What a user of the benchmark chooses. `points` and `cells` stand in for a question's own."""

    threads: int = 2
    rounds: int = 15
    against: tuple[str, ...] = PEERS
    points: tuple[Point, ...] = ()
    cells: tuple[str, ...] = tuple(GATES)
    compile: bool = False

    def __post_init__(self) -> None:
        check_size("threads", self.threads)
        check_size("rounds", self.rounds)
        for name, chosen, known in (("against", self.against, PEERS), ("cell", self.cells, GATES)):
            for value in chosen:
                if value not in known:
                    raise UnknownNameError.among(name, value, known)

    def cases(self, points: tuple[Point, ...]) -> Iterator[Case]:
        """Every cell at every point: the user's points, or a question's own."""
        for cell in self.cells:
            for point in self.points or points:
                yield Case(cell, point)
