//! Ways to be let in.

use duebox_mysql::{Database, Kind, MySqlDatabase, Statement};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(login:
    a_first_login_without_tls_works,
    tls_is_used_where_it_is_asked_for
);

async fn a_first_login_without_tls_works(server: Server) {
    let of = TestDatabase::new(server, "").await;
    // MySQL has seen no password of a new user, so it must be sent, encrypted.
    let user = format!("u_{}", of.name);
    let mut admin = server.admin().await;
    run(
        &mut admin,
        format!("CREATE USER {user} IDENTIFIED BY 'p@ss/w:rd😀'"),
    )
    .await;
    run(
        &mut admin,
        format!("GRANT SELECT ON {}.* TO {user}", of.name),
    )
    .await;
    let url = of.url();
    let (_, rest) = url.split_once('@').expect("a user");
    let url = format!("mysql://{user}:p%40ss%2Fw%3Ard%F0%9F%98%80@{rest}?ssl-mode=DISABLED");
    for _ in 0..2 {
        let db = MySqlDatabase::connect(&url).await.expect("connect");
        db.now().await.expect("the time");
    }
    run(&mut admin, format!("DROP USER {user}")).await;
    of.drop().await;
}

async fn tls_is_used_where_it_is_asked_for(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let cipher = Statement::new("SHOW SESSION STATUS LIKE 'Ssl_cipher'");
    let plain = MySqlDatabase::connect(&format!("{}?ssl-mode=DISABLED", of.url()))
        .await
        .expect("connect");
    let rows = plain.query(&cipher).await.expect("query");
    assert_eq!(rows[0].get::<String>("Value").expect("a text"), "");
    match MySqlDatabase::connect(&format!("{}?ssl-mode=REQUIRED", of.url())).await {
        Ok(db) => {
            let rows = db.query(&cipher).await.expect("query");
            assert_ne!(rows[0].get::<String>("Value").expect("a text"), "");
            // Its certificate is of its own making.
            let strict = format!("{}?ssl-mode=VERIFY_IDENTITY", of.url());
            let error = MySqlDatabase::connect(&strict)
                .await
                .expect_err("not trusted");
            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        }
        // This server has no TLS; then nothing is sent in the clear.
        Err(error) => {
            assert_eq!(server.name, "mariadb", "{error}");
            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        }
    }
    of.drop().await;
}
