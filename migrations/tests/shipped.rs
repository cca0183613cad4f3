//! What holds for the files as they are shipped.

use duebox_core::Dialect;
use duebox_migrations::{Migration, all, lock, outbox, receipts};

/// FNV-1a: enough to notice that a file was edited.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A file in this list has been applied to databases of others. To change a schema,
/// add a file.
#[test]
fn a_shipped_file_is_never_edited() {
    let shipped: [(&str, u64); 6] = [
        ("postgres/0001_outbox.sql", 0xf89b_6fbb_d55c_20a1),
        ("postgres/0002_pending_receipts.sql", 0x5803_652e_5355_77cc),
        ("sqlite/0001_outbox.sql", 0x86b4_6514_ec18_f005),
        ("sqlite/0002_pending_receipts.sql", 0xa2d4_4d9c_5183_e452),
        ("mysql/0001_outbox.sql", 0x6c8a_bd12_4c7f_21d3),
        ("mysql/0002_pending_receipts.sql", 0x5bf9_38b3_f3c9_e8ff),
    ];
    let found: Vec<(String, u64)> = every()
        .map(|file| {
            let path = format!("{}/{}", file.dialect(), file.file_name());
            (path, checksum(file.sql))
        })
        .collect();
    for ((path, sum), (shipped_path, shipped_sum)) in found.iter().zip(shipped) {
        assert_eq!(path, shipped_path);
        assert_eq!(*sum, shipped_sum, "{path} was edited: {sum:#018x}");
    }
    assert_eq!(found.len(), shipped.len(), "a file is not frozen yet");
}

#[test]
fn every_dialect_has_the_same_steps() {
    let steps = |dialect| -> Vec<_> {
        all(dialect)
            .iter()
            .map(|file| {
                (
                    file.number,
                    file.name,
                    file.table(),
                    file.expected_columns(),
                    file.expected_indexes(),
                )
            })
            .collect()
    };
    for dialect in Dialect::ALL {
        assert_eq!(steps(dialect), steps(Dialect::Postgres), "{dialect}");
    }
}

#[test]
fn numbers_have_no_gap_and_each_file_is_of_one_kind() {
    for dialect in Dialect::ALL {
        for (place, file) in (1..).zip(all(dialect)) {
            assert_eq!(file.number, place);
            assert_eq!(file.dialect(), dialect);
            let kinds = [outbox(dialect), receipts(dialect)];
            let listed = kinds.iter().filter(|list| list.contains(file)).count();
            assert_eq!(listed, 1, "{dialect} {}", file.name);
        }
    }
}

#[test]
fn a_file_is_a_letter_that_says_whether_old_code_may_run_beside_it() {
    for file in every() {
        let opening = format!("-- {:04} {}: ", file.number, file.name.replace('_', " "));
        assert!(file.sql.starts_with(&opening), "{}", file.sql);
        assert!(file.sql.contains("\n-- Dear operator,\n"));
        let prose = file.sql.replace("\n-- ", " ");
        assert!(
            prose.contains("code of any age may run beside it"),
            "{prose}"
        );
    }
}

/// So that even a tool with a simple splitter reads them right.
#[test]
fn no_separator_and_no_quote_stands_in_a_comment_or_a_literal() {
    for file in every() {
        assert!(!file.sql.contains(['\'', '`', '?', '\\', '\r', '\t']));
        for line in file.sql.lines() {
            let code = line.split("--").next().unwrap_or_default();
            let separators = line.matches(';').count();
            assert_eq!(separators, usize::from(code.trim_end().ends_with(';')));
            assert!(line.len() <= 100, "{line}");
        }
    }
}

#[test]
fn every_expected_column_and_index_is_in_the_file() {
    for file in every() {
        let code: Vec<_> = file.statements().collect();
        let code = code.join("\n");
        for column in file.expected_columns() {
            let definition = format!("\n    {column} ");
            assert!(code.contains(&definition), "{column}");
        }
        for columns in file.expected_indexes() {
            let list = format!("({})", columns.join(", "));
            assert_eq!(code.matches(&list).count(), 1, "{list}");
        }
    }
}

/// Applying a file again must do nothing, in whichever statement it starts.
#[test]
fn every_statement_may_be_run_again() {
    for file in every() {
        for statement in file.statements() {
            assert!(
                statement.starts_with("CREATE TABLE IF NOT EXISTS ")
                    || statement.starts_with("CREATE INDEX IF NOT EXISTS "),
                "{statement}"
            );
        }
        let indexes = file.expected_indexes().len();
        let statements = match file.dialect() {
            Dialect::MySql => 1,
            _ => 1 + indexes,
        };
        assert_eq!(file.statements().count(), statements);
    }
}

#[test]
fn every_dialect_has_a_lock() {
    for dialect in Dialect::ALL {
        assert!(!lock(dialect).take.is_empty() && !lock(dialect).release.is_empty());
    }
}

fn every() -> impl Iterator<Item = &'static Migration> {
    Dialect::ALL.into_iter().flat_map(all)
}
