"""Reports as tables for a terminal."""

from __future__ import annotations

from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unspool.lab.bench.report import OURS, Finding, Report, Row


def render(report: Report) -> RenderableType:
    """Every question's tables, the findings, and the remarks."""
    parts: list[RenderableType] = []
    for (question, kind, _), rows in groupby(sorted_rows(report), key=lambda row: (row.question, row.kind, row.unit)):
        parts += [table(f"{question}: {kind}", list(rows)), ""]
    if report.findings:
        parts += [findings(report.findings), ""]
    parts += [Text(remark, style="yellow") for remark in report.remarks]
    return Group(*parts)


#: Titles of the columns of `_rates`.
RATES = ("GFLOP/s", "of machine")


def sorted_rows(report: Report) -> list[Row]:
    """The rows with those of one table together, in the order in which the tables first occur."""
    order: dict[tuple[str, str, str], int] = {}
    for row in report.rows:
        order.setdefault((row.question, row.kind, row.unit), len(order))
    return sorted(report.rows, key=lambda row: order[row.question, row.kind, row.unit])


def table(title: str, rows: list[Row]) -> Table:
    """One row a case, one column a contestant: the median, its quartiles, and how many times ours it is."""
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    rated = any(row.operations is not None for row in rows)
    result = Table(title=title, title_justify="left", header_style="bold")
    result.add_column("case")
    for name in (*names, *(RATES if rated else ())):
        result.add_column(name, justify="right")
    for row in rows:
        result.add_row(row.case, *(value(row, name) for name in names), *(_rates(row) if rated else ()))
    return result


def _rates(row: Row) -> tuple[str, str]:
    """Our rate, and the fraction of the machine's; empty where they are not known."""
    rate = row.rate() if OURS in row.values else None
    return f"{rate / 1e9:.3g}" if rate else "", f"{row.fraction:.0%}" if row.fraction else ""


def value(row: Row, name: str) -> Text:
    """`3.21 ms ±4%  2.1×`: median, half the distance of the quartiles, ratio."""
    if name not in row.values:
        return Text("–", style="dim")
    spread = row.values[name]
    text = Text(quantity(spread.median, row.unit))
    if spread.count > 1 and spread.median:
        text.append(f" ±{(spread.high - spread.low) / 2 / spread.median:.0%}", style="dim")
    if name != OURS and OURS in row.values and row.values[OURS].median:
        ratio = row.ratio(name)
        text.append(f" {ratio:5.2f}×", style="green" if ratio >= 1 else "red")
    return text


def quantity(number: float, unit: str) -> str:
    """A number with the prefix that makes it readable."""
    if unit == "s":
        for factor, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if number >= factor or name == "µs":
                return f"{number / factor:.3g} {name}"
    if unit == "bytes":
        return f"{number / 2**20:,.1f} MiB"
    if unit == "B":
        return f"{number:,.0f} B"
    return f"{number:.3g} {unit}"


def findings(found: list[Finding]) -> Table:
    result = Table(title="findings", title_justify="left", header_style="bold")
    result.add_column("")
    result.add_column("finding")
    result.add_column("value", justify="right")
    result.add_column("aim", justify="right")
    result.add_column("where")
    for finding in found:
        mark = {None: Text("·"), True: Text("✓", style="green"), False: Text("✗", style="red")}[finding.met]
        text = f"{finding.question}: {finding.text}"
        result.add_row(mark, text, written(finding.value, finding.unit), aim(finding), finding.where)
    return result


def aim(finding: Finding) -> str:
    """`≥ 2.0×`, or nothing."""
    if finding.aim is None:
        return ""
    return f"{'≥' if finding.at_least else '≤'} {written(finding.aim, finding.unit)}"


def written(number: float, unit: str) -> str:
    """A finding's number as a person writes it."""
    if unit in ("s", "bytes"):
        return quantity(number, unit)
    return f"{number:.0f}%" if unit == "%" else f"{number:.2f}{unit}"
