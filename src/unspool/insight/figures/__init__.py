"""Figures: pictures of measures by plotly; nothing is computed here."""
