//! TODO

use super::chapter;

chapter!(cancel:);
