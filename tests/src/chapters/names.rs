//! TODO

use super::chapter;

chapter!(names:);
