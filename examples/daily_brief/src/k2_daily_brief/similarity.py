"""Which articles tell of the same event: TF-IDF vectors and the cosine between them. No I/O, no chance.

An article joins the cluster whose centre is nearest, if it is near enough and close enough in time; otherwise it
begins a cluster of its own. A cluster is known by the sum of its members' unit vectors: the cosine to its centre is the
product with that sum, divided by the sum's length. Both follow from products that are computed once, for all newcomers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WINDOW = timedelta(hours=48)

Numbers = NDArray[np.float64]


class Text(NamedTuple):
    """An article to be placed, or one that has its place: `cluster_id` says where."""

    article_id: int
    words: str
    published_at: datetime
    cluster_id: int | None = None


class Choice(NamedTuple):
    """Where an article belongs: to a cluster that exists, or to the one that begins with the article `founder_id`."""

    article_id: int
    cluster_id: int | None
    founder_id: int | None
    similarity: float
    published_at: datetime


def assign(placed: Sequence[Text], newcomers: Sequence[Text], threshold: float) -> list[Choice]:
    """Find a place for every newcomer, in the order given."""
    matrix = vectors([text.words for text in (*placed, *newcomers)])
    seats = _Seats(placed, newcomers, matrix[: len(placed)], matrix[len(placed) :])
    return [seats.choose(row, threshold) for row in range(len(newcomers))]


def vectors(texts: Sequence[str]) -> Any:
    """A sparse row of length one for each text; words that few texts share count most."""
    # Imported when there is something to compare: it takes a second, which every start and command would pay for.
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]

    try:
        return TfidfVectorizer(stop_words="english", sublinear_tf=True).fit_transform(texts)
    except ValueError:  # there is not a single word in them
        return _sparse((len(texts), 1))


class _Seats:
    """Columns are clusters: first those that exist, then one for each newcomer, should it begin its own."""

    def __init__(self, placed: Sequence[Text], newcomers: Sequence[Text], old: Any, new: Any) -> None:
        self._newcomers = newcomers
        self._known = list(dict.fromkeys(text.cluster_id for text in placed))
        column_of = {cluster_id: column for column, cluster_id in enumerate(self._known)}
        labels = np.array([column_of[text.cluster_id] for text in placed], dtype=np.intp)
        sums = _sums(old, labels, len(self._known))
        self._cosines: Numbers = (new @ new.T).toarray()
        self._products: Numbers = np.hstack([(new @ sums.T).toarray(), np.zeros_like(self._cosines)])
        self._squared_lengths: Numbers = np.zeros(self._products.shape[1])
        self._squared_lengths[: len(self._known)] = np.asarray(sums.multiply(sums).sum(axis=1)).ravel()
        self._moments: Numbers = np.array([text.published_at.timestamp() for text in newcomers])
        self._first: Numbers = np.full(self._products.shape[1], np.inf)
        self._last: Numbers = np.full(self._products.shape[1], -np.inf)
        moments = np.array([text.published_at.timestamp() for text in placed], dtype=np.float64)
        np.minimum.at(self._first, labels, moments)
        np.maximum.at(self._last, labels, moments)

    def choose(self, row: int, threshold: float) -> Choice:
        """Seat one newcomer, for those who come after it to see. Of two clusters equally near, the first."""
        similarities = self._similarities(row)
        column = int(similarities.argmax())
        similarity = float(similarities[column])
        if similarity < threshold:
            column, similarity = len(self._known) + row, 1.0
        self._join(row, column)
        text = self._newcomers[row]
        return Choice(text.article_id, *self._names(column), similarity, text.published_at)

    def _similarities(self, row: int) -> Numbers:
        window, moment = WINDOW.total_seconds(), self._moments[row]
        near = (self._first - window <= moment) & (moment <= self._last + window) & (self._squared_lengths > 0)
        found = np.zeros_like(self._squared_lengths)
        np.divide(self._products[row], np.sqrt(self._squared_lengths), out=found, where=near)
        return found

    def _join(self, row: int, column: int) -> None:
        self._squared_lengths[column] += 2 * self._products[row, column] + self._cosines[row, row]
        self._products[:, column] += self._cosines[:, row]
        self._first[column] = min(self._first[column], self._moments[row])
        self._last[column] = max(self._last[column], self._moments[row])

    def _names(self, column: int) -> tuple[int | None, int | None]:
        """The cluster's id if it exists, else the article that begins it."""
        if column < len(self._known):
            return self._known[column], None
        return None, self._newcomers[column - len(self._known)].article_id


def _sums(rows: Any, labels: NDArray[np.intp], count: int) -> Any:
    """The sums of the rows that have the same label, sparse."""
    ones = np.ones(len(labels))
    return _sparse((ones, (labels, np.arange(len(labels)))), shape=(count, len(labels))) @ rows


def _sparse(*arguments: Any, **options: Any) -> Any:
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    return csr_matrix(*arguments, **options)
