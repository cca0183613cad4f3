//! TODO

use super::chapter;

chapter!(values:);
