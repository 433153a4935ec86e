"""Jobs: each is a webhook and a schedule of the same name. Its id is `job_id` in the view `executions`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import Path, Query
from pydantic import AliasChoices, Field, StrictBool, StrictInt, StrictStr

from oncue import Conflict, InvalidSchedule, Oncue, ScheduleNotFound, cron
from oncue.errors import InvalidWebhook, WebhookNotFound
from oncue.identity import job_id_of, job_uid
from oncue.model import DELIVER, Missed, Schedule, Webhook
from oncue.policy.checks import MOST_INSTANCES
from oncue.policy.deliveries import ladder_of
from oncue.policy.retry import DEFAULT_LADDER
from oncue.policy.triggers import Rule
from oncue.records.documents import instant
from oncue.server.api.identity import Caller
from oncue.server.api.models.base import Body, DurationValue
from oncue.server.api.pages import Limit
from oncue.server.api.problems import Answer, invalid
from oncue.server.api.routing import Routes
from oncue.webhooks.secrets import redacted

JobId: TypeAlias = Annotated[str, Path(description="The job's id.")]


def _either(*names: str, **more: Any) -> Any:
    """A field that the origin calls by another name, which is understood too."""
    return Field(validation_alias=AliasChoices(*names), **more)


class NewJob(Body):
    """A job to be made: when, and where the request goes."""

    name: StrictStr
    schedule: StrictStr = _either("schedule", "cron_expression", examples=["*/5 * * * *"])
    timezone: StrictStr = Field("UTC", examples=["Europe/Berlin"])
    url: StrictStr = _either("url", "webhook_url")
    method: StrictStr = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    content_type: StrictStr = "application/json"
    body: StrictStr | None = Field(None, description="A template; without one: id, name and slot of the execution.")
    timeout: DurationValue = _either("timeout", "webhook_timeout_seconds", default=30.0)
    secrets: list[StrictStr] | StrictStr = _either("secrets", "webhook_secret", default_factory=list)
    retry: list[DurationValue] | None = Field(None, description="The waits between attempts: 30s, 2m and 10m.")
    redirects: StrictInt = Field(0, description="How many are followed.")
    missed: Missed = Field("each", description="What becomes of slots that are found late.")
    grace: DurationValue = Field("1d", description="A slot that begins later than this is missed.")
    description: StrictStr = ""
    enabled: StrictBool = True

    def rule(self) -> Rule:
        """When it is due. Raises InvalidSchedule. `@every` would count from now, and not from a full minute."""
        if self.schedule.lstrip().startswith("@every"):
            raise InvalidSchedule("schedule", "expected five fields, six with seconds, or @hourly and the like")
        return cron(self.schedule, tz=self.timezone)

    def webhook(self) -> dict[str, Any]:
        fields = ("url", "method", "headers", "content_type", "body", "timeout", "secrets", "redirects", "description")
        retry = DEFAULT_LADDER if self.retry is None else self.retry
        return {**{name: getattr(self, name) for name in fields}, "retry": retry}


def add(routes: Routes, app: Oncue) -> None:
    @routes.post("/jobs", needs="operate", tags=["jobs"], summary="Make a job", status_code=201, response_model=None)
    async def create_job(body: NewJob, by: Caller) -> Answer:
        """Its first slot is the first one after now."""
        with refusals():
            webhook, schedule = await _created(app, body, by)
        return Answer(_record(schedule, webhook), 201)

    @routes.get("/jobs", tags=["jobs"], summary="List jobs", response_model=None)
    async def list_jobs(
        limit: Limit = 100, after: Annotated[str, Query(description="Only names that come after this one.")] = ""
    ) -> Answer:
        """By name; the name of the last one is where the next page begins."""
        schedules = [one for one in await app.schedules.list(after=after, limit=limit) if one.task == DELIVER]
        connected = await app.internals.connected()
        webhooks = {one.name: one for one in await connected.store.webhooks.get([one.name for one in schedules])}
        return Answer({"jobs": [_record(one, webhooks[one.name]) for one in schedules if one.name in webhooks]})

    @routes.get("/jobs/{id}", tags=["jobs"], summary="Show a job", response_model=None)
    async def show_job(id: JobId) -> Answer:
        schedule = await find(app, id)
        with refusals():
            return Answer(_record(schedule, await app.webhooks.get(schedule.name)))

    @routes.delete("/jobs/{id}", needs="operate", tags=["jobs"], summary="Delete a job", response_model=None)
    async def delete_job(id: JobId, by: Caller) -> Answer:
        """Its executions stay. Those that are not delivered yet fail as `webhook_deleted`."""
        schedule = await find(app, id)
        await app.schedules.delete(schedule.name, changed_by=by)
        with suppress(WebhookNotFound):
            await app.webhooks.delete(schedule.name, changed_by=by)
        return Answer({"id": str(uid(schedule)), "name": schedule.name, "deleted": True})


async def find(app: Oncue, text: str, *, deleted: bool = False) -> Schedule:
    """The schedule of a job by the job's id. Raises ScheduleNotFound."""
    try:
        wanted = UUID(text)
    except ValueError:
        raise ScheduleNotFound(f"there is no job {text!r:.100}: expected a UUID") from None
    number = job_id_of(wanted)
    found = await (await app.internals.connected()).store.schedules.by_id(number) if number < 2**31 else None
    if found is None or uid(found) != wanted or found.task != DELIVER or (found.deleted_at and not deleted):
        raise ScheduleNotFound(f"there is no job {wanted}")
    return found


def uid(schedule: Schedule) -> UUID:
    return job_uid(schedule.id, schedule.created_at)


@contextmanager
def refusals() -> Iterator[None]:
    """What is wrong with a webhook, in the words of this API."""
    try:
        yield
    except InvalidWebhook as error:
        raise invalid(error.field, str(error).removeprefix(f"{error.field}: ")) from None
    except InvalidSchedule as error:
        field = {"expression": "schedule", "cron_expression": "schedule", "tz": "timezone"}.get(
            error.field, error.field
        )
        raise invalid(field, str(error).removeprefix(f"{error.field}: "), error.position) from None
    except WebhookNotFound as error:
        raise ScheduleNotFound(str(error)) from None


async def _created(app: Oncue, job: NewJob, by: str) -> tuple[Webhook, Schedule]:
    rule = job.rule()  # before anything is written
    with suppress(ScheduleNotFound):
        await app.schedules.get(job.name)
        raise Conflict(f"there is a job {job.name!r} already")
    try:
        webhook = await app.webhooks.create(job.name, created_by=by, **job.webhook())
    except Conflict:  # a request that was cut off has left it, without a schedule
        webhook = await app.webhooks.change(job.name, changed_by=by, **job.webhook())
    # An execution that is tried again does not hold up the next one.
    schedule = await app.schedules.create(
        job.name, rule, webhook=job.name, description=job.description, missed=job.missed, grace=job.grace,
        max_instances=MOST_INSTANCES, enabled=job.enabled, created_by=by,
    )  # fmt: skip
    return webhook, schedule


def _record(schedule: Schedule, webhook: Webhook) -> dict[str, Any]:
    return {
        "id": str(uid(schedule)),
        "name": schedule.name,
        "description": webhook.description,
        "enabled": schedule.enabled and webhook.enabled,
        "schedule": schedule.expression,
        "timezone": schedule.tz,
        "url": webhook.url,
        "method": webhook.method,
        "headers": redacted(webhook.headers),
        "content_type": webhook.content_type,
        "body": webhook.body,
        "timeout": webhook.timeout,
        "signed": bool(webhook.secrets),
        "retry": list(ladder_of(webhook.retry).steps),
        "redirects": webhook.redirects,
        "missed": schedule.missed,
        "grace": schedule.grace,
        "next_run_at": instant(schedule.next_run_at),
        "created_at": instant(schedule.created_at),
    }
