//! A service that has a sqlx pool of its own enqueues in its transaction, and a
//! drainer on the same pool delivers.
//!
//!     DATABASE_URL=postgres://… cargo run -p duebox-postgres --features sqlx --example own_sqlx_pool

use duebox_postgres::sqlx::{self, PgPool};
use duebox_postgres::{Claim, Database, Enqueue, Outbox, SqlxPostgresDatabase};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL")?;
    let pool = PgPool::connect(&url).await?;
    let db = SqlxPostgresDatabase::from_pool(pool.clone());
    let outbox = Outbox::new("example_sqlx");
    db.migrate_outbox(&outbox).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS example_account (id text PRIMARY KEY)")
        .execute(&pool)
        .await?;

    sign_up(&pool, &db, &outbox).await?;
    println!("delivered {}", drain(&db, &outbox).await?);
    pool.close().await;
    Ok(())
}

/// The account and the mail to its owner are committed together.
async fn sign_up(pool: &PgPool, db: &SqlxPostgresDatabase, outbox: &Outbox) -> Result<(), Failure> {
    let now = db.now().await?;
    let id = Enqueue::new_id(now);
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO example_account (id) VALUES ($1)")
        .bind(&id)
        .execute(&mut *transaction)
        .await?;
    let mail = outbox.enqueue(Enqueue::new("mail.welcome").subject(&id).at(now));
    duebox_postgres::execute(&mut *transaction, &mail).await?;
    transaction.commit().await?;
    Ok(())
}

async fn drain(db: &SqlxPostgresDatabase, outbox: &Outbox) -> Result<usize, Failure> {
    let now = db.now().await?;
    let lease_until = now + std::time::Duration::from_mins(1);
    let records = outbox
        .claim(db, &Claim::new(now.to_rfc3339(), lease_until.to_rfc3339()))
        .await?;
    for record in &records {
        println!("deliver {} {}", record.topic, record.id);
    }
    let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
    let outcomes = outbox.complete_claimed(db, &leases).await?;
    Ok(outcomes
        .into_iter()
        .filter(|outcome| outcome.is_held())
        .count())
}
