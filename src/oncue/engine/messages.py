"""What a worker and its child processes tell each other, over a socket of their own.

    worker to child    the way to the code (sys.path and sys.argv), Setup, then Work after Work
    child to worker    for each Work: Begun, Told now and then, Done

The worker's side of the wire says one thing more by being shut: no more will come. In the middle of a job that means
that this job is to stop, between two jobs that the child may go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from oncue.model import Claim, FollowUp, Outcome

if TYPE_CHECKING:
    from oncue.engine.outcomes import SizeLimits

Told: TypeAlias = "tuple[float, str | None]"
"""How far a handler says that it has come: a fraction and a note."""


class CodePlace(NamedTuple):
    """Where a child finds a task: it imports the modules in this order until one of them has declared the task.

    `script` is the file of the program itself, if the task is declared in it. It is no module that could be imported.
    """

    modules: tuple[str, ...]
    qualname: str
    task: str
    script: str | None = None


class Setup(NamedTuple):
    """What a child takes over from its worker."""

    settings: Any = None
    """Of the application. Flags may have changed them, and a handler may enqueue."""
    logging: tuple[str, Literal["text", "json"]] | None = None
    """Level and style, if it was oncue that set the worker's logging up."""


class Work(NamedTuple):
    place: CodePlace
    claim: Claim
    limits: SizeLimits


class Begun(NamedTuple):
    """The code is loaded, and the handler is about to be called."""


class News(NamedTuple):
    """What a handler has said of itself since."""

    rows: int | None
    progress: Told | None
    details: str | None
    follow_ups: tuple[FollowUp, ...] = ()


class Done(NamedTuple):
    outcome: Outcome
    news: News = News(None, None, None)
