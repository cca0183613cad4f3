use duebox_core::{DbError, Kind};
use sqlx::mysql::MySqlSslMode;

use super::parse;

fn refused(url: &str) -> String {
    let error: DbError = parse(url).expect_err(url);
    assert_eq!(error.kind(), Kind::InvalidArgument, "{url}: {error}");
    error.to_string()
}

#[test]
fn addresses_of_both_names_are_read() {
    for url in [
        "mysql://app:p%40ss%2Fw%3Ard@db.example.com:3307/app?ssl-mode=VERIFY_IDENTITY",
        "mariadb://app:p%40ss%2Fw%3Ard@db.example.com:3307/app?sslmode=verify_identity",
        "MySQL://app@db.example.com:3307/app?ssl-mode=VERIFY_IDENTITY&charset=utf8mb4&\
         time-zone=%2B00:00&collation=utf8mb4_bin&statement-cache-capacity=10&socket=%2Frun%2Fs",
    ] {
        let options = parse(url).expect(url);
        assert_eq!(
            (options.get_host(), options.get_port()),
            ("db.example.com", 3307)
        );
        assert_eq!(options.get_database(), Some("app"));
        assert!(matches!(
            options.get_ssl_mode(),
            MySqlSslMode::VerifyIdentity
        ));
    }
    for url in [
        "mysql://h",
        "mysql://u@h/",
        "mysql:///d?socket=/run/s.sock",
        "mysql://[::1]/d?",
    ] {
        parse(url).expect(url);
    }
}

#[test]
fn another_scheme_is_refused() {
    for url in [
        "http://h/d",
        "postgres://u:p@h/d",
        "h:3306/d",
        "mysql:d",
        "",
        "mysqlx://h/d",
    ] {
        let says = refused(url);
        assert!(says.contains("no mysql:// or mariadb:// URL"), "{says}");
    }
}

#[test]
fn a_parameter_that_the_driver_would_pass_over_is_refused_by_name() {
    for name in ["ssl_mode", "tls", "useSSL", "SSL-MODE", "sslMode", "x"] {
        let says = refused(&format!("mysql://u:p@h/d?charset=utf8mb4&{name}=v4lue"));
        assert!(says.contains(&format!("{name:?}")), "{says}");
        assert!(
            says.ends_with(
                "known are charset, collation, socket, ssl-ca, ssl-cert, ssl-key, ssl-mode, \
                 statement-cache-capacity, timezone"
            ),
            "{says}"
        );
        assert!(!says.contains("v4lue"), "{says}");
    }
}

#[test]
fn what_would_have_no_effect_is_refused() {
    for (query, says) in [
        ("ssl-mode=on", "ssl-mode is none of DISABLED"),
        ("ssl-mode=REQUIRED&sslmode=DISABLED", "ssl-mode twice"),
        ("ssl-mode", "name=value"),
        ("charset=latin1", "only be utf8mb4"),
        ("timezone=%2B08:00", "only be that of UTC"),
        ("statement-cache-capacity=many", "not a number"),
    ] {
        let found = refused(&format!("mysql://u:p@h/d?{query}"));
        assert!(found.contains(says), "{query}: {found}");
    }
}

#[test]
fn files_of_tls_are_looked_at() {
    let path =
        |name: &str| std::env::temp_dir().join(format!("duebox-url-{}-{name}", std::process::id()));
    let (good, bad) = (path("good ä+.pem"), path("bad.pem"));
    std::fs::write(&good, format!("# an authority\n{CERTIFICATE}")).expect("write");
    std::fs::write(&bad, "nothing of use").expect("write");
    let encoded = |path: &std::path::Path| {
        let text = path.to_str().expect("a text");
        text.bytes()
            .fold(String::new(), |all, byte| all + &format!("%{byte:02X}"))
    };
    let (good_path, bad_path) = (encoded(&good), encoded(&bad));
    let url = |query: &str| format!("mysql://u:p@h/d?{query}");
    let both = url(&format!("ssl-mode=VERIFY_CA&ssl-ca={good_path}"));
    parse(&both).expect("a file");
    let inline = CERTIFICATE.trim().replace('+', "%2B").replace('\n', "%0A");
    parse(&url(&format!("sslmode=VERIFY_CA&sslca={inline}"))).expect("a text");
    for (query, says) in [
        (
            "ssl-mode=VERIFY_CA&ssl-ca=/none.pem".to_owned(),
            "ssl-ca cannot be read",
        ),
        (
            "ssl-mode=VERIFY_CA&ssl-ca=".to_owned(),
            "ssl-ca cannot be read",
        ),
        ("ssl-ca=/none.pem".to_owned(), "ssl-ca cannot be read"),
        (
            format!("ssl-ca={good_path}"),
            "ssl-ca alone verifies nothing",
        ),
        (
            format!("ssl-mode=VERIFY_CA&sslca={bad_path}"),
            "ssl-ca has no certificates",
        ),
        (format!("ssl-cert={good_path}"), "belong together"),
        ("ssl-key=/none.pem".to_owned(), "ssl-key cannot be read"),
        (
            format!("ssl-cert={good_path}&ssl-key={good_path}"),
            "no private key",
        ),
        (
            format!("ssl-cert={bad_path}&ssl-key={good_path}"),
            "ssl-cert has no certificates",
        ),
    ] {
        let found = refused(&url(&query));
        assert!(found.contains(says), "{query}: {found}");
        assert!(!found.contains("none.pem"), "{found}");
    }
    std::fs::remove_file(good).expect("remove");
    std::fs::remove_file(bad).expect("remove");
}

#[test]
fn an_error_quotes_nothing_that_may_be_of_a_password() {
    for url in [
        "mysql://u:12?s3cr3t=x@h/d",
        "mysql://u:12/s3cr3t@h/d",
        "mysql://u:12#s3cr3t@h/d",
        "mysql://u:12?s3cr3t#@h/d",
        "mysql://u:s3cr3t?ssl-mode=DISABLED",
        "mysql://h/d?s3cr3t",
        "mysql://h/d?s3cr3t%21=1",
        "mysql://h/d?ssl-mode=s3cr3t",
        "mysql://u:s3cr3t@[::1/d",
        "s3cr3t://u@h/d",
    ] {
        let says = refused(url);
        assert!(!says.contains("s3cr3t"), "{url}: {says}");
    }
}

const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBhTCCASugAwIBAgIUe5e+JbucTomXGmm90f7/DtXLPDkwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMYW4gYXV0aG9yaXR5MCAXDTI2MTIwMTA1MTY1MFoYDzIxMjYx
MTA3MDUxNjUwWjAXMRUwEwYDVQQDDAxhbiBhdXRob3JpdHkwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAARlJEaEAenij41QBJQq3i/kC++SysYZ6wcoXOuuBjr6yIDv
q+YobwT+AkMZoRsag2cf25Qx883KMdr3yq4QlS/vo1MwUTAdBgNVHQ4EFgQUSMIE
MRfA/Mq0uhFHeBnlPO6MMVUwHwYDVR0jBBgwFoAUSMIEMRfA/Mq0uhFHeBnlPO6M
MVUwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEA/seTPAhH8u8K
GnvbVlg4UuAT0FXiWMGFiUoxJOqoRc4CIEhCqg5Zf/eakKocZxIih+s7y/5Fp/DR
DnTmo1Y7HDVh
-----END CERTIFICATE-----
";
