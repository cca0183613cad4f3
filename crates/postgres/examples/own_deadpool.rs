//! A service that has a deadpool pool of its own enqueues in its transaction,
//! and a drainer on the same pool delivers.
//!
//!     DATABASE_URL=postgres://… cargo run -p duebox-postgres --example own_deadpool

use duebox_postgres::deadpool_postgres::{Manager, Pool};
use duebox_postgres::tokio_postgres::NoTls;
use duebox_postgres::{Claim, Database, Enqueue, Outbox, PostgresDatabase};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL")?;
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).build()?;
    let db = PostgresDatabase::from_pool(pool.clone());
    let outbox = Outbox::new("example_deadpool");
    db.migrate_outbox(&outbox).await?;
    pool.get()
        .await?
        .batch_execute("CREATE TABLE IF NOT EXISTS example_account (id text PRIMARY KEY)")
        .await?;

    sign_up(&pool, &db, &outbox).await?;
    println!("delivered {}", drain(&db, &outbox).await?);
    Ok(())
}

/// The account and the mail to its owner are committed together.
async fn sign_up(pool: &Pool, db: &PostgresDatabase, outbox: &Outbox) -> Result<(), Failure> {
    let now = db.now().await?;
    let id = Enqueue::new_id(now);
    let mut connection = pool.get().await?;
    let transaction = connection.transaction().await?;
    transaction
        .execute("INSERT INTO example_account (id) VALUES ($1)", &[&id])
        .await?;
    let mail = outbox.enqueue(Enqueue::new("mail.welcome").subject(&id).at(now));
    // `&*`: what deadpool's transaction holds is one of tokio-postgres.
    duebox_postgres::execute(&*transaction, &mail).await?;
    transaction.commit().await?;
    Ok(())
}

async fn drain(db: &PostgresDatabase, outbox: &Outbox) -> Result<usize, Failure> {
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
