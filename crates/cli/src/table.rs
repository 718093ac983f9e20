//! A table with borders, as Go's tablewriter draws it.

use std::fmt::Write;

/// Titles centred and in capitals, cells to the right and without blanks around them, lines around
/// all of it. Every row has a cell for each title.
pub fn draw(titles: &[&str], rows: &[Vec<String>]) -> String {
    let titles: Vec<String> = titles
        .iter()
        .map(|title| title.to_uppercase().replace('_', " "))
        .collect();
    let widths: Vec<usize> = titles
        .iter()
        .enumerate()
        .map(|(column, title)| {
            rows.iter()
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
    if rows.is_empty() {
        rule(&mut out, "└", "┴", "┘");
        return out;
    }
    rule(&mut out, "├", "┼", "┤");
    for row in rows {
        line(&mut out, row, |cell, width| format!("{cell:>width$}"));
    }
    rule(&mut out, "└", "┴", "┘");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_centred_and_cells_at_the_right() {
        let row = vec!["70b9fd01 ".to_owned(), "7".to_owned()];
        assert_eq!(
            draw(&["hash", "total_keys"], &[row]),
            "┌──────────┬────────────┐\n\
             │   HASH   │ TOTAL KEYS │\n\
             ├──────────┼────────────┤\n\
             │ 70b9fd01 │          7 │\n\
             └──────────┴────────────┘\n"
        );
    }

    #[test]
    fn without_rows_there_are_titles_alone() {
        assert_eq!(draw(&["id"], &[]), "┌────┐\n│ ID │\n└────┘\n");
    }
}
