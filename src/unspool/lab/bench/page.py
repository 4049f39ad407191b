"""Reports as a page: plotly pictures and tables in one file that needs nothing else."""

from __future__ import annotations

from html import escape
from itertools import groupby

from plotly import graph_objects as go

from unspool.lab.bench.cases import Point
from unspool.lab.bench.report import OURS, Finding, Report, Row
from unspool.lab.bench.tables import aim, quantity, sorted_rows, written

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse } td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #ddd }
td.number { white-space: nowrap }
td.met { color: #080 } td.missed { color: #b00 }
td.met::before { content: "✓ " } td.missed::before { content: "✗ " }
"""
COLOURS = ("#636efa", "#ef553b", "#00a878", "#ab63fa", "#ffa15a")


def page(report: Report) -> str:
    """The whole page as HTML."""
    tables = [
        list(rows) for _, rows in groupby(sorted_rows(report), key=lambda row: (row.question, row.kind, row.unit))
    ]
    pictures = [figure for rows in tables if (figure := draw(rows)) is not None]
    shown = [
        figure.to_html(full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False})
        for number, figure in enumerate(pictures)
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>unspool bench</title><style>{STYLE}</style>'
        f"<h1>unspool bench</h1><p>{escape(report.about())}</p>"
        + "".join(f"<p><strong>{escape(remark)}</strong></p>" for remark in report.remarks)
        + f"<h2>Findings</h2>{findings(report.findings)}<h2>Measurements</h2>{''.join(shown)}</html>\n"
    )


def findings(found: list[Finding]) -> str:
    """The findings as a table."""
    lines = []
    for finding in found:
        colour = {None: "", True: "met", False: "missed"}[finding.met]
        cells = (
            f"{finding.question}: {finding.text}",
            written(finding.value, finding.unit),
            aim(finding),
            finding.where,
        )
        texts = [escape(cell) for cell in cells]
        lines.append(
            f'<tr><td>{texts[0]}</td><td class="number {colour}">{texts[1]}</td>'
            f'<td class="number">{texts[2]}</td><td>{texts[3]}</td></tr>'
        )
    return f"<table><tr><th>finding</th><th>value</th><th>aim</th><th>where</th></tr>{''.join(lines)}</table>"


def draw(rows: list[Row]) -> go.Figure | None:
    """One table's picture: seconds over T for the question that asks for it, else ratios as bars."""
    if rows[0].question == "linear":
        return draw_lines(rows)
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    if OURS not in names or len(names) == 1:
        return draw_values(rows, names)
    figure = go.Figure()
    for name, colour in zip((name for name in names if name != OURS), COLOURS, strict=False):
        there = [row for row in rows if name in row.values]
        figure.add_bar(
            name=name,
            y=[row.case for row in there],
            x=[row.ratio(name) for row in there],
            customdata=[[hover(row, name), hover(row, OURS)] for row in there],
            hovertemplate="%{y}<br>" + name + ": %{customdata[0]}<br>unspool: %{customdata[1]}<br>%{x:.2f}×",
            orientation="h",
            marker_color=colour,
        )
    figure.add_vline(x=1, line_color="#222")
    return dressed(figure, rows, "times unspool's (right of 1: unspool needs less)", logarithmic=True)


def draw_values(rows: list[Row], names: list[str]) -> go.Figure:
    """Bars of plain values, where there is nothing to compare with."""
    figure = go.Figure()
    for name, colour in zip(names, COLOURS, strict=False):
        there = [row for row in rows if name in row.values]
        x, y = [row.values[name].median for row in there], [row.case for row in there]
        figure.add_bar(name=name, x=x, y=y, orientation="h", marker_color=colour)
    return dressed(figure, rows, rows[0].unit, logarithmic=False)


def draw_lines(rows: list[Row]) -> go.Figure:
    """Seconds over the number of steps."""
    figure = go.Figure()
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    for name, colour in zip(names, COLOURS, strict=False):
        there = [row for row in rows if name in row.values]
        T = [Point.parse(row.case.split()[1]).T for row in there]
        figure.add_scatter(name=name, x=T, y=[row.values[name].median for row in there], line_color=colour)
    figure.update_layout(title="linear: training", height=450, template="plotly_white")
    figure.update_xaxes(type="log", title="steps T")
    figure.update_yaxes(type="log", title="seconds")
    return figure


def dressed(figure: go.Figure, rows: list[Row], title: str, logarithmic: bool) -> go.Figure:
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
