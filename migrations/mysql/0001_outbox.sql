-- 0001 outbox: the queue of work that must happen after a change.
--
-- Dear operator,
--
-- this makes one new table with its indexes. It changes nothing that exists, so
-- code of any age may run beside it, and it may be applied long before the first
-- service enqueues. It needs no downtime. Applied again, or by several processes
-- at once, it does no harm.
--
-- The comments that open with an exclamation mark are part of the statement. The
-- first kind is read by MySQL alone, the second by MariaDB alone. A tool that
-- strips comments must not strip these.
--
-- What is unusual here, and why:
--
-- The two collations compare by bytes, trailing spaces included, and hold every
-- character, whatever the default of the database. A MySQL older than 8.0.17 does
-- not know the first and refuses the statement, rather than take an id in small
-- letters for the same id in capitals.
--
-- ROW_FORMAT = DYNAMIC allows keys of 3072 bytes, where COMPACT, which a server may
-- have as its default, allows 767.
--
-- visible_at is the later of next_attempt_at and the end of the lease. A claim
-- reads its index from the left and meets only rows it may take. Times are VARCHAR,
-- since MariaDB refuses a stored column that is generated from CHAR.
CREATE TABLE IF NOT EXISTS outbox (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    topic VARCHAR(255) NOT NULL,
    payload LONGTEXT NOT NULL,
    subject VARCHAR(255) NULL,
    created_at VARCHAR(27) NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    claims BIGINT NOT NULL DEFAULT 0,
    lapses BIGINT NOT NULL DEFAULT 0,
    next_attempt_at VARCHAR(27) NOT NULL,
    locked_until VARCHAR(27) NULL,
    locked_by VARCHAR(255) NULL,
    last_error TEXT NULL,
    failed_at VARCHAR(27) NULL,
    visible_at VARCHAR(27)
        GENERATED ALWAYS AS (
            CASE WHEN locked_until > next_attempt_at THEN locked_until ELSE next_attempt_at END
        ) STORED,
    KEY outbox_due (visible_at, id),
    -- For export and erasure.
    KEY outbox_subject (subject, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4
    /*!50700 COLLATE utf8mb4_0900_bin */
    /*M!100200 COLLATE utf8mb4_nopad_bin */;
