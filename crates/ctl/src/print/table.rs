//! The table: members and endpoints alone.

use super::{Answer, rows};
use std::fmt::Write;

/// The table of an answer, where it has one.
pub fn page(answer: &Answer) -> Option<String> {
    let rows = match answer {
        Answer::MemberList(list) => rows::members(&list.members),
        Answer::EndpointHealth(list) => rows::health(list),
        Answer::EndpointStatus(list) => rows::status(list),
        Answer::EndpointHashKv(list) => rows::hashes(list),
        _ => return None,
    };
    Some(draw(&rows))
}

/// Titles centred and in capitals, cells to the right and without blanks around them, lines around
/// all of it.
fn draw(table: &rows::Rows) -> String {
    let titles: Vec<String> = table
        .titles
        .iter()
        .map(|title| title.to_uppercase().replace('_', " "))
        .collect();
    let widths: Vec<usize> = titles
        .iter()
        .enumerate()
        .map(|(column, title)| {
            table
                .rows
                .iter()
                .map(|row| row[column].trim().chars().count())
                .chain([title.chars().count()])
                .max()
                .unwrap_or_default()
        })
        .collect();
    let mut out = String::new();
    let rule = |out: &mut String, left: &str, cross: &str, right: &str| {
        let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        writeln!(out, "{left}{}{right}", parts.join(cross))
            .expect("writing to a String cannot fail");
    };
    let line = |out: &mut String, cells: &[String], align: fn(&str, usize) -> String| {
        let cells: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!(" {} ", align(cell.trim(), *width)))
            .collect();
        writeln!(out, "│{}│", cells.join("│")).expect("writing to a String cannot fail");
    };
    rule(&mut out, "┌", "┬", "┐");
    line(&mut out, &titles, |cell, width| format!("{cell:^width$}"));
    if table.rows.is_empty() {
        rule(&mut out, "└", "┴", "┘");
        return out;
    }
    rule(&mut out, "├", "┼", "┤");
    for row in &table.rows {
        line(&mut out, row, |cell, width| format!("{cell:>width$}"));
    }
    rule(&mut out, "└", "┴", "┘");
    out
}
