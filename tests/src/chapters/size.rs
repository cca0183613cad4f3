//! TODO

use super::chapter;

chapter!(size:);
