"""Reports: what was measured, as one page that opens offline, as terminal text, and in notebooks."""

from unspool.insight.report.comparison import render_comparison as render_comparison
from unspool.insight.report.contract import Report as Report
from unspool.insight.report.contract import Section as Section
from unspool.insight.report.contract import Verdict as Verdict
from unspool.insight.report.film import render_film as render_film
from unspool.insight.report.page import render as render
from unspool.insight.report.page import write_report as write_report
from unspool.insight.report.plain import to_plain as to_plain
from unspool.insight.report.terminal import summarise as summarise
