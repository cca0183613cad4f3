use std::fmt::{Debug, Formatter, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A `tracing` subscriber that hears all that is logged, at every level: for tests
/// that no value of a row is in any log.
///
/// It is called with the target of each event and span, and with its fields as text;
/// the target is empty for fields that a span is given later. It must not log itself.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use duebox_conformance::Listener;
///
/// let heard = Arc::new(Mutex::new(String::new()));
/// let listener = Listener::new({
///     let heard = Arc::clone(&heard);
///     move |target: &str, fields: &str| {
///         let mut heard = heard.lock().expect("the log");
///         heard.push_str(&format!("{target}{fields}\n"));
///     }
/// });
/// tracing::subscriber::with_default(listener, || tracing::trace!(rows = 3, "read"));
/// assert!(heard.lock().expect("the log").contains("rows=3"));
/// ```
pub struct Listener<F> {
    hear: F,
    spans: AtomicU64,
}

impl<F: Fn(&str, &str)> Listener<F> {
    /// One that calls `hear`.
    pub const fn new(hear: F) -> Self {
        Self {
            hear,
            spans: AtomicU64::new(1),
        }
    }

    fn note(&self, target: &str, name: &str, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(String::new());
        if !name.is_empty() {
            fields.0.push(' ');
            fields.0.push_str(name);
        }
        record(&mut fields);
        (self.hear)(target, &fields.0);
    }
}

impl<F> Debug for Listener<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl<F: Fn(&str, &str) + Send + Sync + 'static> Subscriber for Listener<F> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let about = span.metadata();
        self.note(about.target(), about.name(), |fields| span.record(fields));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note("", "", |fields| values.record(fields));
    }

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata().target(), "", |fields| event.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
