-- 0002 pending receipts: tickets of push notifications whose receipts are awaited.
--
-- Dear operator,
--
-- this makes one new table with its indexes. It changes nothing that exists, so
-- code of any age may run beside it. It needs no downtime. Applied again it does
-- nothing. A service that sends no push notifications needs none of it, and loses
-- nothing by having it.
--
-- The token addresses a device and the owner is a person: the table is personal
-- data. Rows leave it when their receipt comes, when their owner is erased, or when
-- a purge finds them too old.
--
-- sent_at and due_at are microseconds since 1970 in UTC, and owner_id is the 16
-- bytes of a UUID, since SQLite has a type for neither. STRICT keeps any other type
-- out of them.
--
-- There is no WITHOUT ROWID: recording was a third slower with it, as tickets come
-- in random order and every row then moves more bytes.
CREATE TABLE IF NOT EXISTS pending_receipts (
    ticket TEXT NOT NULL PRIMARY KEY,
    owner_id BLOB NOT NULL,
    token TEXT NOT NULL,
    sent_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL
) STRICT;

-- For the poller, which takes the oldest due first.
CREATE INDEX IF NOT EXISTS pending_receipts_due
    ON pending_receipts (due_at, ticket);

-- For the purge, which deletes the oldest sent first.
CREATE INDEX IF NOT EXISTS pending_receipts_sent
    ON pending_receipts (sent_at, ticket);

-- For the erasure of a person.
CREATE INDEX IF NOT EXISTS pending_receipts_owner
    ON pending_receipts (owner_id);
