"""Numbers as people write them: decimal commas (1.234,5) and separated thousands (1,234.5), where these are clear."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


#: With a decimal comma, and with commas between thousands.
COMMA = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"
THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})*(\.\d+)?$"
#: What only a number of each kind can be; 1,234 may be either.
SURE_COMMA = r"\d\.\d{3},|,(\d{1,2}|\d{4,})$|^[+-]?(0|\d{4,}),"
SURE_THOUSANDS = r",\d{3},|,\d{3}\.\d"


def read_decimals(text: pl.Series) -> pl.Series | None:
    """Numbers of one writing, with a point for decimals; None where it is another one, or not clear.

    Args:
        text: The entries that are not missing, without spaces around them.

    Example:
        read_decimals(pl.Series(["1,5", "1.234,0"]))  # "1.5", "1234.0"
    """
    comma = text.str.contains(SURE_COMMA).any() and text.str.contains(COMMA).all()
    thousands = text.str.contains(SURE_THOUSANDS).any() and text.str.contains(THOUSANDS).all()
    if comma == thousands:
        return None
    if thousands:
        return text.str.replace_all(",", "", literal=True)
    return text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
