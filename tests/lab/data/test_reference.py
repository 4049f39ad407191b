"""The text that is part of Python."""

from __future__ import annotations

from pydoc_data.topics import topics

from unspool.lab.data import python_reference


def test_every_topic_is_in_the_text() -> None:
    text = python_reference()
    assert all(topic in text for topic in topics.values())
    assert len(text) == sum(map(len, topics.values())) + len(topics) - 1
