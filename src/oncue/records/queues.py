"""Queues and their groups."""

from __future__ import annotations

from oncue.model import Group, Queue
from oncue.records.documents import Document, document


def queue_record(queue: Queue) -> Document:
    return document(queue)


def group_record(group: Group) -> Document:
    return document(group)
