"""`oncue webhooks rehearse`: all attempts of a delivery, in virtual time, on the real engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from oncue.app import Oncue
from oncue.cli import output
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption
from oncue.cli.output import JsonOption, escape
from oncue.cli.trial_requests import found_app, known_webhook, send_test
from oncue.cli.webhook_options import Name
from oncue.model import Webhook
from oncue.policy import durations, http
from oncue.policy.deliveries import ladder_of

if TYPE_CHECKING:
    from oncue.model import Attempt, Job
    from oncue.testing import EndpointAnswer, Kit

REHEARSED_URL = "https://endpoint.invalid/"
MOST_STATUSES = 100
LONGEST_PAUSE = 3600.0
"""Seconds that a circuit breaker keeps an endpoint waiting for at most, and more."""
WORDS = ("timeout", "network", "refused")


class RehearsedAttempt(NamedTuple):
    """One attempt of a rehearsal."""

    attempt: int
    at: float
    """Seconds after the first one began."""
    got: str
    decision: str
    """`delivered`, `retry` or `failed`."""
    why: str
    wait: float | None
    """Seconds from its end to the next one."""


def rehearse(
    name: Name,
    status: Annotated[
        str,
        typer.Option(
            "--status", "-s", metavar="ANSWERS", help="What it answers: 429,500,timeout,302; the last repeats."
        ),
    ] = "500",
    retry_after: Annotated[
        str | None,
        typer.Option(
            "--retry-after", metavar="VALUE", help="The header Retry-After of its 429 and 5xx: 120, or a date."
        ),
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show when a delivery is tried and what becomes of it, if its endpoint answers so. Nothing is sent.

    `oncue webhooks rehearse orders --status 429,500,timeout,302 --retry-after 120`
    runs the engine itself with this webhook, against a built-in endpoint, in
    virtual time. An answer is a status, timeout, network (no connection) or
    refused (by the egress guard).
    """
    answers = _answers(status, retry_after)
    found = found_app(app, database_url, schema)
    webhook, source = known_webhook(found, name)
    with _quiet():
        steps, job = _rehearsed(found, webhook, answers)
    ended = {"state": job.state, "status": "delivered" if job.state == "succeeded" else "failed", "reason": job.reason}
    if as_json:
        output.show_json({"webhook": name, **ended, "attempt_list": [step._asdict() for step in steps]})
        return
    output.show(f"webhook {escape(name)}, {escape(source)}: retries after {_ladder(webhook)}")
    table = output.table("attempt", "at", "got", "decision", "why", right=("attempt", "at"))
    for step in steps:
        table.add_row(str(step.attempt), f"+{_span(step.at)}", step.got, _styled(step.decision), escape(step.why))
    output.show(table)
    count = output.plural(len(steps), "attempt")
    output.show(f"The execution ends as {_styled(ended['status'] or '')} after {count}.")


def _answers(status: str, retry_after: str | None) -> list[EndpointAnswer]:
    from oncue.testing import EndpointAnswer

    found: list[EndpointAnswer] = []
    for word in status.split(","):
        text = word.strip().lower()
        is_status = text.isascii() and text.isdecimal() and 100 <= int(text) <= 599
        if not is_status and text not in WORDS:
            expected = f"statuses from 100 to 599 and {', '.join(WORDS)}, separated by commas"
            raise typer.BadParameter(f"expected {expected}, not {word!r:.40}", param_hint="--status")
        asks = retry_after is not None and is_status and http.outcome(int(text)) == "retry"
        headers = {"Retry-After": retry_after} if asks and retry_after is not None else {}
        found.append(EndpointAnswer(int(text) if is_status else text, headers))  # type: ignore[arg-type]
    if len(found) > MOST_STATUSES:
        raise typer.BadParameter(f"expected at most {MOST_STATUSES} answers", param_hint="--status")
    return found


def _rehearsed(app: Oncue, webhook: Webhook, answers: Sequence[EndpointAnswer]) -> tuple[list[RehearsedAttempt], Job]:
    """Let the engine deliver to this webhook, on a store in memory and by a clock that jumps."""
    from oncue.testing import use

    ladder = ladder_of(webhook.retry)
    stage = Oncue(settings=app.settings)
    # Headers, secrets and the URL do not matter to the ladder, and this shell may lack what workers have.
    endpoint = stage.webhook(
        webhook.name, url=REHEARSED_URL, method=webhook.method, content_type=webhook.content_type, body=webhook.body,
        timeout=webhook.timeout, retry=ladder, redirects=webhook.redirects,
    )  # fmt: skip
    trips: list[datetime] = []
    with use(stage) as kit:

        def judged(_: str, measurements: Mapping[str, float], __: Mapping[str, Any]) -> None:
            if measurements["trips"]:
                trips.append(kit.clock.now())

        stage.internals.telemetry.subscribe(judged, "breaker")
        kit.webhooks.answer(endpoint, *answers, *[answers[-1]] * (len(ladder.steps) + 1))
        receipt = endpoint.deliver()
        kit.drain()
        while not (job := kit.job(receipt)).finished:
            kit.elapse(max((job.visible_at - kit.clock.now()).total_seconds(), LONGEST_PAUSE))
        attempts = list(stage.wait(stage.jobs.attempts(job.id)))
        return _steps(kit, attempts, job, ladder.steps, trips), job


def _steps(
    kit: Kit, attempts: Sequence[Attempt], job: Job, ladder: Sequence[float], trips: Sequence[datetime]
) -> list[RehearsedAttempt]:
    """What happened, in words. The instants are those of the engine."""
    steps: list[RehearsedAttempt] = []
    first, answered = attempts[0].started_at, _last_answers(kit, attempts)
    for number, attempt in enumerate(attempts):
        answer, ended = answered[number], attempt.finished_at or attempt.started_at
        following = attempts[number + 1].started_at if number + 1 < len(attempts) else None
        wait = None if following is None else (following - ended).total_seconds()
        decision = "retry" if wait is not None else "delivered" if job.state == "succeeded" else "failed"
        opened = any(attempt.started_at <= trip <= ended for trip in trips)
        why = _why(answer, decision, wait, ladder, number, ended, opened)
        steps.append(
            RehearsedAttempt(
                number + 1, (attempt.started_at - first).total_seconds(), _got(answer), decision, why, wait
            )
        )
    return steps


def _last_answers(kit: Kit, attempts: Sequence[Attempt]) -> list[EndpointAnswer]:
    """What each attempt got in the end: redirects that were followed are not it."""
    found: list[EndpointAnswer] = []
    for attempt in attempts:
        ended = attempt.finished_at or attempt.started_at
        found.append([sent.answer for sent in kit.webhooks.sent if attempt.started_at <= sent.at <= ended][-1])
    return found


def _got(answer: EndpointAnswer) -> str:
    asked = answer.headers.get("Retry-After")
    return str(answer.status) + ("" if asked is None else f", Retry-After: {asked}")


def _why(
    answer: EndpointAnswer,
    decision: str,
    wait: float | None,
    ladder: Sequence[float],
    number: int,
    now: datetime,
    opened: bool,
) -> str:
    reason = _reason(answer)
    if wait is None:
        is_last = decision == "failed" and _may_pass(answer)
        return f"{reason}, but this was the last attempt" if is_last else reason
    parts = [f"{reason}: again in {_span(wait)}", f"step {number + 1} of {len(ladder)} is {_span(ladder[number])}"]
    asked = http.retry_after({name.lower(): value for name, value in answer.headers.items()}, now)
    if asked is not None:
        is_capped = asked == http.LONGEST_RETRY_AFTER and answer.headers["Retry-After"].strip() != f"{asked:g}"
        wanted = f"more than {_span(asked)}, and is capped there" if is_capped else _span(asked)
        parts.append(f"Retry-After asks for {wanted}; the longer one counts")
    elif "Retry-After" in answer.headers:
        parts.append("Retry-After cannot be read")
    if opened:
        parts.append("the circuit breaker opened")
    return "; ".join(parts)


def _may_pass(answer: EndpointAnswer) -> bool:
    if isinstance(answer.status, int):
        return http.outcome(answer.status) == "retry"
    return answer.status in ("timeout", "network")


def _reason(answer: EndpointAnswer) -> str:
    match answer.status:
        case "timeout" | "network":
            return f"{'no answer in time' if answer.status == 'timeout' else 'no connection'} may pass"
        case int() as status if http.outcome(status) == "delivered":
            return "2xx is delivered"
        case int() as status if http.outcome(status) == "retry":
            return "429 may pass" if status == http.TOO_MANY_REQUESTS else "5xx may pass"
        case int() as status if 300 <= status <= 399:
            return "a redirect that is not followed fails at once"
        case int():
            return "no retry helps: fails at once"
        case _:
            return "the egress guard refuses it: fails at once"


def _ladder(webhook: Webhook) -> str:
    return ", ".join(_span(step) for step in ladder_of(webhook.retry).steps) or "none"


def _span(seconds: float) -> str:
    return durations.describe(round(seconds, 3))


def _styled(word: str) -> str:
    style = {"delivered": "green", "retry": "yellow"}.get(word, "red")
    return f"[{style}]{word}[/]"


@contextmanager
def _quiet() -> Iterator[None]:
    """What the engine logs of a rehearsal is told in the table."""
    log, handler = logging.getLogger("oncue"), logging.NullHandler()
    propagates = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates


def add_to(group: typer.Typer) -> None:
    group.command("test")(send_test)
    group.command("rehearse")(rehearse)
