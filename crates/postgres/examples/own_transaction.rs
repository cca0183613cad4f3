//! A service on bare tokio-postgres enqueues in its transaction, and has the
//! effect of a delivery in the same database take place once: the row is
//! completed in the transaction of that effect.
//!
//!     DATABASE_URL=postgres://… cargo run -p duebox-postgres --example own_transaction

use duebox_postgres::tokio_postgres::{self, Client, NoTls};
use duebox_postgres::{Claim, Database, Enqueue, Outbox, PostgresDatabase};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL")?;
    let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let db = PostgresDatabase::connect(&url).await?;
    let outbox = Outbox::new("example_transaction");
    db.migrate_outbox(&outbox).await?;
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS example_account (id text PRIMARY KEY);
             CREATE TABLE IF NOT EXISTS example_welcomed (id text PRIMARY KEY)",
        )
        .await?;

    sign_up(&mut client, &db, &outbox).await?;
    println!("delivered {}", drain(&mut client, &db, &outbox).await?);
    Ok(())
}

/// The account and the work that follows from it are committed together.
async fn sign_up(
    client: &mut Client,
    db: &PostgresDatabase,
    outbox: &Outbox,
) -> Result<(), Failure> {
    let now = db.now().await?;
    let id = Enqueue::new_id(now);
    let transaction = client.transaction().await?;
    transaction
        .execute("INSERT INTO example_account (id) VALUES ($1)", &[&id])
        .await?;
    let work = outbox.enqueue(
        Enqueue::new("account.welcome")
            .payload(&id)
            .subject(&id)
            .at(now),
    );
    duebox_postgres::execute(&transaction, &work).await?;
    transaction.commit().await?;
    Ok(())
}

async fn drain(
    client: &mut Client,
    db: &PostgresDatabase,
    outbox: &Outbox,
) -> Result<usize, Failure> {
    let now = db.now().await?;
    let lease_until = now + std::time::Duration::from_mins(1);
    let records = outbox
        .claim(db, &Claim::new(now.to_rfc3339(), lease_until.to_rfc3339()))
        .await?;
    let mut delivered = 0;
    for record in records {
        let transaction = client.transaction().await?;
        transaction
            .execute(
                "INSERT INTO example_welcomed (id) VALUES ($1)",
                &[&record.payload],
            )
            .await?;
        // A lease that was lost is an error here, and dropping the transaction undoes
        // the effect: whoever holds the row now has it instead.
        duebox_postgres::execute(&transaction, &outbox.complete_statement(&record.lease)).await?;
        transaction.commit().await?;
        delivered += 1;
    }
    Ok(delivered)
}
