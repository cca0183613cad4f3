use std::collections::BTreeMap;
use std::fmt::Write;

use super::sql::{id_in, json_array, push_json};
use super::{Lease, Outbox};
use crate::statement::Form;
use crate::{Dialect, Statement};

impl Outbox {
    /// Deletes rows by id.
    ///
    /// Differs from Postgres: for a list of ids, MySQL and MariaDB read all of a
    /// small table, whatever index a DELETE is told to use, and wait for every lock
    /// on the way, which can be a deadlock. A join on the key from a list that is no
    /// table locks the rows of the list alone, in its order.
    pub(super) fn delete_by_id(&self, dialect: Dialect, ids: &[&str]) -> Statement {
        match dialect {
            Dialect::MySql => {
                let text = self.fill(include_str!("sql/delete_by_key_mysql.sql"));
                Statement::shared(text).bind(json_array(ids))
            }
            Dialect::Postgres | Dialect::Sqlite => {
                let Form { sql, values } = id_in(dialect, ids);
                let text = self.fill(&format!("DELETE FROM {{table}}\nWHERE {sql}"));
                values
                    .into_iter()
                    .fold(Statement::shared(text), Statement::bind)
            }
        }
    }

    /// Deletes the rows whose leases are held, on MySQL and MariaDB, and expects
    /// all to be.
    pub(super) fn delete_held_mysql(&self, leases: &[&Lease]) -> Statement {
        let mut list = String::from("[");
        for (place, lease) in leases.iter().enumerate() {
            list.push_str(if place > 0 { ",[" } else { "[" });
            push_json(&mut list, lease.id());
            // Writing to a String cannot fail.
            let _ = write!(list, ",{},", lease.number());
            push_json(&mut list, lease.created_at());
            list.push(']');
        }
        list.push(']');
        let text = self.fill(include_str!("sql/delete_held_mysql.sql"));
        Statement::shared(text)
            .bind(list)
            .expect_rows(leases.len() as u64)
    }

    /// Deletes the rows whose leases are held, on SQLite, and expects all to be.
    /// `CROSS JOIN` there says which is read first.
    ///
    /// One statement for each number of claims, and mostly that is one: a flat
    /// list of two texts is read faster than one of three, or than a comparison
    /// with a text that is made for each row.
    pub(super) fn delete_held_sqlite(&self, leases: &[&Lease]) -> Vec<Statement> {
        let text = self.fill(include_str!("sql/delete_held_sqlite.sql"));
        let mut alike: BTreeMap<i64, Vec<&Lease>> = BTreeMap::new();
        for lease in leases {
            alike.entry(lease.number()).or_default().push(lease);
        }
        let delete = |(claims, leases): (i64, Vec<&Lease>)| {
            let bytes = leases
                .iter()
                .map(|l| l.id().len() + l.created_at().len() + 6);
            let mut list = String::with_capacity(bytes.sum::<usize>() + 2);
            list.push('{');
            for (place, lease) in leases.iter().enumerate() {
                if place > 0 {
                    list.push(',');
                }
                push_json(&mut list, lease.id());
                list.push(':');
                push_json(&mut list, lease.created_at());
            }
            list.push('}');
            Statement::shared(text.clone())
                .bind(list)
                .bind(claims)
                .expect_rows(leases.len() as u64)
        };
        alike.into_iter().map(delete).collect()
    }
}
