"""Report: what was measured, what follows from it, and both as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from unspool.errors import ArgumentError
from unspool.lab.bench.timing import Spread

SCHEMA = 1
OURS = "unspool"


@dataclass(frozen=True)
class Row:
    """One case of one question: the same thing, by several contestants."""

    question: str
    kind: str
    case: str
    values: dict[str, Spread]
    unit: str = "s"
    #: Floating-point operations of the case, and the rate of the large matrix product in the same rounds, a second.
    operations: float | None = None
    machine_rate: float | None = None

    def ratio(self, other: str, of: str = OURS) -> float:
        """How many times more `other` needs than `of`: the quotient of the medians."""
        return self.values[other].median / self.values[of].median

    def best(self, others: Iterable[str]) -> str | None:
        """The one of the others that needs least, if any of them took part."""
        present = [name for name in others if name in self.values]
        return min(present, key=lambda name: self.values[name].median, default=None)

    def rate(self, of: str = OURS) -> float | None:
        """Floating-point operations a second."""
        return None if self.operations is None else self.operations / self.values[of].median

    @property
    def fraction(self) -> float | None:
        """Our rate as a part of the large matrix product's."""
        rate = self.rate()
        return None if rate is None or self.machine_rate is None else rate / self.machine_rate


@dataclass(frozen=True)
class Finding:
    """One number that answers a question, beside the number that was hoped for."""

    question: str
    text: str
    value: float
    unit: str = "×"
    aim: float | None = None
    at_least: bool = True
    where: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the aim is reached; None without an aim."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.at_least else self.value <= self.aim


@dataclass
class Report:
    """All rows and findings of a run, with the machine and the settings that they hold for."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    #: What could not take part or could not be measured, and why; what to doubt.
    remarks: list[str] = field(default_factory=list)

    def about(self) -> str:
        """The machine and the settings in a sentence or two."""
        found = self.machine
        versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
        return (
            f"{found['processor']} ({found['instructions']}), {found['cores']} cores, {found['system']}, Python "
            f"{found['python']}; {versions}. {self.settings['threads']} threads, {self.settings['rounds']} rounds, "
            f"started {found['started']}."
        )

    def to_json(self) -> str:
        document = {"schema": SCHEMA, **asdict(self)}
        for shown, row in zip(document["rows"], self.rows, strict=True):
            shown["ratios"] = {name: row.ratio(name) for name in row.values if OURS in row.values and name != OURS}
            shown["fraction_of_machine_rate"] = row.fraction
        for shown, finding in zip(document["findings"], self.findings, strict=True):
            shown["met"] = finding.met
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """The report that `to_json` wrote."""
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                raise ArgumentError.of("schema", document["schema"], f"is not {SCHEMA}", "Measure again")
            rows = list(map(_read_row, document["rows"]))
            findings = [
                Finding(**{key: value for key, value in found.items() if key != "met"})
                for found in document["findings"]
            ]
            return cls(document["machine"], document["settings"], rows, findings, document["remarks"])
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ArgumentError(f"this is not a benchmark's JSON report ({type(error).__name__}: {error}).") from error


def _read_row(row: Mapping[str, Any]) -> Row:
    return Row(
        **{key: row[key] for key in ("question", "kind", "case", "unit", "operations", "machine_rate")},
        values={name: Spread(**spread) for name, spread in row["values"].items()},
    )


def geometric_mean(values: Sequence[float]) -> float:
    """The mean that treats twice as fast and twice as slow alike."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def compare(
    rows: Iterable[Row], others: Sequence[str], text: str, mean: float | None, worst: float | None
) -> list[Finding]:
    """The geometric mean and the worst point of our ratios to the fastest of `others`, each with its aim."""
    ratios = {row.case: row.ratio(best) for row in rows if (best := row.best(others)) and OURS in row.values}
    question = next((row.question for row in rows), "")
    if not ratios:
        return []
    where = min(ratios, key=ratios.__getitem__)
    return [
        Finding(question, f"{text}: geometric mean", geometric_mean(list(ratios.values())), aim=mean),
        Finding(question, f"{text}: worst point", ratios[where], aim=worst, where=where),
    ]
