mod tickets;

use std::sync::Arc;

use async_trait::async_trait;
use duebox_postgres::tokio_postgres::{self, Client, NoTls, Row, Statement as Prepared};
use duebox_postgres::{Database, Outbox, PostgresDatabase, PostgresOptions, Statement};

use super::{
    Engine, Fallible, HOLDER, Hand, Job, NOW, NewRow, Place, SESSIONS, Scratch, Seed, TOPIC, UNTIL,
    payload,
};

pub(crate) struct Postgres {
    url: String,
    db: PostgresDatabase,
}

impl Postgres {
    pub(crate) async fn new(url: &str) -> Fallible<Self> {
        let options = PostgresOptions::new(url)?.max_connections(SESSIONS);
        Ok(Self {
            url: url.to_owned(),
            db: options.connect().await?,
        })
    }

    async fn run(&self, sql: String) -> Fallible<()> {
        self.db.execute(&Statement::new(sql)).await?;
        Ok(())
    }

    async fn settle_table(&self, table: &str) -> Fallible<()> {
        self.run(format!("VACUUM ANALYZE {table}")).await?;
        self.run("CHECKPOINT".to_owned()).await
    }

    async fn client(&self) -> Fallible<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        // It ends with the client; an error shows in what the client does.
        tokio::spawn(connection);
        Ok(client)
    }
}

#[async_trait]
impl Engine for Postgres {
    async fn version(&self) -> Fallible<String> {
        let rows = self
            .db
            .query(&Statement::new(
                "SELECT current_setting('server_version') AS version",
            ))
            .await?;
        let version: String = rows.first().ok_or("no version")?.get("version")?;
        Ok(format!("PostgreSQL {version}"))
    }

    async fn place(&self, name: &str) -> Fallible<Place> {
        let outbox = Outbox::new(name);
        self.db.migrate_outbox(&outbox).await?;
        self.run(format!("TRUNCATE {name}")).await?;
        Ok(Place {
            db: Arc::new(self.db.clone()),
            outbox,
            file: Scratch::default(),
        })
    }

    async fn seed(&self, place: &Place, seed: Seed) -> Fallible<()> {
        let time = |base| {
            format!(
                "to_char(timestamp '{base}' + n * interval '1 millisecond', \
                 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
            )
        };
        let due = time(seed.due);
        let (lease, claims) = match seed.leased {
            Some(until) => (time(until), 1),
            None => ("NULL".to_owned(), 0),
        };
        let sql = format!(
            "INSERT INTO {} (id, topic, payload, created_at, next_attempt_at, locked_until, claims)
            SELECT '01J' || lpad((n + ?::bigint)::text, 23, '0'), ?, ?, {due}, {due}, {lease}, {claims}
            FROM generate_series(0, ?::bigint - 1) AS seq (n)",
            place.outbox.table()
        );
        let statement = Statement::new(sql)
            .bind(i64::try_from(seed.first)?)
            .bind(TOPIC)
            .bind(payload())
            .bind(i64::try_from(seed.count)?);
        place.db.execute(&statement).await?;
        Ok(())
    }

    async fn settle(&self, place: &Place) -> Fallible<()> {
        self.settle_table(place.outbox.table()).await
    }

    async fn hand(&self, place: &Place, batch: u64) -> Fallible<Box<dyn Hand>> {
        let table = place.outbox.table();
        let client = self.client().await?;
        let prepare = |sql: String| {
            let client = &client;
            async move { client.prepare(&sql).await }
        };
        let due = format!("WHERE visible_at <= $1 ORDER BY visible_at, id LIMIT {batch}");
        let columns = "id, topic, payload, subject, attempts, created_at";
        let hand = PostgresHand {
            claim: prepare(format!(
                "WITH due AS (SELECT id AS due_id FROM {table} {due} FOR UPDATE SKIP LOCKED)
                UPDATE {table} SET locked_until = $2, locked_by = $3, claims = claims + 1
                FROM due WHERE id = due_id RETURNING {columns}"
            ))
            .await?,
            complete: prepare(format!("DELETE FROM {table} WHERE id = ANY($1)")).await?,
            look: prepare(format!("SELECT {columns} FROM {table} {due}")).await?,
            take: prepare(format!(
                "UPDATE {table} SET locked_until = $1, locked_by = $2, claims = claims + 1
                WHERE id = $3 AND visible_at <= $4"
            ))
            .await?,
            complete_one: prepare(format!("DELETE FROM {table} WHERE id = $1")).await?,
            enqueue: prepare(format!(
                "INSERT INTO {table} (id, topic, payload, subject, created_at, next_attempt_at)
                VALUES ($1, $2, $3, NULL, $4, $5)"
            ))
            .await?,
            enqueue_many: prepare(format!(
                "INSERT INTO {table} (id, topic, payload, subject, created_at, next_attempt_at)
                SELECT id, topic, payload, NULL, at, at
                FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
                AS new (id, topic, payload, at)"
            ))
            .await?,
            client,
        };
        Ok(Box::new(hand))
    }

    async fn hold(&self, place: &Place) -> Fallible<Box<dyn Send>> {
        let client = self.client().await?;
        client
            .batch_execute(&format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT COUNT(*) FROM {}",
                place.outbox.table()
            ))
            .await?;
        Ok(Box::new(client))
    }
}

struct PostgresHand {
    client: Client,
    claim: Prepared,
    complete: Prepared,
    look: Prepared,
    take: Prepared,
    complete_one: Prepared,
    enqueue: Prepared,
    enqueue_many: Prepared,
}

fn job(row: &Row) -> Result<Job, tokio_postgres::Error> {
    Ok(Job {
        rowid: 0,
        id: row.try_get(0)?,
        read: (
            row.try_get(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
            row.try_get(4)?,
            row.try_get(5)?,
        ),
    })
}

#[async_trait]
impl Hand for PostgresHand {
    async fn claim(&mut self) -> Fallible<Vec<Job>> {
        let rows = self
            .client
            .query(&self.claim, &[&NOW, &UNTIL, &HOLDER])
            .await?;
        Ok(rows.iter().map(job).collect::<Result<_, _>>()?)
    }

    async fn complete(&mut self, jobs: &[Job]) -> Fallible<()> {
        let ids: Vec<&str> = jobs.iter().map(|job| &*job.id).collect();
        self.client.execute(&self.complete, &[&ids]).await?;
        Ok(())
    }

    async fn look(&mut self) -> Fallible<Vec<Job>> {
        let rows = self.client.query(&self.look, &[&NOW]).await?;
        Ok(rows.iter().map(job).collect::<Result<_, _>>()?)
    }

    async fn take(&mut self, job: &Job) -> Fallible<bool> {
        let taken = self
            .client
            .execute(&self.take, &[&UNTIL, &HOLDER, &job.id, &NOW])
            .await?;
        Ok(taken == 1)
    }

    async fn complete_one(&mut self, job: &Job) -> Fallible<()> {
        self.client.execute(&self.complete_one, &[&job.id]).await?;
        Ok(())
    }

    async fn enqueue(&mut self, row: &NewRow) -> Fallible<()> {
        self.client
            .execute(
                &self.enqueue,
                &[&row.id, &TOPIC, &row.payload, &row.at, &row.at],
            )
            .await?;
        Ok(())
    }

    async fn enqueue_many(&mut self, rows: &[NewRow]) -> Fallible<()> {
        let ids: Vec<&str> = rows.iter().map(|row| &*row.id).collect();
        let topics = vec![TOPIC; rows.len()];
        let payloads: Vec<&str> = rows.iter().map(|row| &*row.payload).collect();
        let times: Vec<&str> = rows.iter().map(|row| &*row.at).collect();
        self.client
            .execute(&self.enqueue_many, &[&ids, &topics, &payloads, &times])
            .await?;
        Ok(())
    }
}
