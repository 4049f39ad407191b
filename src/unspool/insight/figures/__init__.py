"""Figures: measures drawn by plotly; nothing is computed here."""
