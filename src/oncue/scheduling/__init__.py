"""The verbs on schedules and slots, for callers and operators. Every change is conditional on what was read.

looking        what schedules there are, what they have done, and what they will do
editing        make, change, switch and delete them
synchronising  make the stored ones what the code declares
by_hand        run slots that no leader decides: one, an extra one, or a whole span
common         what these stand on
"""

from __future__ import annotations

from oncue.scheduling.by_hand import Backfilled, ByHand
from oncue.scheduling.looking import MOST_PREVIEWED, Fire, fires
from oncue.scheduling.synchronising import Synchronising

__all__ = ["MOST_PREVIEWED", "Backfilled", "Fire", "Scheduling", "fires"]


class Scheduling(Synchronising, ByHand):
    """The verbs on schedules. In plain code: `app.wait(app.trigger("nightly", at))`."""
