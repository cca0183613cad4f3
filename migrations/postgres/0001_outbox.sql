-- 0001 outbox: the queue of work that must happen after a change.
--
-- Dear operator,
--
-- this makes one new table with its indexes. It changes nothing that exists, so
-- code of any age may run beside it, and it may be applied long before the first
-- service enqueues. It needs no downtime. Applied again it does nothing.
--
-- Several processes that apply it at once may fail with a duplicate key in the
-- catalog, since IF NOT EXISTS looks before it locks. Take an advisory lock first,
-- in the same transaction, as the library does.
--
-- What is unusual here, and why:
--
-- COLLATE "C" compares by bytes, in a database of any collation. It is quicker, and
-- an upgrade of the collations of the system cannot corrupt the indexes.
--
-- visible_at is the later of next_attempt_at and the end of the lease. A claim
-- reads its index from the left and meets only rows it may take.
--
-- fillfactor: every claim changes visible_at, which is indexed, so no update is
-- heap-only. A row is written twice, when it comes and when it is claimed, and then
-- deleted. Where the second copy finds room on the page of the first, the log holds
-- only what differs: 30 % less of it while draining at payloads of 200 bytes, 70 %
-- less at 1500. While it waits, a row takes up to twice the room in the table.
--
-- autovacuum: each row leaves two dead ones. By default a backlog of a million would
-- wait for 200 000 of them, at the end of the index where claims begin.
CREATE TABLE IF NOT EXISTS outbox (
    id VARCHAR(64) COLLATE "C" NOT NULL PRIMARY KEY,
    topic VARCHAR(255) COLLATE "C" NOT NULL,
    payload TEXT COLLATE "C" NOT NULL,
    subject VARCHAR(255) COLLATE "C" NULL,
    created_at VARCHAR(27) COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    claims BIGINT NOT NULL DEFAULT 0,
    lapses BIGINT NOT NULL DEFAULT 0,
    next_attempt_at VARCHAR(27) COLLATE "C" NOT NULL,
    locked_until VARCHAR(27) COLLATE "C" NULL,
    locked_by VARCHAR(255) COLLATE "C" NULL,
    last_error TEXT COLLATE "C" NULL,
    failed_at VARCHAR(27) COLLATE "C" NULL,
    visible_at VARCHAR(27) COLLATE "C"
        GENERATED ALWAYS AS (
            CASE WHEN locked_until > next_attempt_at THEN locked_until ELSE next_attempt_at END
        ) STORED
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX IF NOT EXISTS outbox_due
    ON outbox (visible_at, id);

-- For export and erasure. Rows that name nobody stay out of it.
CREATE INDEX IF NOT EXISTS outbox_subject
    ON outbox (subject, id)
    WHERE subject IS NOT NULL;
