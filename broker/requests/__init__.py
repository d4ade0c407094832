"""From a frame to a handler and back. It knows no API but ApiVersions, and no subject.

dispatch.py         finds the handler; a short request from the frame to its response
long_requests.py    the same for one that takes more than a slice of work
fence.py            the one fence: turns exceptions into codes
call.py             routes, calls, and how a response is encoded
slice_scheduler.py  long work in slices, between which other requests are served
quotas/             what clients may use, and how they are throttled
"""
