"""Queues."""

from __future__ import annotations

from oncue.model import Queue
from oncue.records.documents import Document, document


def queue_record(queue: Queue) -> Document:
    return document(queue)
