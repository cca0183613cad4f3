#![doc = include_str!("../README.md")]

mod args;
mod engine;
mod report;
mod scenario;

use std::process::ExitCode;

use self::args::{Args, HELP};
use self::engine::Fallible;
use self::report::Report;

fn main() -> ExitCode {
    let run = || -> Fallible<()> {
        let Some(args) = Args::parse()? else {
            print!("{HELP}");
            return Ok(());
        };
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?
            .block_on(async {
                match args.taker().await? {
                    Some(store) => scenario::receipts::take_all(&*store).await,
                    None => run(&args).await,
                }
            })
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("duebox-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Fallible<()> {
    let engine = args.open().await?;
    let version = engine.version().await?;
    let mut all = Vec::new();
    for name in &args.scenarios {
        let (settings, series) = match &**name {
            "drain" => scenario::drain(&*engine, args).await?,
            "enqueue" => scenario::enqueue(&*engine, args).await?,
            "many" => scenario::many(&*engine, args).await?,
            "flat" => scenario::flat(&*engine, args).await?,
            "cursor" => scenario::cursor(&*engine, args).await?,
            "worker" => scenario::worker(&*engine, args).await?,
            "status" => scenario::status(&*engine, args).await?,
            "receipts" => scenario::receipts::by_batch(&*engine, args).await?,
            "tickets" => scenario::receipts::in_one_call(&*engine, args).await?,
            "takers" => scenario::receipts::takers(&*engine, args).await?,
            "receipt-plans" => scenario::receipts::plans(&*engine, args).await?,
            other => return Err(format!("there is no scenario {other}").into()),
        };
        let report = Report {
            title: format!("{version}: {name}"),
            settings,
            series,
        };
        if args.json {
            all.push(report.json());
        } else {
            println!("{}", report.markdown());
        }
    }
    if args.json {
        println!("{:#}", serde_json::Value::from(all));
    }
    Ok(())
}
