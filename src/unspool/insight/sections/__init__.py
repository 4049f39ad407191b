"""Sections: one file per measure, with its record: what it measures, how a reader understands it, its key numbers.

The figures are drawn when a page is rendered, so that a report without a page needs no plotly.
"""
