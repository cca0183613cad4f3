//! TODO

use super::chapter;

chapter!(rows:);
