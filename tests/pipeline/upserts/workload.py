"""A random workload in PostgreSQL: inserts, updates, updates of keys, deletions, in transactions that may roll back."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
CREATE TABLE people (
    id bigint PRIMARY KEY, name text, age int, score double precision, active boolean, born date, note text
);
"""
COLUMNS: Final = ("id", "name", "age", "score", "active", "born", "note")
FIELDS: Final = "{id: long!, name: string, age: int, score: double, active: boolean, born: date, note: string}"

# Of `changes` changes: two fifths inserts or updates of random keys, two fifths updates in ranges, and the rest.
ROUND: Final = """
SELECT setseed({seed});
BEGIN;
INSERT INTO people
SELECT DISTINCT ON (key) key, 'name ' || key, key % 100, random(), random() < 0.5, date '1980-01-01' + (key % 9999)::int,
       CASE WHEN random() < 0.1 THEN NULL ELSE E'a "note", with\\ttabs and \\u00fc ' || round(random() * 1e6) END
FROM (SELECT floor(random() * {keys})::bigint AS key FROM generate_series(1, {some})) AS drawn
ON CONFLICT (id) DO UPDATE SET name = excluded.name, score = excluded.score, note = excluded.note;
COMMIT;
BEGIN;
UPDATE people SET age = age + 1, active = NOT active
WHERE id IN (SELECT floor(random() * {keys})::bigint FROM generate_series(1, {some}));
COMMIT;
BEGIN;
DELETE FROM people WHERE id IN (SELECT floor(random() * {keys})::bigint FROM generate_series(1, {few}));
INSERT INTO people
SELECT DISTINCT ON (key) key, 'new ' || key, 0, random(), true, date '2000-01-01', NULL
FROM (SELECT floor(random() * {keys})::bigint AS key FROM generate_series(1, {few})) AS drawn
ON CONFLICT (id) DO NOTHING;
COMMIT;
BEGIN;
UPDATE people SET note = 'rolled back' WHERE id % 97 = 0;
ROLLBACK;
BEGIN;
-- Keys change to ones beyond all others, and back to ones that are free.
UPDATE people SET id = id + {keys} WHERE id IN (SELECT floor(random() * {keys})::bigint FROM generate_series(1, {few}))
AND NOT EXISTS (SELECT 1 FROM people AS other WHERE other.id = people.id + {keys});
UPDATE people SET id = id - {keys} WHERE id >= {keys} AND random() < 0.5
AND NOT EXISTS (SELECT 1 FROM people AS other WHERE other.id = people.id - {keys});
COMMIT;
"""


def round_of(seed: int, changes: int, keys: int) -> str:
    """SQL that makes about so many changes among so many keys."""
    return ROUND.format(seed=seed % 1000 / 1000, keys=keys, some=max(1, changes * 2 // 5), few=max(1, changes // 12))
