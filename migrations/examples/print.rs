//! Prints the outbox migrations of one dialect for any table:
//! `cargo run -p duebox-migrations --example print -- postgres app.mail`.

use std::process::ExitCode;

use duebox_core::Dialect;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dialect = |name: &str| Dialect::ALL.into_iter().find(|d| d.to_string() == name);
    let [name, table] = arguments.as_slice() else {
        eprintln!("usage: print postgres|sqlite|mysql TABLE");
        return ExitCode::from(2);
    };
    let Some(dialect) = dialect(name) else {
        eprintln!("no such dialect: {name}");
        return ExitCode::from(2);
    };
    for migration in duebox_migrations::outbox(dialect) {
        print!("{}", migration.render(table));
    }
    ExitCode::SUCCESS
}
