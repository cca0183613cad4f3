//! Ways to be let in.

use duebox_mysql::{Database, Kind, MySqlDatabase, Outcome, Statement};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(login:
    a_first_login_without_tls_works,
    tls_is_used_where_it_is_asked_for,
    a_parameter_that_would_be_passed_over_connects_nowhere,
    a_connection_that_was_never_made_is_not_called_lost
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
            assert_eq!(error.kind(), Kind::Unsupported, "{error}");
            assert!(!error.is_retryable());
            assert!(
                error
                    .to_string()
                    .contains("no authority that is trusted; see ssl-ca"),
                "{error}"
            );
        }
        // This server has no TLS; then nothing is sent in the clear.
        Err(error) => {
            assert_eq!(server.name, "mariadb", "{error}");
            assert_eq!(error.kind(), Kind::Unsupported, "{error}");
            assert!(!error.is_retryable());
            assert!(
                error.to_string().contains("the server offers no TLS"),
                "{error}"
            );
        }
    }
    of.drop().await;
}

async fn a_parameter_that_would_be_passed_over_connects_nowhere(server: Server) {
    let url = server.url().expect("a server");
    for query in [
        "ssl_mode=VERIFY_IDENTITY",
        "tls=true",
        "useSSL=true",
        "ssl-mode=VERIFY_CA&ssl-ca=/none.pem",
    ] {
        let error = MySqlDatabase::connect(&format!("{url}?{query}"))
            .await
            .expect_err(query);
        assert_eq!(error.kind(), Kind::InvalidArgument, "{query}: {error}");
    }
    let (_, rest) = url.split_once("://").expect("a scheme");
    for scheme in ["http", "postgres"] {
        let error = MySqlDatabase::connect(&format!("{scheme}://{rest}"))
            .await
            .expect_err(scheme);
        assert_eq!(error.kind(), Kind::InvalidArgument, "{scheme}: {error}");
    }
    let db = MySqlDatabase::connect(&format!("mariadb://{rest}")).await;
    db.expect("connect").now().await.expect("the time");
}

async fn a_connection_that_was_never_made_is_not_called_lost(server: Server) {
    let url = server.url().expect("a server");
    let (user, rest) = url.split_once('@').expect("a user");
    let (_, database) = rest.split_once('/').expect("a database");
    let error = MySqlDatabase::connect(&format!("{user}@no-such-host.invalid/{database}"))
        .await
        .expect_err("there is no such host");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Unavailable, Outcome::NotApplied),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "connect to the database: no connection to the server could be made; \
         see whether its address is right"
    );
}
