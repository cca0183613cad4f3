//! The database that a URL names.

use std::sync::Arc;

use duebox_sqlite::{Database, DbError, Kind, Outbox, SqliteDatabase};

/// Opens the database and makes the outbox's table there, if it is not there.
pub(crate) async fn open(url: &str, outbox: &Outbox) -> Result<Arc<dyn Database>, DbError> {
    match url.split_once(':') {
        Some(("sqlite", path)) => {
            let db = SqliteDatabase::open(path).await?;
            db.migrate_outbox(outbox).await?;
            Ok(Arc::new(db))
        }
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => {
            let db = duebox_postgres::PostgresDatabase::connect(url).await?;
            db.migrate_outbox(outbox).await?;
            Ok(Arc::new(db))
        }
        #[cfg(feature = "mysql")]
        Some(("mysql" | "mariadb", _)) => {
            let db = duebox_mysql::MySqlDatabase::connect(url).await?;
            db.migrate_outbox(outbox).await?;
            Ok(Arc::new(db))
        }
        _ => Err(DbError::new(
            Kind::InvalidArgument,
            "the database is none that this program was built for: say sqlite:FILE, or build it \
             with --features postgres or --features mysql and say postgres://… or mysql://…",
        )),
    }
}
