//! The ratios as a picture: one bar a figure, etcd's value the line at 1.

use crate::figures::Goal;
use crate::report::{Line, number};
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const LABEL: f64 = 400.0;
const BAR: f64 = 380.0;
const ROW: f64 = 26.0;
const TOP: f64 = 64.0;
/// A longer bar is cut.
const RATIO_MAX: f64 = 4.0;

/// An SVG of the lines that have a ratio and a goal for it.
pub fn svg(lines: &[Line]) -> String {
    let rows: Vec<(&Line, f64)> = lines
        .iter()
        .filter(|line| {
            matches!(
                line.figure.goal,
                Goal::RatioAtMost(_) | Goal::RatioAtLeast(_)
            )
        })
        .filter_map(|line| Some((line, line.ratio()?)))
        .collect();
    let widest = rows
        .iter()
        .map(|(_, ratio)| ratio.min(RATIO_MAX))
        .fold(1.2, f64::max);
    let scale = BAR / widest;
    let height = TOP + ROW * rows.len() as f64 + 24.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"17\" fill=\"#1f2933\">quorate / etcd, same machine, same load</text>\n\
         <text x=\"16\" y=\"46\" fill=\"#52606d\">green: goal reached; orange: not yet; \
         the dark line is etcd, the mark is the goal</text>\n"
    );
    let mut line_of = |part: std::fmt::Arguments<'_>| {
        text.write_fmt(part)
            .expect("writing to a String cannot fail");
        text.push('\n');
    };
    for (place, (line, ratio)) in rows.iter().enumerate() {
        let y = TOP + ROW * place as f64;
        let width = ratio.min(RATIO_MAX) * scale;
        let fill = match line.reached() {
            Some(true) => "#3c9d6b",
            _ => "#e08a3c",
        };
        line_of(format_args!(
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\" fill=\"#1f2933\">{}</text>",
            LABEL - 8.0,
            y + 16.0,
            escape(line.figure.what)
        ));
        line_of(format_args!(
            "<rect x=\"{LABEL}\" y=\"{:.0}\" width=\"{width:.1}\" height=\"16\" fill=\"{fill}\"/>",
            y + 3.0
        ));
        if let Goal::RatioAtMost(goal) | Goal::RatioAtLeast(goal) = line.figure.goal {
            line_of(format_args!(
                "<rect x=\"{:.1}\" y=\"{:.0}\" width=\"2\" height=\"22\" fill=\"#7b8794\"/>",
                LABEL + goal.min(RATIO_MAX) * scale,
                y
            ));
        }
        line_of(format_args!(
            "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"#52606d\">{ratio:.2}x  ({} / {} {})</text>",
            LABEL + BAR + 8.0,
            y + 16.0,
            number(line.quorate),
            number(line.etcd),
            line.figure.unit
        ));
    }
    line_of(format_args!(
        "<rect x=\"{:.1}\" y=\"{TOP}\" width=\"1.5\" height=\"{:.0}\" fill=\"#1f2933\"/>",
        LABEL + scale,
        ROW * rows.len() as f64
    ));
    text.push_str("</svg>\n");
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::FIGURES;

    #[test]
    fn a_bar_for_each_ratio_with_a_goal() {
        let lines: Vec<Line> = FIGURES
            .iter()
            .map(|figure| Line {
                figure,
                etcd: Some(2.0),
                quorate: Some(1.0),
            })
            .collect();
        let expected = FIGURES
            .iter()
            .filter(|figure| matches!(figure.goal, Goal::RatioAtMost(_) | Goal::RatioAtLeast(_)))
            .count();
        let picture = svg(&lines);
        assert_eq!(picture.matches("height=\"16\"").count(), expected);
        assert_eq!(picture.matches("0.50x").count(), expected);
    }
}
