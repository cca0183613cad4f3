#![doc = include_str!("../README.md")]

mod args;
mod check;
mod command;
mod engine;
mod error;
mod output;
mod signals;
mod stop;

use std::process::ExitCode;

use clap::Parser;

use self::args::{Args, Command};
use self::engine::Engine;
use self::error::CliError;

fn main() -> ExitCode {
    // Clap prints its own messages and ends with 0 or 2.
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let answer = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(CliError::Io("start the runtime", error)),
    };
    match answer {
        Ok(code) => code,
        Err(error) => {
            if !error.is_quiet() {
                output::message(&format!("duebox: {error}"));
            }
            error.code()
        }
    }
}

async fn run(args: Args) -> Result<ExitCode, CliError> {
    let place = args.place;
    match &args.command {
        // They end in an order of their own.
        Command::Enqueue(_) | Command::Deliver(_) | Command::Bench(_) => {}
        _ => stop::at_once(),
    }
    match args.command {
        Command::Completions(args) => command::shell::completions(&args),
        Command::Man => command::shell::man(),
        Command::Migrate(args) => command::migrate::run(&place, &args).await,
        Command::Check(args) => check::run(&place, &args).await,
        Command::Enqueue(args) => {
            command::enqueue::run(&Engine::open(&place).await?, &place, args).await
        }
        Command::Deliver(args) => command::deliver::run(&place, args).await,
        Command::Bench(args) => command::bench::run(&Engine::open(&place).await?, &args).await,
        Command::Status(args) => {
            command::status::run(&Engine::open(&place).await?, &place, &args).await
        }
        Command::List(args) => {
            command::list::list(&Engine::open(&place).await?, &place, &args).await
        }
        Command::Show(args) => {
            command::list::show(&Engine::open(&place).await?, &place, &args).await
        }
        Command::Retry(args) => {
            command::change::retry(&Engine::open(&place).await?, &place, args).await
        }
        Command::Park(args) => {
            command::change::park(&Engine::open(&place).await?, &place, &args).await
        }
        Command::Release(args) => {
            command::change::release(&Engine::open(&place).await?, &place, &args).await
        }
        Command::Delete(args) => {
            command::change::delete(&Engine::open(&place).await?, &place, &args).await
        }
        Command::Subject(args) => {
            command::subject::run(&Engine::open(&place).await?, &place, &args).await
        }
        Command::Receipts(args) => {
            command::receipts::run(&Engine::open(&place).await?, &args).await
        }
    }
}
