//! Runs the INSERT of another language, as the guide gives it, and sees that the row is
//! there, is due, and is delivered and completed like any other.

use duebox_mysql::MySqlDatabase;
use duebox_postgres::PostgresDatabase;
use duebox_sqlite::{Database, Outbox, SqliteDatabase, Statement, format_time};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("say URL FILE".into());
    };
    let db: Box<dyn Database> = match url.split_once(':') {
        Some(("sqlite", path)) => Box::new(SqliteDatabase::open(path).await?),
        Some(("postgres" | "postgresql", _)) => Box::new(PostgresDatabase::connect(&url).await?),
        _ => Box::new(MySqlDatabase::connect(&url).await?),
    };
    let outbox = Outbox::new("outbox");
    db.execute(&Statement::new("DELETE FROM outbox")).await?;
    let insert = std::fs::read_to_string(&file)?;
    let rows = db.execute(&Statement::new(insert).expect_rows(1)).await?;
    let now = db.now().await?;
    let (now, until) = (format_time(now)?, format_time(now + std::time::Duration::from_secs(9))?);
    let claimed = outbox.claim_due(&*db, &now, &until, 9).await?;
    let [record] = &claimed[..] else {
        return Err(format!("{rows} inserted, {} claimed", claimed.len()).into());
    };
    let row = (&*record.topic, &*record.payload, record.subject.as_deref());
    if row != ("mail.welcome", r#"{"to":"ada@example.com"}"#, Some("a-17")) {
        return Err("the row is another".into());
    }
    let ended = outbox.complete_claimed(&*db, &[record.lease.clone()]).await?;
    println!("{file}: {} is claimed and completed, {:?}", record.id, ended[0]);
    Ok(())
}
