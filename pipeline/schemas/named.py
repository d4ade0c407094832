"""The events that come with Sordini: what people look at, search for and click on, and how machines are.

They are what the example in examples/activity makes; a job file names them, or defines others.
"""

from __future__ import annotations

from typing import Final

from sordini.pipeline.schemas.fields import Field, Schema

_WHO = (
    Field("event_id", "string", "One for each event: an event that was sent twice is known by it.", is_required=True),
    Field("event_time", "timestamp", "When it happened, by the clock of the service that saw it.", is_required=True),
    Field("session_id", "string", "One visit of one browser.", is_required=True),
    Field("member_id", "long", "Who was signed in; null for guests."),
)

PAGE_VIEW: Final = Schema(
    "page_view",
    (
        *_WHO,
        Field("page", "string", "The path that was asked for.", is_required=True),
        Field("referrer", "string", "The page before, where the browser told."),
        Field("user_agent", "string", "What the browser calls itself."),
        Field("address", "string", "The network address it came from."),
        Field("status", "int", "The HTTP status that was answered."),
        Field("duration_ms", "int", "How long the answer took."),
    ),
    event_time="event_time",
    about="A page was shown.",
)

SEARCH: Final = Schema(
    "search",
    (
        *_WHO,
        Field("query", "string", "The words that were searched for.", is_required=True),
        Field("results", "int", "How many were found."),
        Field("duration_ms", "int", "How long the answer took."),
    ),
    event_time="event_time",
    about="Somebody searched.",
)

CLICK: Final = Schema(
    "click",
    (
        *_WHO,
        Field("page", "string", "The page on which was clicked.", is_required=True),
        Field("target", "string", "Where the click led.", is_required=True),
        Field("search_id", "string", "The event_id of the search whose result it was; null otherwise."),
        Field("position", "int", "The result's place among the search's results, from 1."),
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
        Field("event_id", "string", "One for each event.", is_required=True),
        Field("event_time", "timestamp", "When it happened.", is_required=True),
        Field("member_id", "long", "Whose profile was looked at; the record's key, too.", is_required=True),
        Field("visitor_id", "long", "Who looked; null for guests."),
        Field("page", "string", "Which page of the profile."),
    ),
    event_time="event_time",
    about="Somebody looked at a member's profile.",
)

NAMED: Final = {schema.name: schema for schema in (PAGE_VIEW, SEARCH, CLICK, OPERATIONAL, MEMBER_VISIT)}
