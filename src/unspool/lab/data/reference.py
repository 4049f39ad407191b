"""The Python language reference that is part of every Python: English text without a download."""

from __future__ import annotations

import pydoc_data.topics


def python_reference() -> str:
    """The Python language reference, about 465,000 characters of English; it differs between Python versions.

    Returns:
        All topics of `pydoc_data.topics`, one after the other.

    Example:
        >>> "for" in python_reference()
        True
    """
    return "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))
