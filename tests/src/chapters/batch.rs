//! TODO

use super::chapter;

chapter!(batch:);
