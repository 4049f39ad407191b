"""Reports as a page: plotly figures and tables in one file that needs nothing else."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from plotly import graph_objects as go

from unspool.insight.report.templating import templates_of
from unspool.lab.bench.cases import Point
from unspool.lab.bench.report import OURS, Finding, Report, Row
from unspool.lab.bench.tables import aim, quantity, sorted_rows, written

COLORS = ("#636efa", "#ef553b", "#00a878", "#ab63fa", "#ffa15a")
#: Whether a finding's aim is met, as a class of the page's style.
STATES = {None: "", True: "met", False: "missed"}


class ShownFinding(NamedTuple):
    """A finding as the page's table shows it."""

    title: str
    state: str
    value: str
    aim: str
    where: str


def page(report: Report) -> str:
    """The whole page as HTML."""
    tables = [
        list(rows) for _, rows in groupby(sorted_rows(report), key=lambda row: (row.question, row.kind, row.unit))
    ]
    figures = [
        draw(rows).to_html(full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False})
        for number, rows in enumerate(tables)
    ]
    template = templates_of("unspool.lab.bench").get_template("bench.html.j2")
    findings = [show(finding) for finding in report.findings]
    return template.render(about=report.about(), remarks=report.remarks, findings=findings, figures=figures)


def show(finding: Finding) -> ShownFinding:
    """A finding in words."""
    return ShownFinding(
        f"{finding.question}: {finding.text}",
        STATES[finding.met],
        written(finding.value, finding.unit),
        aim(finding),
        finding.where,
    )


def draw(rows: list[Row]) -> go.Figure:
    """The figure of one table: seconds over T for the question about linearity, else ratios or values as bars."""
    if rows[0].question == "linear":
        return draw_lines(rows)
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    if OURS not in names or len(names) == 1:
        return draw_values(rows, names)
    return draw_ratios(rows, [name for name in names if name != OURS])


def draw_ratios(rows: list[Row], others: list[str]) -> go.Figure:
    """Bars of how many times more than unspool each of the others needs."""
    figure = go.Figure()
    for name, color in zip(others, COLORS, strict=False):
        there = [row for row in rows if name in row.values]
        figure.add_bar(
            name=name,
            y=[row.case for row in there],
            x=[row.ratio(name) for row in there],
            customdata=[[hover(row, name), hover(row, OURS)] for row in there],
            hovertemplate="%{y}<br>" + name + ": %{customdata[0]}<br>unspool: %{customdata[1]}<br>%{x:.2f}×",
            orientation="h",
            marker_color=color,
        )
    figure.add_vline(x=1, line_color="#222")
    return dressed(figure, rows, "times unspool's (right of 1: unspool needs less)", logarithmic=True)


def draw_values(rows: list[Row], names: list[str]) -> go.Figure:
    """Bars of values, if there is nothing to compare with."""
    figure = go.Figure()
    for name, color in zip(names, COLORS, strict=False):
        there = [row for row in rows if name in row.values]
        x, y = [row.values[name].median for row in there], [row.case for row in there]
        figure.add_bar(name=name, x=x, y=y, orientation="h", marker_color=color)
    return dressed(figure, rows, rows[0].unit, logarithmic=False)


def draw_lines(rows: list[Row]) -> go.Figure:
    """Seconds over the number of steps."""
    figure = go.Figure()
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    for name, color in zip(names, COLORS, strict=False):
        there = [row for row in rows if name in row.values]
        T = [Point.parse(row.case.split()[1]).T for row in there]
        figure.add_scatter(name=name, x=T, y=[row.values[name].median for row in there], line_color=color)
    figure.update_layout(title="linear: training", height=450, template="plotly_white")
    figure.update_xaxes(type="log", title="steps T")
    figure.update_yaxes(type="log", title="seconds")
    return figure


def dressed(figure: go.Figure, rows: list[Row], title: str, logarithmic: bool) -> go.Figure:
    """The figure with its title, size and axes."""
    figure.update_layout(
        title=f"{rows[0].question}: {rows[0].kind}",
        barmode="group",
        template="plotly_white",
        height=160 + 24 * sum(len(row.values) for row in rows),
        margin={"l": 220},
        showlegend=True,
    )
    figure.update_xaxes(title=title, type="log" if logarithmic else "linear")
    figure.update_yaxes(autorange="reversed")
    return figure


def hover(row: Row, name: str) -> str:
    """`3.2 ms (3.1 ms to 3.4 ms)`: the median and the quartiles."""
    spread = row.values[name]
    low, median, high = (quantity(number, row.unit) for number in (spread.low, spread.median, spread.high))
    return f"{median} ({low} to {high})"
