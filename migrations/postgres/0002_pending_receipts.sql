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
-- fillfactor: a ticket is moved once or more, by due_at, which is indexed, and then
-- deleted. With room for the second copy on the page of the first, taking and
-- deleting was a fifth faster, and recording a tenth slower.
CREATE TABLE IF NOT EXISTS pending_receipts (
    ticket VARCHAR(128) COLLATE "C" NOT NULL PRIMARY KEY,
    owner_id UUID NOT NULL,
    token VARCHAR(512) COLLATE "C" NOT NULL,
    sent_at TIMESTAMPTZ NOT NULL,
    due_at TIMESTAMPTZ NOT NULL
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- For the poller, which takes the oldest due first.
CREATE INDEX IF NOT EXISTS pending_receipts_due
    ON pending_receipts (due_at, ticket);

-- For the purge, which deletes the oldest sent first.
CREATE INDEX IF NOT EXISTS pending_receipts_sent
    ON pending_receipts (sent_at, ticket);

-- For the erasure of a person.
CREATE INDEX IF NOT EXISTS pending_receipts_owner
    ON pending_receipts (owner_id);
