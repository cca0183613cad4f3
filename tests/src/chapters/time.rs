//! TODO

use super::chapter;

chapter!(time:);
