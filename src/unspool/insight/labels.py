"""Names of layers for people, such as `encoder layer 2 ←`, which can be translated."""

from __future__ import annotations

import re

from unspool.language import Message

#: A name as it stands among the numbers of a report.
LABEL = re.compile(r"(?:(?P<stack>.+) )?layer (?P<number>\d+)(?P<arrow> [←→])?")


def name_layer(number: int, stack: str = "", arrow: str = "") -> Message:
    """The name of a layer.

    Args:
        number: from 1, the lowest.
        stack: the part of the model that it is in; empty if there is only one.
        arrow: the direction of time, such as " ←"; empty if it is the only one and forward.

    Example:
        >>> name_layer(2, "encoder", " ←")
        'encoder layer 2 ←'
    """
    if stack:
        return Message("{stack} layer {number}{arrow}", stack=stack, number=number, arrow=arrow)
    return Message("layer {number}{arrow}", number=number, arrow=arrow)


def read_label(text: str) -> str:
    """A layer's name from its text, so that it can be translated; any other text as it is.

    Example:
        >>> read_label("layer 1").template
        'layer {number}{arrow}'
    """
    found = LABEL.fullmatch(text)
    if found is None:
        return text
    return name_layer(int(found["number"]), found["stack"] or "", found["arrow"] or "")
