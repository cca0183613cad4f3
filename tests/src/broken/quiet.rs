use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs what is meant to panic on this thread without printing that it did.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                print(panic);
            }
        }));
    });
    let before = QUIET.replace(true);
    // What it runs catches its own panics.
    let answer = run();
    QUIET.set(before);
    answer
}

/// Whether this thread runs what is meant to panic; a runtime made on it passes
/// that on to its own threads.
pub(crate) fn is_quiet() -> bool {
    QUIET.get()
}

/// Makes this thread one that runs what is meant to panic, or not.
pub(crate) fn set_quiet(quiet: bool) {
    QUIET.set(quiet);
}
