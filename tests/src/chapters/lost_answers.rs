//! TODO

use super::chapter;

chapter!(lost_answers:);
