//! The chapters of the suite. A test is an async function of an
//! `Arc<Context>`, listed once in the `chapter!` of its file; one that is not
//! listed is dead code, which the lints deny.

mod batch;
mod cancel;
mod claim;
mod cursor;
mod enqueue;
mod lease;
mod lost_answers;
mod names;
mod operator;
mod plans;
mod poison;
mod privacy;
mod programs;
mod rows;
mod size;
mod subject;
mod survey;
mod text;
mod time;
mod values;

use crate::Test;

/// Lists a file's tests: `chapter!(lease: first, second; Hook::Cut => third)`.
macro_rules! chapter {
    ($chapter:ident: $($test:ident),* $(,)? $(; $hook:expr => $($hooked:ident),+ $(,)?)*) => {
        pub(super) fn tests() -> Vec<$crate::Test> {
            #[allow(unused_mut, reason = "a chapter may need no hook")]
            let mut tests = vec![$($crate::Test {
                name: concat!(stringify!($chapter), "::", stringify!($test)),
                needs: None,
                run: |context| Box::pin($test(context)),
            }),*];
            $(tests.extend([$($crate::Test {
                name: concat!(stringify!($chapter), "::", stringify!($hooked)),
                needs: Some($hook),
                run: |context| Box::pin($hooked(context)),
            }),+]);)*
            tests
        }
    };
}
use chapter;

pub(crate) fn all() -> Vec<Test> {
    [
        lease::tests(),
        claim::tests(),
        batch::tests(),
        values::tests(),
        rows::tests(),
        time::tests(),
        text::tests(),
        size::tests(),
        names::tests(),
        enqueue::tests(),
        subject::tests(),
        operator::tests(),
        survey::tests(),
        cursor::tests(),
        cancel::tests(),
        privacy::tests(),
        lost_answers::tests(),
        plans::tests(),
        poison::tests(),
        programs::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
