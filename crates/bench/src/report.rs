//! Figures, and the tables that they are shown in.

use std::fmt::Write;

use serde_json::{Value, json};

/// What a figure has to be.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// One figure, measured several times.
pub(crate) struct Series {
    name: String,
    unit: &'static str,
    each: Vec<f64>,
    goal: Option<Goal>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, each: &[f64]) -> Self {
        Self {
            name: name.into(),
            unit,
            each: each.to_vec(),
            goal: None,
        }
    }

    /// The ratios of two figures that were measured side by side.
    pub(crate) fn ratio(
        name: impl Into<String>,
        of: &[f64],
        to: &[f64],
        goal: impl Into<Option<Goal>>,
    ) -> Self {
        let each: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
        Self::new(name, "×", &each).goal(goal)
    }

    pub(crate) fn goal(mut self, goal: impl Into<Option<Goal>>) -> Self {
        self.goal = goal.into();
        self
    }

    fn is_met(&self) -> Option<bool> {
        let median = median(&self.each);
        self.goal.map(|goal| match goal {
            Goal::AtLeast(least) => median >= least,
            Goal::AtMost(most) => median <= most,
        })
    }
}

/// All figures of one scenario on one engine.
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) settings: String,
    pub(crate) series: Vec<Series>,
}

impl Report {
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "### {}\n\n{}\n\n| measured | median | least | most | target |\n|---|--:|--:|--:|---|\n",
            self.title, self.settings
        );
        for series in &self.series {
            let show = |value| shown(value, series.unit);
            let target = match (series.goal, series.is_met()) {
                (Some(goal), Some(met)) => {
                    let (sign, bound) = match goal {
                        Goal::AtLeast(bound) => ("≥", bound),
                        Goal::AtMost(bound) => ("≤", bound),
                    };
                    let met = if met { "met" } else { "**missed**" };
                    format!("{sign} {bound}: {met}")
                }
                _ => String::new(),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {target} |",
                series.name,
                show(median(&series.each)),
                show(series.each.iter().copied().fold(f64::INFINITY, f64::min)),
                show(series.each.iter().copied().fold(0.0, f64::max)),
            );
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|series| {
                json!({
                    "name": series.name,
                    "unit": series.unit,
                    "median": median(&series.each),
                    "each": series.each,
                    "met": series.is_met(),
                })
            })
            .collect();
        json!({ "title": self.title, "settings": self.settings, "series": series })
    }
}

fn shown(value: f64, unit: &str) -> String {
    match unit {
        "rows/s" | "tickets/s" | "tickets" => format!("{value:.0} {unit}"),
        "%" => format!("{value:.1} %"),
        _ => format!("{value:.2} {unit}"),
    }
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
    }

    #[test]
    fn a_target_is_met_by_the_median_of_ratios() {
        let at_least = |bound| Series::ratio("", &[8.0, 30.0], &[10.0, 20.0], Goal::AtLeast(bound));
        assert_eq!(at_least(1.1).is_met(), Some(true));
        assert_eq!(at_least(1.2).is_met(), Some(false));
    }
}
