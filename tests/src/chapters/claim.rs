//! TODO

use super::chapter;

chapter!(claim:);
