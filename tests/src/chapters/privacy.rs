//! TODO

use super::chapter;

chapter!(privacy:);
