"""Reports: what was measured, as one page that opens offline, as terminal text, and in notebooks."""
