//! The results as tables for people and as JSON.

use crate::figures::{FIGURES, Figure, Goal, Run};
use crate::probe::Figures;
use serde_json::{Value, json};
use std::fmt::Write;

/// The medians of one load, of both servers.
pub struct Pair {
    /// The load's name.
    pub load: &'static str,
    /// etcd's; `None` where it was not run.
    pub etcd: Option<Run>,
    /// Quorate's; `None` where it was not run or failed.
    pub quorate: Option<Run>,
}

/// One line of the table.
pub struct Line {
    /// What was measured.
    pub figure: &'static Figure,
    /// etcd's value.
    pub etcd: Option<f64>,
    /// Quorate's value.
    pub quorate: Option<f64>,
}

impl Line {
    /// Quorate's value as a part of etcd's.
    pub fn ratio(&self) -> Option<f64> {
        match (self.etcd, self.quorate) {
            (Some(etcd), Some(quorate)) if etcd > 0.0 => Some(quorate / etcd),
            _ => None,
        }
    }

    /// Whether the goal is reached; `None` where there is none or a value is missing.
    pub fn reached(&self) -> Option<bool> {
        match self.figure.goal {
            Goal::RatioAtMost(limit) => self.ratio().map(|ratio| ratio <= limit),
            Goal::RatioAtLeast(limit) => self.ratio().map(|ratio| ratio >= limit),
            Goal::AtLeast(limit) => self.quorate.map(|value| value >= limit),
            Goal::AtMost(limit) => self.quorate.map(|value| value <= limit),
            Goal::None => None,
        }
    }
}

/// The lines for which there is a value.
pub fn lines(pairs: &[Pair]) -> Vec<Line> {
    FIGURES
        .iter()
        .filter_map(|figure| {
            let pair = pairs
                .iter()
                .find(|pair| figure.id.split('.').next() == Some(pair.load))?;
            let value = |run: &Option<Run>| run.as_ref()?.values.get(figure.id).copied();
            let (etcd, quorate) = (value(&pair.etcd), value(&pair.quorate));
            (etcd.is_some() || quorate.is_some()).then_some(Line {
                figure,
                etcd,
                quorate,
            })
        })
        .collect()
}

/// Both tables, in Markdown.
pub fn markdown(pairs: &[Pair]) -> String {
    let mut text = String::from(
        "| what | unit | etcd | quorate | ratio | goal | reached |\n\
         |---|---|--:|--:|--:|---|---|\n",
    );
    for line in lines(pairs) {
        let ratio = line
            .ratio()
            .map_or("–".to_owned(), |ratio| format!("{ratio:.2}x"));
        let reached = match line.reached() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "",
        };
        writeln!(
            text,
            "| {} | {} | {} | {} | {ratio} | {} | {reached} |",
            line.figure.what,
            line.figure.unit,
            number(line.etcd),
            number(line.quorate),
            goal(line.figure.goal),
        )
        .expect("writing to a String cannot fail");
    }
    let stalls = stalls(pairs);
    if stalls.is_empty() {
        return text;
    }
    text.push_str(
        "\nThe probe, in ms: subject (control)\n\n\
         | while | server | put p50 | put p99 | put max | get p50 | get p99 | get max | slowest sync ≤ | rule kept |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|---|\n",
    );
    for (load, server, run) in stalls {
        let Some(stall) = run.stall else { continue };
        let (a, b) = (&stall.subject, &stall.control);
        let both = |get: fn(&Figures) -> f64| format!("{:.2} ({:.2})", get(a), get(b));
        writeln!(
            text,
            "| {load} | {server} | {} | {} | {} | {} | {} | {} | {:.0} | {} |",
            both(|figures| figures.put_p50),
            both(|figures| figures.put_p99),
            both(|figures| figures.put_max),
            both(|figures| figures.get_p50),
            both(|figures| figures.get_p99),
            both(|figures| figures.get_max),
            stall.slowest_sync_ms,
            if stall.keeps_the_rule() {
                "yes"
            } else {
                "**no**"
            },
        )
        .expect("writing to a String cannot fail");
    }
    text
}

fn stalls(pairs: &[Pair]) -> Vec<(&'static str, &'static str, &Run)> {
    pairs
        .iter()
        .flat_map(|pair| {
            [("etcd", &pair.etcd), ("quorate", &pair.quorate)]
                .map(|(server, run)| (pair.load, server, run))
        })
        .filter_map(|(load, server, run)| {
            let run = run.as_ref()?;
            run.stall.is_some().then_some((load, server, run))
        })
        .collect()
}

/// Everything, for programs.
pub fn json(pairs: &[Pair], rounds: u32, quick: bool) -> Value {
    let figures: Vec<Value> = lines(pairs)
        .iter()
        .map(|line| {
            json!({
                "id": line.figure.id,
                "what": line.figure.what,
                "unit": line.figure.unit,
                "goal": goal(line.figure.goal),
                "etcd": line.etcd,
                "quorate": line.quorate,
                "ratio": line.ratio(),
                "reached": line.reached(),
            })
        })
        .collect();
    let stalls: Vec<Value> = stalls(pairs)
        .iter()
        .map(|(load, server, run)| json!({"while": load, "server": server, "probe": run.stall}))
        .collect();
    json!({"rounds": rounds, "quick": quick, "figures": figures, "stalls": stalls})
}

/// The lines of several such reports; of a figure that is in more than one, the last counts.
pub fn read_json(reports: &[Value]) -> Vec<Line> {
    let found = |id: &str, server: &str| {
        reports.iter().rev().find_map(|report| {
            let figures = report["figures"].as_array()?;
            figures.iter().find(|figure| figure["id"] == id)?[server].as_f64()
        })
    };
    FIGURES
        .iter()
        .map(|figure| Line {
            figure,
            etcd: found(figure.id, "etcd"),
            quorate: found(figure.id, "quorate"),
        })
        .filter(|line| line.etcd.is_some() || line.quorate.is_some())
        .collect()
}

/// A goal in a few characters.
pub fn goal(goal: Goal) -> String {
    match goal {
        Goal::RatioAtMost(limit) => format!("≤ {limit}x"),
        Goal::RatioAtLeast(limit) => format!("≥ {limit}x"),
        Goal::AtLeast(limit) => format!("≥ {limit}"),
        Goal::AtMost(limit) => format!("≤ {limit}"),
        Goal::None => String::new(),
    }
}

/// Three significant digits; whole numbers with separators.
pub fn number(value: Option<f64>) -> String {
    let Some(value) = value else {
        return "–".to_owned();
    };
    match value.abs() {
        size if size >= 100.0 => {
            let digits = format!("{value:.0}");
            let mut text = String::new();
            for (place, digit) in digits.chars().enumerate() {
                if place > 0 && (digits.len() - place).is_multiple_of(3) {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(number(Some(1_234_567.0)), "1,234,567");
        assert_eq!(number(Some(123.4)), "123");
        assert_eq!(number(Some(12.34)), "12.3");
        assert_eq!(number(Some(1.234)), "1.23");
        assert_eq!(number(Some(0.1234)), "0.123");
        assert_eq!(number(None), "–");
    }

    #[test]
    fn of_several_reports_the_last_counts() {
        let report = |load, id, etcd: f64, quorate: f64| {
            let run = |value| {
                let mut run = Run::default();
                run.set(id, value);
                Some(run)
            };
            let (etcd, quorate) = (run(etcd), run(quorate));
            let pair = Pair {
                load,
                etcd,
                quorate,
            };
            json(&[pair], 1, true)
        };
        let lines = read_json(&[
            report("put", "put.cpu", 60.0, 30.0),
            report("get", "get.cpu", 40.0, 10.0),
            report("put", "put.cpu", 60.0, 15.0),
        ]);
        let ratios: Vec<_> = lines
            .iter()
            .map(|line| (line.figure.id, line.ratio()))
            .collect();
        assert_eq!(ratios, [("put.cpu", Some(0.25)), ("get.cpu", Some(0.25))]);
    }

    #[test]
    fn a_goal_is_judged_by_ratio_or_value() {
        let mut etcd = Run::default();
        let mut quorate = Run::default();
        for (run, factor) in [(&mut etcd, 1.0), (&mut quorate, 0.2)] {
            run.set("put.cpu", 60.0 * factor);
            run.set("put.rate", 20_000.0);
        }
        let pair = Pair {
            load: "put",
            etcd: Some(etcd),
            quorate: Some(quorate),
        };
        let lines = lines(&[pair]);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].reached(), Some(true));
        assert_eq!(lines[1].reached(), Some(false));
    }
}
