//! TODO

use super::chapter;

chapter!(operator:);
