"""Sections: what each picture asks, how a student reads it, and what it shows here."""
