//! TODO

use super::chapter;

chapter!(cursor:);
