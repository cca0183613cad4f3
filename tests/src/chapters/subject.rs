//! TODO

use super::chapter;

chapter!(subject:);
