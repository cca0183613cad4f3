//! A table's name is a plain one or refused, and is all that stands in the SQL of it.

use duebox_core::Outbox;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "names",
    look,
    words: &[
        "outbox",
        "mail_outbox",
        "billing.outbox",
        "select",
        "_",
        "9",
        "A",
        ".",
        "table",
    ],
};

const MOST: usize = 48;

fn look(text: &str) -> Result<(), String> {
    let made = Outbox::try_new(text);
    let is_plain = |part: &str| {
        let head = part.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
        let tail =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        head && part.len() <= MOST && part.chars().all(tail)
    };
    let parts: Vec<&str> = text.split('.').collect();
    let plain = parts.len() <= 2 && parts.iter().all(|part| is_plain(part));
    match made {
        Ok(_) if !plain => return Err("a name that is not plain was taken".into()),
        Ok(outbox) if !outbox.create_table_sql().contains(text) => {
            return Err("the table has another name".into());
        }
        Ok(_) | Err(_) => {}
    }
    // With this behind it no word is reserved.
    let longer = format!("{text}_of_nobody");
    let short = parts.last().is_some_and(|part| part.len() + 10 <= MOST);
    if plain && short && parts.len() == 1 && Outbox::try_new(&*longer).is_err() {
        return Err("a plain name was refused".into());
    }
    Ok(())
}
