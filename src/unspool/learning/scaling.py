"""What several machines that train one model would gain: a model of the cost of an update."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.errors import ArgumentError

#: Seconds for a message of no length, and bytes a second, of connections that people have.
ETHERNET_1G, ETHERNET_10G, ETHERNET_100G = (5e-5, 0.117e9), (3e-5, 1.17e9), (1e-5, 11.7e9)


@dataclass(frozen=True)
class UpdateCost:
    """What an update costs: its rows are divided among machines, which then sum their gradients around a ring.

    Attributes:
        rows: Of a batch, over all machines.
        fixed: Seconds of an update on one machine that do not depend on the rows.
        row: Seconds of each row.
        size: Bytes of the gradients.
        latency: Seconds of a message of no length.
        bandwidth: Bytes a second between two machines.

    Example:
        >>> cost = UpdateCost(rows=64, fixed=0.002, row=0.001, size=4_000_000, latency=5e-5, bandwidth=1e9)
        >>> round(cost.seconds(1), 3), round(cost.seconds(4), 4)
        (0.066, 0.0243)
    """

    rows: int
    fixed: float
    row: float
    size: int
    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        for name in ("rows", "bandwidth"):
            if not getattr(self, name) > 0:
                raise ArgumentError.of(name, getattr(self, name), "is not above 0", "Give a positive number")
        for name in ("fixed", "row", "size", "latency"):
            if not getattr(self, name) >= 0:
                raise ArgumentError.of(name, getattr(self, name), "is negative", "Give 0 or more")

    @classmethod
    def fit(cls, few: tuple[int, float], many: tuple[int, float], size: int, link: tuple[float, float]) -> UpdateCost:
        """From the seconds of an update with few rows and with many, measured on one machine.

        Args:
            few: Rows, and seconds.
            many: More rows, and seconds; a batch has as many.
            size: Bytes of the gradients.
            link: Latency and bandwidth.
        """
        row = max(0.0, (many[1] - few[1]) / (many[0] - few[0]))
        return cls(many[0], max(0.0, many[1] - row * many[0]), row, size, *link)

    def exchange(self, machines: int) -> float:
        """Seconds in which machines sum their gradients: each sends all but its own part twice."""
        turns = 2 * (machines - 1)
        return turns * (self.latency + self.size / machines / self.bandwidth)

    def seconds(self, machines: int) -> float:
        """Of an update on so many machines. Sums that begin while gradients are still computed can save some of it."""
        return self.fixed + self.row * -(-self.rows // machines) + self.exchange(machines)

    def speedup(self, machines: int) -> float:
        """How many times as many updates a second they make as one."""
        return self.seconds(1) / self.seconds(machines)

    def break_even(self, most: int = 256) -> int | None:
        """The fewest machines that are faster than one; None: no number is."""
        return next((count for count in range(2, most + 1) if self.speedup(count) > 1), None)

    def best(self, most: int = 256) -> int:
        """The number of machines that makes the most updates a second."""
        return min(range(1, most + 1), key=self.seconds)


def break_even_bandwidth(seconds: float, size: int) -> float:
    """Bytes a second from which on two machines are faster than one, at best: they halve an update of so many seconds.

    Example:
        >>> break_even_bandwidth(0.1, 1_000_000)
        20000000.0
    """
    return 2 * size / seconds


def explain_machines(seconds: float, size: int) -> str:
    """Whether several machines are worth it for updates of so many seconds, in a sentence."""
    megabits = break_even_bandwidth(seconds, size) * 8 / 1e6
    need = f"{megabits / 1000:,.1f} Gbit/s" if megabits >= 1000 else f"{megabits:,.0f} Mbit/s"
    update = f"an update takes {seconds * 1e3:,.3g} ms and has {size / 1e6:,.3g} MB of gradients"
    if megabits > 40_000:
        return f"train on one: {update}, so two would need more than {need} between them"
    return f"{update}: two are faster than one from {need} between them"
