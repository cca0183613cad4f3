//! TODO

use super::chapter;

chapter!(text:);
