//! TODO

use super::chapter;

chapter!(plans:);
