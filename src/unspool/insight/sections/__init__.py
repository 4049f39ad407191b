"""Sections: one file per measure, with its record: what it measures, how a reader understands it, its key numbers.

What draws the figures is imported when a page is rendered, so that a report without a page needs no plotly.
"""
