"""The event schemas that come with Sordini: page views, searches, clicks, and measures of machines.

The example in examples/activity produces them; a job file names them, or defines others.
"""

from __future__ import annotations

from typing import Final

from sordini.pipeline.schemas.fields import Field, Schema

_WHO = (
    Field("event_id", "string", "Unique for each event: identifies an event that was sent twice.", is_required=True),
    Field("event_time", "timestamp", "When it happened, by the clock of the recording service.", is_required=True),
    Field("session_id", "string", "One visit of one browser.", is_required=True),
    Field("member_id", "long", "The member who was signed in; null for guests."),
)

PAGE_VIEW: Final = Schema(
    "page_view",
    (
        *_WHO,
        Field("page", "string", "The requested path.", is_required=True),
        Field("referrer", "string", "The previous page, if the browser sent it."),
        Field("user_agent", "string", "The browser's User-Agent."),
        Field("address", "string", "The network address it came from."),
        Field("status", "int", "The HTTP status of the response."),
        Field("duration_ms", "int", "How long the answer took."),
    ),
    event_time="event_time",
    about="A page was shown.",
)

SEARCH: Final = Schema(
    "search",
    (
        *_WHO,
        Field("query", "string", "The search terms.", is_required=True),
        Field("results", "int", "The number of results."),
        Field("duration_ms", "int", "How long the answer took."),
    ),
    event_time="event_time",
    about="A search.",
)

CLICK: Final = Schema(
    "click",
    (
        *_WHO,
        Field("page", "string", "The page with the link.", is_required=True),
        Field("target", "string", "The link's target.", is_required=True),
        Field("search_id", "string", "The event_id of the search whose result it was; null otherwise."),
        Field("position", "int", "The result's rank among the search's results, from 1."),
    ),
    event_time="event_time",
    about="A link or a result was clicked.",
)

OPERATIONAL: Final = Schema(
    "operational",
    (
        Field("event_time", "timestamp", "When it was measured.", is_required=True),
        Field("host", "string", "The machine.", is_required=True),
        Field("service", "string", "The service on it; null for the machine as a whole."),
        Field("metric", "string", "What was measured, with its unit: cpu_percent, request_ms.", is_required=True),
        Field("value", "double", "The measure.", is_required=True),
    ),
    event_time="event_time",
    about="A measure of a machine or a service.",
)

MEMBER_VISIT: Final = Schema(
    "member_visit",
    (
        Field("event_id", "string", "Unique for each event.", is_required=True),
        Field("event_time", "timestamp", "When it happened.", is_required=True),
        Field("member_id", "long", "The member whose profile was viewed; also the record's key.", is_required=True),
        Field("visitor_id", "long", "The member who viewed it; null for guests."),
        Field("page", "string", "Which page of the profile."),
    ),
    event_time="event_time",
    about="A view of a member's profile.",
)

NAMED: Final = {schema.name: schema for schema in (PAGE_VIEW, SEARCH, CLICK, OPERATIONAL, MEMBER_VISIT)}
