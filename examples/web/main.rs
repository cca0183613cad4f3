//! A service over HTTP, and its worker in one process.
//!
//! ```text
//! cargo run -p duebox-examples --features web --example web -- --database sqlite:web.db
//! curl -X POST -H 'content-type: application/json' -d '{"email":"ada@example.com"}' localhost:8080/accounts
//! ```
//!
//! A `POST` creates an account and enqueues its welcome in one transaction of sqlx, on
//! PostgreSQL or SQLite. The worker welcomes it, which `GET /accounts/ID` shows: in the
//! same database, so exactly once. The program may be killed at any moment.

mod store;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use duebox_sqlite::{Enqueue, Outbox};
use duebox_worker::{Job, Outcome, Worker};
use lexopt::{Arg, Parser, ValueExt};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use self::store::{Error, SignUp, Store};

const TOPIC: &str = "account.welcome";

struct Service {
    store: Store,
    outbox: Outbox,
    worker: Worker,
}

#[derive(Deserialize)]
struct NewAccount {
    email: String,
}

#[derive(Serialize)]
struct Account {
    id: String,
    email: String,
    welcomes: i64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("web: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let (mut database, mut listen) = ("sqlite:web.db".to_owned(), "127.0.0.1:8080".to_owned());
    let mut lease = 30;
    let mut arguments = Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("database") => database = arguments.value()?.string()?,
            Arg::Long("listen") => listen = arguments.value()?.string()?,
            Arg::Long("lease") => lease = arguments.value()?.parse()?,
            other => return Err(other.unexpected().into()),
        }
    }

    let (store, db) = Store::open(&database).await?;
    let outbox = Outbox::new("outbox");
    let (accounts, welcomes) = (store.clone(), outbox.clone());
    let worker = Worker::builder(outbox.clone(), db)
        .handle(TOPIC, move |job| {
            welcome(accounts.clone(), welcomes.clone(), job)
        })
        .lease(Duration::from_secs(lease))
        .start()
        .await?;
    let service = Arc::new(Service {
        store,
        outbox,
        worker,
    });

    let listener = TcpListener::bind(&listen).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router(Arc::clone(&service)))
        .with_graceful_shutdown(stopped())
        .await?;
    // The last request has been answered, so nobody else holds the service.
    if let Some(service) = Arc::into_inner(service) {
        service.worker.shutdown(Duration::from_secs(10)).await?;
    }
    Ok(())
}

fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/accounts", post(sign_up))
        .route("/accounts/{id}", get(show))
        .route("/health", get(health))
        .with_state(service)
}

type Answer<T> = Result<(StatusCode, Json<T>), StatusCode>;

async fn sign_up(
    State(service): State<Arc<Service>>,
    Json(account): Json<NewAccount>,
) -> Answer<Account> {
    let email = account.email;
    if !email.contains('@') || email.len() > 255 {
        return Err(StatusCode::UNPROCESSABLE_ENTITY);
    }
    // By the worker's clock, which is the database's.
    let now = service.worker.clock().now();
    let id = Enqueue::new_id(now);
    let mail = Enqueue::new(TOPIC).id(&*id).subject(&*id).at(now);
    let mail = service.outbox.enqueue(mail);
    match service.store.sign_up(&id, &email, &mail).await {
        Ok(SignUp::Done) => {}
        Ok(SignUp::Taken) => return Err(StatusCode::CONFLICT),
        Err(error) => return Err(failed(&error)),
    }
    service.worker.nudge();
    let account = Account {
        id,
        email,
        welcomes: 0,
    };
    Ok((StatusCode::CREATED, Json(account)))
}

async fn show(State(service): State<Arc<Service>>, Path(id): Path<String>) -> Answer<Account> {
    match service.store.find(&id).await {
        Ok(Some((email, welcomes))) => {
            let account = Account {
                id,
                email,
                welcomes,
            };
            Ok((StatusCode::OK, Json(account)))
        }
        Ok(None) => Err(StatusCode::NOT_FOUND),
        Err(error) => Err(failed(&error)),
    }
}

/// Whether a supervisor should leave it alone.
async fn health(State(service): State<Arc<Service>>) -> StatusCode {
    let health = service.worker.health();
    let late = health.since_last_claim > Some(Duration::from_mins(1));
    if health.alive && !late {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

async fn welcome(store: Store, outbox: Outbox, job: Job) -> Outcome {
    match store.welcome(&outbox, job.lease()).await {
        // Ended in our own transaction, or by whoever has it now.
        Ok(_) => Outcome::Ended,
        Err(_) => Outcome::retry("the database could not be reached or refused it"),
    }
}

fn failed(error: &Error) -> StatusCode {
    // The driver's own message may quote a row, so it is not printed.
    let busy = error
        .downcast_ref::<duebox_sqlite::DbError>()
        .is_some_and(duebox_sqlite::DbError::is_retryable);
    if busy {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    }
}

async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
