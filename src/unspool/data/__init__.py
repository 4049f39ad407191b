"""From files to examples and batches: text, labelled text, tables, tagged text, pairs and series."""
