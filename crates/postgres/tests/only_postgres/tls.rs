//! What `sslmode` and `sslrootcert` ask for, against servers with certificates of
//! this test's own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duebox_postgres::{Database, Kind, Outcome, PostgresDatabase};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::place::{Place, sqlx_at, with_port};
use crate::proxy::address;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(place: &Place, name: &str) -> Self {
        let mut params = CertificateParams::new([]).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let file = std::env::temp_dir().join(format!("{}_{name}.pem", place.name));
        std::fs::write(&file, certificate.pem()).expect("a file");
        Self {
            issuer: Issuer::new(params, key),
            file,
        }
    }

    fn acceptor(&self, host: &str) -> TlsAcceptor {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate");
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Speaks TLS, if it has a certificate, and passes on to the test's server.
async fn server(acceptor: Option<TlsAcceptor>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let encrypted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&encrypted);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, acceptor.clone(), Arc::clone(&count)));
        }
    });
    (port, encrypted)
}

/// An `SSLRequest` is 8 bytes, and whatever else comes first is longer.
async fn serve(mut client: TcpStream, acceptor: Option<TlsAcceptor>, encrypted: Arc<AtomicUsize>) {
    let mut request = [0; 8];
    if client.read_exact(&mut request).await.is_err() {
        return;
    }
    let mut server = TcpStream::connect(address()).await.expect("the server");
    if request[..4] != 8_u32.to_be_bytes() {
        let _ = server.write_all(&request).await;
    } else if let Some(acceptor) = acceptor {
        let _ = client.write_all(b"S").await;
        if let Ok(mut client) = acceptor.accept(client).await {
            encrypted.fetch_add(1, Ordering::SeqCst);
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
        return;
    } else {
        let _ = client.write_all(b"N").await;
    }
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

pub(crate) async fn is_as_sslmode_says() {
    let place = Place::new().await;
    let (trusted, other) = (
        Authority::new(&place, "trusted"),
        Authority::new(&place, "other"),
    );
    let here = server(Some(trusted.acceptor("localhost"))).await;
    let elsewhere = server(Some(trusted.acceptor("elsewhere.example"))).await;
    let plain = server(None).await;
    let roots = |authority: &Authority| format!("&sslrootcert={}", authority.file.display());
    let (trusted_file, other_file) = (roots(&trusted), roots(&other));
    let system = "&sslrootcert=system".to_owned();
    let none = String::new();

    // Whether it connects, and whether with TLS; or what the error says.
    let cases = [
        (&here, "disable", &none, Ok(false)),
        (&here, "allow", &none, Ok(true)),
        (&here, "prefer", &none, Ok(true)),
        (&here, "require", &none, Ok(true)),
        (&here, "require", &trusted_file, Ok(true)),
        (
            &here,
            "require",
            &other_file,
            Err("no authority that is trusted"),
        ),
        (&here, "verify-ca", &trusted_file, Ok(true)),
        (
            &here,
            "verify-ca",
            &other_file,
            Err("no authority that is trusted"),
        ),
        (&here, "verify-full", &trusted_file, Ok(true)),
        (
            &here,
            "verify-full",
            &other_file,
            Err("no authority that is trusted"),
        ),
        (&here, "verify-full", &system, Err("trust")),
        (&elsewhere, "require", &none, Ok(true)),
        (&elsewhere, "verify-ca", &trusted_file, Ok(true)),
        (
            &elsewhere,
            "verify-ca",
            &other_file,
            Err("no authority that is trusted"),
        ),
        (
            &elsewhere,
            "verify-full",
            &trusted_file,
            Err("for another host name"),
        ),
        (&plain, "disable", &none, Ok(false)),
        (&plain, "allow", &none, Ok(false)),
        (&plain, "prefer", &none, Ok(false)),
        (&plain, "require", &none, Err("the server offers no TLS")),
        (
            &plain,
            "verify-full",
            &trusted_file,
            Err("the server offers no TLS"),
        ),
    ];
    for ((port, encrypted), mode, roots, expected) in cases {
        let url = with_port(&place.url(), *port).replace("127.0.0.1", "localhost");
        let before = encrypted.load(Ordering::SeqCst);
        match (
            PostgresDatabase::connect(&format!("{url}&sslmode={mode}{roots}")).await,
            expected,
        ) {
            (Ok(db), Ok(with_tls)) => {
                db.now().await.expect("a time");
                assert_eq!(
                    encrypted.load(Ordering::SeqCst) > before,
                    with_tls,
                    "{mode}{roots}"
                );
            }
            (Err(error), Err(says)) => {
                assert!(error.to_string().contains(says), "{mode}{roots}: {error}");
                assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
                // Waiting is no cure of any of them.
                assert!(
                    matches!(error.kind(), Kind::Unsupported | Kind::InvalidArgument),
                    "{error}"
                );
                assert!(!error.is_retryable(), "{error}");
            }
            (answer, _) => panic!("{mode}{roots}: {:?}", answer.err()),
        }
    }
    // Neither with sqlx, whether or not it was built with TLS.
    let url = with_port(&place.url(), plain.0);
    let error = sqlx_at(&format!("{url}&sslmode=require"), 1).now().await;
    let error = error.expect_err("there is no TLS");
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    assert!(error.to_string().contains("TLS"), "{error}");
    for authority in [trusted, other] {
        let _ = std::fs::remove_file(authority.file);
    }
    place.close().await;
}
