"""Endpoints that take long to answer: when a delivery to one gives up its seat, and how many of them wait at once.

A delivery that waits for an answer costs a connection and no processor time. So it keeps its seat for a moment only,
and then waits aside: the seats of a node are for what is quick, however many endpoints hang. The room aside is bounded
too, since connections are. Deliveries to endpoints that are known to be slow may fill half of it; an endpoint of which
none is on its way may have one more in the third quarter; the rest is for endpoints that turn slow from now on.
"""

from __future__ import annotations

PATIENCE = 0.2
"""Seconds for which a delivery that waits for an answer keeps its seat."""
MOST_ASIDE = 1_000


def room_aside(open_files: int) -> int:
    """How many deliveries of a process may wait aside, if it may have so many files open: a connection is one."""
    return min(MOST_ASIDE, open_files // 2)


def may_begin(aside: int, of_endpoint: int, room: int) -> bool:
    """Whether a delivery to a slow endpoint may begin while so many wait aside, so many of them for this endpoint."""
    return aside < room // 2 or (of_endpoint == 0 and aside < room * 3 // 4)
