//! Makes texts from others.

use fastrand::Rng;

/// What any reader may trip over.
const HOSTILE: [&str; 24] = [
    "'", "\"", "`", "\\", "?", "??", "$1", "$$", "--", "/*", "*/", "#", ";", "\0", "\n", "\r\n",
    " ", "\u{a0}", "\u{202e}", "é", "😀", "%00", "\u{feff}", "e\u{301}",
];

pub(super) fn make(random: &mut Rng, corpus: &[String], words: &[&str]) -> String {
    let mut text = match random.choice(corpus) {
        Some(base) if random.u8(..) < 224 => base.clone(),
        _ => String::new(),
    };
    for _ in 0..=random.usize(..6) {
        change(random, &mut text, corpus, words);
    }
    text
}

fn change(random: &mut Rng, text: &mut String, corpus: &[String], words: &[&str]) {
    let places: Vec<usize> = text
        .char_indices()
        .map(|(place, _)| place)
        .chain([text.len()])
        .collect();
    let one = places[random.usize(..places.len())];
    let other = places[random.usize(..places.len())];
    let (from, to) = (one.min(other), one.max(other));
    match random.u8(..8) {
        0 => text.replace_range(from..to, ""),
        1 => {
            let piece = text[from..to].to_owned();
            text.insert_str(one, &piece);
        }
        2 | 3 => text.insert_str(one, HOSTILE[random.usize(..HOSTILE.len())]),
        4 => text.insert(one, random.char(..)),
        5 => text.insert(one, char::from(random.u8(b' '..0x7f))),
        6 => {
            if let Some(word) = random.choice(words) {
                text.insert_str(one, word);
            }
        }
        _ => {
            if let Some(base) = random.choice(corpus) {
                text.replace_range(from..to, base);
            }
        }
    }
}
