//! TODO

use super::chapter;

chapter!(poison:);
