"""Metrics: counters, gauges and histograms in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

Labels = tuple[tuple[str, str], ...]
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
HELP = {
    "unspool_requests_total": ("counter", "Requests, by route and status."),
    "unspool_request_seconds": ("histogram", "Time from the head of a request to the end of its answer."),
    "unspool_tokens_total": ("counter", "Tokens or steps that a model has read (fed, stepped) or written."),
    "unspool_batch_size": ("histogram", "Sessions that stepped together."),
    "unspool_batch_seconds": ("histogram", "Time of one step of a batch."),
    "unspool_queue_length": ("gauge", "Requests that wait for a model."),
    "unspool_sessions": ("gauge", "Sessions that are kept."),
    "unspool_sessions_dropped_total": ("counter", "Sessions that were dropped, by reason."),
}


class Histogram:
    """How many observations lie at or below each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        """Count one more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Metrics:
    """All metrics of a server; any thread may count.

    Args:
        labels: Those that every metric has, such as the number of the worker.

    Example:
        metrics.count("unspool_tokens_total", 5, model="book", kind="written")
    """

    def __init__(self, **labels: str) -> None:
        self._lock, self._labels = Lock(), tuple(labels.items())
        self._counters: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[tuple[str, Labels], Histogram] = {}
        self._gauges: dict[tuple[str, Labels], Callable[[], float]] = {}
        self._common: dict[str, Callable[[], float]] = {}

    def count(self, name: str, more: float = 1, **labels: str) -> None:
        """Add to a counter."""
        key = name, (*self._labels, *labels.items())
        with self._lock:
            self._counters[key] = self._counters.get(key, 0) + more

    def observe(self, name: str, value: float, bounds: Sequence[float], **labels: str) -> None:
        """Add an observation to a histogram."""
        key = name, (*self._labels, *labels.items())
        with self._lock:
            self._histograms.setdefault(key, Histogram(bounds)).observe(value)

    def gauge(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """Name what is read whenever the metrics are asked for."""
        self._gauges[name, (*self._labels, *labels.items())] = read

    def common_gauge(self, name: str, read: Callable[[], float]) -> None:
        """Name what all workers read alike, so that only the one which is asked tells it."""
        self._common[name] = read

    def text(self, others: Sequence[Mapping[str, Sequence[str]]] = ()) -> str:
        """All metrics, as Prometheus reads them.

        Args:
            others: What `lines` gave in other workers.
        """
        own = self.lines()
        for name, read in self._common.items():
            own[name].append(f"{name} {read():g}")
        found = {name: [*own[name], *(line for one in others for line in one.get(name, ()))] for name in HELP}
        return "".join(_family(name, lines) for name, lines in found.items())

    def lines(self) -> dict[str, list[str]]:
        """The lines of each metric, of this worker alone."""
        with self._lock:
            lines: dict[str, list[str]] = {name: [] for name in HELP}
            for (name, labels), value in self._counters.items():
                lines[name].append(f"{name}{_shown(labels)} {value:g}")
            for (name, labels), histogram in self._histograms.items():
                lines[name] += _histogram_lines(name, labels, histogram)
        for (name, labels), read in self._gauges.items():
            lines[name].append(f"{name}{_shown(labels)} {read():g}")
        return lines


def _family(name: str, lines: Sequence[str]) -> str:
    kind, said = HELP[name]
    return "\n".join([f"# HELP {name} {said}", f"# TYPE {name} {kind}", *lines]) + "\n"


def _histogram_lines(name: str, labels: Labels, histogram: Histogram) -> list[str]:
    lines, below = [], 0
    for bound, count in zip([*histogram.bounds, None], histogram.counts, strict=True):
        below += count
        place = "+Inf" if bound is None else f"{bound:g}"
        lines.append(f"{name}_bucket{_shown((*labels, ('le', place)))} {below}")
    return [*lines, f"{name}_sum{_shown(labels)} {histogram.total:.9g}", f"{name}_count{_shown(labels)} {below}"]


def _shown(labels: Labels | Mapping[str, str]) -> str:
    pairs = [f'{name}="{_escaped(value)}"' for name, value in dict(labels).items()]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
