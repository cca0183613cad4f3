//! A worker whose metrics Prometheus can read.
//!
//! ```text
//! cargo run -p duebox-worker --example prometheus -- 127.0.0.1:9187
//! curl http://127.0.0.1:9187/metrics
//! ```
//!
//! It enqueues a job a second, of which every tenth fails at first, and runs until it is ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use duebox_sqlite::{Database, Enqueue, Outbox, SqliteDatabase};
use duebox_worker::{Job, Outcome, Worker};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Seconds, from a nudge in the same process to a handler that takes minutes.
const SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0,
];
const ROWS: [f64; 7] = [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];

#[tokio::main]
async fn main() -> Fallible<()> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:9187").parse()?;
    // Before the worker starts, which finds its series once.
    serve(address)?;
    println!("http://{address}/metrics");
    let (worker, db, outbox) = start().await?;
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        second.tick().await;
        enqueue(&worker, &db, &outbox).await?;
    }
}

/// Records what the process measures, and serves it.
fn serve(address: SocketAddr) -> Result<(), BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_rows".into()), &ROWS)?
        .with_http_listener(address)
        .install()
}

async fn start() -> Fallible<(Worker, SqliteDatabase, Outbox)> {
    let db = SqliteDatabase::open_in_memory().await?;
    db.migrate().await?;
    let outbox = Outbox::new("outbox");
    let worker = Worker::builder(outbox.clone(), Arc::new(db.clone()))
        .handle("report", |job: Job| async move {
            match (job.id().ends_with('0'), job.attempt()) {
                (true, 1) => Outcome::retry("not at the first attempt"),
                _ => Outcome::Done,
            }
        })
        .sample_every(Some(Duration::from_secs(15)))
        .start()
        .await?;
    Ok((worker, db, outbox))
}

async fn enqueue(worker: &Worker, db: &SqliteDatabase, outbox: &Outbox) -> Fallible<()> {
    let work = Enqueue::new("report").at(worker.clock().now());
    db.batch_atomic(&[outbox.enqueue(work)]).await?;
    worker.nudge();
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Serves at a port that is free, and may be taken before it is used.
    async fn serve_somewhere() -> SocketAddr {
        for _ in 0..100 {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("bound");
            drop(listener);
            if serve(address).is_ok() {
                return address;
            }
        }
        panic!("no port stays free");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_the_worker_measures_is_served() {
        let address = serve_somewhere().await;
        let (worker, db, outbox) = start().await.expect("start");
        enqueue(&worker, &db, &outbox).await.expect("enqueue");
        worker.settled().await.expect("it settles");
        let mut stream = TcpStream::connect(address).await.expect("connect");
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("ask");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("read");
        for series in [
            "duebox_jobs_total{outbox=\"outbox\",topic=\"report\",outcome=",
            "duebox_start_delay_seconds_bucket{outbox=\"outbox\",topic=\"report\",le=\"0.001\"}",
            "duebox_job_seconds_count{outbox=\"outbox\",topic=\"report\"} 1",
            "duebox_claimed_rows_bucket{outbox=\"outbox\",le=\"16\"} 1",
        ] {
            assert!(answer.contains(series), "{series} in\n{answer}");
        }
        worker
            .shutdown(Duration::from_secs(10))
            .await
            .expect("stop");
    }
}
