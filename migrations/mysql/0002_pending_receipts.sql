-- 0002 pending receipts: tickets of push notifications whose receipts are awaited.
--
-- Dear operator,
--
-- this makes one new table with its indexes. It changes nothing that exists, so
-- code of any age may run beside it. It needs no downtime. Applied again, or by
-- several processes at once, it does no harm. A service that sends no push
-- notifications needs none of it, and loses nothing by having it.
--
-- The token addresses a device and the owner is a person: the table is personal
-- data. Rows leave it when their receipt comes, when their owner is erased, or when
-- a purge finds them too old.
--
-- sent_at and due_at are in UTC. They are DATETIME, which no session converts, and
-- not TIMESTAMP, which every session reads in its own zone and which ends in 2038.
-- owner_id is the 16 bytes of a UUID, most significant first: BIN_TO_UUID(owner_id)
-- on MySQL, HEX(owner_id) on both.
--
-- The comments that open with an exclamation mark are part of the statement, as in
-- 0001.
CREATE TABLE IF NOT EXISTS pending_receipts (
    ticket VARCHAR(128) NOT NULL PRIMARY KEY,
    owner_id BINARY(16) NOT NULL,
    token VARCHAR(512) NOT NULL,
    sent_at DATETIME(6) NOT NULL,
    due_at DATETIME(6) NOT NULL,
    -- For the poller, which takes the oldest due first.
    KEY pending_receipts_due (due_at, ticket),
    -- For the purge, which deletes the oldest sent first.
    KEY pending_receipts_sent (sent_at, ticket),
    -- For the erasure of a person.
    KEY pending_receipts_owner (owner_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4
    /*!50700 COLLATE utf8mb4_0900_bin */
    /*M!100200 COLLATE utf8mb4_nopad_bin */;
