"""The check of a batch that holds one record in its usual form: most batches of a producer that waits for each.

    length | attributes | timestamp delta 0 | offset delta 0 | key length, key | value length, value | header count 0

What it accepts `record_scan.scan` accepts with the same result; whatever else it leaves to `scan`.
"""

from __future__ import annotations


def lone_record_has_key(body: bytes) -> bool | None:
    """Check the only record of a batch in its usual form; whether it has a key. None: `record_scan.scan` must decide.

    The usual form has lengths of one or two bytes, the batch's own timestamp, and no headers. A batch of one record
    costs a third of `scan` this way.
    """
    try:
        size, start = body[0], 1
        if size > 0x7F:
            high = body[1]
            if high > 0x7F:
                return None
            size, start = size & 0x7F | high << 7, 2
        key = body[start + 3]
        at = start + 4 + (key >> 1)
        value = body[at]
        at += 1
        if value > 0x7F:
            high = body[at]
            if high > 0x7F:
                return None
            value = value & 0x7F | high << 7
            at += 1
        at += value >> 1
        # An odd number is negative: 1 is a null key or value, others need the exact check.
        if (
            body[at]
            or body[start + 1]
            or body[start + 2]
            or at + 1 != start + (size >> 1)
            or at + 1 != len(body)
            or size & 1
            or key > 0x7F
            or (key & 1 and key != 1)
            or (value & 1 and value != 1)
        ):
            return None
    except IndexError:
        return None
    return key != 1
