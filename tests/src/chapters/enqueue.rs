//! TODO

use super::chapter;

chapter!(enqueue:);
