//! Databases of another encoding than UTF8.

use duebox_postgres::{Database, Kind, Outcome, PostgresDatabase, Statement};

use crate::place::{Place, server, sqlx_at};

/// A payload, a subject or the text of an error may be any text, and such a database
/// cannot keep all of them.
pub(crate) async fn a_database_that_cannot_keep_every_text_is_unsupported() {
    let place = Place::new().await;
    let url = server().expect("a server");
    let start = url.rfind('/').expect("a database");
    let end = url[start..].find('?').map_or("", |at| &url[start + at..]);
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = format!("{}_{}", place.name, encoding.to_lowercase());
        place
            .run(&format!(
                "CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"
            ))
            .await;
        let url = format!("{}/{name}{end}", &url[..start]);
        let (tokio, sqlx) = (PostgresDatabase::connect(&url).await, sqlx_at(&url, 1));
        if encoding == "LATIN1" {
            for error in [tokio.map(drop), sqlx.now().await.map(drop)] {
                let error = error.expect_err(encoding);
                assert_eq!(
                    (error.kind(), error.outcome()),
                    (Kind::Unsupported, Outcome::NotApplied),
                    "{error}"
                );
                assert!(error.to_string().contains("LATIN1"), "{error}");
            }
        } else {
            let tokio = tokio.expect(encoding);
            // It keeps whatever bytes it is given.
            for db in [&tokio as &dyn Database, &sqlx] {
                let echo = Statement::new("SELECT ?::text AS text").bind("boom 😀");
                let rows = db.query(&echo).await.expect(encoding);
                assert_eq!(rows[0].get::<String>("text").unwrap(), "boom 😀");
            }
            tokio.pool().close();
        }
        sqlx.pool().close().await;
        place
            .run(&format!("DROP DATABASE {name} WITH (FORCE)"))
            .await;
    }
    place.close().await;
}
